"""The records of a step, built in phases: asked for, up, settled, drained; each file is then made once.

Measured and played steps are recorded by the same code. A phase holds the one before it, so that a later one
cannot be had without what comes first, and no record is changed after it was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from harness.experiments import machine_faults
from harness.experiments.adapted_periods import ADAPTED, AdaptedPeriod, adaptation_table, judged_adaptation
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import AskedStep
from harness.experiments.measuring import MeasuredInterval
from harness.experiments.precision import Look
from harness.experiments.records import (
    ABSENT,
    CHANGES,
    SIMULATED,
    GatheredStep,
    delivery,
    kept_up,
    latency,
    ledger,
    on_schedule,
    rate_tps,
    settled_look,
    tracked,
)
from harness.plans import AskedPlacement, PhysicalPlan, TopologyConfiguration
from harness.quality import Adaptation, Backlog, Finding, Ledger, Quality, Tracked
from harness.runs.records import Interval, Rejected, StepFiles, StepPlan, Submission
from harness.schemas import LATENCY, METRICS

MOST_NAMED = 3
"""Executors that are not where they were asked for, or errors of tasks, as a finding names them."""


@dataclass(frozen=True)
class AttemptAsked:
    """An attempt at a step that begins: its plan is asked for.

    Attributes
    ----------
    experiment, step : Experiment, Step
    request : AskedStep
        The step's request to the cluster.
    configuration : TopologyConfiguration
        The same with Storm's own executors.
    first_ns, at_ns : int
        When the first attempt at the step was asked for, and when this one was.
    rejected : tuple of Rejected
        The attempts between the two.
    """

    experiment: Experiment
    step: Step
    request: AskedStep
    configuration: TopologyConfiguration
    first_ns: int
    at_ns: int
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True)
class AttemptUp:
    """An attempt whose plan is in force.

    Attributes
    ----------
    asked : AttemptAsked
    submission : {'first', 'rebalance', 'fresh', 'resumed'}
        How the configuration was brought about, by the first attempt.
    plan : PhysicalPlan
        As Nimbus applied it.
    at_ns, at_epoch_ms : int
        When it was up, by both clocks.
    """

    asked: AttemptAsked
    submission: Submission
    plan: PhysicalPlan
    at_ns: int
    at_epoch_ms: int


@dataclass(frozen=True)
class AttemptSettled:
    """An attempt whose interval was measured, and whose last messages were waited for.

    Attributes
    ----------
    up : AttemptUp
    measured : MeasuredInterval
    plan : PhysicalPlan
        In force by then.
    at_ns : int
    """

    up: AttemptUp
    measured: MeasuredInterval
    plan: PhysicalPlan
    at_ns: int

    @property
    def plan_unchanged(self) -> Finding:
        """Say whether the plan at the end is the one at the start, with its workers as they were."""
        change = self.measured.disturbance
        if self.up.plan.executors != self.plan.executors:
            change = change or "the plan at the end differs from the one at the start"
        return Finding(ok=not change, detail=change)


@dataclass(frozen=True)
class AttemptDrained:
    """An attempt all of whose messages were dealt with, or were waited for as long as they may take.

    Attributes
    ----------
    settled : AttemptSettled
    left_before, left : str
        Obstacles to a measurement that were there when the step began, and when it had been drained; empty
        without one.
    at_ns : int
    """

    settled: AttemptSettled
    left_before: str
    left: str
    at_ns: int

    @property
    def measured(self) -> MeasuredInterval:
        """The interval."""
        return self.settled.measured

    @property
    def up(self) -> AttemptUp:
        """The attempt when it was up."""
        return self.settled.up

    @property
    def asked(self) -> AttemptAsked:
        """The attempt when it began."""
        return self.settled.up.asked


@dataclass(frozen=True)
class MessageFindings:
    """Findings about a step's messages: None where a check does not apply, and then ``absent`` says why."""

    generator: Finding | None
    receiver: Finding | None
    ledger: Ledger | None
    tracked: Tracked | None
    backlog: Backlog | None
    absent: Mapping[str, str]


@dataclass(frozen=True)
class MessageRecords:
    """The records of a step's messages.

    Attributes
    ----------
    findings : MessageFindings
    errors : sequence of str
        What the topology's tasks reported.
    latency : Table
        ``latency.parquet``.
    mean : Look
        The mean latency as known at the end.
    rate_tps : float
        Messages a second.
    """

    findings: MessageFindings
    errors: Sequence[str]
    latency: pa.Table
    mean: Look
    rate_tps: float


def sent_messages(gathered: GatheredStep, attempt: AttemptDrained) -> MessageRecords:
    """Return the records of messages that the harness sent: every one is accounted for."""
    measured, step = attempt.measured, attempt.asked.step
    assembled = latency(gathered, attempt.up.plan, measured)
    rows = assembled.latency.num_rows
    backlog = kept_up(
        gathered.sent,
        gathered.received,
        measured,
        gathered.expected,
        free=gathered.accounting.free and gathered.drained,
    )
    return MessageRecords(
        MessageFindings(
            generator=on_schedule(gathered.sent, measured, gathered.due),
            receiver=Finding(
                ok=not assembled.complaints,
                detail="; ".join(assembled.complaints) or f"{rows} rows, none impossible",
            ),
            ledger=ledger(gathered, measured),
            tracked=None,
            backlog=backlog,
            absent={},
        ),
        errors=gathered.errors,
        latency=assembled.latency,
        mean=settled_look(assembled, measured, attempt.asked.experiment.measure.interval.precision_pct),
        rate_tps=step.mean_tps((measured.end_ns - measured.start_ns) / 1e9),
    )


def own_messages(attempt: AttemptDrained, metrics: pa.Table, errors: Sequence[str]) -> MessageRecords:
    """Return the records of messages that a topology makes itself: their fates as its spouts saw them."""
    measured, spouts = attempt.measured, attempt.up.plan.query_plan.spouts
    interval_ms = (measured.start_epoch_ms, measured.end_epoch_ms)
    return MessageRecords(
        MessageFindings(
            generator=None,
            receiver=None,
            ledger=None,
            tracked=tracked(metrics, spouts, interval_ms),
            backlog=None,
            absent=ABSENT,
        ),
        errors=errors,
        latency=LATENCY.empty_table(),
        mean=measured.look,
        rate_tps=rate_tps(metrics, spouts, interval_ms),
    )


@dataclass(frozen=True)
class AdaptationRecords:
    """The records of a step that adapted its plan: its judgement, and ``adaptation.parquet``."""

    judgement: Adaptation
    table: pa.Table

    @classmethod
    def of(
        cls,
        periods: Sequence[AdaptedPeriod],
        messages: MessageRecords,
        sent: pa.Table,
        received: pa.Table,
        target_p95_ms: float | None,
    ) -> AdaptationRecords:
        """Return the records of a step's periods; parameters are those of ``adaptation_table``."""
        return cls(
            judged_adaptation(messages.findings.ledger, periods, sent, received),
            adaptation_table(periods, sent, received, target_p95_ms),
        )


def step_files(
    attempt: AttemptDrained,
    messages: MessageRecords,
    metrics: pa.Table,
    probed: pa.Table | None = None,
    adapted: AdaptationRecords | None = None,
) -> StepFiles:
    """Return the files of a step.

    Parameters
    ----------
    attempt : AttemptDrained
        The one that is kept.
    messages : MessageRecords
    metrics : Table
        Reports of the topology, of the schema ``METRICS``.
    probed : Table, optional
        Probes between worker nodes, of the same schema.
    adapted : AdaptationRecords, optional
        Of a step that adapted its plan.
    """
    request = attempt.asked.request
    both = [metrics, METRICS.empty_table() if probed is None else probed]
    return StepFiles(
        plan=StepPlan(
            asked=attempt.asked.configuration,
            start=attempt.up.plan,
            end=attempt.settled.plan,
            placement=request.placement,
            batching=request.batching,
            relief=request.relief,
        ),
        quality=_quality(attempt, messages, metrics, None if adapted is None else adapted.judgement),
        interval=lambda done_ns: _interval(attempt, messages, done_ns),
        latency=messages.latency,
        metrics=pa.concat_tables(both).unify_dictionaries(),
        tuning=request.tuning,
        adaptation=None if adapted is None else adapted.table,
    )


def _quality(
    attempt: AttemptDrained, messages: MessageRecords, metrics: pa.Table, adaptation: Adaptation | None
) -> Quality:
    asked, measured, found = attempt.asked, attempt.measured, messages.findings
    measure, machine = asked.experiment.measure, measured.machine
    absent = {
        **found.absent,
        **(SIMULATED if machine is None else {}),
        **(CHANGES if asked.step.changes else {}),
        **(ADAPTED if adaptation is not None else {}),
    }
    began_empty = Finding(ok=not attempt.left_before, detail=attempt.left_before)
    return Quality(
        plan_as_asked=plan_as_asked(attempt.up.plan, asked.configuration, asked.request.placement),
        plan_unchanged=attempt.settled.plan_unchanged,
        steady=Finding(
            ok=measured.steadiness.steady and measured.burn_in.found,
            detail=f"burn-in: {measured.burn_in.reason}; interval: {measured.steadiness.reason}",
        ),
        generator=found.generator,
        receiver=found.receiver,
        errors_reported=Finding(ok=not messages.errors, detail="; ".join(messages.errors[:MOST_NAMED])),
        ledger=found.ledger,
        tracked=found.tracked,
        absent=absent,
        metrics=delivery(metrics, instrumented=measure.instrument),
        backlog=found.backlog,
        began_empty=None if machine is None else began_empty,
        clocks=None if machine is None else machine_faults.clocks(machine),
        stolen=None if machine is None else measure.steal_pct.finding(machine.steal_pct),
        alone=None if machine is None else machine_faults.alone(machine),
        adaptation=adaptation,
    )


def _interval(attempt: AttemptDrained, messages: MessageRecords, done_ns: int) -> Interval:
    asked, up, measured, mean = attempt.asked, attempt.up, attempt.measured, messages.mean
    machine = measured.machine
    return Interval(
        step=asked.step.index,
        configuration=asked.request.label(asked.step),
        rate_tps=messages.rate_tps,
        rebalance_start_ns=asked.at_ns,
        up_ns=up.at_ns,
        start_ns=measured.start_ns,
        end_ns=measured.end_ns,
        settled_ns=attempt.settled.at_ns,
        drained_ns=attempt.at_ns,
        done_ns=done_ns,
        overhead_s=((up.at_ns - asked.at_ns) + (done_ns - measured.end_ns)) / 1e9,
        start_epoch_ms=measured.start_epoch_ms,
        end_epoch_ms=measured.end_epoch_ms,
        burn_in=measured.burn_in,
        stop_reason=measured.stop_reason,
        mean_ms=mean.mean,
        half_width_ms=mean.half_width,
        precision_pct_asked=asked.experiment.measure.interval.precision_pct,
        precision_pct_reached=mean.precision_pct,
        independent=mean.independent,
        looks=measured.looks,
        latency=measured.latency,
        complete_latency_ms=measured.complete_latency_ms,
        submission=up.submission,
        attempt=len(asked.rejected) + 1,
        rejected=asked.rejected,
        rejected_s=(asked.at_ns - asked.first_ns) / 1e9 if asked.rejected else 0.0,
        machine_busy_pct=None if machine is None else machine.busy_pct,
        machine_steal_pct=None if machine is None else machine.steal_pct,
        clock_offset_start_ns=None if machine is None else machine.clock_offset_start_ns,
        clock_offset_end_ns=None if machine is None else machine.clock_offset_end_ns,
        faults=measured.faults,
        evidence=asked.step.evidence,
    )


def plan_as_asked(
    plan: PhysicalPlan, asked: TopologyConfiguration, placement: AskedPlacement | None
) -> Finding:
    """Compare a plan with what was asked: numbers, and with a placement executor by executor."""
    elsewhere = () if placement is None else placement.differences(plan)
    detail = "; ".join((configuration_text(plan.configuration()), *elsewhere[:MOST_NAMED]))
    return Finding(ok=plan.configuration() == asked and not elsewhere, detail=detail)


def configuration_text(configuration: TopologyConfiguration) -> str:
    """Return executors and workers in words.

    Examples
    --------
    >>> configuration_text(TopologyConfiguration(executors={"b": 1, "a": 2}, workers=3))
    'a:2 b:1 on 3 workers'
    """
    counts = " ".join(f"{name}:{count}" for name, count in sorted(configuration.executors.items()))
    return f"{counts} on {configuration.workers} workers"
