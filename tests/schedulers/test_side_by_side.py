"""Proposals beside each other at an asked rate, and answers that are none: worked out by hand on a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from scheduling import nodes_of, observation, placed, topology

import harness
from harness.models.composite.model import composite
from harness.plans import PhysicalPlan, Worker
from harness.protocols import Observation, Proposal
from harness.schedulers import make_scheduler
from harness.schedulers.loads import overload_notes
from harness.schedulers.side_by_side import PlacementTable, SchedulerProposal
from harness.schemas import Measure

CHAIN = topology((("a", "b"), ("b", "c")), {"a": 1, "b": 2, "c": 1})
NODES = nodes_of([2, 2])
PLACES = {
    "a[1-1]": "node-1:6700",
    "b[2-2]": "node-1:6701",
    "b[3-3]": "node-2:6700",
    "c[4-4]": "node-2:6700",
}
NOW = placed(CHAIN, NODES, PLACES)
SOURCE = observation(
    NOW, {(1, 2): 10.0, (1, 3): 20.0, (2, 4): 10.0, (3, 4): 40.0}, {1: 0.2, 2: 0.2, 3: 0.4, 4: 0.8}
)
"""At one message a second: 30 tuples a second go from node to node, and node-2 uses 1.2 of 2 cores."""
RUNS = Path(__file__).resolve().parents[2] / "reports" / "runs"


@dataclass(frozen=True)
class Answering:
    """Answers as it is told, whatever it is asked."""

    answer: Callable[[PhysicalPlan], object]

    def propose(self, query_plan, configuration, nodes, source=None):  # type: ignore[no-untyped-def]
        return self.answer(source.plan)


class Choosing(Answering):
    """The same, of a scheduler that may choose the counts."""

    def within(self, rate_tps, max_executors, max_workers):  # type: ignore[no-untyped-def]
        return self


class Staying:
    """The plan in force, with a line for each node that has too little CPU for it."""

    def propose(self, query_plan, configuration, nodes, source=None):  # type: ignore[no-untyped-def]
        return Proposal(source.plan, overload_notes(source.plan, source))


def table(rate_tps: float = 1.0) -> PlacementTable:
    return PlacementTable(SOURCE, NOW.configuration(), NODES, rate_tps)


def asked(scheduler: object, rate_tps: float = 1.0) -> SchedulerProposal:
    (proposal,) = table(rate_tps).propose({"own": scheduler})  # type: ignore[dict-item]
    return proposal


def test_costs_and_notes_are_at_the_asked_rate() -> None:
    """Bolts' CPU at 3 messages a second is 3 times 1.2 cores on node-2, which has 2."""
    for proposal in (asked(Staying(), 3.0), table(3.0).as_measured()):
        assert proposal.costs is not None
        assert proposal.costs.between_nodes_tps == pytest.approx(90.0)
    assert "node-2 is overloaded: 3.60 of 2 cores" in asked(Staying(), 3.0).reason
    assert "overloaded" not in asked(Staying(), 1.0).reason


def test_requests_of_cpu_are_at_the_asked_rate() -> None:
    """c uses 80 % of a core; at 3 messages a second it asks for more than any node has."""
    assert asked(make_scheduler("r-storm"), 1.0).plan is not None
    declined = asked(make_scheduler("r-storm"), 3.0)
    assert declined.status == "declined"
    assert declined.reason.startswith("c[4-4] asks for 240.0 % of a core")


def moved(to: str, port: int) -> Callable[[PhysicalPlan], object]:
    def answer(plan: PhysicalPlan) -> object:
        there = [e.model_copy(update={"worker": Worker(node=to, port=port)}) for e in plan.executors[:1]]
        return Proposal(plan.model_copy(update={"executors": (*there, *plan.executors[1:])}))

    return answer


def with_places(places: Mapping[str, str]) -> Callable[[PhysicalPlan], object]:
    return lambda _: Proposal(placed(CHAIN, NODES, places))


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (lambda _: None, "returned a NoneType, not a Proposal with a plan"),
        (lambda plan: plan, "returned a PhysicalPlan, not a Proposal with a plan"),
        (lambda _: Proposal(None), "returned a Proposal, not a Proposal with a plan"),  # type: ignore[arg-type]
        (with_places({}), "no executor is placed"),
        (with_places({k: v for k, v in PLACES.items() if k != "b[2-2]"}), "is not placed (1 are missing)"),
        (lambda p: Proposal(p.model_copy(update={"executors": 2 * p.executors})), "placed twice"),
        (moved("node-9", 6700), "worker node-9:6700 is in no slot that exists"),
        (moved("node-1", 1), "worker node-1:1 is in no slot that exists"),
        (lambda p: Proposal(p.model_copy(update={"nodes": NODES[:1]})), "worker nodes are not those of the"),
        (lambda p: Proposal(p, "a note"), "a note is empty or no text"),
        (lambda p: Proposal(p, ("",)), "a note is empty or no text"),
    ],
)
def test_an_answer_that_is_none_is_declined_and_named(
    answer: Callable[[PhysicalPlan], object], fault: str
) -> None:
    for scheduler in (Answering(answer), Choosing(answer)):
        proposal = asked(scheduler)
        assert (proposal.status, proposal.plan) == ("declined", None)
        assert proposal.reason.startswith("it answered nonsense: ")
        assert fault in proposal.reason


FEWER = {k: v for k, v in PLACES.items() if k[0] != "b"}


def test_who_chooses_the_counts_is_held_to_its_own() -> None:
    """Both tasks of b in one executor: what was asked for has two."""
    one = with_places(FEWER | {"b[2-3]": "node-1:6701"})
    assert asked(Answering(one)).reason == (
        "it answered nonsense: executor b[2-2] is not placed (2 are missing)"
    )
    assert asked(Choosing(one)).plan is not None
    lost = Choosing(with_places(FEWER | {"b[2-2]": "node-1:6701"}))
    assert asked(lost).reason == "it answered nonsense: executor b[2-3] is not placed (1 are missing)"
    assert asked(Choosing(with_places(FEWER))).reason == (
        "it answered nonsense: its counts cannot be had: the configuration says nothing of executors of b"
    )


def test_one_scheduler_that_answers_nonsense_leaves_the_others_theirs() -> None:
    nonsense, even = table().propose(
        {"own": Answering(lambda _: Proposal(None)), "even": make_scheduler("even")}  # type: ignore[arg-type]
    )
    assert (nonsense.status, even.plan is None) == ("declined", False)


def archived(name: str, step: int) -> Observation:
    return harness.load_run(min((RUNS / name).iterdir())).observation(step)


def at_own_rate(source: Observation) -> PlacementTable:
    return PlacementTable(source, source.plan.configuration(), source.plan.nodes, source.rate_tps)


def test_a_node_is_full_where_the_model_predicts_its_whole_quota() -> None:
    """Archived: node-1 may use 0.3 cores. At 80/s it uses 0.171, so in proportion it is full at 140/s."""
    source = archived("schedulers-unequal", 0)
    limits = {(limit.subject, limit.resource): limit for limit in at_own_rate(source).as_measured().limits}
    node = limits["node-1", "cpu"]
    assert node.max_rate_tps is not None
    assert node.max_rate_tps > 1.4 * source.rate_tps / node.utilisation
    predicted = composite.prepare(source).cpu(source.plan, source.settings, node.max_rate_tps).estimates
    (cores,) = (e.value for e in predicted if (e.measure, e.subject) == (Measure.NODE_CPU, "node-1"))
    assert cores == pytest.approx(source.plan.node_names["node-1"].cpu_quota_cores, rel=0.1)


def test_plans_are_not_the_same_across_links_that_were_measured() -> None:
    """Archived: four nodes that a plan does not tell apart, two and two with a slow way between them."""
    source = archived("schedulers-traffic", 0)
    names = [n.name for n in source.plan.nodes]
    turned = dict(zip(names, names[1:] + names[:1], strict=True))
    plan = source.plan.model_copy(
        update={
            "executors": tuple(
                e.model_copy(update={"worker": Worker(node=turned[e.worker.node], port=e.worker.port)})
                for e in source.plan.executors
            )
        }
    )
    two = {"now": Answering(Proposal), "turned": Answering(lambda _: Proposal(plan))}
    unmeasured = replace(source, metrics=source.metrics[source.metrics["measurement"] != "round_trip"])
    for seen, alike in ((source, [(), ()]), (unmeasured, [("turned",), ("now",)])):
        proposals = at_own_rate(seen).propose(two)
        assert [p.status for p in proposals] == ["ok", "ok"], [p.reason for p in proposals]
        assert [p.same_as for p in proposals] == alike
