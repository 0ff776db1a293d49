"""The records of a run directory as types: each file of a step, a step that was declined.

Every key is there in each, whatever the run's age: ``harness.schemas.migrations`` sees to older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, JsonValue

from harness.plans import AskedPlacement, Batching, Frozen, PhysicalPlan, Relief, TopologyConfiguration
from harness.quality import Quality
from harness.schemas import ADAPTATION, LATENCY, METRICS

Latency = Literal["ground-truth", "topics", "ack", "service"]
"""Kinds of a step's latency.

- ``ground-truth``: from a spout's emit to a sink's send
- ``topics``: from the append to the input topic to that to the output topic, of a jar, and where workers have
  clocks of their own
- ``ack``: from a spout's emit to its ack
- ``service``: none, and the time of one execute in its place
"""
Submission = Literal["first", "rebalance", "fresh", "resumed"]
"""Ways in which a step's configuration was brought about."""


class StepPlan(Frozen):
    """``plan.json``: what was asked, and the plans read from the cluster at both ends of the step."""

    asked: TopologyConfiguration
    start: PhysicalPlan
    end: PhysicalPlan
    placement: AskedPlacement | None
    """None where executors were left to Storm's own scheduler."""
    batching: Batching | None
    """Rules of the batches that tuples travel in; None in a run written before a step could say it: there its
    experiment says it."""
    relief: Relief
    """Helping and back-pressure that were in force."""


class StepTuning(Frozen):
    """``tuning.json`` of a step whose executors and batch sizes a tuner proposed.

    Attributes
    ----------
    step : int
        The measured step that the tuner read.
    rate_tps : float
        The input rate that it was asked for.
    proposals : tuple of mapping
        Its one proposal with all decisions, as ``harness tune --json`` has it.
    """

    step: int
    rate_tps: float
    proposals: tuple[Mapping[str, JsonValue], ...]


class DeclinedStep(Frozen):
    """``declined/NN.json``: a step that was not measured, since what it asks for cannot be had."""

    step: int
    configuration: str
    reason: str


class BurnInFound(Frozen):
    """Where the discarded start ended, and why there."""

    found: bool
    seconds: float
    reason: str


class CompleteLatency(Frozen):
    """Storm's own complete latency over the interval, of one spout executor."""

    mean_ms: float | None
    acked: int


class Rejected(Frozen):
    """An attempt at a step that was not kept: the reason, and the latency that it had measured by then.

    All but the reason is None where the attempt was broken off, and in runs older than the records of
    attempts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    reason: str
    mean_ms: float | None
    half_width_ms: float | None
    machine_busy_pct: float | None

    @classmethod
    def broken_off(cls, reason: str) -> Self:
        """Return the record of an attempt that ended before it had measured anything."""
        return cls(reason=reason, mean_ms=None, half_width_ms=None, machine_busy_pct=None)


class FaultMade(Frozen):
    """A fault of a step: what was asked and when, in seconds of the interval, and what was done.

    ``at_ns`` and ``until_ns`` are monotonic: when it had been made, and when one that lasts was over.
    ``problem`` says why it was not made, or not as asked. It is empty where it was.
    """

    what: str
    asked_s: float
    done: str
    at_ns: int | None
    until_ns: int | None
    problem: str

    def __str__(self) -> str:
        if self.problem:
            became = "was not made" if self.at_ns is None else "did not go as asked"
            return f"{self.what} at {self.asked_s:g} s {became}: {self.problem}"
        lasted = "" if self.until_ns is None else f" for {(self.until_ns - (self.at_ns or 0)) / 1e9:.2f} s"
        return f"{self.done} at {self.asked_s:g} s{lasted}"


class Interval(Frozen):
    """``interval.json``: the times at which a step was measured, in monotonic ns and epoch ms.

    The times in their order:

    - ``rebalance_start_ns``: the configuration was asked for;
    - ``up_ns``: the plan was in force, and burn-in began;
    - ``start_ns`` and ``end_ns``: the interval began and ended;
    - ``settled_ns``: the interval's last messages had been waited for;
    - ``drained_ns``: outputs and windows were drained;
    - ``done_ns``: everything but this file was written.

    All of this time but burn-in and interval is ``overhead_s``.
    """

    # Where nothing came out there is no mean, and the half-width has no bound: JSON has no word for either.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    step: int
    configuration: str
    rate_tps: float
    rebalance_start_ns: int
    up_ns: int
    start_ns: int
    end_ns: int
    settled_ns: int | None
    drained_ns: int | None
    done_ns: int
    overhead_s: float | None
    start_epoch_ms: int
    end_epoch_ms: int
    burn_in: BurnInFound
    stop_reason: Literal["precision", "time-limit"]
    mean_ms: float
    half_width_ms: float
    precision_pct_asked: float
    precision_pct_reached: float
    independent: bool
    """True if the precision's batches are; else the half-width is not to be relied on."""
    looks: int
    latency: Latency
    """Latency that ``mean_ms`` is the mean of, and that was watched for steadiness."""
    complete_latency_ms: Mapping[str, CompleteLatency]
    submission: Submission
    attempt: int
    rejected: tuple[Rejected, ...]
    """The attempts before this one."""
    rejected_s: float
    """Time that those attempts took, which is in no other time of the step."""
    machine_busy_pct: float | None
    machine_steal_pct: float | None
    """Share of the machine's CPU time in the interval that was used, and that its host gave to others. None
    in runs from before that was kept, and in simulated ones."""
    clock_offset_start_ns: int | None
    clock_offset_end_ns: int | None
    """Lead of the time of day over the monotonic clock at the interval's ends; None as above, and in
    simulated runs."""
    faults: tuple[FaultMade, ...]
    evidence: bool
    """True if models are judged by the step: not where faults were made, unless its experiment says so."""

    @property
    def by_broker(self) -> bool:
        """True where messages were timed by the brokers' stamps, from topic to topic."""
        return self.latency == "topics"

    @property
    def measured_again(self) -> str:
        """Say that earlier attempts were not kept, and why; empty for a step that was measured once."""
        reasons = "; ".join(attempt.reason for attempt in self.rejected)
        return f"measured again; before: {reasons}" if reasons else ""


@dataclass(frozen=True)
class StepFiles:
    """The files of a finished step, all but its seal.

    Attributes
    ----------
    plan, quality : StepPlan, Quality
    interval : callable
        Makes ``interval.json``, which says when everything else was written, of that moment in ns.
    latency, metrics : Table
        Of the schemas ``LATENCY`` and ``METRICS``.
    tuning : StepTuning, optional
        Of a step that a tuner proposed.
    adaptation : Table, optional
        Of a step that adapts; of the schema ``ADAPTATION``.
    """

    plan: StepPlan
    quality: Quality
    interval: Callable[[int], Interval]
    latency: pa.Table
    metrics: pa.Table
    tuning: StepTuning | None = None
    adaptation: pa.Table | None = None

    def write(self, folder: Path, clock: Callable[[], int]) -> Interval:
        """Write the files into a folder, and return ``interval.json`` as it was written.

        Parameters
        ----------
        folder : Path
        clock : callable
            The one that the interval's times are of.
        """
        kept = {"plan": self.plan, "quality": self.quality, "tuning": self.tuning}
        tables = {
            "latency": (self.latency, LATENCY),
            "metrics": (self.metrics, METRICS),
            "adaptation": (self.adaptation, ADAPTATION),
        }
        for name, record in kept.items():
            if record is not None:
                (folder / f"{name}.json").write_text(record.model_dump_json(indent=1))
        for name, (table, schema) in tables.items():
            if table is not None:
                pq.write_table(table.cast(schema), folder / f"{name}.parquet", compression="zstd")
        interval = self.interval(clock())
        (folder / "interval.json").write_text(interval.model_dump_json(indent=1))
        return interval
