"""Graph partitioning on chains, and Storm's resource-aware order worked through its source by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling import by_worker, nodes_of, observation, one_each, placed, topology

from harness.errors import SchedulerDeclined
from harness.schedulers import make_scheduler
from harness.schedulers.conformance import SchedulingQuestion, answer_faults
from harness.schedulers.placement import number_executors
from harness.schedulers.plan_costs import cost_plan
from harness.schedulers.r_storm import order_executors

TWO_CHAINS = topology((("a", "b"), ("b", "c"), ("d", "e"), ("e", "f")))
MIXED = dict(
    zip(
        ["a[1-1]", "b[2-2]", "c[3-3]", "d[4-4]", "e[5-5]", "f[6-6]"],
        ["node-1:6700", "node-2:6700"] * 3,
        strict=True,
    )
)
TRAFFIC = {(1, 2): 50.0, (2, 3): 40.0, (4, 5): 60.0, (5, 6): 30.0}


def test_two_chains_are_cut_apart() -> None:
    nodes = nodes_of([1, 1])
    source = observation(placed(TWO_CHAINS, nodes, MIXED), TRAFFIC, dict.fromkeys(range(1, 7), 0.1))
    proposal = make_scheduler("traffic-cut").propose(TWO_CHAINS, one_each(TWO_CHAINS, 2), nodes, source)
    assert {frozenset(v) for v in by_worker(proposal.plan).values()} == {frozenset("abc"), frozenset("def")}
    costs = cost_plan(proposal.plan, source)
    assert (costs.between_nodes_tps, costs.load_distance_pct) == (0.0, pytest.approx(0))


def test_a_small_node_gets_a_small_share() -> None:
    """Cores 0.5 and 2.5: one of six equal executors is a sixth of the load."""
    nodes = nodes_of([1, 1], cores=[0.5, 2.5])
    source = observation(placed(TWO_CHAINS, nodes, MIXED), TRAFFIC, dict.fromkeys(range(1, 7), 0.1))
    plan = make_scheduler("traffic-cut").propose(TWO_CHAINS, one_each(TWO_CHAINS, 2), nodes, source).plan
    assert [len(v) for _, v in sorted(by_worker(plan).items())] == [1, 5]


@given(
    tasks=st.integers(1, 5),
    slots=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any),
    workers=st.integers(1, 9),
    rates=st.lists(st.integers(0, 50), min_size=25, max_size=25),
    seed=st.integers(0, 9),
)
def test_every_worker_asked_for_has_an_executor(
    tasks: int, slots: list[int], workers: int, rates: list[int], seed: int
) -> None:
    chain = topology((("a", "b"), ("b", "c")), tasks)
    nodes = nodes_of(slots)
    configuration = one_each(chain, workers, acker=1)
    plan = make_scheduler("even").propose(chain, configuration, nodes).plan
    pairs = [(2 + i, 2 + tasks + j) for i in range(tasks) for j in range(tasks)]
    traffic = {pair: float(rates[k]) for k, pair in enumerate(pairs)} | {pairs[0]: 1.0}
    source = observation(plan, traffic, dict.fromkeys(range(1, 2 + 3 * tasks), 0.1))
    asked = {"name": "traffic-cut", "seed": seed}
    proposal = make_scheduler(asked).propose(chain, configuration, nodes, source)
    assert not answer_faults(proposal, SchedulingQuestion(chain, configuration, nodes, source))
    assert len(proposal.plan.workers) == min(workers, sum(slots), 3 * tasks + 1)


CHAIN = topology((("a", "b"), ("b", "c")), {"a": 1, "b": 2, "c": 1})


def test_executors_come_in_storms_order_of_connections() -> None:
    """b has 2 x (1 + 1) connections, a and c 2 each: b first, with its neighbours a and c in turn."""
    executors = number_executors(CHAIN, one_each(CHAIN, 1, acker=2, metrics=1), {})
    ordered = [e.label for e in order_executors(CHAIN, executors)]
    assert ordered == [
        "b[5-5]",
        "a[4-4]",
        "c[7-7]",
        "b[6-6]",
        "__metrics[3-3]",
        "__acker[1-1]",
        "__acker[2-2]",
    ]


def test_workers_fill_by_memory_and_the_number_asked_for_is_ignored() -> None:
    """Seven executors of 128 MB, workers of 768: b, an acker, a, c, b, the consumer; then the other acker."""
    nodes = nodes_of([2, 2], cores=[4, 4])
    proposal = make_scheduler("r-storm").propose(CHAIN, one_each(CHAIN, 4, acker=2, metrics=1), nodes)
    sizes = {
        worker: sum(e.worker.label == worker for e in proposal.plan.executors)
        for worker in by_worker(proposal.plan)
    }
    assert sizes == {"node-1:6700": 6, "node-1:6701": 1}
    assert proposal.notes == ("opens 2 workers: the 4 asked for are ignored",)


def test_the_node_with_most_left_comes_first_then_the_one_in_use_until_it_is_full() -> None:
    """Cores 1 and 2, executors of half a core each: four on node-2, and then a stop at node-1."""
    nodes = nodes_of([2, 2], cores=[1, 2])
    plan = placed(
        CHAIN,
        nodes,
        {"a[1-1]": "node-1:6700", "b[2-2]": "node-1:6700", "b[3-3]": "node-1:6700", "c[4-4]": "node-1:6700"},
    )
    source = observation(plan, TRAFFIC_OF_CHAIN, dict.fromkeys(range(1, 5), 0.5))
    proposal = make_scheduler("r-storm").propose(CHAIN, one_each(CHAIN, 1), nodes, source)
    assert set(by_worker(proposal.plan)) == {"node-2:6700"}
    source = observation(plan, TRAFFIC_OF_CHAIN, dict.fromkeys(range(1, 5), 0.6))
    proposal = make_scheduler("r-storm").propose(CHAIN, one_each(CHAIN, 1), nodes, source)
    # 0.6 each: b, a and c come first and fill node-2; the second b goes to node-1
    assert {e.label: e.worker.node for e in proposal.plan.executors}["b[3-3]"] == "node-1"
    source = observation(plan, TRAFFIC_OF_CHAIN, dict.fromkeys(range(1, 5), 0.9))
    with pytest.raises(SchedulerDeclined, match=r"asks for 90\.0 % of a core and 128 MB"):
        make_scheduler("r-storm").propose(CHAIN, one_each(CHAIN, 1), nodes, source)


TRAFFIC_OF_CHAIN = {(1, 2): 5.0, (1, 3): 5.0, (2, 4): 5.0, (3, 4): 5.0}
