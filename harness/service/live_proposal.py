"""Another plan of a submitted topology, by a tuner or a scheduler, beside the plan in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.app.submitted.plan_file import AskedPlan, labels, plan_text
from harness.app.submitted.submitting import configuration_of
from harness.errors import UsageError
from harness.plans import Batching, PhysicalPlan
from harness.protocols import Observation, TuningDecision
from harness.schedulers import SCHEDULERS, make_scheduler
from harness.schedulers.plan_costs import PlanCosts, cost_plan
from harness.schedulers.side_by_side import PlacementTable
from harness.schemas import Measure
from harness.service.run_index import UnknownName
from harness.tuning import TUNERS, make_tuner
from harness.tuning.side_by_side import PredictedPerformance, TuningTable, performance


@dataclass(frozen=True)
class PlanSide:
    """One of both plans, with its costs and its predicted performance.

    Attributes
    ----------
    plan : PhysicalPlan
    costs : PlanCosts
        Beside the plan in force, at the rate that is planned for.
    predicted : PredictedPerformance, optional
    batching : mapping of str to BatchSize
        What travels in batches.
    """

    plan: PhysicalPlan
    costs: PlanCosts
    predicted: PredictedPerformance | None
    batching: Batching

    @property
    def executors(self) -> Mapping[str, int]:
        """Executors by component of the query plan."""
        return configuration_of(self.plan).executors

    @property
    def batches(self) -> str:
        """Batch sizes in words; empty where tuples travel one by one."""
        return " ".join(f"{name}:{batch.size}" for name, batch in self.batching.items())


@dataclass(frozen=True)
class SidesOfProposal:
    """A proposal beside the plan in force.

    Attributes
    ----------
    by : str
        Name of the tuner or scheduler.
    rate_tps : float
        Messages a second that it is for.
    running : PlanSide
    proposed : PlanSide, optional
        None where nothing was proposed, or it cannot run there; ``reason`` says why.
    reason : str
        What its reader has to know.
    decisions : tuple of TuningDecision
        A tuner's.
    file : str
        Text of the plan's file; empty where there is nothing to apply.
    """

    by: str
    rate_tps: float
    running: PlanSide
    proposed: PlanSide | None = None
    reason: str = ""
    decisions: tuple[TuningDecision, ...] = ()
    file: str = ""

    @property
    def to_ack(self) -> bool:
        """True where latencies are predicted from emit to ack, as they are measured."""
        sides = [side.predicted for side in (self.running, self.proposed) if side and side.predicted]
        return {p.latency for p in sides if p.mean_ms is not None} == {Measure.ACK}


def propose_tuned(source: Observation, name: str, rate_tps: float) -> SidesOfProposal:
    """Ask a tuner for executors, which Storm's own scheduler would place.

    Raises
    ------
    UnknownName
        When the service has no such tuner.
    """
    if name not in TUNERS:
        raise UnknownName("tuner", name, list(TUNERS))
    table = TuningTable(source, rate_tps)
    source = replace(source, asked_rate_tps=rate_tps)
    running = _side(source, source.plan, table.as_measured(), source.settings.batching)
    answer = table.propose(name, make_tuner(name))
    said = answer.proposal
    if said.status != "ok" or not said.executors:
        return SidesOfProposal(name, rate_tps, running, None, said.reason, said.decisions)
    now = configuration_of(source.plan)
    counts, workers = {**now.executors, **said.executors}, said.workers or now.workers
    same = (counts, workers) == (dict(now.executors), now.workers)
    asked = AskedPlan(executors=counts, workers=workers, source=labels(source.plan))
    try:
        plan = source.plan if same else asked.proposed(source.plan)
    except UsageError as why:
        reason = "; ".join(filter(None, [said.reason, str(why)]))
        return SidesOfProposal(name, rate_tps, running, None, reason, said.decisions)
    side = _side(source, plan, answer.predicted, said.batching)
    file = "" if same else plan_text(asked)
    return SidesOfProposal(name, rate_tps, running, side, said.reason, said.decisions, file)


def propose_scheduled(source: Observation, name: str, rate_tps: float) -> SidesOfProposal:
    """Ask a scheduler where each executor should run.

    Raises
    ------
    UnknownName
        When the service has no such scheduler.
    """
    if name not in SCHEDULERS:
        raise UnknownName("scheduler", name, list(SCHEDULERS))
    table = PlacementTable(source, source.plan.configuration(), source.plan.nodes, rate_tps)
    as_it_is = table.as_measured()
    batching, source = source.settings.batching, replace(source, asked_rate_tps=rate_tps)
    predicted = performance(as_it_is.estimates, source.latencies)
    running = _side(source, source.plan, predicted, batching)
    (said,) = table.propose({name: make_scheduler(name)})
    if said.plan is None:
        return SidesOfProposal(name, rate_tps, running, None, said.reason)
    predicted = performance(said.estimates, source.latencies)
    side = _side(source, said.plan, predicted, batching)
    asked = AskedPlan(placement=said.placement, source=labels(source.plan))
    same = said.placement == labels(source.plan)
    return SidesOfProposal(name, rate_tps, running, side, said.reason, (), "" if same else plan_text(asked))


def _side(
    source: Observation,
    plan: PhysicalPlan,
    predicted: PredictedPerformance | None,
    batching: Batching,
) -> PlanSide:
    return PlanSide(plan, cost_plan(plan, source), predicted, batching)
