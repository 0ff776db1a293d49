"""Each step's request to the cluster: executors, batch sizes and, where not left to Storm, a placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.analysis.judge.predicting import observation
from harness.app.foreseeing import require_forecasts
from harness.app.key_group_adapting import key_group_mover
from harness.app.tuned_steps import ask_tuner, tuner_of
from harness.errors import ClusterError, MeasurementsNeeded, SchedulerDeclined, StepDeclined, UsageError
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import AskedStep, unplanned
from harness.experiments.loading import expand_steps
from harness.experiments.step_settings import AdaptSpec, StepSpec
from harness.plans import ACKER, AskedPlacement, PhysicalPlan, QueryPlan, TopologyConfiguration, WorkerNode
from harness.protocols import BudgetingScheduler, Proposal
from harness.runs import Run
from harness.schedulers import make_scheduler
from harness.schedulers.by_hand import place_by_hand
from harness.schedulers.conformance import SchedulingQuestion, sound_proposal
from harness.schedulers.executor_groups import EXECUTORS_COST_ONE
from harness.schedulers.key_groups import GroupMover
from harness.schedulers.migration_costs import MigrationCost
from harness.storm.deployment import storms_own

BY_HAND = "placement"


class StepPlanner:
    """Answers with a step's request to the cluster (``harness.experiments.contracts.Planner``).

    Parameters
    ----------
    experiment, run
        What is measured, and the steps that were; a step that reads another finds it there.
    nodes : callable
        The cluster's worker nodes.
    lost : callable
        Those of them that are not there when a step begins.
    """

    def __init__(
        self,
        experiment: Experiment,
        run: Run,
        nodes: Callable[[], Sequence[WorkerNode]],
        lost: Callable[[], Sequence[WorkerNode]] = tuple,
    ) -> None:
        self._experiment = experiment
        self._run = run
        self._nodes = nodes
        self._lost = lost

    def __call__(self, step: Step) -> AskedStep:
        """Return executors, batch sizes and, where not Storm's own scheduler places them, a placement.

        Raises
        ------
        StepDeclined
            When the step that it reads has no valid measurement, or the tuner or scheduler has no answer or
            no usable one, or the placement does not fit.
        ClusterError
            When that is so while a worker node is gone: a step that is declined is not asked for again.
        """
        try:
            asked = self._tuned(step)
            return replace(asked, placement=self._place(step, asked.configuration))
        except StepDeclined as why:
            if not (lost := self._lost()):
                raise
            names = " and ".join(node.name for node in lost)
            gone = f"{names} is gone, and step {step.index} has no plan: {why}"
            raise ClusterError(gone, "harness provision makes it anew, then resume the run") from why

    def _tuned(self, step: Step) -> AskedStep:
        spec = self._experiment.steps.plan[step.spec]
        if spec.tuner is None or (source := self._source(spec)) is None:
            return unplanned(step)
        return ask_tuner(self._experiment, self._run, step, spec, source)

    def _place(self, step: Step, components: TopologyConfiguration) -> AskedPlacement | None:
        spec, query_plan = self._experiment.steps.plan[step.spec], self._experiment.topology.query_plan()
        configuration = own_executors(self._experiment, components)
        lost = self._lost()
        nodes = tuple(node for node in self._nodes() if node not in lost)
        if spec.placement is not None:
            try:
                return _by_hand(spec, query_plan, configuration, nodes)
            except SchedulerDeclined as why:
                raise StepDeclined(f"placement {spec.placement.name}: {why}") from None
        if spec.scheduler is None:
            return None
        source = self._source(spec)
        seen = None if source is None else observation(self._run, self._experiment, source)
        question = SchedulingQuestion(query_plan, configuration, nodes, seen)
        proposal = _proposed(spec, question)
        return _asked(spec.placed_by, proposal.plan, source, proposal.notes)

    def _source(self, spec: StepSpec) -> int | None:
        """Return the newest step that was measured of the one that a step reads; None where it reads none."""
        if spec.source is None:
            return None
        finished = set(self._run.finished_steps)
        of_source = [s.index for s in expand_steps(self._experiment) if s.spec == spec.source]
        measured = [index for index in of_source if index in finished]
        if not measured:
            raise StepDeclined(f"it reads step {of_source[0]}, which has no measurement (it was declined)")
        newest = max(measured)
        if fault := _first_fault(self._run, newest):
            raise StepDeclined(f"it reads step {newest}, which is not valid: {fault}")
        return newest


def check_placements(experiment: Experiment) -> None:
    """Check schedulers, tuners and placements, as far as they are known before anything is started.

    Raises
    ------
    UsageError
        For a scheduler or tuner that is not known, a parameter that it has not, or a step to read that it
        needs; for a placement's executor or worker that is not there.
    """
    for i, spec in enumerate(experiment.steps.plan):
        where = f"steps.plan.{i}"
        try:
            _check(experiment, spec)
        except MeasurementsNeeded as why:
            raise UsageError(
                f"{where}.scheduler: {spec.placed_by} {why}", "add from: the position of an earlier step"
            ) from None
        except SchedulerDeclined as why:
            raise UsageError(f"{where}.placement: {spec.placement}: {why}") from None
        except UsageError as why:
            raise UsageError(f"{where}: {why.message}", why.hint) from None


def _check(experiment: Experiment, spec: StepSpec) -> None:
    if not experiment.cluster.pins and (spec.placement is not None or spec.scheduler is not None):
        key = "placement" if spec.scheduler is None else "scheduler"
        raise UsageError(f"{key}: a cluster that others run places executors itself", f"leave {key} out")
    scheduler = None if spec.scheduler is None else make_scheduler(spec.scheduler)
    if spec.adapt is not None:
        _check_adapted(spec.adapt)
    for tuner in (spec.tuner, spec.adapt.tuner if spec.adapt is not None else None):
        if tuner is not None:
            tuner_of(tuner)
    if not experiment.topology.known:  # a jar's that was not captured yet
        return
    query_plan, nodes = experiment.topology.query_plan(), experiment.cluster.worker_nodes()
    configuration = own_executors(experiment, experiment.configuration(spec))
    if spec.placement is not None:
        _by_hand(spec, query_plan, configuration, nodes)
    if scheduler is not None and spec.source is None:
        try:
            scheduler.propose(query_plan, configuration, nodes)
        except MeasurementsNeeded:
            raise
        except Exception:  # the nodes' cores are not known yet: the step itself says what is wrong
            return


def _check_adapted(adapt: AdaptSpec) -> None:
    """Check who changes a step's plan while it is measured, and by which forecast."""
    if adapt.scheduler is not None:
        asked = make_scheduler(adapt.scheduler)
        if adapt.forecast is not None and not isinstance(asked, BudgetingScheduler):
            raise UsageError(
                f"adapt.forecast: {adapt.by} plans for no rate", "name model-guided, or give a tuner"
            )
        if adapt.moves == "key-groups":
            key_group_mover(adapt.scheduler)
        elif isinstance(asked, GroupMover) and asked.terms().migration_cost is MigrationCost.STATE:
            raise UsageError(f"adapt.scheduler: {EXECUTORS_COST_ONE}", "add moves: key-groups")
        if adapt.nodes is not None and isinstance(asked, BudgetingScheduler):
            raise UsageError(
                f"adapt: {adapt.by} may choose numbers of workers itself",
                "leave nodes out, or name another scheduler",
            )
    require_forecasts(adapt)


def own_executors(experiment: Experiment, configuration: TopologyConfiguration) -> TopologyConfiguration:
    """Return a configuration with Storm's own executors, as the experiment's cluster will have them."""
    if experiment.cluster.measured:
        return storms_own(experiment, configuration)
    own = {ACKER: experiment.ackers} if experiment.ackers else {}
    return configuration.model_copy(update={"executors": {**configuration.executors, **own}})


def _by_hand(
    spec: StepSpec,
    query_plan: QueryPlan,
    configuration: TopologyConfiguration,
    nodes: tuple[WorkerNode, ...],
) -> AskedPlacement:
    return _asked(BY_HAND, place_by_hand(spec.placed, query_plan, configuration, nodes))


def _asked(
    by: str, plan: PhysicalPlan, source: int | None = None, notes: tuple[str, ...] = ()
) -> AskedPlacement:
    workers = {e.label: e.worker.label for e in plan.executors}
    return AskedPlacement(by=by, source=source, workers=workers, notes=notes)


def _proposed(spec: StepSpec, question: SchedulingQuestion) -> Proposal:
    """Return a scheduler's answer, if it is one.

    Raises
    ------
    StepDeclined
        When the scheduler declines, fails, or answers what cannot be placed.
    """
    try:
        return sound_proposal(make_scheduler(spec.scheduler or ""), question)
    except SchedulerDeclined as why:
        raise StepDeclined(f"scheduler {spec.placed_by} has no plan: {why}") from None
    except Exception as why:  # a user's scheduler may raise anything; the other steps go on
        raise StepDeclined(f"scheduler {spec.placed_by} failed with {type(why).__name__}: {why}") from why


def _first_fault(run: Run, step: int) -> str:
    """Return what makes a finished step unusable, but for what only its latencies show; empty for nothing."""
    from harness.analysis.judge import raw_steps  # noqa: PLC0415 (takes a second)
    from harness.analysis.judge.checks import first_fault  # noqa: PLC0415
    from harness.analysis.judge.samples import Samples  # noqa: PLC0415
    from harness.analysis.spark.inputs import read_raw  # noqa: PLC0415

    (record,) = (s for s in read_raw(run.path).steps if s.index == step)
    return first_fault(record, Samples(untiled=raw_steps.untiled(record)))
