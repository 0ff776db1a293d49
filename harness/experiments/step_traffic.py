"""The messages of a step, by the topology's traffic: begun, watched, drained, and kept as records.

Where the harness sends them (``SentMessages``), each is known by name on its way in and out. Messages that a
topology makes itself (``ReportedMessages``) are known only by the reports of its wrappers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol, assert_never

import numpy as np
import pyarrow as pa

from harness.experiments import records
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import Deployment, Load, Metrics
from harness.experiments.expected_members import ExpectedMembers, expected_members
from harness.experiments.measuring import MeasuredInterval
from harness.experiments.recording import AttemptDrained, MessageRecords, own_messages, sent_messages
from harness.experiments.schedule import schedule_of
from harness.experiments.watching import Reports, Watched, WatchedMessages
from harness.plans import PhysicalPlan
from harness.schemas import Metric
from harness.topologies.traffic import HopTraffic, OwnTraffic, SentTraffic, TopicTraffic

POLL_S = 0.25
"""Time between two looks at the cluster while waiting for it."""
DRAIN_MOST_S = 180.0
"""Longest time that a backlog may take to come out after the last message was sent."""
HANDED_OVER_MOST_S = 5.0
"""Longest time that the generator may take to hand over what it has sent: it does so every quarter of a
second, once the broker has answered."""
MAX_PENDING = "topology.max.spout.pending"
FLUSH = "topology.batch.flush.interval.millis"
QUIET_S = 1.5
"""After so long without an output none is on its way: the receiver is at most half of it behind."""
UNSURE_S = 30.0
"""The same where not all that was sent has come out and should, or where spouts, as a jar's, do not tell what
they have read. A missing message may be lost, filtered, or not read yet."""
WINDOWS_MOST_S = 10.0
"""Longest time that windows may take to say what they hold; they do every second in which nothing arrives."""

log = logging.getLogger(__name__)


class StepTraffic(Protocol):
    """The messages of a campaign's steps."""

    def begin(self, step: Step) -> None:
        """Begin to send what the step asks for."""

    def watched(self, plan: PhysicalPlan, up_ns: int, up_epoch_ms: int) -> Watched:
        """Return where the results of a step are seen."""

    def shortcoming(self, measured: MeasuredInterval) -> str:
        """Say why the step should be measured again; empty where it should not."""

    def drain(self, plan: PhysicalPlan) -> str:
        """Wait until all that was sent is dealt with; name the obstacle to the next measurement."""

    def keep(self, attempt: AttemptDrained, metrics: pa.Table) -> MessageRecords:
        """Return the records of a step's messages; ``metrics`` has those of the step."""


def step_traffic(experiment: Experiment, deployment: Deployment, load: Load, metrics: Metrics) -> StepTraffic:
    """Return what an experiment's messages are to its campaign."""
    match experiment.topology.traffic():
        case HopTraffic() as traffic:
            expected = expected_members(experiment)
            return SentMessages(experiment, traffic, deployment, load, metrics, expected)
        case TopicTraffic() as traffic:
            # its outputs say nothing of the ways that they took
            return SentMessages(experiment, traffic, deployment, load, metrics, None)
        case OwnTraffic():
            return ReportedMessages(experiment, deployment, metrics)
        case unknown:
            assert_never(unknown)


class SentMessages:
    """Messages that the harness sends and receives (a ``StepTraffic``).

    Parameters
    ----------
    experiment, deployment, load, metrics
        The campaign's.
    traffic : SentTraffic
        The topology's.
    expected : ExpectedMembers, optional
        What should come out of each message; None where that is not known.
    """

    def __init__(
        self,
        experiment: Experiment,
        traffic: SentTraffic,
        deployment: Deployment,
        load: Load,
        metrics: Metrics,
        expected: ExpectedMembers | None,
    ) -> None:
        self._experiment = experiment
        self._traffic = traffic
        self._deployment = deployment
        self._load = load
        self._metrics = metrics
        self._expected = expected
        self._precision_pct = experiment.measure.interval.precision_pct

    def begin(self, step: Step) -> None:
        """Begin to send at the times that the step's rate gives."""
        interval_at_s = self._experiment.measure.burn_in.most_s  # where the rate changes
        self._load.start(schedule_of(self._experiment.input, step.sent_tps, step.changes, interval_at_s))

    def watched(self, plan: PhysicalPlan, up_ns: int, up_epoch_ms: int) -> Watched:
        """Return where the results of a step are seen: in the messages that come out."""
        del plan, up_ns, up_epoch_ms
        return WatchedMessages(self._load, self._traffic.named_by)

    def shortcoming(self, measured: MeasuredInterval) -> str:
        """Say why the step should be measured again; a saturated one has no steady state to wait for."""
        due = self._load.due(measured.start_ns, measured.end_ns)
        self._wait(
            lambda: records.sent_of_those_due(self._load.sent(), measured) >= due.messages,
            HANDED_OVER_MOST_S,
            "messages that were due",
        )
        sent = self._load.sent()
        schedule = records.on_schedule(sent, measured, due)
        late = "" if schedule.ok else f"generator: {schedule.detail}"
        free = self._traffic.accounting.free
        received, expected = self._load.received(), self._expected
        if records.kept_up(sent, received, measured, expected, free=free).saturated:
            return late
        return measured.shortcoming(self._precision_pct) or late

    def drain(self, plan: PhysicalPlan) -> str:
        """Wait until all that was sent has been dealt with and each window has said what it still holds.

        Return the obstacle to the next measurement; empty without one.

        Workers are killed next. Their successors read again all messages that their spouts have not reported
        as read. The members that their windows held are only known from the windows' reports after the last
        arrival.
        """
        # a time window fires once more after its last member; a batch that is not full leaves at the flush
        windows = [c.window for c in plan.query_plan.components if c.window and c.window.kind == "time"]
        flush_ms = float(str(self._experiment.storm_settings().get(FLUSH, 0)))
        quiet_s = QUIET_S + (max((w.slide for w in windows), default=0) + flush_ms) / 1e3
        # windows hold messages and filters drop them; all others come out, if late after a server stood still
        may_stay = any(c.window for c in plan.query_plan.components) or bool(
            self._expected and self._expected.keeps
        )
        rows, since, taken = -1, 0.0, False

        def done() -> bool:
            nonlocal rows, since, taken
            now = self._load.received().num_rows
            if now != rows or not taken:  # nothing can come out before it was taken
                rows, since, taken = now, time.monotonic(), taken or self._load.taken()
            sure = (self._traffic.takes_are_told and may_stay and now > 0) or self._all_out()
            return taken and time.monotonic() - since >= (quiet_s if sure else max(quiet_s, UNSURE_S))

        drained = self._wait(done, DRAIN_MOST_S, "spouts and outputs")
        # only bolts that record hops say what their windows hold
        if self._traffic.hop_records and self._experiment.measure.instrument:
            tasks, now_ms = _windowed_tasks(plan), time.time_ns() // 1_000_000
            self._wait(lambda: tasks <= self._spoke(now_ms), WINDOWS_MOST_S, "what the windows hold")
        return "" if drained else f"messages sent before were still coming out after {DRAIN_MOST_S:g} s"

    def _all_out(self) -> bool:
        """Return whether all that was sent in the step has come out."""
        sent = self._load.sent()
        ids = sent.filter(sent["error"].is_null())["message_id"].to_numpy()
        return bool(np.isin(ids, self._load.received()["message_id"].to_numpy()).all())

    def _wait(self, done: Callable[[], bool], most_s: float, what: str) -> bool:
        limit = time.monotonic() + most_s
        while not done():
            self._deployment.check()
            if time.monotonic() > limit:
                log.warning("waited for %s in vain for %g s", what, most_s)
                return False
            time.sleep(POLL_S)
        return True

    def _spoke(self, since_ms: int) -> set[int]:
        """Return the windowed tasks that have said what they hold since then."""
        return {int(str(text["task"])) for text in self._metrics.texts(Metric.HELD, since_ms)}

    def keep(self, attempt: AttemptDrained, metrics: pa.Table) -> MessageRecords:
        """Return the records of a step's messages: every one is accounted for."""
        del metrics
        return sent_messages(self._gather(attempt), attempt)

    def _gather(self, attempt: AttemptDrained) -> records.GatheredStep:
        measured, since_ms = attempt.measured, attempt.up.at_epoch_ms
        sent, received = self._load.sent(), self._load.received()
        input_records, output_records = self._load.counts()  # of what has been received by now
        return records.GatheredStep(
            sent=sent,
            received=received,
            input_records=input_records,
            output_records=output_records,
            records_read=self._load.records_read,
            foreign_records=self._load.foreign_records,
            held=self._metrics.texts(Metric.HELD, since_ms),
            failed=self._metrics.texts(Metric.ACK, since_ms),
            errors=self._deployment.reported_errors(since_ms),
            topics=self._load.input_topics,
            due=self._load.due(measured.start_ns, measured.end_ns),
            expected=self._expected,
            accounting=self._traffic.accounting,
            foreign=str(self._load.foreign[0]) if self._load.foreign else "",
            drained=not attempt.left,
        )


class ReportedMessages:
    """Messages that the topology makes itself, as its wrappers report of them (a ``StepTraffic``).

    Parameters
    ----------
    experiment, deployment, metrics
        The campaign's.
    """

    def __init__(self, experiment: Experiment, deployment: Deployment, metrics: Metrics) -> None:
        self._experiment = experiment
        self._deployment = deployment
        self._metrics = metrics

    def begin(self, step: Step) -> None:
        """Do nothing: the topology began when it was up."""

    def watched(self, plan: PhysicalPlan, up_ns: int, up_epoch_ms: int) -> Watched:
        """Return where the results of a step are seen: the wrappers' reports."""
        spouts = plan.query_plan.spouts
        bolts = [c.name for c in plan.query_plan.components if c.name not in spouts]
        return Reports(self._metrics, spouts, bolts, up_ns, up_epoch_ms, self._experiment.measure.bucket_s)

    def shortcoming(self, measured: MeasuredInterval) -> str:
        """Say why the step should be measured again: there is no generator that could be late."""
        said = measured.shortcoming(self._experiment.measure.interval.precision_pct)
        unlimited = self._experiment.storm_settings().get(MAX_PENDING) is None
        # of tuples that nobody tracks the limit says nothing
        if said and unlimited and measured.latency == "ack" and not measured.steadiness.steady:
            said += f"; {MAX_PENDING} has no limit: a spout that emits as fast as it can fills the queues"
        return said

    def drain(self, plan: PhysicalPlan) -> str:
        """Return nothing: the topology goes on making messages, and none of them has to be waited for."""
        del plan
        return ""

    def keep(self, attempt: AttemptDrained, metrics: pa.Table) -> MessageRecords:
        """Return the records of a step's messages: their fates as their spouts saw them, and the rate."""
        return own_messages(attempt, metrics, self._deployment.reported_errors(attempt.up.at_epoch_ms))


def _windowed_tasks(plan: PhysicalPlan) -> set[int]:
    windowed = (c.name for c in plan.query_plan.components if c.window is not None)
    return {task for name in windowed for e in plan.of(name) for task in e.tasks}
