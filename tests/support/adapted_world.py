"""A world whose plans, batch sizes and key groups come into force some seconds after they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from adapted_steps import S
from made_runs import placed
from scheduling import nodes_of
from waiting_world import World

from harness.experiments import adapting, measuring
from harness.experiments.adapted_periods import AdaptedPeriod
from harness.experiments.adapting import Adapter, AdaptingMeasurement
from harness.experiments.config import Experiment
from harness.experiments.key_group_moves import GroupMove
from harness.experiments.loading import expand_steps, load
from harness.experiments.measuring import StepToMeasure
from harness.experiments.schedule import BegunSchedule, Changing, Constant, Due
from harness.experiments.step_faults import NoFaults, StepFaults
from harness.plans import (
    AskedPlacement,
    Batching,
    BatchSize,
    PhysicalPlan,
    RoutingTables,
    TopologyConfiguration,
    WorkerNode,
)
from harness.schemas import METRICS

EXPERIMENT = load(
    "quick",
    [
        "measure.burn_in={least_s: 10, most_s: 20}",
        "measure.interval={least_s: 10, most_s: 30, looks: 3}",
        "steps.plan=[{executors: 1, adapt: {scheduler: even, period_s: 10, settle_s: 0}}]",
    ],
)


class AdaptedWorld(World):
    """Puts a plan into force some seconds after it is asked for."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self._takes_ns = round(takes_s * S)
        self._in_force = placed(EXPERIMENT.topology.query_plan(), 1)
        self._after = self._in_force
        self._asked_ns = 0
        self.counts: TopologyConfiguration | None = None
        self._spare = nodes_of([2] * 3)[2:]
        self.there: tuple[WorkerNode, ...] = nodes_of([2] * 3)[:2]
        self.done: list[str] = []
        self.sizes: dict[str, BatchSize] = {}
        self._resized: tuple[int, dict[str, BatchSize]] = (0, {})
        self.table = (0, 1, 0)
        self.reports = METRICS.empty_table()
        self._moved_ns = 0

    def came_up(self, start_ns: int, end_ns: int) -> list[int]:
        del start_ns, end_ns
        return []

    def clock_offset_ns(self) -> int:
        return 0

    def place(self, configuration: TopologyConfiguration, placement: AskedPlacement) -> None:
        where = {w.label: w for w in self._in_force.workers}
        executors = tuple(
            e.model_copy(update={"worker": where[placement.workers[e.label]]})
            for e in self._in_force.executors
        )
        self._begin(configuration, self._in_force.model_copy(update={"executors": executors}))

    def rebalance(self, configuration: TopologyConfiguration) -> None:
        (executors,) = set(configuration.executors.values())
        self._begin(configuration, placed(EXPERIMENT.topology.query_plan(), executors))

    def _begin(self, configuration: TopologyConfiguration, after: PhysicalPlan) -> None:
        self.counts, self._after, self._asked_ns = configuration, after, self.monotonic_ns()

    def expected(self, configuration: TopologyConfiguration) -> TopologyConfiguration:
        own = {k: v for k, v in self._in_force.configuration().executors.items() if k.startswith("__")}
        return configuration.model_copy(update={"executors": {**configuration.executors, **own}})

    def plan(self) -> PhysicalPlan:
        there = self._asked_ns and self.monotonic_ns() >= self._asked_ns + self._takes_ns
        return self._after if there else self._in_force

    def whole(self) -> bool:
        return True

    def nodes(self) -> tuple[WorkerNode, ...]:
        return self.there

    def spare_nodes(self) -> tuple[WorkerNode, ...]:
        return tuple(n for n in self._spare if n not in self.there)

    def add_nodes(self, names: Sequence[str]) -> None:
        self.sleep(2)
        self.done.append(f"add {', '.join(names)}")
        self.there += tuple(n for n in self._spare if n.name in names)

    def end_nodes(self, names: Sequence[str]) -> None:
        self.done.append(f"end {', '.join(names)}")
        self.there = tuple(n for n in self.there if n.name not in names)

    def resize(self, batching: Batching) -> None:
        self._resized = self.monotonic_ns(), dict(batching)
        self.done.append("resize")

    def rows(self, since_ms: int, until_ms: int) -> pa.Table:
        """Tasks report batch sizes and key groups that came, both some seconds after they are told."""
        told_ns, told = self._resized
        if told and self.monotonic_ns() >= told_ns + self._takes_ns:
            self.sizes |= told
        rows = size_rows({(name, task): b for name, b in self.sizes.items() for task in self._tasks(name)})
        if self._moved_ns and self.monotonic_ns() >= self._moved_ns + self._takes_ns:
            rows = pa.concat_tables([rows, self.reports])
        return rows if since_ms < until_ms else METRICS.empty_table()

    def tables(self) -> RoutingTables:
        return {"count": self.table}

    def move(self, tables: RoutingTables) -> frozenset[GroupMove]:
        before, self.table, self._moved_ns = self.table, tables["count"], self.monotonic_ns()
        return frozenset(GroupMove("count", g, 1) for g, task in enumerate(self.table) if task != before[g])

    def _tasks(self, name: str) -> list[int]:
        of = self.plan().of(name.partition(":")[0])
        return [task for e in of for task in range(e.first_task, e.last_task + 1)]


def size_rows(reported: Mapping[tuple[str, int], BatchSize], end_ms: int = 0) -> pa.Table:
    """Return what tasks report of the batches of their streams, by ``component:stream`` and task."""
    rows = [
        {"bucket_end_ms": end_ms, "measurement": "batch", "task": task, "field": field, "value": float(value)}
        | dict(zip(("component", "stream"), name.split(":"), strict=True))
        for (name, task), size in reported.items()
        for field, value in (*size.model_dump().items(), ("messages", 7))
    ]
    return pa.Table.from_pylist(rows, METRICS)


def adapted_on(
    world: AdaptedWorld,
    monkeypatch: pytest.MonkeyPatch,
    adapter: Adapter,
    experiment: Experiment = EXPERIMENT,
) -> list[AdaptedPeriod]:
    """100 messages a second are due, and 200 from 24 s on: 12 s after a burn-in of 12 s."""
    for module in (measuring, adapting):
        monkeypatch.setattr(module, "time", world)
    periods: list[AdaptedPeriod] = []
    silent = lambda *_: None  # noqa: E731
    step, faults = expand_steps(experiment)[0], StepFaults((), NoFaults())
    given = StepToMeasure(experiment, step, world, world, silent, world, faults)  # type: ignore[arg-type]
    schedule = BegunSchedule(Changing(Constant(100), ((24 * S, 200.0),)), 0, world.monotonic_ns())

    def due(start_ns: int, end_ns: int) -> Due:
        assert end_ns <= world.monotonic_ns(), "asked for messages that are due after now"
        return schedule.due(start_ns, end_ns)

    asked = experiment.steps.plan[0].adapt
    assert asked is not None
    measurement = AdaptingMeasurement(given, world, due, world, adapter, asked, periods)  # type: ignore[arg-type]
    measured = measurement.carry_out()
    assert measured.end_ns - measured.start_ns == 30 * S
    assert measured.disturbance == ""
    return periods
