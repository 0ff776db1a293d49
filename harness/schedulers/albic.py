"""Even loads and little traffic between nodes by few migrations: ALBIC for executors on worker nodes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from harness.plans import PositiveFloat
from harness.schedulers.balancing import empty_leaving
from harness.schedulers.collocation import CollocationLimits, collocate_groups, collocation_note
from harness.schedulers.executor_groups import ExecutorBalancer
from harness.schedulers.groups import GroupMoves, SendingGroups


class AlbicScheduler(ExecutorBalancer):
    """Executors that talk much come to one node, a pair at each invocation, while loads stay even.

    *Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine*, III.B.2. Groups of keys
    are executors here, and each migration costs 1.

    Attributes
    ----------
    score_factor : float
        sF: a pair counts if it has more than sF times the sender's mean traffic to a downstream executor.
    max_partition_load : float, optional
        maxPL: most load of executors that move as one, in points of a node. None: half of the mean load.
    max_load_distance : float
        maxLD: load distance in points beyond which what moves as one is made smaller.
    seed : int

    Notes
    -----
    The paper gives no values.
    """

    by_traffic: ClassVar[bool] = True
    score_factor: Annotated[float, Field(ge=0)] = 1.5
    max_partition_load: PositiveFloat | None = None
    max_load_distance: PositiveFloat = 10.0
    seed: int = 0

    def move_groups(self, groups: SendingGroups) -> GroupMoves:
        """Bring one more pair of groups together, and balance."""
        problem, traffic_tps = groups.problem, groups.traffic_tps
        limits = CollocationLimits(
            score_factor=self.score_factor,
            max_partition_load=self.max_partition_load or problem.mean / 2,
            max_load_distance=self.max_load_distance,
            seed=self.seed,
        )
        outcome = collocate_groups(problem, traffic_tps, groups.downstream, limits)
        allocation = empty_leaving(problem, outcome.allocation)
        pair = "no pair" if outcome.pair is None else " and ".join(groups.labels[g] for g in outcome.pair)
        after = problem.load_distance(allocation)
        limit = self.max_load_distance
        above = f", above the {limit:g} asked for" if after > limit else ""
        notes = (
            f"brings together {pair}: {collocation_note(groups, allocation)}",
            f"{problem.distance_note(allocation)}{above}",
        )
        return GroupMoves(allocation, notes)
