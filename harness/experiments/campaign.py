"""The campaign: leads a topology through the steps of an experiment and writes each finished step.

Each step is measured in this order:

1. The configuration is asked for.
2. The plan that Nimbus applied is read back and compared.
3. The start is discarded until latency and rate are steady.
4. The interval is measured until the mean is precise enough or time is up.
5. The plan is read again.

In the thesis (5.2.1, figure 5.2) burn-in and interval have fixed lengths. The campaign talks to the cluster
only through ``harness.experiments.contracts``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.errors import ClusterError, StepDeclined, StepInvalid
from harness.experiments import machine_faults, records
from harness.experiments.adapted_periods import AdaptedPeriod, nodes_of
from harness.experiments.adapting import Adapter, AdaptingMeasurement, no_adapter
from harness.experiments.arriving_rows import ArrivingRows
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import (
    AskedStep,
    Deployment,
    Load,
    MachineReadings,
    Metrics,
    Phase,
    Planner,
    Probes,
    Progress,
    Watcher,
    unplanned,
    unprobed,
)
from harness.experiments.expected_members import expected_members
from harness.experiments.key_group_moves import KeyGroupRoutes, NoKeyGroups
from harness.experiments.loading import expand_steps
from harness.experiments.measuring import SHOWN_S, MeasuredInterval, Measurement, Report, StepToMeasure
from harness.experiments.recording import (
    AdaptationRecords,
    AttemptAsked,
    AttemptDrained,
    AttemptSettled,
    AttemptUp,
    configuration_text,
    step_files,
)
from harness.experiments.step_faults import FaultMaker, NoFaults, StepFaults
from harness.experiments.step_settings import AdaptSpec
from harness.experiments.step_traffic import step_traffic
from harness.machine.readings import RecentShares, ThisMachine
from harness.plans import Batching, PhysicalPlan, Relief, TopologyConfiguration
from harness.runs import DeclinedStep, Rejected, Run, Submission

POLL_S = 0.25
"""Time between two looks at the cluster while waiting for it."""
DEATH_S = 3.0
"""Longest time that a server whose connections have broken may still be there. A process that is killed
closes its sockets first, and a large one on a busy machine takes a while to end."""
PLAN_TIMEOUT_S = 120.0
"""Longest time that a submission or rebalance may take until its plan is in force."""
REBALANCE_EXPECTED_S = 10.0
"""For the estimate of the time left only."""

LOGGED: tuple[Phase, ...] = ("submit", "rebalance", "drain", "done")
"""Phases that log.txt tells of by themselves; burn-in and interval are in the step's own files."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OutsideWorld:
    """All that a campaign acts on and looks at.

    Attributes
    ----------
    deployment, load, metrics
        The topology on its cluster, its messages, and its reports.
    probes : callable
        Round trips between the worker nodes; asked once a step, when the interval is over.
    machine : MachineReadings
        The machine that the campaign runs on.
    faults : FaultMaker
        Makes the faults of its steps.
    routes : KeyGroupRoutes
        By which key groups move.
    """

    deployment: Deployment
    load: Load
    metrics: Metrics
    probes: Probes = unprobed
    machine: MachineReadings = field(default_factory=ThisMachine)
    faults: FaultMaker = field(default_factory=NoFaults)
    routes: KeyGroupRoutes = field(default_factory=NoKeyGroups)


class Campaign:
    """Carries out the steps of an experiment that the run does not have yet.

    Parameters
    ----------
    experiment, run
        What to measure, and where it is written.
    world : OutsideWorld
    watch : callable
        Told what is going on.
    planner : callable, optional
        Where each step's executors go; all are left to Storm's own scheduler without one.
    adapter : callable, optional
        Decides on the next plan of steps that adapt theirs.
    """

    def __init__(
        self,
        experiment: Experiment,
        run: Run,
        world: OutsideWorld,
        watch: Watcher,
        planner: Planner = unplanned,
        adapter: Adapter = no_adapter,
    ) -> None:
        self._experiment = experiment
        self._run = run
        self._world = world
        self._deployment = world.deployment
        self._load = world.load
        self._watch = watch
        self._shares = RecentShares(world.machine.cpu_times, SHOWN_S)
        self._planner = planner
        self._adapter = adapter
        self._traffic = step_traffic(experiment, world.deployment, world.load, world.metrics)
        self._steps = expand_steps(experiment)
        self._submitted: tuple[Batching, Relief] | None = None  # rewritten so since the last submission
        self._altered = False  # removed with nodes that had come, or changed live
        self._logged: tuple[int, Phase, str] | None = None
        self._left = ""  # what has not come out when the next measurement begins

    def carry_out(self) -> None:
        """Measure every step that is not finished; one that asks for what cannot be had is declined instead.

        Raises
        ------
        ClusterError
            When a server is gone; what was finished is kept, and the run can be resumed.
        """
        finished, declined = set(self._run.finished_steps), set(self._run.declined_steps)
        try:
            for step in self._steps:
                if step.index in finished | declined:
                    continue
                self._altered |= self._deployment.restore_nodes()  # however a step that changed them ended
                if asked := self._ask_planner(step):
                    self._carry_out_step(step, asked, [s for s in self._steps if s.index in finished])
                    finished.add(step.index)
            self._deployment.restore_nodes()  # the cluster is left as it was found
        except ClusterError:
            self._raise_cause()
            raise

    def _raise_cause(self) -> None:
        """Raise the error of a server that died, if one did: it is the cause of its clients' complaints."""
        limit = time.monotonic() + DEATH_S
        while time.monotonic() < limit:
            self._deployment.check()
            time.sleep(POLL_S)

    def _ask_planner(self, step: Step) -> AskedStep | None:
        """Return a step's request to the cluster; None, with the reason written, if the step is declined."""
        try:
            asked = self._planner(step)
        except StepDeclined as why:
            declined = DeclinedStep(step=step.index, configuration=step.label, reason=str(why))
            self._run.write_declined(declined)
            log.warning("step %d, %s: declined: %s", step.index, step.label, why)
            self._show(step, "declined", detail=str(why))
            return None
        return _with_its_workers(asked)

    def _carry_out_step(self, step: Step, request: AskedStep, finished: list[Step]) -> None:
        """Measure a step until it was not disturbed; the last attempt is kept as it is, and marked.

        A step is disturbed in each of these cases:

        - a worker died;
        - no steady state was found;
        - the mean is less precise by far than was asked;
        - the generator did not keep its schedule;
        - the machine's clock was set, or its host gave its CPU to others.

        A neighbour on the same host can cause that. Whether a step is measured again never depends on how
        large its latency is. A cause that delays a generator delays tuples, too, though. So where the machine
        is always too busy for its generator, a kept first attempt is of a calmer moment than most. A step
        with faults is disturbed on purpose, and measured once; so is one that adapts its plan, or whose rate
        changes.
        """
        once = bool(step.faults or step.changes) or self._adapt(step) is not None
        attempts = 1 if once else self._experiment.measure.attempts
        submission: Submission | None = None
        rejected: list[Rejected] = []
        first_ns = time.monotonic_ns()
        for number in range(1, attempts + 1):
            asked = AttemptAsked(
                self._experiment,
                step,
                request,
                self._deployment.expected(request.configuration),
                first_ns,
                time.monotonic_ns(),
                tuple(rejected),
            )
            how, plan = self._apply(step, request, finished)
            submission = submission or how
            self._show(step, "burn-in", plan=plan)
            self._load.begin_step()
            up = AttemptUp(asked, submission, plan, time.monotonic_ns(), time.time_ns() // 1_000_000)
            self._traffic.begin(step)
            periods: list[AdaptedPeriod] = []
            with ArrivingRows(self._run.path, self._world.metrics, step.index, up.at_epoch_ms) as arriving:
                outcome = self._measure(up, periods, arriving, last=number == attempts)
                if isinstance(outcome, MeasuredInterval):
                    settled_ns = time.monotonic_ns()
                    settled = AttemptSettled(up, outcome, self._deployment.plan(), settled_ns)
                    self._write(self._drain(settled), periods)
                    self._altered |= any(p.asked is not None and p.asked.live for p in periods)
                    return
            rejected.append(outcome)
            log.warning("step %d, attempt %d: %s", step.index, number, outcome.reason)
            self._show(step, "again", detail=outcome.reason)
            self._load.stop()
            # what a restarted spout reads again is not of the next attempt
            self._left = self._traffic.drain(plan)
            self._await_plan(request)

    def _adapt(self, step: Step) -> AdaptSpec | None:
        """Return who changes the plan of a step while it is measured; None where it stays."""
        return self._experiment.steps.plan[step.spec].adapt

    def _measure(
        self, up: AttemptUp, periods: list[AdaptedPeriod], arriving: ArrivingRows, *, last: bool
    ) -> MeasuredInterval | Rejected:
        """Measure an attempt; one that will not be kept is returned as its record, unless it is the last."""
        step = up.asked.step
        adapt = self._adapt(step)
        given = StepToMeasure(
            self._experiment,
            step,
            self._traffic.watched(up.plan, up.at_ns, up.at_epoch_ms),
            self._deployment,
            self._reporter(step, arriving),
            self._world.machine,
            StepFaults(step.faults, self._world.faults),
        )
        if adapt is None:
            measurement = Measurement(given, tolerant=last)
        else:
            measurement = AdaptingMeasurement(
                given,
                self._world.metrics,
                self._load.due,
                self._world.routes,
                self._adapter,
                adapt,
                periods,
            )
        try:
            measured = measurement.carry_out()
            reason = "" if last else self._shortcoming(measured)
        except StepInvalid as error:  # disturbed, or a value that no measurement can have
            if last:
                raise
            return Rejected.broken_off(str(error))
        return measured.rejected(reason) if reason else measured

    def _drain(self, settled: AttemptSettled) -> AttemptDrained:
        """Stop sending, and wait until all that was sent is dealt with."""
        self._show(settled.up.asked.step, "drain")
        self._load.stop()
        left_before, self._left = self._left, self._traffic.drain(settled.up.plan)
        return AttemptDrained(settled, left_before, self._left, time.monotonic_ns())

    def _shortcoming(self, measured: MeasuredInterval) -> str:
        """Say why a step should be measured again: for its messages, or for what its machine did."""
        limits = self._experiment.measure.steal_pct
        return self._traffic.shortcoming(measured) or machine_faults.shortcoming(measured.machine, limits)

    def _apply(self, step: Step, asked: AskedStep, finished: list[Step]) -> tuple[Submission, PhysicalPlan]:
        """Bring what the step asks into force and return the plan that Nimbus made of it."""
        submission: Submission
        before = None if step.fresh else self._asked_before(finished)
        if before is not None and before.rewritten == asked.rewritten:
            # A resumed run goes the same way as the original: from the configuration before, by rebalance.
            self._show(step, "submit", detail="the last finished configuration")
            self._deployment.submit(before.configuration, before.placement, *before.rewritten)
            self._await_plan(before)
            submission = "resumed"
        elif self._submitted is None or step.fresh or self._altered or self._submitted != asked.rewritten:
            self._show(step, "submit")
            submission = "first" if self._submitted is None and not finished else "fresh"
            self._deployment.submit(asked.configuration, asked.placement, *asked.rewritten)
        else:
            submission = "rebalance"
        self._submitted = asked.rewritten
        self._altered = False
        if submission in ("rebalance", "resumed"):
            self._show(step, "rebalance")
            if asked.placement is None:
                self._deployment.rebalance(asked.configuration)
            else:
                self._deployment.place(asked.configuration, asked.placement)
        return submission, self._await_plan(asked)

    def _asked_before(self, finished: list[Step]) -> AskedStep | None:
        """Return what the last finished step asked, where nothing is submitted yet."""
        if self._submitted is not None or not finished:
            return None
        last = finished[-1]
        plan = self._run.plan(last.index)
        batching = last.batching if plan.batching is None else plan.batching
        components = last.configuration.executors
        own = {name: plan.asked.executors[name] for name in components}
        configuration = TopologyConfiguration(executors=own, workers=plan.asked.workers)
        return AskedStep(configuration, plan.placement, batching, plan.relief)

    def _await_plan(self, asked: AskedStep) -> PhysicalPlan:
        """Wait until the plan in force is the asked one and all of its executors are up."""
        wanted, since_epoch_ms = self._deployment.expected(asked.configuration), time.time_ns() // 1_000_000
        limit = time.monotonic() + PLAN_TIMEOUT_S
        found = TopologyConfiguration(executors={}, workers=1)
        while time.monotonic() < limit:
            self._deployment.check()
            self._deployment.check_start()
            plan = self._deployment.plan()
            found = plan.configuration() if plan.executors else found
            if found == wanted and self._deployment.whole():
                return plan
            time.sleep(POLL_S)
        errors = self._deployment.reported_errors(since_epoch_ms)
        raise ClusterError(
            f"the plan was not in force after {PLAN_TIMEOUT_S:g} s:"
            f" asked {configuration_text(wanted)}, found {configuration_text(found)}",
            self._deployment.waits_for()
            or (errors[-1] if errors else "look at the logs of nimbus, supervisors and workers"),
        )

    def _write(self, attempt: AttemptDrained, periods: Sequence[AdaptedPeriod]) -> None:
        """Write the files of a step, and say what was found."""
        step, up, world = attempt.asked.step, attempt.up, self._world
        self._load.catch_up()
        until_ms = time.time_ns() // 1_000_000
        rows, probed = (of(up.at_epoch_ms, until_ms) for of in (world.metrics.rows, world.probes))
        metrics = records.metrics(rows, nodes_of(periods, up.plan, attempt.settled.plan))
        kept = self._traffic.keep(attempt, metrics)
        adapted = None
        if (adapt := self._adapt(step)) is not None:
            sent = records.coming_out(self._load.sent(), expected_members(self._experiment))
            adapted = AdaptationRecords.of(periods, kept, sent, self._load.received(), adapt.target_p95_ms)
        files = step_files(attempt, kept, metrics, probed, adapted)
        interval = self._run.write_step(step.index, files)
        log.info("step %d written, %.1f s beyond burn-in and interval", step.index, interval.overhead_s or 0)
        world.metrics.forget(up.at_epoch_ms + round((interval.done_ns - up.at_ns) / 1e6))
        found = (
            files.quality.saturated
            or f"mean {interval.mean_ms:.2f} ms ± {interval.precision_pct_reached:.1f} % "
            f"({kept.latency.num_rows} rows, burn-in {interval.burn_in.seconds:.0f} s)"
        )
        twice = interval.measured_again
        detail = f"{found}; {twice}" if twice else found
        self._show(step, "done", detail=detail, ledger=files.quality.ledger_counts)

    def _reporter(self, step: Step, arriving: ArrivingRows) -> Report:
        rest = self._steps[self._steps.index(step) + 1 :]
        measure = self._experiment.measure
        a_step = REBALANCE_EXPECTED_S + measure.burn_in.least_s + measure.interval.most_s

        def report(
            phase: Phase,
            rate: float | None,
            latency: float | None,
            left: float | None,
            detail: str,
            ledger: Mapping[str, int],
        ) -> None:
            arriving.keep()
            total = None if left is None else left + len(rest) * a_step
            self._tell(
                Progress(
                    step.index, len(self._steps), phase, step.label, rate, latency, total, detail, ledger
                )
            )

        return report

    def _show(
        self,
        step: Step,
        phase: Phase,
        detail: str = "",
        ledger: Mapping[str, int] | None = None,
        plan: PhysicalPlan | None = None,
    ) -> None:
        counts = {} if ledger is None else ledger
        self._tell(
            Progress(step.index, len(self._steps), phase, step.label, detail=detail, ledger=counts, plan=plan)
        )

    def _tell(self, now: Progress) -> None:
        said = (now.step, now.phase, now.detail)
        if said != self._logged and now.phase in LOGGED:
            self._logged = said
            detail = f", {now.detail}" if now.detail else ""
            log.info("step %d, %s: %s%s", now.step, now.label, now.phase, detail)
        if (seen := self._shares.at(time.monotonic())) is not None:
            now = replace(now, machine_busy_pct=seen.busy_pct, machine_steal_pct=seen.steal_pct)
        self._watch(now)


def _with_its_workers(asked: AskedStep) -> AskedStep:
    """Return what a step asks: with a placement, as many workers as it uses."""
    if asked.placement is None:
        return asked
    workers = {"workers": asked.placement.number_of_workers}
    return replace(asked, configuration=asked.configuration.model_copy(update=workers))
