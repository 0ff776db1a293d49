"""Even loads by few migrations: the program of Madsen, Zhou and Cao for executors on worker nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from pydantic import model_validator

from harness.plans import PositiveFloat
from harness.schedulers.balancing import BalanceWeights, balance_groups, empty_leaving
from harness.schedulers.executor_groups import BalanceTerms, ExecutorBalancer
from harness.schedulers.groups import GroupMoves, SendingGroups


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

    def terms(self) -> BalanceTerms:
        """Return its terms of balancing."""
        return replace(super().terms(), round_mean=self.round_mean)

    def move_groups(self, groups: SendingGroups) -> GroupMoves:
        """Even out the loads of groups."""
        problem = groups.problem
        balanced = balance_groups(problem, BalanceWeights(self.w1, self.w2))
        allocation = empty_leaving(problem, balanced.allocation)
        possible = f"none below {balanced.bound:.2f} is possible"
        return GroupMoves(allocation, (f"{problem.distance_note(allocation)}, {possible}",))
