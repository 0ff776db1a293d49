"""Distance of a recorded plan from a proposal: executors, workers, connections, rate.

The thesis would predict a proposal from "the most similar recorded topology tuple flow plan" (C.4.1), and
leaves open how similar two plans are. Here the distance is

    d = sum over c of abs(log2(p_c / q_c)) + abs(log2(W / V)) + abs(log2(R / Q)) + s,

with executors p_c and q_c of component c, workers W and V, and rates R and Q, proposed and recorded. The
share s is that of connections between tasks which are of another kind, the mean over streams. The kinds are
within a worker, between workers of a node, and between nodes (the types of C.4.2). Thus a component with
twice the executors, twice the workers, twice the rate, and all connections of another kind are each as far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from harness.plans import PhysicalPlan


@dataclass(frozen=True)
class PlanWanted:
    """The part of a proposal that is known before anything is predicted; nothing of it has to be.

    Attributes
    ----------
    workers : int, optional
    placed : PhysicalPlan, optional
        With the same query plan as what is recorded. It says executors and workers by itself.
    rate_tps : float, optional
        Messages a second.
    """

    workers: int | None = None
    placed: PhysicalPlan | None = None
    rate_tps: float | None = None


@dataclass(frozen=True)
class PlanDistance:
    """Distance of a recorded plan from a proposal, by parts; 0 where nothing else is wanted.

    Attributes
    ----------
    executors : float
        Doublings, over all components.
    workers, rate : float
        Doublings.
    connections : float
        Share of another kind, from 0 to 1.
    """

    executors: float = 0.0
    workers: float = 0.0
    connections: float = 0.0
    rate: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all.

        Examples
        --------
        >>> PlanDistance(executors=1.0, rate=0.5).total
        1.5
        """
        return math.fsum(getattr(self, part.name) for part in fields(self))

    @property
    def text(self) -> str:
        """The distance in words, with the parts that are not 0.

        Examples
        --------
        >>> PlanDistance(executors=1.0, rate=0.5).text
        'distance 1.50: executors 1.00, rate 0.50'
        >>> PlanDistance().text
        'distance 0'
        """
        parts = [f"{p.name} {v:.2f}" for p in fields(self) if (v := getattr(self, p.name)) > 0]
        return f"distance {self.total:.2f}: {', '.join(parts)}" if parts else "distance 0"


def plan_distance(wanted: PlanWanted, recorded: PhysicalPlan, rate_tps: float | None = None) -> PlanDistance:
    """Return how far a recorded plan is from what is wanted.

    Parameters
    ----------
    wanted : PlanWanted
    recorded : PhysicalPlan
    rate_tps : float, optional
        At which it was recorded; None where nobody knows, which is no distance.
    """
    placed, counts = wanted.placed, recorded.configuration()
    own = {component.name for component in recorded.query_plan.components}
    executors = {} if placed is None else placed.configuration().executors
    workers = wanted.workers if placed is None else len(placed.workers)
    return PlanDistance(
        executors=math.fsum(_doublings(n, counts.executors[c]) for c, n in executors.items() if c in own),
        workers=0.0 if workers is None else _doublings(workers, counts.workers),
        connections=0.0 if placed is None else _changed_connections(placed, recorded),
        rate=0.0 if wanted.rate_tps is None or rate_tps is None else _doublings(wanted.rate_tps, rate_tps),
    )


def nearest(distances: Sequence[PlanDistance]) -> int:
    """Return the position of the smallest distance, the first of several that are equal.

    Examples
    --------
    >>> nearest([PlanDistance(rate=1.0), PlanDistance(), PlanDistance()])
    1
    """
    return min(range(len(distances)), key=lambda at: distances[at].total)


def _doublings(one: float, other: float) -> float:
    return abs(math.log2(one / other)) if one > 0 and other > 0 else math.inf


def _changed_connections(plan: PhysicalPlan, other: PhysicalPlan) -> float:
    """Return s: the share of connections that are of another kind in the other plan."""
    ours, others = _slots(plan), _slots(other)
    shares = [
        float(np.mean(_kinds(ours[s.source], ours[s.target]) != _kinds(others[s.source], others[s.target])))
        for s in plan.query_plan.streams
    ]
    return math.fsum(shares) / len(shares) if shares else 0.0


def _slots(plan: PhysicalPlan) -> Mapping[str, NDArray[np.str_]]:
    """Return node and worker of each task in the order of tasks, whose numbers may differ between runs."""
    found: dict[str, NDArray[np.str_]] = {}
    for component in plan.query_plan.components:
        at = [(e.worker.node, e.worker.label) for e in plan.of(component.name) for _ in e.tasks]
        found[component.name] = np.array(at)
    return found


def _kinds(sources: NDArray[np.str_], targets: NDArray[np.str_]) -> NDArray[np.int64]:
    """Return the kind of each connection: 0 within a worker, 1 between workers, 2 between nodes."""
    differ = sources[:, None, :] != targets[None, :, :]
    kinds: NDArray[np.int64] = differ.sum(axis=2)
    return kinds
