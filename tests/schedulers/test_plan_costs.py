"""Costs of plans counted by hand on a chain of three components."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from scheduling import nodes_of, observation, placed, topology

from harness.errors import SchedulerDeclined
from harness.models.composite.background import WORKER_CORES
from harness.plans import Grouping
from harness.protocols import Observation
from harness.schedulers.loads import overload_notes, task_cores
from harness.schedulers.plan_costs import cost_plan, like_executors, plan_shape, same_as

CHAIN = topology((("a", "b"), ("b", "c")), {"a": 1, "b": 2, "c": 1})
NODES = nodes_of([2, 2])
NOW = placed(
    CHAIN,
    NODES,
    {"a[1-1]": "node-1:6700", "b[2-2]": "node-1:6701", "b[3-3]": "node-2:6700", "c[4-4]": "node-2:6700"},
)
TRAFFIC = {(1, 2): 10.0, (1, 3): 20.0, (2, 4): 10.0, (3, 4): 40.0}
CORES = {1: 0.2, 2: 0.2, 3: 0.4, 4: 0.8}
SOURCE = observation(NOW, TRAFFIC, CORES)


def moved(**elsewhere: str) -> object:
    placement = {e.label: e.worker.label for e in NOW.executors}
    names = {e.component + str(e.first_task): e.label for e in NOW.executors}
    return placed(CHAIN, NODES, placement | {names[k]: v for k, v in elsewhere.items()})


def test_cpu_of_tasks_is_read_exactly_spouts_from_the_rest_of_their_process() -> None:
    assert task_cores(SOURCE) == pytest.approx(CORES)


def without_service(task: int, **received: str) -> Observation:
    """The source, but what a task received came another way, and no service of it was timed."""
    own = SOURCE.metrics["task"] == task
    rows = SOURCE.metrics[~own | (SOURCE.metrics["measurement"] != "service")]
    got = rows[(rows["task"] == task) & (rows["measurement"] == "received")]
    others = rows.drop(got.index)
    return replace(SOURCE, metrics=pd.concat([others, got.assign(**received)], ignore_index=True))


def test_a_task_that_receives_ticks_and_tables_alone_uses_no_cpu() -> None:
    """Measured of a task without keys: its ticks are in `received`, and in no service."""
    for way in ({"peer": "__system", "stream": "__tick"}, {"peer": "a", "stream": "$harness/tables"}):
        assert task_cores(without_service(2, **way)) == pytest.approx(CORES | {2: 0.0})
    with pytest.raises(SchedulerDeclined, match="service of task 2 is missing"):
        task_cores(without_service(2, peer="a", stream="default"))


def test_the_plan_in_force_moves_nothing() -> None:
    costs = cost_plan(NOW, SOURCE)
    assert costs.between_workers_tps == pytest.approx(10 + 20 + 10)  # all but b[3-3] to c
    assert costs.between_nodes_tps == pytest.approx(20 + 10)
    # node-1 0.4 of 2 cores, node-2 1.2 of 2: 20 % and 60 %, mean 40 %
    assert costs.load_distance_pct == pytest.approx(20.0)
    assert (costs.executors_moved, costs.workers_restarted) == (0, 0)


def test_one_move_restarts_the_worker_that_it_leaves_and_the_one_that_it_comes_to() -> None:
    costs = cost_plan(moved(b3="node-1:6701"), SOURCE)  # type: ignore[arg-type]
    assert costs.between_workers_tps == pytest.approx(10 + 20 + 10 + 40)
    assert costs.between_nodes_tps == pytest.approx(10 + 40)
    assert costs.load_distance_pct == pytest.approx(0.0, abs=1e-9)  # 0.8 of 2 on both
    assert (costs.executors_moved, costs.workers_restarted) == (1, 2)


def test_a_worker_that_ends_does_not_restart() -> None:
    costs = cost_plan(moved(b2="node-1:6700"), SOURCE)  # type: ignore[arg-type]
    assert (costs.executors_moved, costs.workers_restarted) == (1, 1)


def test_plans_that_differ_by_like_slots_have_one_shape() -> None:
    other_port = moved(b3="node-2:6701", c4="node-2:6701")
    other_nodes = moved(a1="node-2:6700", b2="node-2:6701", b3="node-1:6700", c4="node-1:6700")
    different = moved(c4="node-2:6701")
    plans = {"now": NOW, "port": other_port, "nodes": other_nodes, "different": different}
    expected = {
        "now": ("port", "nodes"),
        "port": ("now", "nodes"),
        "nodes": ("now", "port"),
        "different": (),
    }
    assert same_as(plans) == expected  # type: ignore[arg-type]
    slowed = same_as(plans, distinct=("node-1",))  # type: ignore[arg-type]
    assert slowed["now"] == ("port",)


@pytest.mark.parametrize(
    ("grouping", "alike"), [("shuffle", True), ("local-or-shuffle", True), ("fields", False)]
)
def test_executors_that_get_any_tuple_are_alike(grouping: Grouping, alike: bool) -> None:
    """`b[2-2]` and `b[3-3]` change places: they get the same tuples unless a key says which of them."""
    streams = tuple(s.model_copy(update={"grouping": grouping}) for s in CHAIN.streams)
    chain = CHAIN.model_copy(update={"streams": streams})
    assert ("b" in like_executors(chain)) is alike
    places = {e.label: e.worker.label for e in NOW.executors}
    exchanged = places | {"b[2-2]": places["b[3-3]"], "b[3-3]": places["b[2-2]"]}
    shapes = {plan_shape(placed(chain, NODES, p), (), like_executors(chain)) for p in (places, exchanged)}
    assert len(shapes) == (1 if alike else 2)
    elsewhere = places | {"b[2-2]": places["b[3-3]"]}  # both on one node
    assert plan_shape(placed(chain, NODES, elsewhere), (), like_executors(chain)) not in shapes


def test_nodes_with_another_quota_are_not_alike() -> None:
    limited = (NODES[0].model_copy(update={"cpu_quota_cores": 0.5}), NODES[1])
    there = {
        "a[1-1]": "node-1:6700",
        "b[2-2]": "node-1:6700",
        "b[3-3]": "node-1:6700",
        "c[4-4]": "node-1:6700",
    }
    here = dict.fromkeys(there, "node-2:6700")
    assert plan_shape(placed(CHAIN, limited, there)) != plan_shape(placed(CHAIN, limited, here))
    assert plan_shape(placed(CHAIN, NODES, there)) == plan_shape(placed(CHAIN, NODES, here))


def test_a_node_is_overloaded_by_its_quota_and_nodes_of_one_host_by_its_cores() -> None:
    limited = (NODES[0].model_copy(update={"cpu_quota_cores": 0.3}), NODES[1])
    plan = NOW.model_copy(update={"nodes": limited})
    assert overload_notes(plan, SOURCE) == ("node-1 is overloaded: 0.40 of 0.3 cores",)
    shared = tuple(n.model_copy(update={"host": "one", "cores": 1.5}) for n in NODES)
    plan = NOW.model_copy(update={"nodes": shared})
    assert overload_notes(plan, SOURCE) == ("host one is overloaded: 1.60 of 1.5 cores",)


def batched(tuple_bytes: dict[str, float]) -> Observation:
    """The source, and 100 tuples of each named component in batches that were written."""
    rows = [
        {"bucket_end_ms": 1000, "measurement": "batch", "component": name, "task": 1, "worker": ""}
        | {"stream": "default", "peer": "", "field": field, "value": value}
        for name, size in tuple_bytes.items()
        for field, value in (("bytes", 100 * size), ("bytes_tuples", 100.0))
    ]
    plain = SOURCE.metrics.astype(dict.fromkeys(SOURCE.metrics.select_dtypes("category"), str))
    return replace(SOURCE, metrics=pd.concat([plain, pd.DataFrame(rows)], ignore_index=True))


APART = moved(b2="node-2:6700")
"""Only what a sends, 30 tuples a second, leaves a worker or node."""


@pytest.mark.parametrize(
    ("plan", "sizes", "workers_bytes_s", "nodes_bytes_s"),
    [
        (APART, {"a": 40.0}, 30 * 40, 30 * 40),  # what b sends stays, so nobody asks for its size
        # a to b 30, b to c 10 between workers; a to b[3-3] 20 and b[2-2] to c 10 between nodes
        (NOW, {"a": 40.0, "b": 7.0}, 30 * 40 + 10 * 7, 20 * 40 + 10 * 7),
        (NOW, {"a": 40.0}, None, None),
        (NOW, {}, None, None),
        (moved(b2="node-1:6700", b3="node-1:6700", c4="node-1:6700"), {}, 0.0, 0.0),
    ],
)
def test_bytes_cross_where_the_size_of_each_tuple_that_does_was_measured(
    plan: object, sizes: dict[str, float], workers_bytes_s: float | None, nodes_bytes_s: float | None
) -> None:
    costs = cost_plan(plan, batched(sizes) if sizes else SOURCE)  # type: ignore[arg-type]
    assert costs.between_workers_bytes_s == (
        None if workers_bytes_s is None else pytest.approx(workers_bytes_s)
    )
    assert costs.between_nodes_bytes_s == (None if nodes_bytes_s is None else pytest.approx(nodes_bytes_s))


def test_all_is_at_the_rate_that_is_planned_for() -> None:
    """Three messages a second where one was measured: three times the traffic, and the bolts' CPU.

    The spout's worker would use some CPU with nothing to do, which stays.
    """
    asked = replace(batched({"a": 40.0, "b": 7.0}), asked_rate_tps=3.0)
    spout = WORKER_CORES + 3 * (0.2 - WORKER_CORES)
    assert task_cores(asked) == pytest.approx({1: spout, 2: 0.6, 3: 1.2, 4: 2.4})
    costs = cost_plan(NOW, asked)
    assert costs.between_workers_tps == pytest.approx(3 * 40)
    assert costs.between_nodes_tps == pytest.approx(3 * 30)
    assert costs.between_workers_bytes_s == pytest.approx(3 * (30 * 40 + 10 * 7))
    assert costs.between_nodes_bytes_s == pytest.approx(3 * (20 * 40 + 10 * 7))
    # node-1 spout + 0.6 of 2 cores, node-2 3.6 of 2: half their difference from the mean, in points
    assert costs.load_distance_pct == pytest.approx(100 * (3.6 - spout - 0.6) / 4)
    assert overload_notes(NOW, asked) == ("node-2 is overloaded: 3.60 of 2 cores",)


def test_a_worker_below_what_an_idle_one_uses_does_not_grow() -> None:
    idle = observation(NOW, TRAFFIC, CORES | {1: WORKER_CORES / 2})
    assert task_cores(replace(idle, asked_rate_tps=3.0))[1] == pytest.approx(WORKER_CORES / 2)


def test_from_a_source_without_a_rate_nothing_is_known_of_another() -> None:
    nothing = replace(SOURCE, rate_tps=0.0, asked_rate_tps=3.0)
    costs = cost_plan(NOW, nothing)
    assert (costs.between_nodes_tps, costs.load_distance_pct, costs.executors_moved) == (None, None, 0)
    said = "loads are not known: the source step has a rate of 0 messages/s"
    assert overload_notes(NOW, nothing) == (said,)
