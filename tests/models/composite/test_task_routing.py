"""Routing per task for every grouping; expected numbers follow from Storm 2.8.3's sources, as tests say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Truth, component, deploy, fields_to_fields, observation, stream

from harness.errors import ModelDeclined
from harness.models.composite.source.evidence import read
from harness.models.composite.task_routing import (
    is_load_aware,
    keyed_routing,
    places,
    round_robin,
    task_routing,
)
from harness.models.contract.layout import lay_out
from harness.plans import Executor, PhysicalPlan, QueryPlan, Worker
from harness.protocols import Settings

ROUND_ROBIN = Settings({"topology.disable.loadaware.messaging": True}, "2.8.3")
LOAD_AWARE = Settings({"topology.disable.loadaware.messaging": False}, "2.8.3")


def two_components(grouping: str, tasks: int = 8) -> QueryPlan:
    return QueryPlan(
        name="two",
        components=(component("s", tasks), component("t", tasks)),
        streams=(stream("s", "t", grouping),),
    )


def routed(
    plan: PhysicalPlan, settings: Settings, keyed: np.ndarray | None = None, rate: np.ndarray | None = None
) -> np.ndarray:
    layout = lay_out(plan)
    only = plan.query_plan.streams[0]
    known = {} if keyed is None else {only: keyed}
    rate = np.ones(layout.tasks[only.source].size) if rate is None else rate
    return task_routing(layout, places(layout), only, known, settings, rate)


def placed(query_plan: QueryPlan, where: dict[str, list[tuple[int, Worker]]]) -> PhysicalPlan:
    """Executors by component: how many tasks, in which worker."""
    template = deploy(query_plan, 1)
    executors, first = [], 1
    for name, mine in where.items():
        for size, worker in mine:
            executors.append(
                Executor(component=name, first_task=first, last_task=first + size - 1, worker=worker)
            )
            first += size
    return PhysicalPlan(query_plan=query_plan, nodes=template.nodes, executors=tuple(executors))


A1, A2, B1 = (Worker(node=n, port=p) for n, p in (("node-1", 6700), ("node-1", 6701), ("node-2", 6710)))


@given(
    st.sampled_from(["shuffle", "local-or-shuffle", "none", "global", "fields", "partial-key"]),
    st.integers(1, 8),
    st.integers(1, 8),
    st.booleans(),
)
@settings(deadline=None)
def test_rows_add_to_one(grouping: str, sources: int, targets: int, load_aware: bool) -> None:
    plan = deploy(two_components(grouping), {"s": sources, "t": targets})
    keyed = np.full((8, 8), 1 / 8)
    found = routed(plan, LOAD_AWARE if load_aware else ROUND_ROBIN, keyed, np.arange(8.0))
    assert found.shape == (sources, 8)
    assert found.sum(axis=1) == pytest.approx(np.ones(sources))
    assert (found >= 0).all()


def test_round_robin_reaches_every_task_alike_wherever_it_is() -> None:
    plan = deploy(two_components("shuffle"), {"s": 2, "t": 3})
    assert routed(plan, ROUND_ROBIN) == pytest.approx(np.full((2, 8), 1 / 8))
    layout = lay_out(plan)
    assert round_robin(layout, ROUND_ROBIN) == frozenset(plan.query_plan.streams)
    assert not round_robin(layout, LOAD_AWARE)


def test_load_aware_shuffle_stays_in_the_worker_while_it_can() -> None:
    # One task an executor: loads are queues, all but 0, so the scope stays the worker (LocalityScope
    # WORKER_LOCAL); the sender on the other node has no target in its worker or node and takes everything.
    plan = placed(two_components("shuffle", 2), {"s": [(1, A1), (1, B1)], "t": [(1, A1), (1, A2)]})
    assert routed(plan, LOAD_AWARE).tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_load_aware_shuffle_takes_the_node_before_everything() -> None:
    plan = placed(two_components("shuffle", 2), {"s": [(2, A1)], "t": [(1, A2), (1, B1)]})
    assert routed(plan, LOAD_AWARE).tolist() == [[1.0, 0.0]]


def test_load_aware_shuffle_starves_all_but_first_tasks() -> None:
    # Four tasks an executor: three of four unreported, mean load 0.75, below 0.8: stays local.
    plan = placed(two_components("shuffle"), {"s": [(8, A1)], "t": [(4, A1), (4, B1)]})
    assert routed(plan, LOAD_AWARE).tolist() == [[1, 0, 0, 0, 0, 0, 0, 0]]


def test_load_aware_shuffle_goes_everywhere_with_six_tasks_an_executor() -> None:
    # (6 - 1) / 6 = 0.83 is above topology.localityaware.higher.bound, in every scope.
    plan = placed(two_components("shuffle", 12), {"s": [(12, A1)], "t": [(6, A1), (6, B1)]})
    expected = np.zeros(12)
    expected[[0, 6]] = 0.5
    assert routed(plan, LOAD_AWARE).tolist() == [expected.tolist()]


def test_local_or_shuffle_keeps_to_the_senders_worker_where_it_has_targets() -> None:
    plan = placed(two_components("local-or-shuffle", 4), {"s": [(2, A1), (2, B1)], "t": [(2, A1), (2, A2)]})
    assert routed(plan, ROUND_ROBIN).tolist() == [[0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]]
    assert routed(plan, LOAD_AWARE)[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_all_none_and_global() -> None:
    plans = {g: deploy(two_components(g, 4), {"s": 1, "t": 2}) for g in ("all", "none", "global")}
    assert routed(plans["all"], ROUND_ROBIN).tolist() == [[1, 1, 1, 1]]
    assert routed(plans["none"], ROUND_ROBIN).tolist() == [[0.25] * 4]
    assert routed(plans["global"], ROUND_ROBIN).tolist() == [[1, 0, 0, 0]]


def test_fields_grouping_keeps_tasks_shares_whatever_the_executors() -> None:
    query_plan = fields_to_fields(4)
    truth = Truth.random(query_plan, 4000.0, 3)
    keys = truth.keys[query_plan.streams[1]][0]
    evidence = read(observation(deploy(query_plan, 2), truth))
    keyed = keyed_routing(evidence, np.ones(evidence.blocks))
    for executors in (1, 2, 4):
        layout = lay_out(deploy(query_plan, executors))
        found = task_routing(layout, places(layout), query_plan.streams[1], keyed, ROUND_ROBIN, np.ones(4))
        assert found == pytest.approx(np.tile(keys, (executors, 1)))


def test_keys_that_depend_on_keys_are_regrouped_by_task() -> None:
    # Two source tasks send everything to one target task each: together half and half, apart all or nothing.
    keyed, rate = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([300.0, 100.0])
    plan = two_components("fields", 2)
    assert routed(deploy(plan, {"s": 1, "t": 2}), ROUND_ROBIN, keyed, rate).tolist() == [[0.75, 0.25]]
    assert routed(deploy(plan, {"s": 2, "t": 2}), ROUND_ROBIN, keyed, rate).tolist() == keyed.tolist()


def test_a_custom_grouping_to_several_tasks_is_declined() -> None:
    query_plan = two_components("custom", 2)
    truth = Truth.random(query_plan, 20.0, 1)
    truth.keys[query_plan.streams[0]] = np.ones((2, 2))
    evidence = read(observation(deploy(query_plan, 1), truth))
    with pytest.raises(ModelDeclined, match=r"custom grouping of s->t:default sends 2\.00 tuples"):
        keyed_routing(evidence, np.ones(evidence.blocks))


def test_load_awareness_is_storms_default_and_must_be_a_truth_value() -> None:
    assert is_load_aware(Settings({}, "2.8.3"))
    with pytest.raises(ModelDeclined, match="'no', neither true nor false"):
        is_load_aware(Settings({"topology.disable.loadaware.messaging": "no"}, "2.8.3"))
