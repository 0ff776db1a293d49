"""Idle threads: wait strategies, batches and flush, from settings."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import ModelDeclined
from harness.models.composite.idling import TIMER_SLACK_MS, batching, waiting
from harness.protocols import Settings


def settings(**storm: object) -> Settings:
    names = {key.replace("__", "."): value for key, value in storm.items()}
    return Settings(storm=names, version="2.8.3")


PROGRESSIVE = {
    "topology.bolt.wait.strategy": "org.apache.storm.policy.WaitStrategyProgressive",
    "topology.bolt.wait.progressive.level1.count": 1,
    "topology.bolt.wait.progressive.level2.count": 1,
    "topology.bolt.wait.progressive.level3.sleep.millis": 2,
}


def test_a_progressive_strategy_sleeps_when_gaps_are_long() -> None:
    found = waiting(Settings(storm=PROGRESSIVE, version="2.8.3"), "bolt")
    assert (found.spins, found.parks) == (1, 1)
    assert found.between_looks_ms(np.array(np.inf)) == pytest.approx(2 + TIMER_SLACK_MS)
    # a park of 0.06 ms bridges 1 - exp(-0.06 / 0.06) of gaps of 0.06 ms
    short = found.between_looks_ms(np.array(TIMER_SLACK_MS))
    assert short == pytest.approx(np.exp(-1) * 2.06 + (1 - np.exp(-1)) * 0.06)


def test_storms_defaults_park_a_thousand_times_first() -> None:
    found = waiting(Settings(storm={}, version="2.8.3"), "bolt")
    assert found.parks == 1000
    assert found.between_looks_ms(np.array(10.0)) < 0.07  # 60 ms of parks: hardly a gap reaches the sleep
    assert found.between_looks_ms(np.array(1e6)) > 1.05


def test_spouts_sleep_only_after_their_free_rounds() -> None:
    found = waiting(settings(), "spout")  # no spins, no parks, 1 ms
    assert found.between_rounds_ms(np.array(100.0), np.array(4.0)) == pytest.approx(1.06)
    spun = waiting(
        Settings(
            storm={
                "topology.spout.wait.progressive.level1.count": 1,
                "topology.spout.wait.progressive.level2.count": 1,
                "topology.spout.wait.progressive.level3.sleep.millis": 2,
            },
            version="2.8.3",
        ),
        "spout",
    )
    # Messages every 30 ms, rounds of 4 ms: one goes on at once, one parks for 0.06 ms, and the remaining
    # 21.94 ms hold 21.94 / 6.06 sleeps of 2.06 ms.
    sleeps = (30 - 8 - 0.06) / 6.06
    expected = (sleeps * 2.06 + 0.06) / (2 + sleeps)
    assert spun.between_rounds_ms(np.array(30.0), np.array(4.0)) == pytest.approx(expected)
    assert spun.between_rounds_ms(np.array(3.0), np.array(4.0)) == pytest.approx(0.75 * 0.06)


def test_park_and_busy_waiting() -> None:
    park = {
        "topology.bolt.wait.strategy": "org.apache.storm.policy.WaitStrategyPark",
        "topology.bolt.wait.park.microsec": 2000,
    }
    assert waiting(Settings(park, "2.8.3"), "bolt").sleep_ms == pytest.approx(2.06)
    spinning = waiting(Settings(park | {"topology.bolt.wait.park.microsec": 0}, "2.8.3"), "bolt")
    assert spinning.between_looks_ms(np.array(5.0)) == 0.0


def test_batches_are_flushed_only_where_there_are_any() -> None:
    assert batching(Settings({}, "2.8.3")).flush_ms == 0
    found = batching(
        Settings({"topology.producer.batch.size": 100, "topology.batch.flush.interval.millis": 1000}, "2.8.3")
    )
    assert (found.batch, found.transfer_batch, found.flush_ms) == (100, 1, 1000.0)


@pytest.mark.parametrize(
    ("storm", "what"),
    [
        ({"topology.bolt.wait.strategy": "com.example.Mine"}, "wait strategy Mine"),
        ({"topology.bolt.wait.progressive.level3.sleep.millis": "soon"}, "'soon', not a number"),
        ({"topology.bolt.wait.progressive.level3.sleep.millis": -1}, "-1, not a number of at least 0"),
    ],
)
def test_unknown_strategies_and_values_are_declined(storm: dict[str, object], what: str) -> None:
    with pytest.raises(ModelDeclined, match=what):
        waiting(Settings(storm, "2.8.3"), "bolt")


def test_a_batch_of_nothing_is_declined() -> None:
    with pytest.raises(ModelDeclined, match=r"batch\.size is 0"):
        batching(Settings({"topology.producer.batch.size": 0}, "2.8.3"))
