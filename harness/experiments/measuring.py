"""Measuring one step whose plan is in force: burn-in found, interval ended by precision or time.

The times used in decisions are monotonic nanoseconds, the clock of every process of the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from harness.errors import NoOutput, StepInvalid
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import Deployment, MachineReadings, Phase, WorkerSeen
from harness.experiments.precision import MOST_MISSED_FACTOR, Look, look, look_times, precision_words
from harness.experiments.steady import Arrivals, Steadiness, burn_in, interval
from harness.experiments.step_faults import StepFaults
from harness.experiments.watching import View, Watched
from harness.machine.readings import CpuTimes, shares
from harness.runs import BurnInFound, CompleteLatency, FaultMade, Latency, Rejected

LOOK_EVERY_S = 1.0
"""Time between two looks at the data so far during burn-in, each of which is shown."""
SHOWN_S = 5.0
"""Rate and latency shown are those of the last so many seconds."""
SHOWN_ROWS = 20_000
"""While an interval is measured, the view shown is made from so many of the newest rows."""
ARRIVAL_LAG_S = 1.0
"""An output is known to the harness at most so much after it left its sink, on a machine that keeps up. It
takes 0.7 s through broker and receiver, and 0.25 s until the generator has handed over the message's
times."""
SETTLE_MOST_S = 12.0
"""A look counts messages scheduled at least this long ago, if their latencies ask for as much. The interval
ends in the past, so that its last messages have had the time to come out."""
REPORTED_MOST_S = 20.0
"""Longest time that workers may take after the interval to report once more, beyond that between reports."""
STALE_SHARE = 0.2
"""Share of an interval: where reports are further apart, Storm's complete latency is not told. The shortest
interval has 5 s, in which clusters of the harness report every second."""
REPORTS_EVERY_S = 0.25
"""Time between two looks for such a report."""

StopReason = Literal["precision", "time-limit"]
Report = Callable[[Phase, float | None, float | None, float | None, str, Mapping[str, int]], None]


class Disturbed(StepInvalid):
    """A worker was restarted or the plan changed while the step was measured."""


@dataclass(frozen=True)
class MachineSeen:
    """The machine at hand over a measured interval.

    Attributes
    ----------
    busy_pct, steal_pct : float
        Share of its CPU time that was used, and that its host gave to others.
    clock_offset_start_ns, clock_offset_end_ns : int
        How far the time of day was ahead of the monotonic clock at the interval's ends.
    came_up : tuple of int
        Processes of the clusters that came up beside the run.
    """

    busy_pct: float
    steal_pct: float
    clock_offset_start_ns: int
    clock_offset_end_ns: int
    came_up: tuple[int, ...]


@dataclass(frozen=True)
class MeasuredInterval:
    """The outcome of a step's measurement; ``latency`` says what was measured."""

    latency: Latency
    start_ns: int
    end_ns: int
    start_epoch_ms: int
    end_epoch_ms: int
    burn_in: BurnInFound
    look: Look
    looks: int
    looks_planned: int
    stop_reason: StopReason
    steadiness: Steadiness
    complete_latency_ms: Mapping[str, CompleteLatency]
    machine: MachineSeen | None
    """None where the step was played."""
    disturbance: str
    faults: tuple[FaultMade, ...] = ()

    def shortcoming(self, precision_pct: float) -> str:
        """Say why a step that kept up with its input is not usable as it was measured; empty when it is.

        Parameters
        ----------
        precision_pct : float
            As asked for.
        """
        if self.disturbance:
            return self.disturbance
        if not self.burn_in.found:
            return f"burn-in: {self.burn_in.reason}"
        if not self.steadiness.steady:
            return f"interval: {self.steadiness.reason}"
        if self.look.precision_pct > MOST_MISSED_FACTOR * precision_pct:
            return f"{precision_words(self.look.precision_pct)}, ±{precision_pct:g} % asked"
        return ""

    def rejected(self, reason: str) -> Rejected:
        """Return the record of this attempt for the case that it is not kept."""
        return Rejected(
            reason=reason,
            mean_ms=self.look.mean,
            half_width_ms=self.look.half_width,
            machine_busy_pct=None if self.machine is None else self.machine.busy_pct,
        )


class _Ended(NamedTuple):
    """End of an interval: its length, the mean as known then, and what was read at that end."""

    length_s: float
    look: Look
    looks: int
    looks_planned: int
    reason: StopReason
    cpu: CpuTimes
    complete_latency: Mapping[str, tuple[float, int]]
    workers: Mapping[str, WorkerSeen]


@dataclass(frozen=True)
class StepToMeasure:
    """A step whose plan is in force, and all that its measurement reads and tells.

    Attributes
    ----------
    experiment, step
        What to measure, and how precisely.
    watched : Watched
        Where results are seen; messages are already coming.
    deployment : Deployment
        With the step's plan in force.
    report : callable
        Told phase, rate seen (messages/s), latency seen (ms), seconds left in this step, detail, counts of
        messages.
    machine : MachineReadings
        Read at both ends of the interval.
    faults : StepFaults
        Made while the interval is measured.
    """

    experiment: Experiment
    step: Step
    watched: Watched
    deployment: Deployment
    report: Report
    machine: MachineReadings
    faults: StepFaults


class Measurement:
    """Measures one step.

    Parameters
    ----------
    given : StepToMeasure
    tolerant : bool
        Go on when a worker restarts, and say so in the result, instead of raising.
    """

    def __init__(self, given: StepToMeasure, *, tolerant: bool) -> None:
        measure = given.experiment.measure
        self._measure = measure.timed if given.step.changes else measure
        self._faults = given.faults
        self._step = given.step
        self._watched = given.watched
        self._deployment = given.deployment
        self._report = given.report
        self._machine = given.machine
        self._up_ns = self._steady_ns = time.monotonic_ns()
        self._up_epoch_ms = time.time_ns() // 1_000_000
        self._workers = given.deployment.workers()
        self._tolerant = tolerant
        self._disturbance = ""
        self._shown: Phase | None = None
        self._next_ns = 0

    def carry_out(self) -> MeasuredInterval:
        """Discard the start, measure, and return what was found.

        Raises
        ------
        Disturbed
            When a worker restarted meanwhile.
        ClusterError
            When a server died.
        StepInvalid, NoOutput
            When nothing of a jar's messages came out in the whole burn-in; the latter if tolerant.
        """
        found = self._burn_in()
        start_ns, start_epoch_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        offset_ns = self._machine.clock_offset_ns()
        before = self._deployment.complete_latency()
        cpu_before = self._machine.cpu_times()
        self._faults.begin(start_ns)
        try:
            ended = self._interval(start_ns)
        finally:
            faults = self._faults.end()
        cpu = shares(cpu_before, ended.cpu)
        end_ns = start_ns + round(ended.length_s * 1e9)
        offset_end_ns, came_up = self._machine.clock_offset_ns(), self._machine.came_up(start_ns, end_ns)
        self._await_reports(ended.workers)
        now = self._watched.view()
        inside = (now.left_ns >= start_ns) & (now.left_ns < end_ns)
        arrivals = Arrivals(
            (now.left_ns[inside] - start_ns) / 1e9,
            now.late_ms[inside],
            now.weight[inside],
            self._watched.due_s(start_ns),
        )
        steadiness = interval(arrivals, 0.0, ended.length_s, self._measure.burn_in.drift_pct)
        return MeasuredInterval(
            latency=self._watched.latency,
            start_ns=start_ns,
            end_ns=end_ns,
            start_epoch_ms=start_epoch_ms,
            end_epoch_ms=start_epoch_ms + round(ended.length_s * 1e3),
            burn_in=found,
            look=ended.look,
            looks=ended.looks,
            looks_planned=ended.looks_planned,
            stop_reason=ended.reason,
            steadiness=steadiness,
            complete_latency_ms=self._complete_latency(before, ended),
            machine=MachineSeen(cpu.busy_pct, cpu.steal_pct, offset_ns, offset_end_ns, tuple(came_up)),
            disturbance=self._disturbance,
            faults=faults,
        )

    def _complete_latency(
        self, before: Mapping[str, tuple[float, int]], ended: _Ended
    ) -> Mapping[str, CompleteLatency]:
        """Return the interval's complete latency; none where reports are so rare that it would be of others.

        Readings are as old as the last report: in the worst case they are of other messages by a share of
        the time between two reports over the interval's length.
        """
        if self._deployment.reports_every_s() > ended.length_s * STALE_SHARE:
            return {}
        return difference(before, ended.complete_latency)

    def _burn_in(self) -> BurnInFound:
        limits, lag_s = self._measure.burn_in, self._watched.lag_s
        while True:
            elapsed = (time.monotonic_ns() - self._up_ns) / 1e9
            now = self._watched.view()
            arrived_s = (now.left_ns - self._up_ns) / 1e9
            known_s = max(elapsed - lag_s, 0.0)
            # a bucket that the step began in holds what came before
            inside = (arrived_s >= 0) & (arrived_s < known_s)
            verdict = burn_in(
                Arrivals(
                    arrived_s[inside],
                    now.late_ms[inside],
                    now.weight[inside],
                    self._watched.due_s(self._up_ns),
                ),
                now_s=known_s,
                least_s=max(limits.least_s - lag_s, 0.0),
                most_s=max(limits.most_s - lag_s, 0.0),
                drift_pct=limits.drift_pct,
            )
            if verdict.decided and elapsed >= limits.least_s:
                self._require_output(now)
                self._steady_ns = self._up_ns + round((verdict.start_s or 0.0) * 1e9)
                return BurnInFound(found=verdict.steady, seconds=elapsed, reason=verdict.reason)
            left = limits.most_s - elapsed + self._measure.interval.most_s
            self._show("burn-in", now, left, verdict.reason)
            to_least = limits.least_s - (time.monotonic_ns() - self._up_ns) / 1e9
            self._pause(min(self._to_next_s(), to_least if to_least > 0 else LOOK_EVERY_S))

    def _require_output(self, seen: View) -> None:
        """Refuse to go on when all messages of a jar's topology vanished; a second time, for good."""
        if seen.left_ns.size or not (silence := self._watched.silence()):
            return
        if not self._tolerant:
            raise StepInvalid(silence)
        errors = self._deployment.reported_errors(self._up_epoch_ms)
        reported = f"; its tasks reported: {errors[-1]}" if errors else ""
        raise NoOutput(
            f"step {self._step.index}: {silence}{reported}",
            "see docs/own-topology.md; where windows hold messages that long, give measure.burn_in more",
        )

    def _interval(self, start_ns: int) -> _Ended:
        limits = self._measure.interval
        # Whole buckets, so that each task has the same number of them in the interval.
        bucket_s = self._measure.bucket_s
        asked = look_times(limits.least_s, limits.most_s, limits.looks)
        planned = sorted({math.ceil(t / bucket_s) * float(bucket_s) for t in asked})
        settle_s = self._settle_s()
        for number, length_s in enumerate(planned, start=1):
            most_s = planned[-1] + settle_s
            self._measure_until(start_ns, length_s, most_s)
            cpu = self._machine.cpu_times()  # what comes after, to settle, is not the interval's
            complete_latency, workers = self._deployment.complete_latency(), self._look_at_workers()
            self._measure_until(start_ns, length_s + settle_s, most_s)
            now = self._watched.view()
            inside = (now.at_ns >= start_ns) & (now.at_ns < start_ns + length_s * 1e9)
            seen = look(
                (now.at_ns[inside] - start_ns) / 1e9,
                now.latency_ms[inside],
                start_s=0.0,
                end_s=length_s,
                precision_pct=limits.precision_pct,
                looks=len(planned),
                weights=now.weight[inside],
            )
            if seen.enough or number == len(planned):
                reason: StopReason = "precision" if seen.enough else "time-limit"
                return _Ended(length_s, seen, number, len(planned), reason, cpu, complete_latency, workers)
        raise AssertionError("look_times gives at least one time")

    def _measure_until(self, start_ns: int, until_s: float, most_s: float) -> None:
        """Watch and show until so many seconds after the interval's start."""
        while (elapsed := (time.monotonic_ns() - start_ns) / 1e9) < until_s:
            self._show("measure", self._watched.view(SHOWN_ROWS), most_s - elapsed, "")
            self._pause(min(self._to_next_s(), until_s - elapsed))

    def _settle_s(self) -> float:
        """Return how long all but one in a thousand messages of the steady part took to be known."""
        if not self._watched.by_message:
            return self._watched.lag_s  # a result belongs to the interval that it came out in
        now = self._watched.view()
        latencies = now.late_ms[now.left_ns >= self._steady_ns]
        slowest_s = float(np.quantile(latencies, 0.999)) / 1e3 if latencies.size else 0.0
        return min(ARRIVAL_LAG_S + slowest_s, SETTLE_MOST_S)

    def _pause(self, most_s: float = LOOK_EVERY_S) -> None:
        self._deployment.check()
        self._look_at_workers()
        time.sleep(min(most_s, LOOK_EVERY_S))

    def _look_at_workers(self) -> Mapping[str, WorkerSeen]:
        """Return the workers now in use; another start of one than before disturbs the step."""
        before, self._workers = self._workers, self._deployment.workers()
        starts = ({(name, seen.start_s) for name, seen in of.items()} for of in (before, self._workers))
        if changed := {name for name, _ in set.symmetric_difference(*starts)}:
            self._disturb(f"workers restarted or moved during the step: {', '.join(sorted(changed))}")
        return self._workers

    def _disturb(self, why: str) -> None:
        self._disturbance = why
        if not self._tolerant:
            raise Disturbed(why)

    def _await_reports(self, by_the_end: Mapping[str, WorkerSeen]) -> None:
        """Wait until each worker has reported since the interval's end: then it lived until then.

        The last report of a worker that is killed stays until its successor's, seconds later. A report is
        taken to be of after the end if it was not there yet at the first look after it; it takes milliseconds
        to arrive.

        Parameters
        ----------
        by_the_end : mapping of str to WorkerSeen
            At that first look.
        """
        most_s = self._deployment.reports_every_s() + REPORTED_MOST_S
        limit = time.monotonic_ns() + round(most_s * 1e9)
        while not self._disturbance:
            silent = [w for w, then in by_the_end.items() if self._workers[w].reported_s <= then.reported_s]
            if not silent:
                return
            if time.monotonic_ns() > limit:
                named = ", ".join(sorted(silent))
                self._disturb(f"no report of {named} came in {most_s:g} s after the interval's end")
                return
            self._pause(REPORTS_EVERY_S)

    def _to_next_s(self) -> float:
        """Return the time until what is seen is to be shown again."""
        return max((self._next_ns - time.monotonic_ns()) / 1e9, 0.0)

    def _show(self, phase: Phase, now: View, left_s: float, detail: str) -> None:
        """Show what is seen, unless the phase was shown less than a second ago."""
        if phase == self._shown and self._to_next_s() > 0:
            return
        until_ns = time.monotonic_ns()
        if not self._watched.by_message:
            until_ns -= round(self._watched.lag_s * 1e9)
        since_ns = until_ns - round(SHOWN_S * 1e9)
        recent = (now.left_ns > since_ns) & (now.left_ns <= until_ns)
        weight = now.weight[recent].sum()
        mean = float(now.latency_ms[recent] @ now.weight[recent] / weight) if weight > 0 else None
        rate_tps = now.rate_tps(since_ns, until_ns)
        self._report(phase, rate_tps, mean, max(left_s, 0.0), detail, self._watched.ledger())
        # counted from when it has been shown: a second line within a second would not be written
        self._shown, self._next_ns = phase, time.monotonic_ns() + round(LOOK_EVERY_S * 1e9)


def difference(
    before: Mapping[str, tuple[float, int]], after: Mapping[str, tuple[float, int]]
) -> dict[str, CompleteLatency]:
    """Return the complete latency between two readings of means since the workers' start.

    Examples
    --------
    >>> difference({"spout[1-1]": (10.0, 100)}, {"spout[1-1]": (20.0, 200)})["spout[1-1]"].mean_ms
    30.0
    """
    out = {}
    for executor, (mean, count) in after.items():
        mean_0, count_0 = before.get(executor, (0.0, 0))
        if count < count_0:  # it was restarted
            mean_0, count_0 = 0.0, 0
        acked = count - count_0
        total_ms = mean * count - mean_0 * count_0
        out[executor] = CompleteLatency(mean_ms=total_ms / acked if acked > 0 else None, acked=acked)
    return out
