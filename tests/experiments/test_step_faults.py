"""Faults of steps: what a file may ask for, and that each is made at its second of the interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from harness.errors import ClusterError, UsageError
from harness.experiments.loading import expand_steps, load
from harness.experiments.step_faults import Fault, StepFaults

KILL = "{at_s: 10, kill: worker, node: node-2}"
STOP = "{at_s: 20, stop: broker, for_s: 10}"


def with_faults(faults: str, *more: str) -> list[str]:
    step = f"{{executors: 1, faults: {faults}}}"
    return [*more, "measure.interval={least_s: 30, most_s: 30}", f"steps.plan=[{step}, {{executors: 2}}]"]


def test_a_step_has_its_faults_and_is_no_evidence_unless_asked_to() -> None:
    first, second = expand_steps(
        load("quick", with_faults(f"[{{at_s: 10, kill: worker, node: node-2}}, {STOP}]"))
    )
    assert [fault.what for fault in first.faults] == ["kill worker node-2", "stop broker"]
    assert (first.evidence, second.evidence, second.faults) == (False, True, ())
    judged, _ = expand_steps(load("quick", with_faults(f"[{STOP}], judge: true")))
    assert judged.evidence
    with pytest.raises(UsageError, match=r"steps\.plan\.0\.judge: it is said of steps with faults only"):
        load("quick", with_faults("[], judge: true"))


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ("[{at_s: 10, kill: broker}]", "Input should be 'worker'"),
        ("[{at_s: 10, kill: worker}]", "worker, supervisor have one"),
        ("[{at_s: 10, stop: broker}]", "for_s says how long"),
        ("[{at_s: 10, stop: broker, for_s: 5, node: node-1}]", "nothing else has"),
        ("[{at_s: 10, kill: worker, node: node-3}]", "steps.plan.0.faults.0.node: there is no node 'node-3'"),
        ("[{at_s: 25, stop: broker, for_s: 10}]", "over at 35 s, and the interval may end at 30 s"),
        ("[{at_s: 10}]", "give one of kill and stop"),
        ("[{at_s: 10, stop: broker, for_s: 5, how: hard}]", "how"),
        ("[{at_s: -1, stop: broker, for_s: 5}]", "at_s"),
    ],
)
def test_what_cannot_be_is_one_line(faults: str, says: str) -> None:
    with pytest.raises(UsageError) as wrong:
        load("quick", with_faults(faults))
    assert says in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_clusters_without_faults_refuse_them_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"steps\.plan\.0\.faults: the simulator has no processes"):
        load("quick", with_faults(f"[{STOP}]", "cluster.kind=simulator"))


class Maker:
    """Says when it was told what, in seconds of the monotonic clock."""

    def __init__(self, fails: str = "") -> None:
        self.told: list[tuple[str, float]] = []
        self._fails = fails
        self.began, self.ended = threading.Event(), threading.Event()

    def make(self, fault: Fault) -> tuple[str, Callable[[], None]]:
        self.told.append((fault.what, time.monotonic()))
        self.began.set()
        if self._fails:
            raise ClusterError(self._fails)
        return f"{fault.what} (process 7)", self._end

    def _end(self) -> None:
        self.told.append(("end", time.monotonic()))
        self.ended.set()


def test_each_is_made_not_before_its_second_and_for_as_long_as_asked() -> None:
    maker, start_ns = Maker(), time.monotonic_ns()
    faults = StepFaults([Fault(at_s=0.2, stop="broker", for_s=0.3)], maker)
    faults.begin(start_ns)
    assert maker.ended.wait(30)
    (made,) = faults.end()
    (what, began_s), (_, ended_s) = maker.told
    assert what == "stop broker"
    assert began_s >= start_ns / 1e9 + 0.2
    assert ended_s - began_s >= 0.3
    assert made.at_ns is not None
    assert made.until_ns is not None
    assert start_ns + 0.2e9 <= made.at_ns <= began_s * 1e9
    assert made.until_ns >= ended_s * 1e9
    assert str(made).startswith("stop broker (process 7) at 0.2 s for 0.")


def test_what_is_stopped_goes_on_when_the_interval_is_broken_off() -> None:
    maker = Maker()
    faults = StepFaults([Fault(at_s=0, stop="broker", for_s=3600)], maker)
    faults.begin(time.monotonic_ns())
    assert maker.began.wait(30)
    faults.end()
    assert [what for what, _ in maker.told] == ["stop broker", "end"]


def test_a_fault_that_was_not_made_says_why() -> None:
    late = StepFaults([Fault(at_s=3600, kill="worker", node="node-1")], Maker())
    late.begin(time.monotonic_ns())
    (made,) = late.end()
    assert str(made) == "kill worker node-1 at 3600 s was not made: the interval was over before"
    failing = Maker("there is no such process")
    faults = StepFaults([Fault(at_s=0, stop="nimbus", for_s=1)], failing)
    faults.begin(time.monotonic_ns())
    assert failing.began.wait(30)
    (made,) = faults.end()
    assert made.problem == "there is no such process"


def test_the_maker_is_asked_by_time_whatever_the_order_in_the_file() -> None:
    maker = Maker()
    later, sooner = Fault(at_s=0.2, kill="worker", node="a"), Fault(at_s=0.1, kill="worker", node="b")
    faults = StepFaults([later, sooner], maker)
    faults.begin(time.monotonic_ns())
    while len(maker.told) < 2:
        maker.began.wait(30)
    assert [made.what for made in faults.end()] == ["kill worker b", "kill worker a"]
