"""Local search for even loads: the narrowest band around the mean that moves within the budget reach.

For a band, groups are moved, best first, until every node's load lies in it or the budget is spent; then
groups are swapped. The band is narrowed by bisection. From the best allocation, annealing goes on with
single steps, which finds what a tight budget still allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.schedulers.band_annealing import Cooling, anneal
from harness.schedulers.band_moves import TINY, Balancing, LoadBand, Placed, fill_band
from harness.schedulers.groups import GroupProblem, distance_bound
from harness.schedulers.loads import IntArray


@dataclass(frozen=True)
class SearchEffort:
    """Limits of a search, in steps: the same question has the same answer on any machine.

    Attributes
    ----------
    bands : int
        Bands that are tried by bisection.
    swaps : int
        Swaps of two groups, in each band.
    steps : int
        Steps of one annealing.
    rounds : int
        Annealings, each from the best allocation so far.
    seed : int
        Of the annealings.
    """

    bands: int = 14
    swaps: int = 40
    steps: int = 1_000_000
    rounds: int = 8
    seed: int = 0


NARROWER = 0.9
"""Width of the band that annealing goes for, over the best load distance so far."""
HEAT = (0.3, 0.05)
"""First temperature of the annealings in turn, over the load distance that they start from."""
NEAR = 1e-4
"""Share of the mean by which a load distance may be above its bound to be left as it is."""


def search_allocation(problem: GroupProblem, effort: SearchEffort | None = None) -> IntArray:
    """Return an allocation within the budget, with a small load distance; at worst the one in force."""
    effort = effort or SearchEffort()
    bound = distance_bound(problem)
    best = _bisect(problem, bound, effort)
    budget = problem.max_migration_cost * (1 + TINY)
    for turn in range(effort.rounds):
        distance = problem.load_distance(best)
        if distance <= bound + NEAR * problem.mean:
            break
        heat = HEAT[turn % len(HEAT)] * distance
        cooling = Cooling(effort.steps, heat, NARROWER, effort.seed * effort.rounds + turn)
        best = anneal(_balancing(problem), best, problem.mean, budget, cooling)
    return best


def _balancing(problem: GroupProblem) -> Balancing:
    return Balancing(problem.loads, problem.costs, problem.allocation, problem.capacity, ~problem.leaving)


def _bisect(problem: GroupProblem, bound: float, effort: SearchEffort) -> IntArray:
    best = problem.allocation.copy()
    low, high = bound, problem.load_distance(best)
    for step in range(effort.bands):
        if high - low <= TINY * max(problem.mean, 1.0):
            break
        # A narrow band is easier to come close to than to reach: a quarter of the way first, then the middle.
        width = low + (high - low) * (0.25 if step % 2 == 0 else 0.5)
        place = problem.allocation.copy()
        band = LoadBand(
            np.where(problem.leaving, 0.0, problem.mean + width),
            np.where(problem.leaving, -np.inf, problem.mean - width),
            np.empty(problem.capacity.size),
        )
        placed = Placed(place, problem.node_loads(place))
        fill_band(_balancing(problem), placed, band, problem.max_migration_cost * (1 + TINY), effort.swaps)
        distance = problem.load_distance(place)
        if distance < high:
            best, high = place, distance
        if distance > width:
            low = max(low, width)
    return best
