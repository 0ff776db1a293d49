"""The record of a plan that changes while a step is measured: losses, repetitions and pauses by decision."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from adapted_steps import CHANGED, KEPT, TWO_WORKERS, S, changed, judged, messages

from harness.experiments.adapted_periods import (
    NO_PLAN,
    AdaptedMessages,
    AdaptedPeriod,
    AskedChange,
    PeriodDecision,
    adaptation_table,
)
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.plans import BatchSize
from harness.schemas import ADAPTATION


def test_what_is_lost_and_repeated_is_counted_by_the_decision_that_it_is_near() -> None:
    """Within 5 s of 100 to 107 s: 95 to 112."""
    table = adaptation_table([CHANGED, KEPT], *messages(lost=(96, 104, 150), twice=(111, 30))).to_pylist()
    assert ADAPTATION.names == list(table[0])
    assert [(row["lost"], row["repeated"]) for row in table] == [(2, 1), (0, 0)]
    assert table[0]["load_distance_pct"] == 3.0


def test_what_two_decisions_explain_is_counted_once_and_for_the_later() -> None:
    """The second change, of 110 to 114 s, explains 100 to 119 s: messages due at 102 s waited for 5 s."""
    decided = PeriodDecision("applied", "", TWO_WORKERS, {})
    again = AdaptedPeriod(100 * S, 200 * S, decided, 110 * S, 114 * S)
    rows = adaptation_table(
        [CHANGED, again], *messages(lost=(96, 104, 111, 118), twice=(97, 109))
    ).to_pylist()
    assert [(row["lost"], row["repeated"]) for row in rows] == [(1, 1), (3, 1)]


def test_the_pause_is_the_longest_time_without_an_output() -> None:
    """From 101.005 s to 107 s."""
    first, second = adaptation_table([CHANGED, KEPT], *messages()).to_pylist()
    assert first["pause_ms"] == pytest.approx(5995)
    assert second["pause_ms"] is None
    assert first["latency_mean_ms"] == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("lost", "twice", "balanced", "ok"),
    [
        ((), (), True, True),
        ((98, 104), (110,), True, True),
        ((150,), (), True, False),
        ((), (30,), True, False),
        ((), (), False, False),
    ],
)
def test_losses_are_explained_by_decisions_or_the_step_is_invalid(
    lost: tuple[int, ...], twice: tuple[int, ...], balanced: bool, ok: bool
) -> None:
    found = judged([CHANGED, KEPT], lost, twice, balanced)
    assert found.losses_explained.ok is ok
    assert found.plan_as_decided.ok


def test_a_queue_that_a_restart_empties_is_the_decision_s() -> None:
    """Messages take 40 s to come out when the plan changes at 100 s: those due from 55 s on are its own."""
    sent = [{"message_id": i, "scheduled_ns": i * S, "sent_ns": i * S} for i in range(100)]
    rows = [{"message_id": i, "child": 0, "left_ns": (i + 40) * S, "sink": "s"} for i in range(60)]
    times = AdaptedMessages.of(pa.Table.from_pylist(sent, SENT), pa.Table.from_pylist(rows, RECEIVED))
    assert CHANGED.waited_ns(times) == 40 * S
    assert CHANGED.explains(times.lost_ns, 40 * S).all()
    assert times.lost_ns.min() == 60 * S
    assert CHANGED.explains(np.array([54 * S, 55 * S]), 40 * S).tolist() == [False, True]


@pytest.mark.parametrize(
    ("target_ms", "lost", "over_s"),
    [
        # late are those due at 102 to 106 s, which come out at 107 s: by 5, 4, 3, 2 and 1 s
        (4.0, (), (100, 100)),
        (6.0, (), (0, 5)),
        (2500.0, (), (0, 3)),
        (6.0, (20, 104), (1, 5)),  # one lost in a second of its own, one that is late anyway
    ],
)
def test_seconds_over_the_target_are_those_whose_messages_are_late(
    target_ms: float, lost: tuple[int, ...], over_s: tuple[int, int]
) -> None:
    """Each second has one message, so its 95th percentile is that one's latency, else 5 ms."""
    table = adaptation_table([CHANGED, KEPT], *messages(lost), target_ms).to_pylist()
    assert tuple(row["over_target_s"] for row in table) == over_s


def test_of_many_messages_in_a_second_the_95th_percentile_counts() -> None:
    """Of 100 messages 5 may be late, and 6 are."""
    for late, over_s in ((5, 0), (6, 1)):
        sent = [{"message_id": i, "scheduled_ns": S + i, "sent_ns": S + i} for i in range(100)]
        rows = [
            {"message_id": i, "child": 0, "left_ns": S + i + (9 if i < late else 1) * 10**6, "sink": "s"}
            for i in range(100)
        ]
        times = AdaptedMessages.of(pa.Table.from_pylist(sent, SENT), pa.Table.from_pylist(rows, RECEIVED))
        assert times.seconds_over(5.0, 0, 0, 10 * S) == over_s


def test_nothing_is_near_a_change_that_was_not_asked_for() -> None:
    assert not KEPT.near(np.array([150 * S])).any()


@pytest.mark.parametrize(
    "change",
    [
        AskedChange(NO_PLAN, tables={"count": (1, 0)}),
        AskedChange(NO_PLAN, batching={"a:s": BatchSize(size=9)}),
    ],
)
def test_a_change_without_a_restart_explains_no_loss_and_has_its_pause(change: AskedChange) -> None:
    """The plan stays ``NO_PLAN``. A message that is due meanwhile is lost, another comes out twice."""
    periods = [changed(change), KEPT]
    assert judged(periods, lost=(), twice=()).losses_explained.ok
    assert not judged(periods, lost=(104,), twice=()).losses_explained.ok
    assert not judged(periods, lost=(), twice=(104,)).losses_explained.ok
    row = adaptation_table(periods, *messages(lost=(104,), twice=(111,))).to_pylist()[0]
    assert (row["lost"], row["repeated"], row["restarted"]) == (0, 0, False)
    assert row["pause_ms"] == pytest.approx(5995)
