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
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from harness.errors import ClusterError, StepDeclined, StepInvalid
from harness.experiments import machine_faults, records
from harness.experiments.adapted_periods import AdaptedPeriod, adaptation_table, adapted_quality, nodes_of
from harness.experiments.adapting import Adapter, AdaptingMeasurement, no_adapter
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
from harness.experiments.loading import expand_steps
from harness.experiments.measuring import MeasuredInterval, Measurement, Report, StepToMeasure
from harness.experiments.step_faults import FaultMaker, NoFaults, StepFaults
from harness.experiments.step_traffic import step_traffic
from harness.machine.readings import ThisMachine
from harness.plans import AskedPlacement, Batching, PhysicalPlan, Relief, TopologyConfiguration
from harness.quality import Finding
from harness.runs import DeclinedStep, Rejected, Run, StepPlan, Submission

POLL_S = 0.25
"""How often the cluster is looked at while waiting for it."""
DEATH_S = 3.0
"""How long a server whose connections have broken may still be there: a process that is killed closes its
sockets first, and a large one on a busy machine takes a while to end."""
PLAN_TIMEOUT_S = 120.0
"""How long a submission or rebalance may take until its plan is in force."""
REBALANCE_EXPECTED_S = 10.0
"""For the estimate of the time left only."""

LOGGED: tuple[Phase, ...] = ("submit", "rebalance", "drain", "done")
"""Phases that log.txt tells of by themselves; burn-in and interval are in the step's own files."""

MOST_NAMED = 3
"""Executors that are not where they were asked for, as a message names them."""

log = logging.getLogger(__name__)


class CampaignTimes(NamedTuple):
    """When a step's parts began and ended: monotonic ns, and epoch ms."""

    first_asked_ns: int
    asked_ns: int
    up_ns: int
    up_epoch_ms: int
    settled_ns: int
    drained_ns: int


class Campaign:
    """Carries out the steps of an experiment that the run does not have yet.

    Parameters
    ----------
    experiment, run
        What to measure, and where it is written.
    deployment, load, metrics
        The outside world.
    watch : callable
        Told what is going on.
    probes : callable, optional
        What is between the worker nodes; asked once a step, when the interval is over.
    planner : callable, optional
        Where each step's executors go; all are left to Storm's own scheduler without one.
    machine : MachineReadings, optional
        The machine that it runs on; by default as it is.
    faults : FaultMaker, optional
        Makes the faults of its steps; by default there are none.
    adapter : callable, optional
        Decides on the next plan of steps that adapt theirs.
    """

    def __init__(
        self,
        experiment: Experiment,
        run: Run,
        deployment: Deployment,
        load: Load,
        metrics: Metrics,
        watch: Watcher,
        probes: Probes = unprobed,
        planner: Planner = unplanned,
        machine: MachineReadings | None = None,
        faults: FaultMaker | None = None,
        adapter: Adapter = no_adapter,
    ) -> None:
        self._experiment = experiment
        self._run = run
        self._deployment = deployment
        self._load = load
        self._metrics = metrics
        self._watch = watch
        self._probes = probes
        self._planner = planner
        self._machine = machine or ThisMachine()
        self._faults = faults or NoFaults()
        self._adapter = adapter
        self._traffic = step_traffic(experiment, deployment, load, metrics)
        self._steps = expand_steps(experiment)
        self._submitted: tuple[Batching, Relief] | None = None  # rewritten so since the last submission
        self._scaled = False  # whether it was removed since then, with nodes that had come
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
                if step.index not in finished | declined and (asked := self._ask_planner(step)):
                    self._carry_out_step(step, asked, [s for s in self._steps if s.index in finished])
                    finished.add(step.index)
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

    def _carry_out_step(self, step: Step, asked: AskedStep, finished: list[Step]) -> None:
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
        submission: Submission = "first"
        rejected: list[Rejected] = []
        first_asked_ns = time.monotonic_ns()
        adapt = self._experiment.steps.plan[step.spec].adapt
        once = bool(step.faults or step.changes) or adapt is not None
        attempts = 1 if once else self._experiment.measure.attempts
        for attempt in range(1, attempts + 1):
            asked_ns = time.monotonic_ns()
            how, start = self._apply(step, asked, finished)
            self._show(step, "burn-in", plan=start)
            submission = how if attempt == 1 else submission
            self._load.begin_step()
            up_ns = time.monotonic_ns()
            up_epoch_ms = time.time_ns() // 1_000_000
            self._traffic.begin(step)
            given = StepToMeasure(
                self._experiment,
                step,
                self._traffic.watched(start, up_ns, up_epoch_ms),
                self._deployment,
                self._reporter(step),
                self._machine,
                StepFaults(step.faults, self._faults),
            )
            periods: list[AdaptedPeriod] = []
            if adapt is None:
                measurement = Measurement(given, tolerant=attempt == attempts)
            else:
                measurement = AdaptingMeasurement(
                    given, self._metrics, self._load.due, self._adapter, adapt.period_s, periods
                )
            try:
                measured = measurement.carry_out()
                reason = "" if attempt == attempts else self._shortcoming(measured)
                attempted = measured.rejected(reason) if reason else None
            except StepInvalid as error:  # disturbed, or a value that no measurement can have
                if attempt == attempts:
                    raise
                attempted = Rejected(reason=str(error))
            if attempted:
                rejected.append(attempted)
                log.warning("step %d, attempt %d: %s", step.index, attempt, attempted.reason)
                self._show(step, "again", detail=attempted.reason)
                self._load.stop()
                # what a restarted spout reads again is not of the next attempt
                self._left = self._traffic.drain(start)
                self._await_plan(asked)
                continue
            settled_ns = time.monotonic_ns()
            end = self._deployment.plan()
            self._show(step, "drain")
            self._load.stop()
            left_before, self._left = self._left, self._traffic.drain(start)
            times = CampaignTimes(
                first_asked_ns, asked_ns, up_ns, up_epoch_ms, settled_ns, time.monotonic_ns()
            )
            self._write(
                step, asked, submission, tuple(rejected), times, start, end, measured, left_before, periods
            )
            if adapt is not None and adapt.nodes is not None:
                self._deployment.restore_nodes()
                self._scaled = True
            return

    def _shortcoming(self, measured: MeasuredInterval) -> str:
        """Say why a step should be measured again: for its messages, or for what its machine did."""
        limits = self._experiment.measure.steal_pct
        return self._traffic.shortcoming(measured) or machine_faults.shortcoming(measured, limits)

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
        elif self._submitted is None or step.fresh or self._scaled or self._submitted != asked.rewritten:
            self._show(step, "submit")
            submission = "first" if self._submitted is None and not finished else "fresh"
            self._deployment.submit(asked.configuration, asked.placement, *asked.rewritten)
        else:
            submission = "rebalance"
        self._submitted = asked.rewritten
        self._scaled = False
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
            f" asked {_text(wanted)}, found {_text(found)}",
            self._deployment.scheduling()
            or (errors[-1] if errors else "look at the logs of nimbus, supervisors and workers"),
        )

    def _write(
        self,
        step: Step,
        asked_step: AskedStep,
        submission: Submission,
        rejected: tuple[Rejected, ...],
        times: CampaignTimes,
        start: PhysicalPlan,
        end: PhysicalPlan,
        measured: MeasuredInterval,
        left_before: str,
        periods: Sequence[AdaptedPeriod],
    ) -> None:
        self._load.catch_up()
        until_ms = time.time_ns() // 1_000_000
        rows, probed = (of(times.up_epoch_ms, until_ms) for of in (self._metrics.rows, self._probes))
        metrics = records.metrics(rows, nodes_of(periods, start, end))
        asked, placement = self._deployment.expected(asked_step.configuration), asked_step.placement
        change = measured.disturbance
        if start.executors != end.executors:
            change = change or "the plan at the end differs from the one at the start"
        kept = self._traffic.keep(
            step,
            start,
            measured,
            metrics,
            times.up_epoch_ms,
            drained=not self._left,
            plan_as_asked=_as_asked(start, asked, placement),
            plan_unchanged=Finding(ok=not change, detail=change),
        )
        began_empty = Finding(ok=not left_before, detail=left_before)
        of_the_machine = {
            "alone": machine_faults.alone(measured),
            "clocks": machine_faults.clocks(measured),
            "stolen": self._experiment.measure.steal_pct.finding(measured.machine_steal_pct),
        }
        update = {"began_empty": began_empty, **of_the_machine}
        quality, known = kept.quality.model_copy(update=update), kept.look
        adaptation = None
        if (adapt := self._experiment.steps.plan[step.spec].adapt) is not None:
            messages = self._load.sent(), self._load.received()
            quality = adapted_quality(quality, periods, *messages)
            adaptation = adaptation_table(periods, *messages, adapt.target_p95_ms)
        now_ns = time.monotonic_ns()
        interval = records.interval(
            step,
            measured,
            known,
            rate_tps=kept.rate_tps,
            precision_pct=self._experiment.measure.interval.precision_pct,
            moments_ns=records.Moments(
                times.asked_ns, times.up_ns, times.settled_ns, times.drained_ns, now_ns
            ),
            submission=submission,
            asked=asked_step,
        ).model_copy(
            update={
                "attempt": len(rejected) + 1,
                "rejected": rejected,
                "rejected_s": (times.asked_ns - times.first_asked_ns) / 1e9 if rejected else 0.0,
                "machine_busy_pct": measured.machine_busy_pct,
                "machine_steal_pct": measured.machine_steal_pct,
                "clock_offset_start_ns": measured.clock_offset_start_ns,
                "clock_offset_end_ns": measured.clock_offset_end_ns,
                "faults": measured.faults,
                "evidence": step.evidence,
            }
        )
        interval = self._run.write_step(
            step.index,
            StepPlan(
                asked=asked,
                start=start,
                end=end,
                placement=placement,
                batching=asked_step.batching,
                relief=asked_step.relief,
            ),
            interval,
            quality,
            kept.latency,
            pa.concat_tables([metrics, probed]).unify_dictionaries(),
            tuning=asked_step.tuning,
            adaptation=adaptation,
        )
        log.info("step %d written, %.1f s beyond burn-in and interval", step.index, interval.overhead_s or 0)
        self._metrics.forget(times.up_epoch_ms + round((interval.done_ns - times.up_ns) / 1e6))
        found = (
            quality.saturated
            or f"mean {known.mean:.2f} ms ± {known.precision_pct:.1f} % "
            f"({kept.latency.num_rows} rows, burn-in {measured.burn_in.seconds:.0f} s)"
        )
        self._show(
            step,
            "done",
            detail=f"{found}; {twice}" if (twice := interval.measured_again) else found,
            ledger=quality.ledger_counts,
        )

    def _reporter(self, step: Step) -> Report:
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
            total = None if left is None else left + len(rest) * a_step
            self._show(step, phase, rate, latency, total, detail, ledger)

        return report

    def _show(
        self,
        step: Step,
        phase: Phase,
        rate_tps: float | None = None,
        latency_ms: float | None = None,
        left_s: float | None = None,
        detail: str = "",
        ledger: Mapping[str, int] | None = None,
        plan: PhysicalPlan | None = None,
    ) -> None:
        if (step.index, phase, detail) != self._logged and phase in LOGGED:
            self._logged = (step.index, phase, detail)
            log.info("step %d, %s: %s%s", step.index, step.label, phase, f", {detail}" if detail else "")
        steps, counts = len(self._steps), ledger or {}
        self._watch(
            Progress(step.index, steps, phase, step.label, rate_tps, latency_ms, left_s, detail, counts, plan)
        )


def _with_its_workers(asked: AskedStep) -> AskedStep:
    """Return what a step asks: with a placement, as many workers as it uses."""
    if asked.placement is None:
        return asked
    workers = {"workers": asked.placement.number_of_workers}
    return replace(asked, configuration=asked.configuration.model_copy(update=workers))


def _as_asked(plan: PhysicalPlan, asked: TopologyConfiguration, placement: AskedPlacement | None) -> Finding:
    """Compare a plan with what was asked: numbers, and with a placement executor by executor."""
    elsewhere = () if placement is None else placement.differences(plan)
    detail = "; ".join((_text(plan.configuration()), *elsewhere[:MOST_NAMED]))
    return Finding(ok=plan.configuration() == asked and not elsewhere, detail=detail)


def _text(configuration: TopologyConfiguration) -> str:
    counts = " ".join(f"{name}:{count}" for name, count in sorted(configuration.executors.items()))
    return f"{counts} on {configuration.workers} workers"
