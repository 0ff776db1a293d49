"""Placements drawn at random: what a scheduler has to beat."""

from __future__ import annotations

import numpy as np

from harness.plans import Frozen, QueryPlan, TopologyConfiguration, WorkerNode
from harness.protocols import Observation, Proposal
from harness.schedulers.loads import overload_notes
from harness.schedulers.placement import choose_slots, join_slots, sort_slots, unplaced_executors


class RandomScheduler(Frozen):
    """Slots and executors drawn at random, every worker with at least one executor while there are enough.

    Attributes
    ----------
    seed : int
        The same question and seed have the same answer.
    """

    seed: int = 0

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Draw as many free slots as workers are asked for, and a slot for each executor."""
        executors = unplaced_executors(query_plan, configuration, source)
        first, notes = choose_slots(nodes, configuration.workers)
        rng = np.random.default_rng(self.seed)
        free = sort_slots(nodes)
        slots = [free[i] for i in rng.choice(len(free), size=len(first), replace=False)]
        number = len(executors)
        drawn = np.concatenate([np.arange(len(slots))[:number], rng.integers(len(slots), size=number)])[
            :number
        ]
        drawn = rng.permutation(drawn)
        plan = join_slots(query_plan, nodes, executors, [slots[i] for i in drawn])
        return Proposal(plan, notes + overload_notes(plan, source))
