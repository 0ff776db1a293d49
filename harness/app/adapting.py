"""Answer of a step's scheduler or tuner to a period that was just seen on a live cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.analysis.judge.predicting import settings
from harness.app.foreseeing import RatePlanner, require_forecasts
from harness.app.key_group_adapting import decide_key_groups, key_group_mover
from harness.app.message_costs import measured_parameters
from harness.app.scaling import amounts_of, decide_scaled
from harness.app.tuned_steps import proposal_fault, tuner_of
from harness.errors import SchedulerDeclined, StepDeclined
from harness.experiments import records
from harness.experiments.adapted_periods import AskedChange, PeriodDecision, components_of
from harness.experiments.adapting import PeriodSeen
from harness.experiments.config import Experiment
from harness.experiments.live_batches import (
    proposed_sizes,
    size_text,
    sizes_by_component,
    sizes_by_stream,
)
from harness.experiments.step_settings import AdaptSpec, AskedPlugIn
from harness.plans import Batching, TopologyConfiguration
from harness.protocols import (
    BudgetingScheduler,
    Observation,
    Resource,
    WaitingScheduler,
)
from harness.runs import Run
from harness.schedulers import make_scheduler
from harness.schedulers.conformance import Budget, SchedulingQuestion, sound_proposal
from harness.schedulers.loads import sum_of_tasks, task_cores
from harness.schedulers.plan_costs import cost_plan, improvement, no_improvement
from harness.schedulers.resource_loads import bottleneck, resource_use_pct
from harness.schedulers.traffic import task_traffic
from harness.tuning.side_by_side import TuningTable


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
        self._run = run
        self._settings = settings(run, experiment)
        self._first_cores: dict[int, float] = {}
        self._rate_to_plan_for = RatePlanner()
        for spec in experiment.steps.plan:
            if spec.adapt is not None:
                require_forecasts(spec.adapt)

    def __call__(self, seen: PeriodSeen) -> PeriodDecision:
        """Return what the step's scheduler or tuner proposes, where it is another or better by enough."""
        asked = self._experiment.steps.plan[seen.step.spec].adapt
        assert asked is not None  # only such steps ask
        planned = self._rate_to_plan_for(asked, seen)
        seen = seen._replace(rate_tps=planned.rate_tps)
        source = self._observation(seen)
        use_pct = self._use_pct(asked, seen, source)
        figures = self._figures(seen, source) | {f"{r}_use_pct": used for r, used in use_pct.items()}
        most_used = bottleneck(use_pct) if use_pct else None
        try:
            if waits := _waits(asked, seen):
                decided = PeriodDecision("stays", waits, None, {})
            elif asked.scheduler is None:
                decided = self._tuned(asked, seen, source)
            elif asked.moves == "key-groups":
                decided = decide_key_groups(asked, key_group_mover(asked.scheduler), seen, source)
            elif asked.nodes is not None:
                decided = decide_scaled(self._experiment, asked, seen, source, most_used)
            else:
                decided = self._scheduled(asked, asked.scheduler, seen, source)
        except (SchedulerDeclined, StepDeclined) as why:
            decided = PeriodDecision("declined", str(why), None, {})
        except Exception as why:  # a scheduler may raise anything; the step goes on with its plan
            decided = PeriodDecision("declined", f"failed with {type(why).__name__}: {why}", None, {})
        return decided._replace(
            figures=figures | decided.figures, bottleneck=str(most_used or ""), planned=planned
        )

    def _use_pct(self, asked: AdaptSpec, seen: PeriodSeen, source: Observation) -> dict[Resource, float]:
        """Return the use of each resource of the nodes that are not marked; empty where nothing says it."""
        staying = [n for n in seen.plan.nodes if n.name not in seen.nodes.marked]
        try:
            amounts = amounts_of(self._experiment, asked)
            return resource_use_pct(source, seen.plan.executors, staying, amounts)
        except SchedulerDeclined:
            return {}

    def _observation(self, seen: PeriodSeen) -> Observation:
        """Return the period as schedulers get to see it; how long its messages took is not in it.

        Its rate is that at which spouts took messages in, which its counts belong to. A topology that is
        saturated, or was paused, takes in fewer than were due.
        """
        metrics, span = (
            records.metrics(seen.metrics, seen.plan.nodes),
            (seen.start_epoch_ms, seen.end_epoch_ms),
        )
        rows = metrics.to_pandas()
        end_ms = rows["bucket_end_ms"]
        inside = (end_ms > seen.start_epoch_ms) & (end_ms <= seen.end_epoch_ms)
        return Observation(
            plan=seen.plan,
            settings=replace(
                self._settings, batching=sizes_by_component(seen.batching), relief=seen.step.relief
            ),
            rate_tps=records.rate_tps(metrics, seen.plan.query_plan.spouts, span),
            interval_s=(seen.end_epoch_ms - seen.start_epoch_ms) / 1e3,
            metrics=rows[inside],
            latency=rows.iloc[:0],
            hop_records=False,
            steady=False,
        )

    def _tuned(self, asked: AdaptSpec, seen: PeriodSeen, source: Observation) -> PeriodDecision:
        """Ask a tuner for numbers, which Storm's own scheduler places, and for batch sizes.

        Sizes of streams that may not be batched stay 1: the reason names their components.

        Raises
        ------
        StepDeclined
            When it has no proposal, or one that cannot be had.
        """
        tuner = tuner_of(asked.tuner, measured_parameters(self._run, self._settings))
        proposal = TuningTable(source, seen.rate_tps).ask(asked.by, tuner)
        wanted, now = proposal.configuration, components_of(seen.plan)
        if wanted is None or proposal.status == "declined":
            raise StepDeclined(proposal.reason)
        if fault := proposal_fault(self._experiment, proposal, wanted):
            raise StepDeclined(f"proposed what cannot be had: {fault}")
        sizes = proposed_sizes(seen.batching, seen.plan.query_plan, proposal.batching)
        left = _left_out(seen, proposal.batching)
        said = "; ".join(filter(None, [proposal.reason, left]))
        asked_for = AskedChange(wanted, batching=None if sizes == seen.batching else sizes)
        return _numbers_decision(now, asked_for, seen.rate_tps, said, {}, _resized(seen.batching, sizes))

    def _scheduled(
        self, asked: AdaptSpec, named: AskedPlugIn, seen: PeriodSeen, source: Observation
    ) -> PeriodDecision:
        """Ask a scheduler for a plan; it has to be better by enough, unless its scheduler judges that itself.

        Raises
        ------
        SchedulerDeclined
            When it has no plan, or one that cannot be had.
        """
        scheduler = make_scheduler(named)
        running = seen.plan
        question = SchedulingQuestion(running.query_plan, running.configuration(), running.nodes, source)
        proposal = sound_proposal(scheduler, question, Budget(seen.rate_tps))
        plan = proposal.plan
        now, then = cost_plan(running, source), cost_plan(plan, source)
        said = next(iter(proposal.notes), "")
        if not then.executors_moved:
            reason = "; ".join(filter(None, ["it is the plan in force", said]))
            return PeriodDecision("stays", reason, None, then.moves)
        in_force, applied = components_of(running), AskedChange.pinned(plan, asked.by, seen.step.index)
        if isinstance(scheduler, BudgetingScheduler):
            moved = [] if applied.configuration != in_force else [f"{then.executors_moved} executors move"]
            return _numbers_decision(in_force, applied, seen.rate_tps, said, then.moves, moved)
        reason = improvement(now, then, asked.improvement_pct)
        if not reason:
            return PeriodDecision("stays", no_improvement(asked.improvement_pct), None, then.moves)
        return PeriodDecision("applied", reason, applied, then.moves)

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
            cores = float(sum_of_tasks(task_cores(source), seen.plan.executors).sum())
            first = self._first_cores.setdefault(seen.step.index, cores)
            figures["load_cores"] = cores
            figures["load_index_pct"] = 100 * cores / first if first > 0 else None
        except SchedulerDeclined:
            pass
        return {name: value for name, value in figures.items() if value is not None}


def _waits(asked: AdaptSpec, seen: PeriodSeen) -> str:
    """Return why a scheduler is not asked yet; empty where it is."""
    if asked.scheduler is None or seen.unchanged_s is None:
        return ""
    scheduler = make_scheduler(asked.scheduler)
    if not isinstance(scheduler, WaitingScheduler) or seen.unchanged_s >= scheduler.timeout_s:
        return ""
    least = f"{asked.by} has timeout_s {scheduler.timeout_s:g}"
    return f"the last change was {seen.unchanged_s:.0f} s ago, and {least}"


def _numbers_decision(
    now: TopologyConfiguration,
    wanted: AskedChange,
    rate_tps: float,
    said: str,
    figures: Mapping[str, float],
    others: Sequence[str] = (),
) -> PeriodDecision:
    """Return the decision on other numbers of executors and workers, and on what else changes.

    What is in force stays.

    Parameters
    ----------
    others : sequence of str
        Changes of batch sizes and places in words.
    """
    counts = wanted.configuration.executors
    changed = [
        f"{n} {now.executors[n]} -> {counts[n]}" for n in now.executors if counts[n] != now.executors[n]
    ]
    if now.workers != wanted.configuration.workers:
        changed.append(f"workers {now.workers} -> {wanted.configuration.workers}")
    changed += others
    what = f"{', '.join(changed) or 'the numbers in force'} for {rate_tps:.1f} messages/s"
    reason = "; ".join(filter(None, [what, said]))
    if not changed:
        return PeriodDecision("stays", reason, None, dict(figures))
    return PeriodDecision("applied", reason, wanted, dict(figures))


def _resized(before: Batching, after: Batching) -> list[str]:
    """Return the changes of batch sizes in words."""
    return [
        f"batches of {name} {size_text(size)} -> {size_text(after[name])}"
        for name, size in before.items()
        if after[name] != size
    ]


def _left_out(seen: PeriodSeen, proposed: Batching) -> str:
    """Name the components for which batches are proposed though their streams have none; empty for none."""
    wanted = sizes_by_stream(seen.plan.query_plan, proposed)
    missing = {n.partition(":")[0] for n, size in wanted.items() if size.size > 1 and n not in seen.batching}
    return f"batch sizes stay: {', '.join(sorted(missing))} not in the step's batching" if missing else ""
