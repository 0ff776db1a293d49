"""A campaign on a world that records what is asked of it, and does it at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from made_runs import placed
from made_steps import END_S, START_S, UNDISTURBED, gathered, measured

from harness.errors import ClusterError
from harness.experiments import campaign
from harness.experiments.adapted_periods import AdaptedPeriod
from harness.experiments.campaign import Campaign, OutsideWorld
from harness.experiments.config import Experiment
from harness.experiments.contracts import Planner, Probes, Watcher, WorkerSeen, unplanned, unprobed
from harness.experiments.loading import load
from harness.experiments.measuring import MeasuredInterval
from harness.experiments.precision import look
from harness.experiments.schedule import Due, Schedule
from harness.plans import AskedPlacement, Batching, PhysicalPlan, Relief, TopologyConfiguration
from harness.runs import Run
from harness.schemas import METRICS

EXPERIMENT = load("quick", ["steps.plan=[{executors: 1}, {executors: 2}, {executors: 4}]"])
DUE_S = np.arange(0, END_S - START_S, 0.05)
EXACT = look(DUE_S, np.full(DUE_S.size, 9.0), 0, END_S - START_S, precision_pct=5)
STEADY = replace(measured(steady=True), look=EXACT)


def on_machine(**seen: Any) -> MeasuredInterval:
    """The steady interval on a machine of which something else was seen."""
    return replace(STEADY, machine=replace(UNDISTURBED, **seen))


class World:
    """Deployment, load and metrics at once: records what is asked of it, and does it at once."""

    input_topics: Mapping[str, int] = {"in": 0}
    output_topic = "out"
    records_read = foreign_records = 0
    by_broker = False
    processes: Mapping[str, int] = {}
    foreign: tuple[object, ...] = ()

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.in_force: TopologyConfiguration | None = None
        self.placement: AskedPlacement | None = None
        self.obeys = True
        self.applies = True
        self.other_nodes = False
        self._of_step = gathered(rate_tps=100, out_tps=100)

    def _apply(self, how: str, configuration: TopologyConfiguration) -> None:
        self.asked.append(f"{how} {configuration.executors['spout']}")
        if self.applies:
            self.in_force = configuration

    def submit(
        self,
        configuration: TopologyConfiguration,
        placement: AskedPlacement | None = None,
        batching: Batching | None = None,
        relief: Relief | None = None,
    ) -> None:
        how = ("submit", *(["placed"] if placement else ()), *(["batched"] if batching else ()))
        how += relief.parts if relief else ()
        self._apply(" ".join(how), configuration)
        self.placement = placement

    def rebalance(self, configuration: TopologyConfiguration) -> None:
        self._apply("rebalance", configuration)
        self.placement = None

    def place(self, configuration: TopologyConfiguration, placement: AskedPlacement) -> None:
        self._apply("place", configuration)
        self.placement = placement

    def waits_for(self) -> str:
        return "" if self.placement is None else "plan 1 waits: node-2 is gone"

    def _placed(self, configuration: TopologyConfiguration) -> PhysicalPlan:
        return placed(EXPERIMENT.topology.query_plan(), configuration.executors["spout"])

    def plan(self) -> PhysicalPlan:
        empty = PhysicalPlan(query_plan=EXPERIMENT.topology.query_plan(), nodes=(), executors=())
        if self.in_force is None:
            return empty
        plan = self._placed(self.in_force)
        if self.placement is None or not self.obeys:
            return plan
        where = {w.label: w for w in plan.workers}
        executors = tuple(
            e.model_copy(update={"worker": where[self.placement.workers[e.label]]}) for e in plan.executors
        )
        return plan.model_copy(update={"executors": executors})

    def expected(self, configuration: TopologyConfiguration) -> TopologyConfiguration:
        return self._placed(configuration).configuration()

    def whole(self) -> bool:
        return True

    def workers(self) -> Mapping[str, WorkerSeen]:
        return {}

    def reports_every_s(self) -> float:
        return 1.0

    def complete_latency(self) -> Mapping[str, tuple[float, int]]:
        return {}

    def reported_errors(self, since_epoch_ms: int) -> list[str]:
        return []

    def check(self) -> None:
        pass

    def check_start(self) -> None:
        pass

    def restore_nodes(self) -> bool:
        changed, self.other_nodes = self.other_nodes, False
        if changed:
            self.asked.append("restore nodes")
            self.in_force = None
        return changed

    def begin_step(self) -> None:
        self.asked.append("begin")

    def start(self, schedule: Schedule) -> None:
        self.asked.append(f"send {schedule.rate_tps:g}")

    def stop(self) -> None:
        self.asked.append("stop")

    def due(self, start_ns: int, end_ns: int) -> Due:
        assert (start_ns, end_ns) == (STEADY.start_ns, STEADY.end_ns)
        return self._of_step.due

    def sent(self) -> pa.Table:
        return self._of_step.sent

    def received(self) -> pa.Table:
        return self._of_step.received

    def counts(self) -> tuple[int, int]:
        return self._of_step.input_records, self._of_step.output_records

    def taken(self) -> bool:
        return True

    def catch_up(self) -> None:
        pass

    def rows(self, since_ms: int, until_ms: int) -> pa.Table:
        return METRICS.empty_table()

    def texts(self, measurement: str, since_ms: int) -> list[Mapping[str, object]]:
        return []

    def forget(self, until_ms: int) -> None:
        pass


def carried_out(
    world: World,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    outcomes: Callable[[int], MeasuredInterval] | None = None,
    watch: Watcher = lambda _: None,
    probes: Probes = unprobed,
    experiment: Experiment = EXPERIMENT,
    planner: Planner = unplanned,
    adapted: Sequence[AdaptedPeriod] = (),
) -> None:
    """Carry the campaign out; ``outcomes`` gives what the n-th measurement finds, or raises.

    Steps that adapt have the periods ``adapted``.
    """
    count = iter(range(100))

    class AtOnce:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def carry_out(self) -> MeasuredInterval:
            n = next(count)
            return outcomes(n) if outcomes else STEADY

    class AdaptsAtOnce(AtOnce):
        def __init__(self, *given: Any) -> None:
            super().__init__()
            given[-1].extend(adapted)

    monkeypatch.setattr(campaign, "Measurement", AtOnce)
    monkeypatch.setattr(campaign, "AdaptingMeasurement", AdaptsAtOnce)
    Campaign(experiment, run, OutsideWorld(world, world, world, probes), watch, planner).carry_out()


def stops_in_the_third(n: int) -> MeasuredInterval:
    if n == 2:
        raise ClusterError("kafka stopped")
    return STEADY


def measuring(world: World) -> list[str]:
    return [a for a in world.asked if a.startswith(("submit", "rebalance"))]
