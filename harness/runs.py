"""The run directory: what is written when, whole or not at all, and reading it back.

The files are described in ``docs/run-directory.md``; their tables in ``harness.schemas``.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, ValidationError, model_validator

from harness.errors import HarnessError, UsageError
from harness.machine.locks import held
from harness.machine.seals import seal
from harness.machine.whole_files import folder_atomically, write_atomically
from harness.plans import AskedPlacement, Batching, Frozen, PhysicalPlan, Relief, TopologyConfiguration
from harness.quality import Quality
from harness.schemas import ADAPTATION, LATENCY, METRICS, SCHEMA_VERSION
from harness.schemas.derivable import left_out, needed, with_derivable

F = TypeVar("F", bound=Frozen)
SEALED = "sealed"
"""Key of ``environment.json``: every step of the run has a seal. Runs from before have no such key."""
Latency = Literal["ground-truth", "topics", "ack", "service"]
"""What a step's latency is: from a spout's emit to a sink's send; from the append to the input topic to that
to the output topic, of a jar, and where workers have clocks of their own; from a spout's emit to its ack; or
none, and the time of one execute in its place."""
Submission = Literal["first", "rebalance", "fresh", "resumed"]
"""How a step's configuration was brought about."""


def judged(latency: pa.Table, kind: Latency) -> pa.Table:
    """Return rows of ``latency.parquet`` whose ground truth is what the step was measured by.

    Where that is from topic to topic, the column of the ground truth itself has only the paths that begin and
    end on one host.
    """
    if kind != "topics":
        return latency
    at = latency.schema.get_field_index("ground_truth_ms")
    return latency.set_column(at, latency.schema.field(at), latency["broker_ms"])


class StepPlan(Frozen):
    """``plan.json``: what was asked, and the plans read from the cluster at both ends of the step."""

    asked: TopologyConfiguration
    start: PhysicalPlan
    end: PhysicalPlan
    placement: AskedPlacement | None = None
    """None where executors were left to Storm's own scheduler."""
    batching: Batching | None = None
    """What travels in batches; None in a run written before a step could say it: what its experiment says."""
    relief: Relief = Relief()
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
    proposals: tuple[Mapping[str, Any], ...]


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
    mean_ms: float | None = None
    half_width_ms: float | None = None
    machine_busy_pct: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_an_older_run(cls, found: object) -> object:
        return {"reason": found} if isinstance(found, str) else found


class FaultMade(Frozen):
    """A fault of a step: what was asked and when, in seconds of the interval, and what was done.

    ``at_ns`` and ``until_ns`` are monotonic: when it had been made, and when one that lasts was over.
    ``problem`` says why it was not made, or not as asked. It is empty where it was.
    """

    what: str
    asked_s: float
    done: str = ""
    at_ns: int | None = None
    until_ns: int | None = None
    problem: str = ""

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
    settled_ns: int | None = None
    drained_ns: int | None = None
    done_ns: int
    overhead_s: float | None = None
    start_epoch_ms: int
    end_epoch_ms: int
    burn_in: BurnInFound
    stop_reason: Literal["precision", "time-limit"]
    mean_ms: float
    half_width_ms: float
    precision_pct_asked: float
    precision_pct_reached: float
    independent: bool = True
    """Whether the precision's batches are; where not, the half-width is not to be relied on."""
    looks: int
    latency: Latency = "ground-truth"
    """What ``mean_ms`` is the mean of, and what was watched for steadiness."""
    complete_latency_ms: Mapping[str, CompleteLatency]
    submission: Submission
    attempt: int = 1
    rejected: tuple[Rejected, ...] = ()
    """The attempts before this one."""
    rejected_s: float = 0.0
    """What those attempts took, which is in no other time of the step."""
    machine_busy_pct: float | None = None
    machine_steal_pct: float | None = None
    """Share of the machine's CPU time in the interval that was used, and that its host gave to others."""
    clock_offset_start_ns: int | None = None
    clock_offset_end_ns: int | None = None
    """What the time of day was ahead of the monotonic clock at the interval's ends; None as above, and of
    simulated runs."""
    faults: tuple[FaultMade, ...] = ()
    evidence: bool = True
    """Whether models are judged by the step: not where faults were made, unless its experiment says so."""

    @property
    def by_broker(self) -> bool:
        """True where messages were timed by the brokers' stamps, from topic to topic."""
        return self.latency == "topics"

    @property
    def measured_again(self) -> str:
        """Say that earlier attempts were not kept, and why; empty for a step that was measured once."""
        reasons = "; ".join(attempt.reason for attempt in self.rejected)
        return f"measured again; before: {reasons}" if reasons else ""

    def finished(self, now_ns: int) -> Interval:
        """Return it with the end of the step filled in, and the time beyond burn-in and interval."""
        before_ns, after_ns = self.up_ns - self.rebalance_start_ns, now_ns - self.end_ns
        return self.model_copy(update={"done_ns": now_ns, "overhead_s": (before_ns + after_ns) / 1e9})


def utc_now() -> datetime:
    """Return the wall clock's time in UTC."""
    return datetime.now(UTC)


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table of a run, whole or some of its columns.

    Raises
    ------
    UsageError
        When the file is cut, not Parquet or not there.
    """
    try:
        return pq.read_table(path, columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path}: damaged, or no Parquet file", str(error).splitlines()[0]) from None


def read_latency(folder: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a step's ``latency.parquet``, whole or some of its columns, and compute those it leaves out.

    Raises
    ------
    UsageError
        When a file is cut, not Parquet or not there, or a hop's task is not in the step's plan.
    """
    path = folder / "latency.parquet"
    try:
        dropped = left_out(pq.read_schema(path))
    except (OSError, pa.ArrowException):
        dropped = ()  # what is wrong is said where it is read
    if not dropped:
        return read_table(path, columns)
    rows = read_table(path, None if columns is None else needed(columns, dropped))
    plan = _read(StepPlan, folder / "plan.json").start
    named = {task: e.component for task, e in plan.by_task.items()}
    if columns is None:
        return with_derivable(rows, named)
    return with_derivable(rows, named, columns).select(columns)


@contextmanager
def judged_alone(path: Path) -> Iterator[None]:
    """Let nobody else write predictions, errors or a report into a run directory during the block.

    Raises
    ------
    UsageError
        When somebody does.
    """
    with held(path, UsageError(f"{path}: another harness is judging this run", "wait until it has ended")):
        for left in path.glob(".*.partial"):  # by one that was killed: this one is alone
            shutil.rmtree(left, ignore_errors=True)
        yield


class Run:
    """One run directory.

    Parameters
    ----------
    path : Path
        ``runs/<experiment>/<UTC start>``.
    beside : mapping of str to str, optional
        Texts by file name that are kept in the folder of every step that is written.

    Raises
    ------
    UsageError
        When the folder is not a run directory, or one of a newer schema.
    """

    def __init__(self, path: Path, beside: Mapping[str, str] | None = None) -> None:
        self.path = path.resolve()
        self._beside = dict(beside or {})
        if not (self.path / "environment.json").is_file():
            raise UsageError(f"{path}: not a run directory", "it has no environment.json")
        schema = self.environment.get("schema")
        if not isinstance(schema, int) or schema > SCHEMA_VERSION:
            raise UsageError(
                f"{path}: schema {schema!r} is newer than this harness reads ({SCHEMA_VERSION})",
                "update the harness",
            )

    @classmethod
    def create(cls, runs: Path, name: str, files: Mapping[str, str], environment: Mapping[str, Any]) -> Run:
        """Make a new run directory with the experiment's files and the environment in it."""
        stamp = utc_now().strftime("%Y%m%dT%H%M%SZ")
        path = runs / name / stamp
        (path / "steps").mkdir(parents=True)
        for file, text in files.items():
            write_atomically(path / file, text)
        write_atomically(
            path / "environment.json",
            json.dumps({"schema": SCHEMA_VERSION, SEALED: True, **environment}, indent=2),
        )
        return cls(path)

    @property
    def environment(self) -> dict[str, Any]:
        """Contents of ``environment.json``."""
        path = self.path / "environment.json"
        try:
            loaded = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:  # broken JSON, or not text at all
            raise UsageError(f"{path}: not readable as JSON", str(error).splitlines()[0]) from None
        if not isinstance(loaded, dict):
            raise UsageError(f"{path}: not a mapping of keys", "is this a run directory?")
        return loaded

    @property
    def verdict(self) -> str:
        """Verdict in ``verdict.json``, or ``not reported`` while no such file exists."""
        path = self.path / "verdict.json"
        if not path.is_file():
            return "not reported"
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["verdict"])
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{path}: holds no verdict", "make it again with: harness report RUN") from None

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Let nobody else measure into the run during the block.

        Raises
        ------
        UsageError
            When somebody does.
        """
        refusal = UsageError(f"{self.path}: another harness is measuring this run")
        with held(self.path / "experiment.yaml", refusal):
            yield

    def step_path(self, index: int) -> Path:
        """Return the folder of a step, whether it exists or not."""
        return self.path / "steps" / f"{index:02d}"

    @property
    def finished_steps(self) -> tuple[int, ...]:
        """Indices of the steps that were written whole."""
        folder = self.path / "steps"
        if not folder.is_dir():
            return ()
        return tuple(sorted(int(p.name) for p in folder.iterdir() if p.is_dir() and p.name.isdigit()))

    @property
    def declined_steps(self) -> Mapping[int, DeclinedStep]:
        """The steps that were not measured, since what they ask for cannot be had."""
        declined = (_read(DeclinedStep, path) for path in self.path.glob("declined/*.json"))
        return {d.step: d for d in sorted(declined, key=lambda d: d.step)}

    @property
    def ended_steps(self) -> tuple[int, ...]:
        """Indices of the steps for which nothing is left to do: finished or declined."""
        return tuple(sorted({*self.finished_steps, *self.declined_steps}))

    def write_declined(self, declined: DeclinedStep) -> None:
        """Write that a step was declined."""
        (self.path / "declined").mkdir(exist_ok=True)
        path = self.path / "declined" / f"{declined.step:02d}.json"
        write_atomically(path, declined.model_dump_json(indent=1))

    def write_step(
        self,
        index: int,
        plan: StepPlan,
        interval: Interval,
        quality: Quality,
        latency: pa.Table,
        metrics: pa.Table,
        clock: Callable[[], int] = time.monotonic_ns,
        tuning: StepTuning | None = None,
        adaptation: pa.Table | None = None,
    ) -> Interval:
        """Write a finished step whole and sealed, and return ``interval.json`` as it was written.

        ``clock`` is the one that the interval's times are of; ``adaptation`` is there of a step that adapts.

        Raises
        ------
        HarnessError
            When it cannot be written, for want of room for instance; nothing of it is left.
        """
        target = self.step_path(index)
        try:
            with folder_atomically(target) as folder:
                (folder / "plan.json").write_text(plan.model_dump_json(indent=1))
                (folder / "quality.json").write_text(quality.model_dump_json(indent=1))
                if tuning is not None:
                    (folder / "tuning.json").write_text(tuning.model_dump_json(indent=1))
                pq.write_table(latency.cast(LATENCY), folder / "latency.parquet", compression="zstd")
                pq.write_table(metrics.cast(METRICS), folder / "metrics.parquet", compression="zstd")
                if adaptation is not None:
                    pq.write_table(
                        adaptation.cast(ADAPTATION), folder / "adaptation.parquet", compression="zstd"
                    )
                interval = interval.finished(clock())
                (folder / "interval.json").write_text(interval.model_dump_json(indent=1))
                for name, text in self._beside.items():
                    (folder / name).write_text(text)
                seal(folder)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise HarnessError(f"step {index} cannot be written to {target.parent}: {reason}") from error
        return interval

    def plan(self, index: int) -> StepPlan:
        """Read ``plan.json`` of a step."""
        return _read(StepPlan, self.step_path(index) / "plan.json")

    def interval(self, index: int) -> Interval:
        """Read ``interval.json`` of a step."""
        return _read(Interval, self.step_path(index) / "interval.json")

    def quality(self, index: int) -> Quality:
        """Read ``quality.json`` of a step."""
        return _read(Quality, self.step_path(index) / "quality.json")


def _read(kind: type[F], path: Path) -> F:
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise UsageError(f"{path}: not what a run's {path.name} is: {what}") from None
