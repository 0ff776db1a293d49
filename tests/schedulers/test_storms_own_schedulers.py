"""Placements against Storm's own classes, run on ``Cluster`` objects in one JVM (``SchedulerOracle``)."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scheduling import evenly_placed, without_used

from harness.errors import SchedulerDeclined
from harness.machine.servers import install
from harness.plans import (
    Component,
    PhysicalPlan,
    QueryPlan,
    Stream,
    TopologyConfiguration,
    Worker,
    WorkerNode,
)
from harness.schedulers.r_storm import RStormScheduler

INSTRUMENTATION = Path(__file__).resolve().parents[2] / "storm-topologies" / "instrumentation"
ORACLE = INSTRUMENTATION / "src/test/java/harness/storm/cluster/SchedulerOracle.java"
pytestmark = [pytest.mark.deep, pytest.mark.system]


class SchedulingCase:
    """A random cluster, a topology to be placed, and another one that is placed already."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.seed = seed
        number = int(rng.integers(1, 6))
        shared = bool(rng.random() < 0.3)
        self.nodes = tuple(
            WorkerNode(
                name=f"node-{i + 1}",
                address=f"10.0.0.{1 + i // 2 if shared else i + 1}",
                host=f"host-{i}",
                cores=float(rng.integers(1, 9)) / 2,
                slots=tuple(sorted(int(p) for p in 6700 + rng.permutation(8)[: rng.integers(1, 6)])),
            )
            for i in range(number)
        )
        every = [Worker(node=n.name, port=p) for n in self.nodes for p in n.slots]
        taken = int(rng.integers(0, min(len(every), 4)))
        self.used = [every[i] for i in rng.permutation(len(every))[:taken]]
        names = [f"c{i}" for i in range(int(rng.integers(1, 6)))]
        self.query_plan = QueryPlan(
            name="t-1",
            components=tuple(Component(name=n, role="other", tasks=int(rng.integers(1, 9))) for n in names),
            streams=tuple(
                Stream(source=names[int(rng.integers(0, i))], target=names[i], grouping="shuffle")
                for i in range(1, len(names))
            ),
        )
        self.own_tasks = {"__acker": int(rng.integers(1, 5))} if rng.random() < 0.7 else {}
        executors = {c.name: int(rng.integers(1, c.tasks + 1)) for c in self.query_plan.components}
        executors |= {name: int(rng.integers(1, tasks + 1)) for name, tasks in self.own_tasks.items()}
        self.configuration = TopologyConfiguration(executors=executors, workers=int(rng.integers(1, 9)))
        self.cpu_pct = {n: float(rng.integers(1, 60)) for n in names}

    @property
    def other(self) -> dict[str, str]:
        """Executors of the topology that is placed already."""
        return {f"a[{i + 1}-{i + 1}]": w.label for i, w in enumerate(self.used)}

    def asked(self, scheduler: str) -> str:
        """The case as a line for the oracle."""
        components = [
            {
                "name": c.name,
                "kind": "bolt" if self.query_plan.inputs(c.name) else "spout",
                "tasks": c.tasks,
                "executors": self.configuration.executors[c.name],
                "inputs": [s.source for s in self.query_plan.inputs(c.name)],
                "cpu_pct": self.cpu_pct[c.name],
                "memory_mb": 128.0,
            }
            for c in self.query_plan.components
        ] + [
            {"name": n, "kind": "bolt", "tasks": t, "executors": self.configuration.executors[n]}
            for n, t in self.own_tasks.items()
        ]
        topologies = [{"id": "t-1", "workers": self.configuration.workers, "components": components}]
        assignments = {}
        if self.used:
            number = len(self.used)
            other = {"name": "a", "kind": "spout", "tasks": number, "executors": number, "cpu_pct": 0.0}
            topologies.append({"id": "t-0", "workers": number, "components": [other | {"memory_mb": 1.0}]})
            assignments["t-0"] = self.other
        supervisors = [
            {
                "id": n.name,
                "host": n.address,
                "name": n.name,
                "ports": list(n.slots),
                "cpu_pct": 100 * n.cores,
                "memory_mb": 4096.0 + sum(w.node == n.name for w in self.used),
            }
            for n in self.nodes
        ]
        return json.dumps(
            {
                "case": str(self.seed),
                "scheduler": scheduler,
                "supervisors": supervisors,
                "topologies": topologies,
                "assignments": assignments,
            }
        )


def ask_storm(cases: list[SchedulingCase], scheduler: str) -> list[dict[str, str]]:
    """Where Storm's scheduler puts the executors of each case's topology; nowhere if it moved the other."""
    lines = "\n".join(case.asked(scheduler) for case in cases)
    command = ["java", "-cp", f"{install().storm}/lib/*", str(ORACLE)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=300)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a["case"] for a in answers] == [str(c.seed) for c in cases]
    stays = [a["assignments"].get("t-0", {}) == c.other for a, c in zip(answers, cases, strict=True)]
    return [a["assignments"]["t-1"] if s else {} for a, s in zip(answers, stays, strict=True)]


def test_even_is_where_storms_default_scheduler_puts_executors_of_200_random_topologies() -> None:
    cases = [SchedulingCase(seed) for seed in range(200)]
    for case, expected in zip(cases, ask_storm(cases, "default"), strict=True):
        free = without_used(case.nodes, case.used)
        try:
            plan = evenly_placed(case.query_plan, case.configuration, case.own_tasks, free)
        except SchedulerDeclined:
            assert expected == {}, case.seed
            continue
        assert {e.label: e.worker.label for e in plan.executors} == expected, case.seed


def shape(placement: dict[str, str]) -> Counter[tuple[str, tuple[str, ...]]]:
    """Workers by node and the components of their executors: which executor of a component is open."""
    workers: dict[str, list[str]] = {}
    for label, worker in placement.items():
        workers.setdefault(worker, []).append(label.partition("[")[0])
    return Counter((worker.rpartition(":")[0], tuple(sorted(held))) for worker, held in workers.items())


def test_r_storm_is_where_storms_resource_aware_scheduler_puts_executors_with_50_random_loads() -> None:
    cases = [SchedulingCase(1000 + seed) for seed in range(50)]
    placed_cases = 0
    for case, expected in zip(cases, ask_storm(cases, "resource-aware"), strict=True):
        scheduler = RStormScheduler(requests_pct=case.cpu_pct)
        free = without_used(case.nodes, case.used)
        plan: PhysicalPlan | None = None
        try:
            plan = scheduler.propose(case.query_plan, case.configuration, free).plan
        except SchedulerDeclined:
            assert expected == {}, case.seed
            continue
        placed_cases += 1
        assert shape({e.label: e.worker.label for e in plan.executors}) == shape(expected), case.seed
    assert placed_cases >= 25
