"""The cheapest plan that keeps a latency target, and what a cheaper one risks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

from harness.errors import SchedulerDeclined
from harness.models.composite.uncertainty import Z
from harness.plans import Frozen, PositiveFloat
from harness.protocols import Estimate, Scheduler
from harness.schedulers.guided_scoring import LatencyStatistic
from harness.schedulers.model_guided import ModelGuidedScheduler
from harness.schedulers.plan_costs import plan_shape
from harness.schedulers.side_by_side import PlacementTable, SchedulerProposal

GUIDED = "model-guided"


class LatencyTarget(Frozen):
    """A statistic of latency, and what it must not exceed.

    Attributes
    ----------
    statistic : {"mean", "p50", "p90", "p95", "p99"}
    limit_ms : float
    """

    statistic: LatencyStatistic
    limit_ms: PositiveFloat

    @property
    def text(self) -> str:
        """The target in words."""
        return f"{self.statistic} of {self.limit_ms:g} ms"


class PlanCount(NamedTuple):
    """Workers and executors that a plan uses: the fewer workers, then executors, the cheaper the plan."""

    workers: int
    executors: int


@dataclass(frozen=True)
class TargetedPlan:
    """A proposal beside a target.

    Attributes
    ----------
    proposal : SchedulerProposal
    target : LatencyTarget
    """

    proposal: SchedulerProposal
    target: LatencyTarget

    @property
    def estimate(self) -> Estimate | None:
        """The statistic with its interval; None where no latency is predicted."""
        return self.proposal.first_latency(self.target.statistic)

    @property
    def high_ms(self) -> float:
        """The interval's upper end; infinite where no latency is predicted."""
        e = self.estimate
        if e is None or e.value is None:
            return math.inf
        return e.value if e.high is None else e.high

    @property
    def keeps(self) -> bool:
        """True if the whole interval is within the target."""
        return self.high_ms <= self.target.limit_ms

    @property
    def margin_pct(self) -> float | None:
        """Room between the interval's upper end and the target, in percent of the target.

        Negative beyond the target; None without a latency.
        """
        return None if math.isinf(self.high_ms) else 100 * (1 - self.high_ms / self.target.limit_ms)

    @property
    def risk(self) -> float:
        """Probability that the target is exceeded, by the interval's upper half; 1 without a latency.

        The latency is taken to be log-normal with the prediction as median: the upper end of a 90 % interval
        is ``Z`` standard deviations above it.
        """
        e = self.estimate
        if e is None or e.value is None:
            return 1.0
        above = math.log(self.target.limit_ms / e.value)
        if e.high is None or e.high <= e.value:
            return float(above < 0)
        return 1 - NormalDist().cdf(above * Z / math.log(e.high / e.value))

    @property
    def count(self) -> PlanCount:
        """Workers and executors that the proposed plan uses; Storm's own executors are not counted."""
        plan = self.proposal.plan
        if plan is None:
            return PlanCount(0, 0)
        counts = plan.configuration().executors
        return PlanCount(len(plan.workers), sum(counts[c.name] for c in plan.query_plan.components))

    def as_json(self) -> dict[str, object]:
        """Return it as ``harness advise --json`` has it."""
        return {
            **self.proposal.as_json(),
            "keeps": self.keeps,
            "margin_pct": self.margin_pct,
            "risk": self.risk,
        }


@dataclass(frozen=True)
class Advice:
    """The cheapest plan for a target, with a cheaper one and other schedulers' plans beside it.

    Attributes
    ----------
    target : LatencyTarget
    rate_tps : float
    best : TargetedPlan
        The cheapest plan that keeps the target; where none does, the one nearest to it: with the lowest upper
        end of the interval.
    cheaper : TargetedPlan, optional
        Of the plans with an executor fewer on no more workers, the one nearest to the target; with a single
        executor of each bolt, of those with a worker fewer. None where there is no cheaper one.
    others : tuple of TargetedPlan
        Other schedulers' plans with the best one's counts, but for those that are the same plan.
    """

    target: LatencyTarget
    rate_tps: float
    best: TargetedPlan
    cheaper: TargetedPlan | None
    others: tuple[TargetedPlan, ...]

    def as_json(self) -> dict[str, object]:
        """Return it as ``harness advise --json`` has it."""
        return {
            "target": {self.target.statistic: self.target.limit_ms},
            "rate_tps": self.rate_tps,
            "kept": self.best.keeps,
            "advised": self.best.as_json(),
            "cheaper": None if self.cheaper is None else self.cheaper.as_json(),
            "others": [p.as_json() for p in self.others],
        }


def advise(
    table: PlacementTable,
    target: LatencyTarget,
    schedulers: Mapping[str, Scheduler],
    max_executors: int | None = None,
    max_workers: int | None = None,
) -> Advice:
    """Return the cheapest plan of all schedulers and counts that keeps a target at the table's rate.

    The counts are the guided scheduler's. Of the schedulers' plans with these counts, the cheapest that keeps
    the target is advised. Of equally cheap ones, and where none keeps it, it is the one with the lowest upper
    end of the interval; of equal ones the guided scheduler's. A cheaper plan that keeps the target by another
    placement takes its place.

    Raises
    ------
    SchedulerDeclined
        When the source cannot be used.
    """
    best = _guided(table, target, max_executors, max_workers)
    if best.proposal.plan is None:
        raise SchedulerDeclined(best.proposal.reason)
    advised, others = _beside(table, target, schedulers, best)
    while (cheaper := _cheaper(table, target, advised, max_executors)) is not None:
        if _first((advised, cheaper)) is advised:
            break
        advised, others = _beside(table, target, schedulers, cheaper)
    assert advised.proposal.plan is not None
    shape = plan_shape(advised.proposal.plan, table.distinct)
    found = (p.proposal for p in others)
    alike = {p.scheduler for p in found if p.plan and plan_shape(p.plan, table.distinct) == shape}
    others = tuple(p for p in others if p.proposal.scheduler not in alike)
    named = tuple(sorted(alike - {advised.proposal.scheduler}))
    advised = replace(advised, proposal=replace(advised.proposal, same_as=named))
    return Advice(target, table.rate_tps, advised, cheaper, others)


def _guided(
    table: PlacementTable, target: LatencyTarget, max_executors: int | None, max_workers: int | None
) -> TargetedPlan:
    scheduler = ModelGuidedScheduler(
        objective={f"{target.statistic}_ms": target.limit_ms},
        rate_tps=table.rate_tps,
        max_executors=max_executors,
        max_workers=max_workers,
    )
    (found,) = table.propose({GUIDED: scheduler})
    return TargetedPlan(found, target)


def _beside(
    table: PlacementTable, target: LatencyTarget, schedulers: Mapping[str, Scheduler], best: TargetedPlan
) -> tuple[TargetedPlan, tuple[TargetedPlan, ...]]:
    """Return the first of a plan and other schedulers' plans with its counts, and the others' plans."""
    assert best.proposal.plan is not None
    configuration = best.proposal.plan.configuration()
    there = replace(table, configuration=configuration, max_executors=None, max_workers=None)
    proposed = (TargetedPlan(p, target) for p in there.propose(schedulers))
    others = tuple(p for p in proposed if p.proposal.plan is not None and p.count <= best.count)
    return _first((best, *others)), others


def _first(plans: Sequence[TargetedPlan]) -> TargetedPlan:
    """Return the cheapest plan that keeps the target; where none does, the nearest to it."""
    keeping = [p for p in plans if p.keeps]
    if keeping:
        return min(keeping, key=lambda p: (p.count, p.high_ms))
    return min(plans, key=lambda p: p.high_ms)


def _cheaper(
    table: PlacementTable, target: LatencyTarget, than: TargetedPlan, max_executors: int | None
) -> TargetedPlan | None:
    """Return the nearest plan with an executor fewer, or a worker fewer; None where no plan uses less."""
    assert than.proposal.plan is not None
    query_plan, counts = than.proposal.plan.query_plan, than.proposal.plan.configuration().executors
    if any(counts[c.name] > 1 for c in query_plan.components if query_plan.inputs(c.name)):
        found = _guided(table, target, than.count.executors - 1, than.count.workers)
    elif than.count.workers > 1:
        found = _guided(table, target, max_executors, than.count.workers - 1)
    else:
        return None
    return None if found.proposal.plan is None else found
