"""A period of a small topology with key groups: loads, places and traffic that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
from scheduling import nodes_of, observation, placed, topology

from harness.plans import PhysicalPlan
from harness.protocols import Observation

TOPOLOGY = topology((("a", "b"), ("b", "c")), {"a": 1, "b": 2, "c": 2})
NODES = nodes_of([2, 2], cores=[1, 1])
WORKERS = {
    "a[1-1]": "node-1:6700",
    **{"b[2-2]": "node-1:6700", "b[3-3]": "node-2:6700"},
    **{"c[4-4]": "node-1:6700", "c[5-5]": "node-2:6700"},
}
CORES = {1: 0.2, 2: 0.4, 3: 0.1, 4: 0.1, 5: 0.1}
TABLES = {"b": (0, 1, 0), "c": (0, 1)}
"""Groups 0 and 2 of b are on task 2 and group 1 on task 3; those of c on tasks 4 and 5."""
WALL_NS = {(2, 0): 3e8, (2, 2): 1e8, (3, 1): 1e8, (4, 0): 1e8, (5, 1): 1e8}
"""Time for a group's tuples, by task and group: task 2 spends three quarters on group 0."""
SENT_TPS = {(2, 0, 1): 30.0, (3, 1, 1): 10.0}
"""Tuples a second by task, group of b, and group of c."""


def keyed_period(
    workers: Mapping[str, str] = WORKERS,
    wall_ns: Mapping[tuple[int, int], float] = WALL_NS,
    sent_tps: Mapping[tuple[int, int, int], float] = SENT_TPS,
    state_bytes: Mapping[tuple[int, int], float] | None = None,
) -> Observation:
    """What the topology's tasks report, on these workers."""
    plan = placed(TOPOLOGY, NODES, workers)
    seen = observation(plan, {}, CORES)
    rows = [_row(plan, "key_group", t, "", str(g), "wall_sum_ns", ns) for (t, g), ns in wall_ns.items()]
    rows += [
        _row(plan, "key_group_sent", t, "c", f"{sender}>{receiver}", "count", tps * seen.interval_s)
        for (t, sender, receiver), tps in sent_tps.items()
    ]
    rows += [
        _row(plan, "key_group", t, "", str(g), "state_bytes", size)
        for (t, g), size in (state_bytes or {}).items()
    ]
    return replace(seen, metrics=pd.concat([seen.metrics, pd.DataFrame(rows)], ignore_index=True))


def _row(
    plan: PhysicalPlan, measurement: str, task: int, stream: str, peer: str, field: str, value: float
) -> dict[str, object]:
    executor = plan.by_task[task]
    return {
        "bucket_end_ms": 1000,
        "measurement": measurement,
        "component": executor.component,
        "task": task,
        "worker": executor.worker.label,
        "stream": stream,
        "peer": peer,
        "field": field,
        "value": value,
    }
