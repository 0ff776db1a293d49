"""Storm's own scheduler against Storm's documented example and simulated plans, and placements drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling import evenly_placed, nodes_of, one_each, topology, without_used

from harness.app.simulated.placing import place, worker_nodes
from harness.errors import SchedulerDeclined
from harness.plans import TopologyConfiguration, Worker, WorkerNode
from harness.runs import Run
from harness.schedulers import make_scheduler
from harness.schedulers.conformance import SchedulingQuestion, answer_faults
from harness.schedulers.placement import sort_slots
from harness.schedulers.plan_costs import plan_shape

RUNS = Path(__file__).resolve().parents[2] / "reports" / "runs"
CHAIN = (("a", "b"), ("b", "c"))


def test_slots_are_sorted_as_in_the_comment_of_storms_source() -> None:
    """EvenScheduler.sortSlots: supervisor3 has four slots, supervisor2 three, supervisor1 two."""

    def node(name: str, ports: tuple[int, ...]) -> WorkerNode:
        return WorkerNode(name=name, address="", host=name, cores=1, slots=ports)

    nodes = [
        node("supervisor1", (6700, 6701)),
        node("supervisor2", (6700, 6701, 6702)),
        node("supervisor3", (6700, 6703, 6702, 6701)),
    ]
    assert [w.label for w in sort_slots(nodes)] == [
        "supervisor3:6700",
        "supervisor2:6700",
        "supervisor1:6700",
        "supervisor3:6701",
        "supervisor2:6701",
        "supervisor1:6701",
        "supervisor3:6702",
        "supervisor2:6702",
        "supervisor3:6703",
    ]


@given(
    tasks=st.dictionaries(st.sampled_from("abc"), st.integers(1, 9), min_size=3),
    counts=st.dictionaries(st.sampled_from("abc"), st.integers(1, 9), min_size=3),
    ackers=st.integers(0, 4),
    nodes=st.integers(1, 5),
    slots=st.integers(1, 4),
    workers=st.integers(1, 12),
)
def test_even_is_where_the_simulator_puts_executors(
    tasks: dict[str, int], counts: dict[str, int], ackers: int, nodes: int, slots: int, workers: int
) -> None:
    query_plan = topology(CHAIN, tasks)
    own = {"__acker": ackers} if ackers else {}
    executors = {name: min(count, tasks[name]) for name, count in counts.items()} | own
    configuration = TopologyConfiguration(executors=executors, workers=workers)
    where = worker_nodes(nodes, slots, 2.0)
    expected = place(query_plan, configuration, own, where)
    assert evenly_placed(query_plan, configuration, own, where) == expected


@given(
    slots=st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any),
    tasks=st.integers(1, 12),
    workers=st.integers(1, 12),
    seed=st.integers(0, 99),
    name=st.sampled_from(["even", "random"]),
    data=st.data(),
)
def test_every_executor_gets_a_free_slot_and_workers_are_as_asked(
    slots: list[int], tasks: int, workers: int, seed: int, name: str, data: st.DataObject
) -> None:
    every = nodes_of(slots)
    all_slots = [Worker(node=n.name, port=p) for n in every for p in n.slots]
    used = data.draw(st.lists(st.sampled_from(all_slots), unique=True, max_size=len(all_slots) - 1))
    nodes = without_used(every, used)
    query_plan = topology(CHAIN, tasks)
    configuration = one_each(query_plan, workers, acker=2)
    keys = {"name": name} | ({"seed": seed} if name == "random" else {})
    proposal = make_scheduler(keys).propose(query_plan, configuration, nodes)
    assert not answer_faults(proposal, SchedulingQuestion(query_plan, configuration, nodes, None))
    free = len(all_slots) - len(used)
    assert len(proposal.plan.workers) == min(workers, free, 3 * tasks + 2)
    assert bool(proposal.notes) == (workers > free)
    if name == "even":
        sizes = Counter(e.worker for e in proposal.plan.executors).values()
        assert max(sizes) - min(sizes) <= 1


def test_no_free_slot_is_declined() -> None:
    query_plan = topology(CHAIN)
    with pytest.raises(SchedulerDeclined, match="no slot is free"):
        make_scheduler("even").propose(query_plan, one_each(query_plan, 1), nodes_of([0, 0]))


def test_another_seed_draws_another_plan() -> None:
    query_plan = topology(CHAIN, 6)
    plans = {
        make_scheduler({"name": "random", "seed": seed})
        .propose(query_plan, one_each(query_plan, 4), nodes_of([3, 3]))
        .plan.model_dump_json()
        for seed in range(5)
    }
    assert len(plans) == 5


@pytest.mark.deep
def test_even_is_where_nimbus_put_executors_in_every_archived_step() -> None:
    """Steps that Storm's own scheduler placed, which knows nothing of quotas: nodes are alike to it."""
    compared = 0
    for path in sorted(RUNS.glob("*/*")):
        run = Run(path)
        for step in run.finished_steps:
            record = run.plan(step)
            if record.placement is None:
                nodes = tuple(n.model_copy(update={"cpu_quota_cores": None}) for n in record.start.nodes)
                plan = record.start.model_copy(update={"nodes": nodes})
                proposed = make_scheduler("even").propose(plan.query_plan, plan.configuration(), nodes)
                assert plan_shape(proposed.plan) == plan_shape(plan), (path, step)
                compared += 1
    assert compared > 100
