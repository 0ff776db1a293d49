"""The end of a step: its messages are waited for as long as they may still come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pyarrow as pa
import pytest
from made_steps import gathered

from harness.experiments import step_traffic
from harness.experiments.contracts import Deployment, Load, Metrics
from harness.experiments.loading import load
from harness.plans import PhysicalPlan

LOOKS = 20
NEVER_S = 1e6
OF_STEP = gathered(rate_tps=100, out_tps=100)


class Late:
    """A load whose messages were all read; so many of its outputs are there until it was asked twenty times.

    Nothing is reported of windows, and all servers run.
    """

    def __init__(self, there: int) -> None:
        self.asked = 0
        self._there = there

    def sent(self) -> pa.Table:
        return OF_STEP.sent

    def received(self) -> pa.Table:
        self.asked += 1
        return OF_STEP.received if self.asked > LOOKS else OF_STEP.received.slice(0, self._there)

    def taken(self) -> bool:
        return True

    def texts(self, measurement: str, since_ms: int) -> list[object]:
        del measurement, since_ms
        return []

    def check(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quiet is reached at once where all is sure, and never where it is not."""
    monkeypatch.setattr(step_traffic, "POLL_S", 0.0)
    monkeypatch.setattr(step_traffic, "QUIET_S", -10.0)  # a window's slide is added to it
    monkeypatch.setattr(step_traffic, "UNSURE_S", NEVER_S)


def drained(topology: str, there: int) -> int:
    """Return how often the outputs were looked at until a step's messages were taken to be out."""
    experiment = load(topology)
    late = Late(there)
    traffic = step_traffic.step_traffic(
        experiment, cast("Deployment", late), cast("Load", late), cast("Metrics", late)
    )
    plan = PhysicalPlan(query_plan=experiment.topology.query_plan(), nodes=(), executors=())
    assert traffic.drain(plan) == ""
    return late.asked


@pytest.mark.parametrize(
    ("topology", "there"),
    [
        ("fields-to-fields", 0),  # as after a broker that stood still: read by the spouts, none came out yet
        ("fields-to-fields", 1000),  # some did
        ("windowed", 0),  # windows give some of what they hold sooner or later
    ],
)
def test_what_must_come_out_is_waited_for(topology: str, there: int, figure: Callable[[str], None]) -> None:
    looks = drained(topology, there)
    assert looks > LOOKS
    figure(f"{topology}: after {looks} looks, {LOOKS} of them in vain")


def test_what_windows_hold_is_not_waited_for() -> None:
    assert drained("windowed", 1000) < LOOKS


def test_all_that_came_out_is_enough() -> None:
    assert drained("fields-to-fields", OF_STEP.received.num_rows) < LOOKS
