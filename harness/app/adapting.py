"""Answer of a step's scheduler to a period that was just seen on a live cluster."""

from __future__ import annotations

from harness.analysis.judge.predicting import settings
from harness.errors import SchedulerDeclined
from harness.experiments import records
from harness.experiments.adapting import PeriodDecision, PeriodSeen
from harness.experiments.config import Experiment
from harness.experiments.step_settings import AdaptSpec, plug_in_name
from harness.plans import AskedPlacement, PhysicalPlan
from harness.protocols import BudgetingScheduler, Observation
from harness.runs import Run
from harness.schedulers import make_scheduler
from harness.schedulers.conformance import SchedulingQuestion, answer_faults, ask_scheduler
from harness.schedulers.loads import executor_cores, task_cores
from harness.schedulers.plan_costs import PlanCosts, cost_plan
from harness.schedulers.traffic import task_traffic


class StepAdapter:
    """Decides on the next plan of a step that adapts (``harness.experiments.adapting.Adapter``).

    Parameters
    ----------
    experiment : Experiment
    run : Run
        Whose environment says the version of Storm.
    """

    def __init__(self, experiment: Experiment, run: Run) -> None:
        self._experiment = experiment
        self._settings = settings(run, experiment)
        self._first_cores: dict[int, float] = {}

    def __call__(self, seen: PeriodSeen) -> PeriodDecision:
        """Return the plan that the step's scheduler proposes, where it is better by enough."""
        asked = self._experiment.steps.plan[seen.step.spec].adapt
        assert asked is not None  # only such steps ask
        source = self._observation(seen)
        figures = self._figures(seen, source)
        try:
            proposal = self._proposed(asked, seen, source)
        except Exception as why:  # a scheduler may raise anything; the step goes on with its plan
            named = "" if isinstance(why, SchedulerDeclined) else f"failed with {type(why).__name__}: "
            return PeriodDecision("declined", f"{named}{why}", None, figures)
        now, then = cost_plan(seen.plan, source), cost_plan(proposal, source)
        change = {"executors_moved": then.executors_moved, "workers_restarted": then.workers_restarted}
        if not then.executors_moved:
            return PeriodDecision("stays", "it is the plan in force", None, figures | change)
        reason = _reason(now, then, asked.improvement_pct)
        if not reason:
            low = f"neither traffic between nodes nor load distance improves by {asked.improvement_pct:g}"
            return PeriodDecision("stays", low, None, figures | change)
        workers = {e.label: e.worker.label for e in proposal.executors}
        placement = AskedPlacement(
            by=plug_in_name(asked.scheduler, "a scheduler"), source=seen.step.index, workers=workers
        )
        return PeriodDecision("applied", reason, placement, figures | change)

    def _observation(self, seen: PeriodSeen) -> Observation:
        """Return the period as schedulers get to see it; how long its messages took is not in it."""
        rows = records.metrics(seen.metrics, seen.plan).to_pandas()
        end_ms = rows["bucket_end_ms"]
        inside = (end_ms > seen.start_epoch_ms) & (end_ms <= seen.end_epoch_ms)
        return Observation(
            plan=seen.plan,
            settings=self._settings,
            rate_tps=seen.rate_tps,
            interval_s=(seen.end_epoch_ms - seen.start_epoch_ms) / 1e3,
            metrics=rows[inside],
            latency=rows.iloc[:0],
            hop_records=False,
        )

    def _proposed(self, asked: AdaptSpec, seen: PeriodSeen, source: Observation) -> PhysicalPlan:
        scheduler = make_scheduler(asked.scheduler)
        if isinstance(scheduler, BudgetingScheduler):
            scheduler = scheduler.within(seen.rate_tps, None, None)
        plan = seen.plan
        question = SchedulingQuestion(plan.query_plan, plan.configuration(), plan.nodes, source)
        proposal = ask_scheduler(scheduler, question)
        if fault := answer_faults(proposal, question):
            raise SchedulerDeclined(f"answered nonsense: {fault}")
        return proposal.plan

    def _figures(self, seen: PeriodSeen, source: Observation) -> dict[str, float]:
        """Return the recorded figures of the plan in force, without those that the metrics do not tell."""
        costs = cost_plan(seen.plan, source)
        figures: dict[str, float | None] = {
            "between_workers_tps": costs.between_workers_tps,
            "between_nodes_tps": costs.between_nodes_tps,
            "load_distance_pct": costs.load_distance_pct,
        }
        try:
            total_tps = float(task_traffic(source).rate_tps.sum())
            if costs.between_nodes_tps is not None and total_tps > 0:
                figures["collocation_factor"] = 1 - costs.between_nodes_tps / total_tps
            cores = float(executor_cores(task_cores(source), seen.plan.executors).sum())
            first = self._first_cores.setdefault(seen.step.index, cores)
            figures["load_cores"] = cores
            figures["load_index_pct"] = 100 * cores / first if first > 0 else None
        except SchedulerDeclined:
            pass
        return {name: value for name, value in figures.items() if value is not None}


def _reason(now: PlanCosts, then: PlanCosts, improvement_pct: float) -> str:
    """Return why a plan is better than the one in force; empty where it is not by enough."""
    before, after = now.between_nodes_tps, then.between_nodes_tps
    if before is not None and after is not None and after < before * (1 - improvement_pct / 100):
        return f"traffic between nodes {before:.0f} -> {after:.0f} tuples/s"
    was, becomes = now.load_distance_pct, then.load_distance_pct
    if was is not None and becomes is not None and becomes < was - improvement_pct:
        return f"load distance {was:.1f} -> {becomes:.1f} points"
    return ""
