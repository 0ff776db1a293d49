"""Loads by resource on metrics of which every number is known."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from scheduling import nodes_of, observation, one_each, placed, topology

from harness.errors import SchedulerDeclined
from harness.protocols import NodeAmounts, Observation, Resource
from harness.schedulers import make_scheduler
from harness.schedulers.resource_loads import bottleneck, executor_loads, resource_use_pct

PAIR = topology((("a", "b"),), {"a": 1, "b": 3})
NODES = nodes_of([1, 1], cores=[1, 1])
PLACES = {"a[1-1]": "node-1:6700", "b[2-2]": "node-1:6700", "b[3-3]": "node-2:6700", "b[4-4]": "node-2:6700"}
PLAN = placed(PAIR, NODES, PLACES)
MB = 1 << 20


def seen(heap_mb: dict[str, tuple[float, ...]], sent_bytes: dict[int, float]) -> Observation:
    """0.1, 0.2, 0.2 and 0.1 cores in 10 s, with heaps at the ends of buckets and bytes of batches."""
    found = observation(PLAN, {(1, 2): 10.0}, {1: 0.1, 2: 0.2, 3: 0.2, 4: 0.1})
    none = {"bucket_end_ms": 1000, "component": "", "task": -1, "worker": "", "stream": "", "peer": ""}
    rows = [
        none | {"measurement": "worker", "worker": worker, "field": "heap_bytes", "value": mb * MB}
        for worker, heaps in heap_mb.items()
        for mb in heaps
    ]
    rows += [
        none | {"measurement": "batch", "task": task, "field": "bytes", "value": value}
        for task, value in sent_bytes.items()
    ]
    metrics = pd.concat(
        [found.metrics.astype({"measurement": str, "field": str, "worker": str}), pd.DataFrame(rows)]
    )
    return replace(found, metrics=metrics)


HEAPS = {"node-1:6700": (60.0, 20.0, 90.0), "node-2:6700": (110.0, 40.0)}


def test_loads_are_in_points_of_a_unit_of_each_resource() -> None:
    """Heap: 20 MB of two tasks, 40 MB of two; bytes: 5,000 in 10 s."""
    source = seen(HEAPS, {1: 5000.0})
    loads = {r: executor_loads(r, source, PLAN.executors).tolist() for r in Resource}
    assert loads[Resource.CPU] == pytest.approx([10, 20, 20, 10])
    assert loads[Resource.HEAP] == pytest.approx([1000, 1000, 2000, 2000])
    assert loads[Resource.SENT] == pytest.approx([50_000, 0, 0, 0])


@pytest.mark.parametrize(
    ("link_bytes_s", "heap_mb", "expected"),
    [
        # 0.6 of 2 cores, 60 of 2 x 256 MB, and 500 of 2 x 800 bytes/s
        (800.0, 256.0, {Resource.CPU: 30, Resource.HEAP: 100 * 60 / 512, Resource.SENT: 31.25}),
        (None, 64.0, {Resource.CPU: 30, Resource.HEAP: 100 * 60 / 128}),
    ],
)
def test_the_bottleneck_is_the_resource_with_the_greatest_total_usage(
    link_bytes_s: float | None, heap_mb: float, expected: dict[Resource, float]
) -> None:
    amounts = NodeAmounts(worker_heap_mb=heap_mb, link_bytes_s=link_bytes_s)
    found = resource_use_pct(seen(HEAPS, {1: 5000.0}), PLAN.executors, NODES, amounts)
    assert found == pytest.approx(expected)
    assert bottleneck(found) is (Resource.SENT if link_bytes_s else Resource.HEAP)


def test_a_worker_that_reports_no_heap_counts_as_empty() -> None:
    loads = executor_loads(Resource.HEAP, seen({"node-2:6700": (40.0,)}, {}), PLAN.executors)
    assert loads.tolist() == pytest.approx([0, 0, 2000, 2000])


def test_what_no_metric_tells_is_no_candidate() -> None:
    source = seen({}, {})
    with_link = NodeAmounts(link_bytes_s=1.0)
    assert list(resource_use_pct(source, PLAN.executors, NODES, with_link)) == [Resource.CPU]
    with pytest.raises(SchedulerDeclined, match=r"worker\.heap_bytes is missing"):
        executor_loads(Resource.HEAP, source, PLAN.executors)
    with pytest.raises(SchedulerDeclined, match=r"batch\.bytes is missing"):
        executor_loads(Resource.SENT, source, PLAN.executors)
    silent = replace(source, metrics=source.metrics[source.metrics["measurement"] == "emitted"])
    with pytest.raises(SchedulerDeclined, match="cpu_sum_ns is missing"):
        resource_use_pct(silent, PLAN.executors, NODES, NodeAmounts())


@pytest.mark.parametrize("name", ["balance", "albic"])
def test_what_is_balanced_is_the_resource_asked_for(name: str) -> None:
    """CPU is even, 0.3 and 0.3 cores; heap is not, 20 and 100 MB."""
    source = seen({"node-1:6700": (20.0,), "node-2:6700": (100.0,)}, {1: 10.0})
    asked: dict[str, object] = {"name": name, "max_migration_cost": 1}

    def moved(**more: object) -> list[str]:
        plan = make_scheduler(asked | more).propose(PAIR, one_each(PAIR, 2), NODES, source).plan
        return [e.label for e in plan.executors if e.worker.label != PLACES[e.label]]

    assert moved(resource="cpu") == []
    # 10, 10, 50 and 50 MB: 60 and 60 after one of 50 has come
    assert moved(resource="heap") in (["b[3-3]"], ["b[4-4]"])
    with pytest.raises(SchedulerDeclined, match="give link_bytes_s"):
        moved(resource="sent")
