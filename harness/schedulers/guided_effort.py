"""The cost of a search by the model, counted by what the model solves: no clock decides on a plan.

The unit is a move of one executor that the neighbourhood answers in a plan of 1,000: 0.3 ms of CPU time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.models.composite.played import PlayedSolution
from harness.models.solver.solve import Solution

LEAST_EFFORT, LEAST_PLACING, EFFORT_PER_EXECUTOR = 7500, 1500, 26
"""Default of the bound: the first, or the second and so much an executor."""
LEAST_SOLUTION, SOLUTIONS_EXECUTORS = 8, 20
"""Moves that a full solution counts as: so many, and one for so many executors."""
FINE_MOVE, MOST_FREQUENCIES = 2, 512
"""Moves that one counts as in small plans, whose percentiles are kept at so many frequencies."""
AROUND = 3
"""Solutions that the neighbourhood of a plan counts as."""
SERVICES = 1300
"""Services that are played in the time of a move."""
PREDICTION = 24
"""Solutions that a prediction with its interval counts as."""


@dataclass
class Effort:
    """A bound on what a search may cost, and what it has cost so far.

    Attributes
    ----------
    most, spent : int
        In moves. What is begun is finished, so a little more than the bound may be spent.
    ended : bool
        True if something was left undone at the bound.
    """

    most: int
    spent: int = 0
    ended: bool = False

    def spend(self, effort: int) -> None:
        """Count what was done."""
        self.spent += effort

    def allows(self) -> bool:
        """Return whether there is some left; to be asked only where there is more to do."""
        if self.spent < self.most:
            return True
        self.ended = True
        return False

    @contextmanager
    def share(self, parts: int) -> Iterator[None]:
        """Keep a block to an equal part of the rest; others get what it leaves.

        Examples
        --------
        >>> effort = Effort(most=10, spent=4)
        >>> with effort.share(3):
        ...     effort.most
        6
        >>> effort.most
        10
        """
        most = self.most
        self.most = self.spent + max(most - self.spent, 0) // parts
        try:
            yield
        finally:
            self.most = most


def most_effort(executors: int) -> int:
    """Return the default of the bound for a plan of so many executors."""
    return max(LEAST_EFFORT, LEAST_PLACING + EFFORT_PER_EXECUTOR * executors)


def move_effort(solution: Solution) -> int:
    """Return the effort of a move around a solved plan; none where all are solved in full."""
    if solution.network.batched:
        return 0
    return FINE_MOVE if solution.frequencies == MOST_FREQUENCIES else 1


def solution_effort(solution: Solution) -> int:
    """Return the effort of a solution; where batches make its latency be played, without that."""
    return LEAST_SOLUTION + solution.flat.first_acker // SOLUTIONS_EXECUTORS


def around_effort(solution: Solution) -> int:
    """Return the effort of what moves around a solved plan need."""
    return solution_effort(solution) if solution.network.batched else AROUND * solution_effort(solution)


def latency_effort(solution: Solution) -> int:
    """Return the effort of a latency that is played; one that is solved counts with the solution."""
    if not isinstance(solution, PlayedSolution):
        return 0
    return math.ceil(solution.services / SERVICES)


def prediction_effort(solution: Solution) -> int:
    """Return the effort of a prediction with its interval."""
    played = 0 if solution.overloaded else latency_effort(solution)
    return PREDICTION * (solution_effort(solution) + played)
