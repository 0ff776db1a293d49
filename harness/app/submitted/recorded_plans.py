"""Plans that a submitted topology ran with: in its folder, and in the Neo4j that the environment names."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from harness.app.stores import given_graph
from harness.app.submitted.folder import KeptPlan, SubmittedFacts, SubmittedTopology
from harness.app.submitted.observing import RowSpan
from harness.backends.neo4j.plan_rows import RanPlan
from harness.plans import PhysicalPlan


class RecordedPlan(NamedTuple):
    """A plan that is not in force any more, and when it was."""

    plan: PhysicalPlan
    span: RowSpan


def keep_in_graph(facts: SubmittedFacts, kept: KeptPlan) -> None:
    """Write a plan, and since when it is in force, into the Neo4j that the environment names, if any."""
    graph = given_graph()
    if graph is not None:
        with graph:
            ran = RanPlan(kept.at_epoch_ms, kept.seen, kept.plan)
            graph.add_ran(ran, facts.topology, facts.cluster.nimbus)


def recorded_plans(topology: SubmittedTopology) -> tuple[RecordedPlan, ...]:
    """Return the plans before the kept one, newest first; those of the graph beside those of the folder.

    Raises
    ------
    ClusterError
        When Neo4j is named and does not answer.
    """
    facts, query_plan = topology.facts, topology.plan.plan.query_plan
    ran = {one.at_epoch_ms: one.plan for one in topology.plans}
    graph = given_graph()
    if graph is not None:
        with graph:
            found = graph.ran(facts.topology, facts.cluster.nimbus, query_plan)
        ran |= {one.at_epoch_ms: one.plan for one in found if one.at_epoch_ms >= facts.at_epoch_ms}
    spans = pairwise(sorted(ran))
    return tuple(RecordedPlan(ran[since], RowSpan(since, until)) for since, until in spans)[::-1]
