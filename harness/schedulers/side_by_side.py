"""Plans of several schedulers for one measured step, each with its predicted latency, costs and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from harness.errors import HarnessError, ModelDeclined, SchedulerDeclined, UsageError
from harness.models.composite.model import Prepared, composite
from harness.models.contract.answers import first_latency
from harness.plans import PhysicalPlan, TopologyConfiguration, WorkerNode
from harness.protocols import Estimate, NodeAmounts, Observation, Proposal, Scheduler
from harness.schedulers.conformance import Budget, SchedulingQuestion, sound_proposal
from harness.schedulers.limits import LOWER, MOST_LIMITS, PlanLimit, plan_limits
from harness.schedulers.plan_costs import PlanCosts, cost_plan, distinct_nodes, same_as
from harness.schemas import LATENCIES

ProposalStatus = Literal["ok", "unpredicted", "declined"]


@dataclass(frozen=True)
class SchedulerProposal:
    """One scheduler's answer, and what it costs.

    Attributes
    ----------
    scheduler : str
    status : {"ok", "unpredicted", "declined"}
        Placed and predicted; placed, but the model declined or sees saturation; not placed.
    reason : str
        Why there is no plan or no latency, and the scheduler's notes.
    plan : PhysicalPlan, optional
    estimates : tuple of Estimate
        The composite model's, of the whole topology.
    costs : PlanCosts, optional
        Beside the plan in force, at the rate that is asked for.
    limits : tuple of PlanLimit
        All, those first that are full first as the rate grows.
    same_as : tuple of str
        Schedulers whose plan differs by no more than like slots.
    latencies : sequence of str
        Measures of latency, first the one that the source was measured by.
    """

    scheduler: str
    status: ProposalStatus
    reason: str = ""
    plan: PhysicalPlan | None = None
    estimates: tuple[Estimate, ...] = ()
    costs: PlanCosts | None = None
    limits: tuple[PlanLimit, ...] = ()
    same_as: tuple[str, ...] = field(default=())
    latencies: Sequence[str] = LATENCIES

    @property
    def placement(self) -> dict[str, str]:
        """Worker label of each executor label; empty without a plan."""
        return {} if self.plan is None else {e.label: e.worker.label for e in self.plan.executors}

    @property
    def breaks_first(self) -> PlanLimit | None:
        """The limit with the lowest rate at which it is full; None where none grows with the rate."""
        return next((limit for limit in self.limits if limit.max_rate_tps is not None), None)

    @property
    def latency(self) -> str:
        """The first latency that is predicted with its percentiles, in the order of ``latencies``.

        Where none has percentiles, the first that is predicted.
        """
        found = self.first_latency("p95") or self.first_latency("mean")
        return self.latencies[0] if found is None else found.measure

    def first_latency(self, statistic: str) -> Estimate | None:
        """Return the statistic of the first latency that has it."""
        return first_latency(self.estimates, statistic, self.latencies)

    def estimate(self, measure: str, statistic: str) -> Estimate | None:
        """Return one estimate of the whole topology."""
        of = (e for e in self.estimates if (e.measure, e.statistic) == (measure, statistic))
        return next(of, None)

    @property
    def counts(self) -> str:
        """Executors of each component and the workers, in words; empty without a plan."""
        return "" if self.plan is None else counts_text(self.plan)

    def as_json(self) -> dict[str, object]:
        """Return it as ``harness schedule --json`` has it."""
        predicted: dict[str, dict[str, dict[str, float | None]]] = {}
        for e in self.estimates:
            value = {"value": e.value, "low": e.low, "high": e.high}
            predicted.setdefault(e.measure, {})[e.statistic] = value
        costs = self.costs
        return {
            "scheduler": self.scheduler,
            "status": self.status,
            "reason": self.reason,
            "placement": self.placement,
            "executors": {} if self.plan is None else dict(self.plan.configuration().executors),
            "workers": None if self.plan is None else len(self.plan.workers),
            "predicted": predicted,
            "traffic_tps": {
                "between_workers": costs.between_workers_tps if costs else None,
                "between_nodes": costs.between_nodes_tps if costs else None,
            },
            "traffic_bytes_s": {
                "between_workers": costs.between_workers_bytes_s if costs else None,
                "between_nodes": costs.between_nodes_bytes_s if costs else None,
            },
            "load_distance_pct": costs.load_distance_pct if costs else None,
            "executors_moved": costs.executors_moved if costs else None,
            "workers_restarted": costs.workers_restarted if costs else None,
            "limits": [vars(limit) for limit in self.limits[:MOST_LIMITS]],
            "same_as": list(self.same_as),
        }


@dataclass(frozen=True)
class PlacementTable:
    """A measured step as it is, and as schedulers would place it, at one input rate.

    Schedulers see the source's loads and traffic at that rate.

    Attributes
    ----------
    source : Observation
    configuration : TopologyConfiguration
        Executors by component, and workers.
    nodes : tuple of WorkerNode
        With the slots that may be used.
    rate_tps : float
        Messages a second.
    max_executors, max_workers : int, optional
        A budget for schedulers that choose the counts.
    running : PhysicalPlan, optional
        The plan in force that executors would move from; by default the source's.
    amounts : NodeAmounts, optional
        Heap of a worker, and bytes a second that a node may send; limits of neither where they are not known.
    """

    source: Observation
    configuration: TopologyConfiguration
    nodes: tuple[WorkerNode, ...]
    rate_tps: float
    max_executors: int | None = None
    max_workers: int | None = None
    running: PhysicalPlan | None = None
    amounts: NodeAmounts | None = None

    def as_measured(self) -> SchedulerProposal:
        """Return the plan in force, as if it were proposed."""
        return self._judged("(as it is)", Proposal(self.source.plan))

    def propose(self, schedulers: Mapping[str, Scheduler]) -> list[SchedulerProposal]:
        """Ask each scheduler; one that crashes or answers nonsense has declined.

        Raises
        ------
        UsageError
            When a scheduler refuses what it was asked.
        """
        proposals = [self._ask(name, scheduler) for name, scheduler in schedulers.items()]
        plans = {p.scheduler: p.plan for p in proposals if p.plan is not None}
        alike = same_as(plans, self.distinct if len(plans) > 1 else ())
        return [replace(p, same_as=alike.get(p.scheduler, ())) for p in proposals]

    @cached_property
    def distinct(self) -> frozenset[str]:
        """Names of nodes that are like no other, as far as the source tells (``distinct_nodes``)."""
        try:
            return distinct_nodes(self._prepared, self.nodes)
        except ModelDeclined:
            return frozenset()

    def _ask(self, name: str, scheduler: Scheduler) -> SchedulerProposal:
        source = self._at_rate
        question = SchedulingQuestion(source.plan.query_plan, self.configuration, self.nodes, source)
        budget = Budget(self.rate_tps, self.max_executors, self.max_workers)
        try:
            proposal = sound_proposal(scheduler, question, budget)
        except (SchedulerDeclined, ModelDeclined) as why:
            return SchedulerProposal(name, "declined", str(why))
        except UsageError:
            raise
        except HarnessError as why:
            return SchedulerProposal(name, "declined", str(why))
        except Exception as why:  # a user's scheduler may raise anything
            return SchedulerProposal(name, "declined", f"it failed with {type(why).__name__}: {why}")
        return self._judged(name, proposal)

    def _judged(self, name: str, proposal: Proposal) -> SchedulerProposal:
        plan, notes = proposal.plan, "; ".join(proposal.notes)
        costs = cost_plan(plan, self._at_rate, self.running)
        asked = plan, self.source.settings
        try:
            answers = self._prepared.predict(*asked, self.rate_tps).estimates
            lower = self._prepared.cpu(*asked, LOWER * self.rate_tps).estimates
        except ModelDeclined as why:
            reason = "; ".join(filter(None, [str(why), notes]))
            return SchedulerProposal(name, "unpredicted", reason, plan, costs=costs)
        whole = tuple(e for e in answers if not e.subject)
        mean = next((e for e in whole if e.measure in LATENCIES and e.statistic == "mean" and e.value), None)
        refusals = (e.reason for e in whole if e.measure in LATENCIES and e.reason)
        reason = (
            notes if mean else "; ".join(filter(None, [next(refusals, "no latency is predicted"), notes]))
        )
        status: ProposalStatus = "ok" if mean else "unpredicted"
        limits = plan_limits(plan, answers, lower, self.source, self.rate_tps, self.amounts)
        latencies = self.source.latencies
        return SchedulerProposal(name, status, reason, plan, whole, costs, limits, latencies=latencies)

    @cached_property
    def _at_rate(self) -> Observation:
        return replace(self.source, asked_rate_tps=self.rate_tps)

    @cached_property
    def _prepared(self) -> Prepared:
        prepared: Prepared = composite.prepare(self.source)
        return prepared


def counts_text(plan: PhysicalPlan) -> str:
    """Return a plan's executors by component and its workers in words; Storm's own are left out."""
    counts = plan.configuration().executors
    named = " ".join(f"{c.name}:{counts[c.name]}" for c in plan.query_plan.components)
    workers = len(plan.workers)
    return f"{named} on {workers} worker{'s' * (workers != 1)}"
