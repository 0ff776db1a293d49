"""A plan for a topology that stays: predicted, asked of its cluster, measured, and kept or taken back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.app.homes import temporary_home
from harness.app.jars import jars
from harness.app.store_sender import given_store
from harness.app.submitted.attempting import PlanAttempt
from harness.app.submitted.folder import KeptPlan, Seen, SubmittedTopology, TrackRecord, now_ms
from harness.app.submitted.observing import Outlook, RowSpan, look_ahead
from harness.app.submitted.plan_file import AskedPlan, differences, labels
from harness.app.submitted.recorded_plans import keep_in_graph
from harness.app.submitted.submitting import configuration_of
from harness.backends.influxdb.store import InfluxStore
from harness.backends.running.standing import StandingCluster
from harness.errors import ClusterError, UsageError
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import TopicNames
from harness.experiments.measure_settings import BurnIn, IntervalSettings, Measuring
from harness.experiments.measuring import MeasuredInterval, Measurement, Report, StepToMeasure
from harness.experiments.step_faults import NoFaults, StepFaults
from harness.experiments.watching import REPORTED_S, Reports
from harness.machine.readings import ThisMachine
from harness.machine.servers import ServerHomes
from harness.plans import AskedPlacement, PhysicalPlan
from harness.storm.deployment import StormDeployment, submitter_of
from harness.storm.submission import MetricsAddress

PLAN_WITHIN_S = 240.0
"""Longest time that a plan may take until it is in force."""
POLL_S = 0.5


@dataclass(frozen=True)
class ApplyTimes:
    """Lengths of time in seconds.

    Attributes
    ----------
    observe_s : float
        At the plan in force, before.
    burn_in_s, interval_s : float
        What is discarded of the new one, at least, and what is measured of it.
    """

    observe_s: float = 60
    burn_in_s: float = 15
    interval_s: float = 60


@dataclass(frozen=True)
class Foreseen:
    """A plan that may be applied: the one in force, the one that would run, and their outlook."""

    running: PhysicalPlan
    proposed: PhysicalPlan
    outlook: Outlook


class StandingTopology:
    """A submitted topology on its cluster.

    Parameters
    ----------
    topology : SubmittedTopology
    cluster : StandingCluster
    deployment : StormDeployment
        Of the topology, which it does not submit.
    store : InfluxStore
        Its metrics.
    times : ApplyTimes
    """

    def __init__(
        self,
        topology: SubmittedTopology,
        cluster: StandingCluster,
        deployment: StormDeployment,
        store: InfluxStore,
        times: ApplyTimes,
    ) -> None:
        self._topology = topology
        self._cluster = cluster
        self._deployment = deployment
        self._store = store
        self._times = times
        self._experiment = _measured_so(topology.experiment, times)
        self._name = topology.facts.topology

    def foresee(self, asked: AskedPlan, model: str) -> Foreseen:
        """Check a plan, and let a model predict it; nothing is changed.

        Raises
        ------
        UsageError
            When the plan in force is not the one that it was predicted from, or it cannot be applied.
        ClusterError
            When a server does not answer.
        """
        running = self._in_force()
        if asked.source and (other := differences(asked.source, running)):
            what = f"the plan in force is not the one that it was predicted from: {other}"
            raise UsageError(what, "let it be predicted again")
        proposed = asked.proposed(running)
        if labels(proposed) == labels(running) or (
            not asked.placement and configuration_of(proposed) == configuration_of(running)
        ):
            raise UsageError(f"{self._name} has that plan already")
        if asked.placement:
            self._cluster.require_pinning()
        self._cluster.require_room(self._name, proposed, placed=bool(asked.placement))
        youngest_s = min(self._cluster.nimbus.topology(self._name).uptimes_s().values(), default=0)
        if youngest_s < self._times.observe_s:
            what = f"a worker has run for {youngest_s} s only, and {self._times.observe_s:g} s are read"
            raise UsageError(what, "wait, or give a shorter --observe-s")
        until_ms = now_ms() - round((self._experiment.measure.bucket_s + REPORTED_S) * 1e3)
        span = RowSpan(until_ms - round(self._times.observe_s * 1e3), until_ms)
        outlook = look_ahead(self._topology, self._store, running, proposed, span, model)
        return Foreseen(running, proposed, outlook)

    def apply(
        self, asked: AskedPlan, foreseen: Foreseen, model: str, *, keep: bool, report: Report
    ) -> TrackRecord:
        """Bring a plan into force, measure it, and take it back where it is slower than predicted.

        A record is kept of whatever comes of it, also where a signal ends the command. The plan before is
        asked for again then.

        Parameters
        ----------
        keep : bool
            Keep it in any case.

        Raises
        ------
        UsageError
            When somebody has changed the plan in force since.
        """
        if other := differences(labels(foreseen.running), self._deployment.plan()):
            raise UsageError(f"the plan in force has changed meanwhile: {other}", "let it be predicted again")
        placed = bool(asked.placement)
        placed_back = placed or self._cluster.pinned(self._name)
        asked_ms, outlook = now_ms(), foreseen.outlook
        measured: MeasuredInterval | None = None

        def judge() -> str:
            nonlocal measured
            measured = self._measure(foreseen.proposed, report)
            return _shortcoming(measured, outlook.high_ms)

        attempt = PlanAttempt(
            bring=lambda: self._bring("applied", foreseen.proposed, placed=placed),
            judge=judge,
            bring_back=lambda: self._bring("taken back", foreseen.running, placed=placed_back),
        )
        try:
            attempt.carry_out(keep=keep)
        finally:  # whatever ends it, it was tried
            record = TrackRecord(
                at_epoch_ms=asked_ms,
                asked=configuration_of(foreseen.proposed),
                placed=placed,
                model=model,
                rate_tps=outlook.source.rate_tps,
                before_ms=outlook.before_ms,
                predicted_ms=outlook.predicted_ms,
                low_ms=outlook.low_ms,
                high_ms=outlook.high_ms,
                measured_ms=_known(measured.look.mean) if measured else None,
                half_width_ms=_known(measured.look.half_width) if measured else None,
                outcome=attempt.outcome,
                reason="; ".join(filter(None, [attempt.reason, measured.disturbance if measured else ""])),
            )
            self._topology.keep_record(record)
        return record

    def _in_force(self) -> PhysicalPlan:
        """Return the plan in force, where it is the one that was kept; else keep it, and refuse."""
        running = self._deployment.plan()
        if not running.executors:
            raise ClusterError(f"topology {self._name} has no plan", "storm activate it, or submit it anew")
        if other := differences(labels(self._topology.plan.plan), running):
            self._keep("found", running)
            what = f"somebody changed the plan of {self._name}: {other}"
            raise UsageError(what, "it is kept now; look at the proposal once more, then apply it again")
        return running

    def _bring(self, seen: Seen, plan: PhysicalPlan, *, placed: bool) -> None:
        configuration = configuration_of(plan)
        if placed:
            asked = AskedPlacement(by="placement", workers=labels(plan))
            self._deployment.place(configuration, asked)
        else:
            self._deployment.rebalance(configuration)
        deadline = time.monotonic() + PLAN_WITHIN_S
        while True:
            found = self._deployment.plan()
            if found.executors and self._deployment.whole():
                break
            if time.monotonic() > deadline:
                said = self._deployment.waits_for() or "look at the log of nimbus"
                raise ClusterError(f"the plan was not in force after {PLAN_WITHIN_S:g} s", said)
            time.sleep(POLL_S)
        self._keep(seen, found)

    def _keep(self, seen: Seen, plan: PhysicalPlan) -> None:
        kept = KeptPlan(at_epoch_ms=now_ms(), seen=seen, plan=plan)
        self._topology.keep_plan(kept)
        keep_in_graph(self._topology.facts, kept)

    def _measure(self, plan: PhysicalPlan, report: Report) -> MeasuredInterval:
        spouts = plan.query_plan.spouts
        bolts = [c.name for c in plan.query_plan.components if c.name not in spouts]
        bucket_s = self._experiment.measure.bucket_s
        reports = Reports(self._store, spouts, bolts, time.monotonic_ns(), now_ms(), bucket_s)
        step = Step(index=0, configuration=configuration_of(plan), rate_tps=None, fresh=False, spec=0)
        faults = StepFaults((), NoFaults())
        given = StepToMeasure(
            self._experiment, step, reports, self._deployment, report, ThisMachine(), faults
        )
        return Measurement(given, tolerant=True).carry_out()


@contextmanager
def standing(
    topology: SubmittedTopology, homes: ServerHomes, times: ApplyTimes, say: Callable[[str], None]
) -> Iterator[StandingTopology]:
    """Give a submitted topology on its cluster for a block.

    Raises
    ------
    UsageError
        When there is no token for its metrics.
    ClusterError
        When Nimbus does not answer, or has no such topology.
    """
    facts, experiment = topology.facts, topology.experiment
    say(f"asking nimbus at {facts.cluster.nimbus} for {facts.topology}")
    with temporary_home() as home, given_store(experiment.metrics, topology.name) as store:
        cluster = StandingCluster(facts.cluster, homes, home)
        topics = TopicNames.of(topology.name, experiment.topology.entrances, experiment.topology.key_groups)
        submitter = submitter_of(experiment, topology.name, cluster.broker, topics, jars(), home)
        target = MetricsAddress("")  # nothing is submitted
        deployment = StormDeployment(experiment, cluster, submitter, target, jars(), home / "submission")
        yield StandingTopology(topology, cluster, deployment, store, times)


def _measured_so(experiment: Experiment, times: ApplyTimes) -> Experiment:
    measure = Measuring(
        bucket_s=experiment.measure.bucket_s,
        burn_in=BurnIn(least_s=times.burn_in_s, most_s=max(4 * times.burn_in_s, 1)),
        interval=IntervalSettings(least_s=times.interval_s, most_s=times.interval_s, looks=1),
    )
    return experiment.model_copy(update={"measure": measure})


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _shortcoming(measured: MeasuredInterval, high_ms: float) -> str:
    """Say why a plan should not be kept; empty where it should."""
    if measured.latency != "ack":
        return "its spouts track no messages, so nothing can be compared"
    if not math.isfinite(measured.look.mean):
        return "nothing was acked while it was measured"
    if measured.look.mean > high_ms:
        return f"the measured mean, {measured.look.mean:.2f} ms, is above the predicted interval"
    return ""
