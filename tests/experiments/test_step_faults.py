"""Faults of steps: what a file may ask for, and that each is made at its second of the interval."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import until

from harness.errors import ClusterError, UsageError
from harness.experiments.loading import dump, expand_steps, load
from harness.experiments.step_faults import Fault, StepFaults

KILL = "{at_s: 10, kill: worker, node: node-2}"
STOP = "{at_s: 20, stop: broker, for_s: 10}"
SLOW = "{at_s: 10, slow-link: node-1~node-3, delay_ms: 20, for_s: 5}"
SKEW = "{at_s: 10, skew-clock: node-2, by_s: -6, for_s: 5}"
FILL = "{at_s: 10, fill-disk: node-2, for_s: 5}"
CLUSTERS = Path(__file__).parents[2] / "configs" / "clusters"
FOUR = CLUSTERS / "namespaces-4.yaml"


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


def test_workers_have_a_movable_clock_only_where_a_step_moves_it(tmp_path: Path) -> None:
    assert load("quick", with_faults(f"[{STOP}]")).skewed_nodes == ()
    experiment = load("quick", with_faults(f"[{SKEW}, {STOP}]"))
    assert experiment.skewed_nodes == ("node-2",)
    assert [fault.what for fault in experiment.steps.plan[0].faults] == [
        "skew-clock node-2 by -6 s",
        "stop broker",
    ]
    again = tmp_path / "again.yaml"
    again.write_text(dump(experiment))
    assert load(again) == experiment


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ("[{at_s: 10, kill: broker}]", "Input should be 'worker'"),
        ("[{at_s: 10, kill: worker}]", "worker, supervisor have one"),
        ("[{at_s: 10, stop: broker}]", "for_s says how long"),
        ("[{at_s: 10, kill: worker, node: node-1, for_s: 1}]", "for_s says how long"),
        ("[{at_s: 10, stop: broker, for_s: 5, node: node-1}]", "nothing else has"),
        ("[{at_s: 10, kill: worker, node: node-3}]", "steps.plan.0.faults.0: there is no node 'node-3'"),
        ("[{at_s: 25, stop: broker, for_s: 10}]", "over at 35 s, and the interval may end at 30 s"),
        ("[{at_s: 10}]", "give one of kill, stop, slow-link, fill-disk, skew-clock"),
        (
            "[{at_s: 10, stop: broker, fill-disk: node-1, for_s: 5}]",
            "give one of kill, stop, slow-link, fill-disk, skew-clock",
        ),
        ("[{at_s: 10, fill-disk: '', for_s: 5}]", "give one of kill, stop"),
        ("[{at_s: 10, fill-disk: node-1, for_s: 5}]", "fill-disk: a local cluster has this machine's disk"),
        ("[{at_s: 10, slow-link: node-1~node-2, for_s: 5}]", "delay_ms says how slow"),
        ("[{at_s: 10, fill-disk: node-1, delay_ms: 5, for_s: 5}]", "delay_ms says how slow"),
        (f"[{SLOW}]", "slow-link: a local cluster has no links"),
        ("[{at_s: 10, skew-clock: node-1, for_s: 5}]", "by_s says how far a clock is moved"),
        ("[{at_s: 10, skew-clock: node-1, by_s: 0, for_s: 5}]", "by_s says how far a clock is moved"),
        ("[{at_s: 10, skew-clock: node-1, by_s: 1.5, for_s: 5}]", "by_s"),
        ("[{at_s: 10, skew-clock: node-1, by_s: 6}]", "for_s says how long"),
        ("[{at_s: 10, stop: broker, by_s: 6, for_s: 5}]", "by_s says how far a clock is moved"),
        ("[{at_s: 10, skew-clock: node-3, by_s: 6, for_s: 5}]", "there is no node 'node-3'"),
        (
            f"[{SKEW}, {{at_s: 14, skew-clock: node-2, by_s: 6, for_s: 5}}]",
            "faults.1.at_s: skew-clock node-2 by -6 s lasts until 15 s",
        ),
        (f"[{STOP}, {{at_s: 15, stop: broker, for_s: 6}}]", "faults.1.at_s: stop broker lasts until 30 s"),
        ("[{at_s: 10, stop: broker, for_s: 5, how: hard}]", "how"),
        ("[{at_s: -1, stop: broker, for_s: 5}]", "at_s"),
    ],
)
def test_what_cannot_be_is_one_line(faults: str, says: str) -> None:
    with pytest.raises(UsageError) as wrong:
        load("quick", with_faults(faults))
    assert says in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_clusters_without_faults_refuse_them_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"steps\.plan\.0\.faults\.0: the simulator has no processes"):
        load("quick", with_faults(f"[{STOP}]", "cluster.kind=simulator"))
    there = existing_file(tmp_path)
    with pytest.raises(UsageError, match=r"faults\.0: the cluster existing-3 has hosts of kind existing"):
        load("quick", with_faults(f"[{STOP}]", f"cluster={there}"))


def existing_file(folder: Path) -> Path:
    """Write the shipped file of hosts that exist, with a key that is there."""
    key, path = folder / "key", folder / "existing-3.yaml"
    key.touch()
    path.write_text((CLUSTERS / path.name).read_text().replace("~/.ssh/id_ed25519", str(key)))
    return path


def on_hosts(faults: str, **cluster: object) -> list[str]:
    given = json.dumps({"file": str(FOUR), **cluster})
    return with_faults(faults, f"cluster={given}")


def test_hosts_have_slow_links_and_full_disks_and_what_is_written_is_read_again(tmp_path: Path) -> None:
    faults = f"[{SLOW}, {{at_s: 10, slow-link: node-1~node-2, delay_ms: 20, for_s: 5}}, {FILL}, {KILL}]"
    experiment = load("quick", on_hosts(faults))
    first, _ = expand_steps(experiment)
    assert [fault.what for fault in first.faults] == [
        "slow-link node-1~node-3 by 20 ms",
        "slow-link node-1~node-2 by 20 ms",
        "fill-disk node-2",
        "kill worker node-2",
    ]
    assert [fault.nodes for fault in first.faults[:3]] == [
        ("node-1", "node-3"),
        ("node-1", "node-2"),
        ("node-2",),
    ]
    again = tmp_path / "again.yaml"
    again.write_text(dump(experiment))
    assert "slow-link: node-1~node-3" in again.read_text()
    assert load(again) == experiment


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        (
            "[{at_s: 1, slow-link: node-1, delay_ms: 5, for_s: 5}]",
            "'node-1' is not two nodes, as in node-1~node-2",
        ),
        ("[{at_s: 1, slow-link: node-1~node-1, delay_ms: 5, for_s: 5}]", "'node-1~node-1' is not two nodes"),
        ("[{at_s: 1, slow-link: node-1~node-2~node-1, delay_ms: 5, for_s: 5}]", "is not two nodes"),
        (
            "[{at_s: 1, slow-link: node-1~control, delay_ms: 5, for_s: 5}]",
            "faults.0: there is no node 'control'",
        ),
        ("[{at_s: 1, slow-link: node-1~node-2, delay_ms: 0, for_s: 5}]", "delay_ms"),
        ("[{at_s: 1, slow-link: node-1~node-2, delay_ms: 5, for_s: 5, node: node-1}]", "nothing else has"),
        (
            "[{at_s: 1, fill-disk: node-9, for_s: 5}]",
            "faults.0: there is no node 'node-9' in node-1, node-2, node-3",
        ),
        (
            f"[{FILL}, {{at_s: 14, fill-disk: node-2, for_s: 5}}]",
            "faults.1.at_s: fill-disk node-2 lasts until 15 s",
        ),
        (
            f"[{SLOW}, {{at_s: 9, slow-link: node-3~node-1, delay_ms: 5, for_s: 2}}]",
            "faults.1.at_s: slow-link node-1~node-3 by 20 ms lasts until 15 s",
        ),
    ],
)
def test_what_cannot_be_on_hosts_is_one_line(faults: str, says: str) -> None:
    with pytest.raises(UsageError) as wrong:
        load("quick", on_hosts(faults))
    assert says in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_a_link_has_one_delay() -> None:
    links = {"node-3~node-1": {"delay_ms": 3}}
    with pytest.raises(UsageError, match=r"slow-link: cluster\.links slows node-3~node-1 for the whole run"):
        load("quick", on_hosts(f"[{SLOW}]", links=links))
    assert load("quick", on_hosts(f"[{FILL}]", links=links)).steps.plan[0].faults


class Maker:
    """Says when it was told what, in seconds of the monotonic clock."""

    def __init__(self, fails: str = "") -> None:
        self.told: list[tuple[str, float]] = []
        self._fails = fails
        self.began, self.ended = threading.Event(), threading.Event()

    @contextmanager
    def made(self, fault: Fault) -> Iterator[str]:
        self.told.append((fault.what, time.monotonic()))
        self.began.set()
        if self._fails:
            raise ClusterError(self._fails)
        yield f"{fault.what} (process 7)"
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
    assert start_ns + 0.2e9 <= began_s * 1e9 <= made.at_ns <= ended_s * 1e9 - 0.3e9
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


class Broken:
    """Makes faults that end before their time, or were never made."""

    def __init__(self) -> None:
        self.broken: list[str] = []

    @contextmanager
    def made(self, fault: Fault) -> Iterator[str]:
        if fault.kill:
            self.broken.append(fault.what)
            raise ProcessLookupError(3, "No such process")
        yield fault.what
        self.broken.append(fault.what)
        raise ClusterError("it is slow no longer")


def test_a_fault_that_did_not_last_and_one_whose_process_has_ended_say_so() -> None:
    slow = Fault.model_validate({"at_s": 0, "slow-link": "a~b", "delay_ms": 5, "for_s": 0.01})
    maker = Broken()
    faults = StepFaults([slow, Fault(at_s=0.01, kill="worker", node="a")], maker)
    faults.begin(time.monotonic_ns())
    until(lambda: len(maker.broken) == 2, "both are over")
    assert sorted(map(str, faults.end())) == [
        "kill worker a at 0.01 s was not made: [Errno 3] No such process",
        "slow-link a~b by 5 ms at 0 s did not go as asked: it is slow no longer",
    ]


def test_the_maker_is_asked_by_time_whatever_the_order_in_the_file() -> None:
    maker = Maker()
    later, sooner = Fault(at_s=0.2, kill="worker", node="a"), Fault(at_s=0.1, kill="worker", node="b")
    faults = StepFaults([later, sooner], maker)
    faults.begin(time.monotonic_ns())
    while len(maker.told) < 2:
        maker.began.wait(30)
    assert [made.what for made in faults.end()] == ["kill worker b", "kill worker a"]
