"""One interval measured on a machine whose clocks and CPU readings are fed; the time it takes is its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting_world import World

from harness.experiments import machine_faults, measuring
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import Phase, Progress
from harness.experiments.loading import expand_steps, load
from harness.experiments.measuring import Disturbed, MeasuredInterval, Measurement, StepToMeasure
from harness.experiments.progress import ProgressFile, ProgressReader
from harness.experiments.step_faults import NoFaults, StepFaults
from harness.experiments.step_traffic import MAX_PENDING, ReportedMessages
from harness.experiments.workload_settings import RateChange
from harness.machine.readings import CpuShares, CpuTimes, RecentShares, ThisMachine, shares
from harness.runs.records import Latency

EXPERIMENT = load(
    "quick",
    [
        "measure.burn_in={least_s: 10, most_s: 20}",
        "measure.interval={least_s: 20, most_s: 20, looks: 1}",
        "steps.plan=[{executors: 1}]",
    ],
)


THREE_LOOKS = load(
    "quick",
    [
        "measure.burn_in={least_s: 10, most_s: 20}",
        "measure.interval={least_s: 10, most_s: 20, looks: 3, precision_pct: 0.001}",
        "steps.plan=[{executors: 1}]",
    ],
)


CHANGING = EXPERIMENT.model_copy(
    update={"workload": EXPERIMENT.input.model_copy(update={"changes": (RateChange(at_s=5, rate_tps=80),)})}
)


def silent(*_: object) -> None:
    """Show nothing."""


def measured_on(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    *,
    tolerant: bool = False,
    experiment: Experiment = EXPERIMENT,
    report: measuring.Report = silent,
) -> MeasuredInterval:
    monkeypatch.setattr(measuring, "time", world)
    step: Step = expand_steps(experiment)[0]
    none = StepFaults((), NoFaults())
    given = StepToMeasure(experiment, step, world, world, report, world, none)  # type: ignore[arg-type]
    return Measurement(given, tolerant=tolerant).carry_out()


@pytest.mark.parametrize(
    ("after_s", "again_after_s", "says"),
    [
        (-0.49, 6.0, "workers restarted or moved during the step: node:1"),
        (-0.49, 60.0, "no report of node:1 came in 21 s after the interval's end"),
        (+3.00, 60.0, ""),  # it lived until the interval was over
    ],
)
def test_a_worker_that_dies_just_before_the_end_is_named(
    after_s: float,
    again_after_s: float,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    """It is silent from then on, and its successor is there seconds after the last look at the interval."""
    whole = measured_on(World(), monkeypatch)
    end_s = (whole.end_ns - 10**12) / 1e9
    for tolerant in (True, False):
        world = World()
        world.silent_from_s, world.again_from_s = end_s + after_s, end_s + again_after_s
        if says and not tolerant:
            with pytest.raises(Disturbed, match=says):
                measured_on(world, monkeypatch)
        else:
            assert measured_on(world, monkeypatch, tolerant=tolerant).disturbance == says
    figure(says)


def test_workers_that_report_once_a_minute_are_waited_for_and_no_complete_latency_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Storm's default, on clusters that others run; their counts may be of a minute before the interval."""
    for reports_s, told in ((1.0, {"spout[1-1]": 5.0}), (60.0, {})):
        world = World()
        world.reports_s = reports_s
        measured = measured_on(world, monkeypatch)
        assert measured.disturbance == ""
        assert {k: v.mean_ms for k, v in measured.complete_latency_ms.items()} == pytest.approx(told)
        waited_s = (world.monotonic_ns() - measured.end_ns) / 1e9
        assert waited_s <= reports_s + 10


def test_where_the_rate_changes_the_interval_begins_at_a_time_that_is_known_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the longest burn-in of 20 s, though the step is steady after 10 s."""
    measured = measured_on(World(), monkeypatch, experiment=CHANGING)
    assert measured.burn_in.seconds == pytest.approx(20, abs=0.01)
    assert (measured.start_ns - 10**12) / 1e9 == pytest.approx(20, abs=0.01)
    assert measured_on(World(), monkeypatch).burn_in.seconds < 15


@pytest.mark.parametrize("look_ms", range(0, 250, 10))
def test_a_line_of_progress_at_least_every_2_s_whatever_a_look_takes(
    look_ms: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Three looks at the interval, none of them enough; each look at what came out takes its time."""
    world = World()
    world.view_s = look_ms / 1e3

    def report(phase: Phase, *_: object) -> None:
        file(Progress(0, 1, phase, "a:1", epoch_ms=world.time_ns() // 10**6))

    with ProgressFile(tmp_path, 1) as file:
        measured = measured_on(world, monkeypatch, experiment=THREE_LOOKS, report=report)
    assert measured.looks == 3
    events = ProgressReader(tmp_path).read()
    for phase, least in (("burn-in", 8), ("measure", 14)):
        times = [e.time for e in events if e.phase == phase]
        apart_s = [(b - a).total_seconds() for a, b in pairwise(times)]
        assert len(times) >= least
        assert all(1.0 <= gap <= 2.0 for gap in apart_s), apart_s


@pytest.mark.parametrize(
    ("moved_ms", "ok", "says"),
    [
        (0.0, True, "moved by 0.00 ms"),
        (99.0, True, "moved by 99.00 ms"),
        (-99.0, True, "moved by 99.00 ms"),
        (101.0, False, "was set forward by 101 ms in the interval"),
        (-6000.0, False, "was set back by 6000 ms in the interval"),
    ],
)
def test_the_time_of_day_is_compared_with_the_monotonic_clock_at_both_ends(
    moved_ms: float, ok: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = measured_on(World(moved_ms), monkeypatch)
    assert measured.machine.clock_offset_end_ns - measured.machine.clock_offset_start_ns == round(
        moved_ms * 1e6
    )
    found = machine_faults.clocks(measured.machine)
    assert found.ok is ok
    assert says in found.detail


@pytest.mark.parametrize("late_ms", [0.0, 11_000.0])
def test_stolen_time_is_that_between_the_readings_at_both_ends(
    late_ms: float, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    """Of 40 s of two cores in 20 s, 20 s were used and 8 s stolen: 50 % and 20 %.

    However long it takes until the last messages are known: nothing is stolen in that time.
    """
    start_s = (measured_on(World(late_ms=late_ms), monkeypatch).start_ns - 10**12) / 1e9
    world = World(late_ms=late_ms)
    world.stolen_s = (start_s, start_s + 8)
    measured = measured_on(world, monkeypatch)
    assert measured.machine is not None
    assert (measured.machine.busy_pct, measured.machine.steal_pct) == (50.0, 20.0)
    assert not EXPERIMENT.measure.steal_pct.finding(measured.machine.steal_pct).ok
    said = machine_faults.shortcoming(measured.machine, EXPERIMENT.measure.steal_pct)
    assert said.startswith("stolen: 20.0 %")
    figure(said.removeprefix("stolen: "))


def test_a_cluster_that_came_up_in_the_interval_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    assert machine_faults.alone(measured_on(world, monkeypatch).machine).ok
    crowded = World()
    crowded.beside = [4711]
    measured = measured_on(crowded, monkeypatch)
    found = machine_faults.alone(measured.machine)
    assert not found.ok
    assert found.detail == "another cluster came up on this machine in the interval (process 4711)"
    assert (
        machine_faults.shortcoming(measured.machine, EXPERIMENT.measure.steal_pct) == f"alone: {found.detail}"
    )


def test_readings_of_this_machine() -> None:
    """All cores' seconds since the start, of which no kind goes back; and clocks that nobody set."""
    here = ThisMachine()
    first, second = here.cpu_times(), here.cpu_times()
    assert first.total_s > 0
    assert second.busy_s >= first.busy_s >= 0
    assert 0 <= shares(CpuTimes(0, 0, 0), first).busy_pct <= 100
    assert shares(first, first) == (0.0, 0.0)
    assert abs(here.clock_offset_ns() - here.clock_offset_ns()) < 100_000_000


def test_shares_while_it_goes_on_are_of_the_last_seconds() -> None:
    """One of two cores is used throughout; of the other, 3 s are stolen in the first five, and none later."""
    world = World()
    world.stolen_s = (0.0, 3.0)
    recent, found = RecentShares(world.cpu_times, 5.0), {}
    for second in range(11):
        found[second] = recent.at(world.monotonic_ns() / 1e9)
        world.sleep(1.0)
    assert found[0] is None
    assert (found[5], found[10]) == (CpuShares(50.0, 30.0), CpuShares(50.0, 0.0))


@pytest.mark.parametrize(("latency", "advised"), [("ack", True), ("service", False)])
def test_a_limit_of_pending_messages_is_advised_only_where_spouts_track_them(
    latency: Latency, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storm applies the limit to tuples with an identifier alone; without one, service times are watched."""
    measured = measured_on(World(), monkeypatch)
    unsteady = replace(measured.steadiness, steady=False, reason="latency grows")
    own = SimpleNamespace(measure=EXPERIMENT.measure, storm_settings=dict)  # which sets no limit
    traffic = ReportedMessages(own, World(), World())  # type: ignore[arg-type]
    said = traffic.shortcoming(replace(measured, latency=latency, steadiness=unsteady))
    assert said.startswith("interval: latency grows")
    assert (f"{MAX_PENDING} has no limit" in said) == advised
