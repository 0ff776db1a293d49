"""Even loads by few migrations: the program of Madsen, Zhou and Cao for executors on worker nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from pydantic import model_validator

from harness.plans import PositiveFloat, QueryPlan, TopologyConfiguration, WorkerNode
from harness.protocols import Observation, Proposal
from harness.schedulers.balancing import BalanceWeights, balance_groups, empty_leaving
from harness.schedulers.executor_groups import (
    BalanceTerms,
    ExecutorBalancer,
    group_executors,
    plan_of_allocation,
)
from harness.schedulers.groups import GroupMoves, GroupProblem, SendingGroups
from harness.schedulers.loads import overload_notes


class BalanceScheduler(ExecutorBalancer):
    """Executors move between worker nodes until loads are even, at most so many as the budget allows.

    *Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine*, III.B.1. Groups of keys
    are executors here, and each migration costs 1.

    Attributes
    ----------
    w1, w2 : float
        Weights of the load distance and of tightening both bounds; w1 > 2 w2.
    round_mean : bool
        Whether the mean load is rounded up to whole points, as in the paper.

    Notes
    -----
    Traffic is not looked at.
    """

    w1: PositiveFloat = 100.0
    w2: PositiveFloat = 1.0
    round_mean: bool = False

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not self.w1 > 2 * self.w2:
            raise ValueError(f"w1 {self.w1:g} must be more than twice w2 {self.w2:g}, or there is no minimum")
        return self

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Even out the loads that the source's metrics say.

        Raises
        ------
        SchedulerDeclined
            Without a source or its loads, or where no allocation satisfies the constraints.
        """
        groups = group_executors(query_plan, configuration, nodes, source, self.terms())
        allocation, said = self._even_out(groups.problem)
        plan, notes = plan_of_allocation(groups, query_plan, nodes, allocation, configuration.workers)
        notes += said
        for at, node in enumerate(groups.nodes):
            left = int((allocation == at).sum())
            if node.name in self.leaving and left:
                notes += (f"{node.name} is to leave and still has {left} executors",)
        return Proposal(plan, notes + overload_notes(plan, source))

    def terms(self) -> BalanceTerms:
        """Return its terms of balancing."""
        return replace(super().terms(), round_mean=self.round_mean)

    def move_groups(self, groups: SendingGroups) -> GroupMoves:
        """Even out the loads of groups.

        Raises
        ------
        SchedulerDeclined
            Where no allocation satisfies the constraints.
        """
        return self._even_out(groups.problem)

    def _even_out(self, problem: GroupProblem) -> GroupMoves:
        balanced = balance_groups(problem, BalanceWeights(self.w1, self.w2))
        allocation = empty_leaving(problem, balanced.allocation)
        before, after = (problem.load_distance(a) for a in (problem.allocation, allocation))
        possible = f"none below {balanced.bound:.2f} is possible"
        return GroupMoves(allocation, (f"load distance {before:.2f} -> {after:.2f} points, {possible}",))
