"""Every placement of a small plan: counted by Burnside's lemma, and beside all assignments of slots."""

from __future__ import annotations

from itertools import permutations, product
from math import factorial, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling import by_worker, nodes_of, one_each, topology

from harness.app.conformance import example
from harness.app.planning import check_placements, own_executors
from harness.errors import SchedulerDeclined, UsageError
from harness.experiments.loading import expand_steps, load
from harness.plans import Worker
from harness.schedulers import make_scheduler
from harness.schedulers.conformance import check_scheduler, question_of
from harness.schedulers.numbered import different_placements
from harness.schedulers.plan_costs import plan_shape

CHAIN = topology((("c-spout", "b-bolt"), ("b-bolt", "a-bolt"), ("a-bolt", "d-sink")))


def by_burnside(executors: int, slots: list[int]) -> int:
    """Count orbits: the mean, over all exchanges of slots inside nodes, of the placements that each keeps."""
    kept = 0
    for exchange in product(*(permutations(range(number)) for number in slots)):
        same = sum(slot == to for node in exchange for slot, to in enumerate(node))
        kept += same**executors
    return kept // prod(factorial(number) for number in slots)


def sets_by_node(placed: tuple[Worker, ...]) -> frozenset[tuple[str, frozenset[int]]]:
    """Return which executors share a worker, and on which node: what no exchange of like slots changes."""
    return frozenset((w.node, frozenset(i for i, v in enumerate(placed) if v == w)) for w in placed)


@given(executors=st.integers(1, 4), slots=st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(any))
def test_each_placement_is_there_once(executors: int, slots: list[int]) -> None:
    workers = [Worker(node=n.name, port=p) for n in nodes_of(slots) for p in n.slots]
    every = list(different_placements(executors, workers))
    assert len(every) == by_burnside(executors, slots)
    found = {sets_by_node(placed) for placed in every}
    assert found == {sets_by_node(placed) for placed in product(workers, repeat=executors)}
    assert len(found) == len(every)


def test_storms_own_executors_are_beside_the_spout() -> None:
    """Of 41; where nodes were alike, too, 33: by hand 1 in one worker, 7 + 7 in two and 18 in three."""
    asked = one_each(CHAIN, 3, acker=1)
    plans = [
        make_scheduler({"name": "numbered", "number": n}).propose(CHAIN, asked, nodes_of([2, 2])).plan
        for n in range(41)
    ]
    assert by_worker(plans[0]) == {"node-1:6700": {"__acker", "a-bolt", "b-bolt", "c-spout", "d-sink"}}
    for plan in plans:
        mine = next(c for c in by_worker(plan).values() if "c-spout" in c)
        assert "__acker" in mine
    assert {w.label for plan in plans for w in plan.workers} == {"node-1:6700", "node-2:6700", "node-1:6701"}
    assert {len(plan.workers) for plan in plans} == {1, 2, 3}
    assert len({plan_shape(plan, ["node-1", "node-2"]) for plan in plans}) == 41
    assert len({plan_shape(plan) for plan in plans}) == 33


def test_a_number_beyond_all_is_declined_with_how_many_there_are() -> None:
    asked = one_each(CHAIN, 3)
    with pytest.raises(SchedulerDeclined, match="numbers from 0 to 40, not 41"):
        make_scheduler({"name": "numbered", "number": 41}).propose(CHAIN, asked, nodes_of([2, 2]))


@pytest.mark.parametrize(
    ("keys", "words"),
    [({}, "the key 'number' is missing"), ({"number": -1}, "number"), ({"number": 10_000}, "number")],
)
def test_a_number_that_cannot_be_is_one_line(keys: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_scheduler({"name": "numbered", **keys})


def test_it_conforms() -> None:
    scheduler, question = make_scheduler({"name": "numbered", "number": 3}), question_of(example().source)
    assert [o for o in check_scheduler(scheduler, question) if o.problem] == []


def test_the_experiment_measures_each_of_41_placements() -> None:
    """(3 ** 4 + 1) / 2: four executors, two slots on the first node and one on the second."""
    experiment = load("exhaustive-placements")
    check_placements(experiment)
    nodes = experiment.cluster.worker_nodes()
    numbered = [s for s in expand_steps(experiment) if s.placed_by == "numbered"]
    plans = []
    for step in numbered:
        asked = experiment.steps.plan[step.spec].scheduler
        assert asked is not None
        configuration = own_executors(experiment, step.configuration)
        proposal = make_scheduler(asked).propose(experiment.topology.query_plan(), configuration, nodes)
        plans.append(proposal.plan)
    assert len(plans) == by_burnside(4, [2, 1]) == 41
    assert len({plan_shape(plan, [n.name for n in nodes]) for plan in plans}) == 41
    assert {len(plan.executors) for plan in plans} == {4 + 2}  # an acker and a metrics consumer
