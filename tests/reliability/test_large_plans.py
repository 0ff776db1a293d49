"""Plans that once were not measured: executors that move between many workers, and forty components.

On the real cluster; both inputs are of docs/trust.md (17 and 23).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow.compute as pc
from campaigns import carry_out
from short_experiments import short_measure

from harness.backends.local.cluster import LocalCluster
from harness.runs import Run, read_table

COMPONENTS = 40
MEASURE = short_measure(5, 8)


def measured(name: str, more: Mapping[str, object], cluster: LocalCluster, folder: Path) -> Run:
    settings = {"name": name, "models": ["no-change"], "measure": MEASURE, **more}
    return carry_out(settings, cluster, folder, lambda _: None)


def test_executors_that_move_from_three_workers_to_two_are_up_when_the_new_ones_say_so(
    cluster: LocalCluster, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """Of 26 executors, one a task, many are in both plans; the old workers' last reports name them, too."""
    few, each = {"spout": 2, "multiplier": 3, "window": 5, "sender": 2}, [7, 7, 7, 5]
    tasks = dict(zip(few, each, strict=True))
    multiplier = {"min": 1, "max": 3, "mean": 2, "sd": 1}
    topology = {"name": "all-in-one", "load_aware": False, "tasks": tasks, "multiplier": multiplier}
    run = measured(
        "moved",
        {
            "topology": {**topology, "window": {"kind": "count", "length": 5, "slide": 5}},
            "workload": {"rate_tps": 20},
            "cluster": {"nodes": 2, "slots_per_node": 2},
            "steps": {"plan": [{"executors": few, "workers": 3}, {"executors": tasks, "workers": 2}]},
        },
        cluster,
        tmp_path,
    )
    for step, executors in ((0, few), (1, tasks)):
        found = run.plan(step).start.configuration().executors
        assert {name: found[name] for name in executors} == executors
        assert run.quality(step).plan_unchanged.ok, run.quality(step).plan_unchanged.detail
    again = [r.reason for r in run.interval(1).rejected]
    assert not any("worker" in reason for reason in again), again
    figure(f"{sum(tasks.values())} executors, 3 to 2 workers")


def test_forty_components_are_measured_and_each_task_reports(
    cluster: LocalCluster, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    names = ["in", *(f"b-{n}" for n in range(COMPONENTS - 2)), "out"]
    roles = {"in": "spout", "out": "sender"}
    run = measured(
        "forty",
        {
            "topology": {
                "load_aware": False,
                "ackers": 2,
                "tasks": 2,
                "components": {name: {"role": roles.get(name, "json")} for name in names},
                "streams": [{"from": a, "to": b, "grouping": "shuffle"} for a, b in pairwise(names)],
            },
            "workload": {"rate_tps": 10},
            "cluster": {"nodes": 2, "slots_per_node": 2},
            "steps": {"plan": [{"executors": 2, "workers": 2}]},
        },
        cluster,
        tmp_path,
    )
    tasks = {e.first_task for e in run.plan(0).start.executors if e.component in names}
    assert len(tasks) == 2 * COMPONENTS
    reported = set(pc.unique(read_table(run.step_path(0) / "metrics.parquet")["task"]).to_pylist())
    assert tasks <= reported
    ledger = run.quality(0).ledger
    assert ledger is not None
    assert ledger.lost == 0, ledger
    figure(f"{len(tasks)} tasks of {COMPONENTS} components reported")
