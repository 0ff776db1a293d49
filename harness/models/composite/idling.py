"""Waiting of Storm 2.x's idle threads, from its settings: spin, park, sleep, poll; batches and their flush.

A bolt's executor that finds its queue empty waits by its strategy and looks again. A spout's executor does so
after a round of its tasks without an emit. A worker's transfer thread sleeps 1 ms (``Utils.asyncLoop``, no
setting). A sleep is longer than asked by the timer's slack. Delays by a busy host come from the hop records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray
from harness.protocols import Settings

TIMER_SLACK_MS = 0.06
"""Linux lets a timed wait end 50 us late, and waking takes some more."""
TRANSFER_SLEEP_MS = 1.0 + TIMER_SLACK_MS
"""An empty transfer thread's sleep."""

DEFAULTS: Mapping[str, object] = {
    "topology.acker.executors": None,
    "topology.disable.loadaware.messaging": False,
    "topology.localityaware.higher.bound": 0.8,
    "topology.bolt.wait.strategy": "org.apache.storm.policy.WaitStrategyProgressive",
    "topology.bolt.wait.park.microsec": 100,
    "topology.bolt.wait.progressive.level1.count": 1,
    "topology.bolt.wait.progressive.level2.count": 1000,
    "topology.bolt.wait.progressive.level3.sleep.millis": 1,
    "topology.spout.wait.strategy": "org.apache.storm.policy.WaitStrategyProgressive",
    "topology.spout.wait.park.microsec": 100,
    "topology.spout.wait.progressive.level1.count": 0,
    "topology.spout.wait.progressive.level2.count": 0,
    "topology.spout.wait.progressive.level3.sleep.millis": 1,
    "topology.producer.batch.size": 1,
    "topology.transfer.batch.size": 1,
    "topology.batch.flush.interval.millis": 1,
}
"""Storm 2.8.3's own values (its ``defaults.yaml``) of what this model reads, in force unless set."""


def number(settings: Settings, key: str, least: float = 0.0) -> float:
    """Return a numeric Storm setting, Storm's own default where it is not set.

    Raises
    ------
    ModelDeclined
        When it is not a number of at least ``least``.
    """
    value = settings.storm.get(key, DEFAULTS[key])
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < np.inf:
        raise ModelDeclined(f"Storm setting {key} is {value!r}, not a number of at least {least:g}")
    return float(value)


@dataclass(frozen=True)
class Waiting:
    """A wait strategy: looks in a row without a wait, short parks, then sleeps.

    Attributes
    ----------
    spins, parks : float
        Empty looks that go on at once, and that park for the shortest time.
    sleep_ms : float
        Of every further one, the timer's slack included.
    """

    spins: float
    parks: float
    sleep_ms: float

    def between_looks_ms(self, gap_ms: FloatArray) -> FloatArray:
        """Return the mean time that a look's wait lasts for a tuple that ends a gap of that mean length.

        Gaps are taken as exponential: the share that outlasts the parks meets a sleep, the others a park.
        """
        parked_ms = self.parks * TIMER_SLACK_MS
        with np.errstate(divide="ignore"):
            sleeping = np.exp(-parked_ms / gap_ms)
        return np.asarray(sleeping * self.sleep_ms + (1 - sleeping) * min(TIMER_SLACK_MS, self.sleep_ms))

    def between_rounds_ms(self, gap_ms: FloatArray, round_ms: FloatArray) -> FloatArray:
        """Return the mean wait after a spout's round without an emit, when emits are that far apart.

        Of the m empty rounds in a gap the first go on at once, the next park, and the rest sleep.
        """
        free = self.spins + self.parks
        free_ms = free * round_ms + self.parks * TIMER_SLACK_MS
        sleeps = np.maximum(gap_ms - free_ms, 0.0) / (round_ms + self.sleep_ms)
        waited_ms = sleeps * self.sleep_ms + np.minimum(gap_ms / round_ms, self.parks) * TIMER_SLACK_MS
        rounds = np.where(sleeps > 0, free + sleeps, gap_ms / round_ms)
        return np.asarray(waited_ms / np.maximum(rounds, 1.0))


def waiting(settings: Settings, kind: str) -> Waiting:
    """Read the wait strategy of ``bolt`` or ``spout``.

    Raises
    ------
    ModelDeclined
        For a strategy that is not Storm's own, or settings that are no numbers.
    """
    prefix = f"topology.{kind}.wait"
    strategy = str(settings.storm.get(f"{prefix}.strategy", DEFAULTS[f"{prefix}.strategy"])).rpartition(".")[
        2
    ]
    match strategy:
        case "WaitStrategyProgressive":
            levels = [number(settings, f"{prefix}.progressive.level{i}.count") for i in (1, 2)]
            sleep_ms = number(settings, f"{prefix}.progressive.level3.sleep.millis")
            return Waiting(levels[0], levels[1], sleep_ms + TIMER_SLACK_MS)
        case "WaitStrategyPark":
            park_ms = number(settings, f"{prefix}.park.microsec") / 1000
            return Waiting(0.0, 0.0, park_ms + TIMER_SLACK_MS if park_ms > 0 else 0.0)
        case _:
            raise ModelDeclined(f"nothing is known of the {kind} wait strategy {strategy}")


@dataclass(frozen=True)
class Batching:
    """Batches of tuples between executors, and to other workers; 1, 1 and 0 without."""

    batch: int
    transfer_batch: int
    flush_ms: float


def batching(settings: Settings) -> Batching:
    """Read how tuples are batched.

    Raises
    ------
    ModelDeclined
        When a setting is no number.
    """
    batch = int(number(settings, "topology.producer.batch.size", 1))
    transfer = int(number(settings, "topology.transfer.batch.size", 1))
    flush_ms = number(settings, "topology.batch.flush.interval.millis")
    return Batching(batch, transfer, flush_ms if max(batch, transfer) > 1 else 0.0)
