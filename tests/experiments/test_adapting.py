"""A plan that changes while a step is measured: when it is asked for, and what is lost by it.

A world in which time passes only while somebody waits stands for the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from made_runs import placed
from waiting_world import World

from harness.errors import UsageError
from harness.experiments import adapting, measuring
from harness.experiments.adapting import (
    ADAPTED,
    AdaptedPeriod,
    AdaptingMeasurement,
    PeriodDecision,
    PeriodSeen,
    adaptation_table,
    adapted_quality,
)
from harness.experiments.loading import expand_steps, load
from harness.experiments.measuring import StepToMeasure
from harness.experiments.step_faults import NoFaults, StepFaults
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.plans import AskedPlacement, PhysicalPlan, TopologyConfiguration
from harness.quality import Finding, Quality
from harness.schemas import ADAPTATION, METRICS

EXPERIMENT = load(
    "quick",
    [
        "measure.burn_in={least_s: 10, most_s: 20}",
        "measure.interval={least_s: 10, most_s: 30, looks: 3}",
        "steps.plan=[{executors: 1, adapt: {scheduler: even, period_s: 10}}]",
    ],
)
S = 10**9


class AdaptedWorld(World):
    """Puts a plan into force some seconds after it is asked for."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self._takes_ns = round(takes_s * S)
        self._in_force = placed(EXPERIMENT.topology.query_plan(), 1)
        self._asked: AskedPlacement | None = None
        self._asked_ns = 0
        self.counts: TopologyConfiguration | None = None

    def came_up(self, start_ns: int, end_ns: int) -> list[int]:
        del start_ns, end_ns
        return []

    def clock_offset_ns(self) -> int:
        return 0

    def place(self, configuration: TopologyConfiguration, placement: AskedPlacement) -> None:
        self.counts, self._asked, self._asked_ns = configuration, placement, self.monotonic_ns()

    def plan(self) -> PhysicalPlan:
        if self._asked is None or self.monotonic_ns() < self._asked_ns + self._takes_ns:
            return self._in_force
        where = {w.label: w for w in self._in_force.workers}
        executors = tuple(
            e.model_copy(update={"worker": where[self._asked.workers[e.label]]})
            for e in self._in_force.executors
        )
        return self._in_force.model_copy(update={"executors": executors})

    def whole(self) -> bool:
        return True

    def rows(self, since_ms: int, until_ms: int) -> pa.Table:
        assert since_ms < until_ms
        return METRICS.empty_table()


def gathers(seen: PeriodSeen) -> PeriodDecision:
    """Put everything on the first worker, where it is not there already."""
    first = seen.plan.workers[0].label
    if {e.worker.label for e in seen.plan.executors} == {first}:
        return PeriodDecision("stays", "it is there", None, {})
    workers = {e.label: first for e in seen.plan.executors}
    return PeriodDecision("applied", "together", AskedPlacement(by="test", workers=workers), {})


def adapted_on(world: AdaptedWorld, monkeypatch: pytest.MonkeyPatch) -> list[AdaptedPeriod]:
    for module in (measuring, adapting):
        monkeypatch.setattr(module, "time", world)
    periods: list[AdaptedPeriod] = []
    silent = lambda *_: None  # noqa: E731
    step, faults = expand_steps(EXPERIMENT)[0], StepFaults((), NoFaults())
    given = StepToMeasure(EXPERIMENT, step, world, world, silent, world, faults)  # type: ignore[arg-type]
    measurement = AdaptingMeasurement(given, world, gathers, 10.0, periods)  # type: ignore[arg-type]
    measured = measurement.carry_out()
    assert measured.end_ns - measured.start_ns == 30 * S
    assert measured.disturbance == ""
    return periods


def test_a_plan_is_applied_while_messages_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for after 10 s, in force 7 s later, and left alone afterwards; workers are the plan's."""
    world = AdaptedWorld(7.0)
    periods = adapted_on(world, monkeypatch)
    assert [p.decided.decision for p in periods] == ["applied", "stays", "stays"]
    first = periods[0]
    assert first.end_ns - first.start_ns == pytest.approx(10 * S, abs=S)
    assert first.in_force_ns - first.asked_ns == pytest.approx(7 * S, abs=S)
    assert world.counts is not None
    assert world.counts.workers == 1


def test_a_plan_that_does_not_come_into_force_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    periods = adapted_on(AdaptedWorld(1000.0), monkeypatch)
    assert (periods[0].applied, periods[0].in_force_ns) == (True, 0)
    quality = judged(periods, lost=(), twice=())
    assert quality.adaptation is not None
    assert not quality.adaptation.plan_as_decided.ok
    assert "not in force after 60 s in period 0" in quality.adaptation.plan_as_decided.detail


CHANGED = AdaptedPeriod(
    0, 100 * S, PeriodDecision("applied", "", None, {"load_distance_pct": 3.0}), 100 * S, 107 * S
)
KEPT = AdaptedPeriod(100 * S, 200 * S, PeriodDecision("stays", "", None, {}))


def messages(lost: Sequence[int] = (), twice: Sequence[int] = ()) -> tuple[pa.Table, pa.Table]:
    """One message a second for 200 s, each out 5 ms after it was due, but for a pause of 6 s from 101 s."""
    sent = [{"message_id": i, "scheduled_ns": i * S, "sent_ns": i * S} for i in range(200)]
    out = [i for i in range(200) if i not in lost and not 101 < i < 107] + list(twice)
    late = [i for i in range(102, 107) if i not in lost]
    rows = [{"message_id": i, "child": 0, "left_ns": i * S + 5_000_000, "sink": "s"} for i in out]
    rows += [{"message_id": i, "child": 0, "left_ns": 107 * S, "sink": "s"} for i in late]
    return pa.Table.from_pylist(sent, SENT), pa.Table.from_pylist(rows, RECEIVED)


def judged(
    periods: Sequence[AdaptedPeriod], lost: Sequence[int], twice: Sequence[int], balanced: bool = True
) -> Quality:
    ok = Finding(ok=True)
    ledger = {"balanced": balanced, "absorbed": 0}
    quality = Quality(plan_as_asked=ok, plan_unchanged=ok, steady=ok, errors_reported=ok, ledger=ledger)
    return adapted_quality(quality, periods, *messages(lost, twice))


def test_what_is_lost_and_repeated_is_counted_by_the_decision_that_it_is_near() -> None:
    """Within 5 s of 100 to 107 s: 95 to 112."""
    table = adaptation_table([CHANGED, KEPT], *messages(lost=(96, 104, 150), twice=(111, 30))).to_pylist()
    assert ADAPTATION.names == list(table[0])
    assert [(row["lost"], row["repeated"]) for row in table] == [(2, 1), (0, 0)]
    assert table[0]["load_distance_pct"] == 3.0


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
    quality = judged([CHANGED, KEPT], lost, twice, balanced)
    assert quality.adaptation is not None
    assert quality.adaptation.losses_explained.ok is ok
    assert quality.adaptation.plan_as_decided.ok
    assert quality.absent.keys() == ADAPTED.keys()


def test_times_near_no_decision_are_not_held() -> None:
    assert not KEPT.holds(np.array([150 * S])).any()


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            "[{executors: 1, adapt: {scheduler: even}}, {executors: 1, scheduler: even, from: 0}]",
            "nothing can be read",
        ),
        ("[{executors: 1, adapt: {scheduler: even, period_s: 1}}]", "period_s"),
        ("[{executors: 1, adapt: {}}]", "scheduler"),
        ("[{executors: 1, adapt: {scheduler: even}, scheduler: even}]", "adapt and scheduler"),
        ("[{placement: p.yaml, adapt: {scheduler: even}}]", "adapt and placement"),
        ("[{executors: 1}, {tuner: storm, from: 0, adapt: {scheduler: even}}]", "adapt and tuner"),
        (
            "[{executors: 1, adapt: {scheduler: even}, faults: [{stop: generator, for_s: 1, at_s: 1}]}]",
            "adapt and faults",
        ),
    ],
)
def test_a_step_that_cannot_adapt_is_refused(plan: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load("quick", [f"steps.plan={plan}"])


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("{kind: simulator}", "plans stay while the simulator plays a step"),
        ("{kind: running, nimbus: 'n:6627', kafka: 'k:9092'}", "others run places executors itself"),
    ],
)
def test_a_cluster_whose_plans_stay_is_refused(cluster: str, words: str) -> None:
    plan = "steps.plan=[{executors: 1, adapt: {scheduler: even}}]"
    with pytest.raises(UsageError, match=f"steps.plan.0: adapt: .*{words}"):
        load("quick", [plan, f"cluster={cluster}"])
