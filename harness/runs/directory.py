"""The run directory: what is written when, whole or not at all, and reading it back.

The files are described in ``docs/run-directory.md``; their tables in ``harness.schemas``.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue, ValidationError

from harness.errors import HarnessError, UsageError, describe_fault
from harness.machine.locks import held
from harness.machine.seals import seal
from harness.machine.whole_files import folder_atomically, write_atomically
from harness.plans import Frozen
from harness.quality import Quality
from harness.runs.records import DeclinedStep, Interval, Latency, StepFiles, StepPlan
from harness.schemas import SCHEMA_VERSION
from harness.schemas.derivable import left_out, needed, with_derivable
from harness.schemas.environment import Environment
from harness.schemas.migrations import migrate_adaptation, migrate_interval, migrate_plan, migrate_quality

F = TypeVar("F", bound=Frozen)
SEALED: Final = "sealed"
"""Key of ``environment.json``: every step of the run has a seal. Runs from before have no such key."""


def judged(latency: pa.Table, kind: Latency) -> pa.Table:
    """Return rows of ``latency.parquet`` whose ground truth is what the step was measured by.

    Where that is from topic to topic, the column of the ground truth itself has only the paths that begin and
    end on one host.
    """
    if kind != "topics":
        return latency
    at = latency.schema.get_field_index("ground_truth_ms")
    return latency.set_column(at, latency.schema.field(at), latency["broker_ms"])


def utc_now() -> datetime:
    """Return the wall clock's time in UTC."""
    return datetime.now(UTC)


def read_table(path: Path, columns: Sequence[str] | None = None, *, where: str | None = None) -> pa.Table:
    """Read a table of a run, whole or some of its columns.

    Parameters
    ----------
    path : Path
    columns : sequence of str, optional
    where : str, optional
        A column of the table, and among ``columns``: rows in which it is false are left out. They are at no
        time all in memory.

    Raises
    ------
    UsageError
        When the file is cut, not Parquet or not there.
    """
    try:
        if where is None:
            return pq.read_table(path, columns=columns)
        with pq.ParquetFile(path) as file:
            groups = (file.read_row_group(i, columns) for i in range(file.num_row_groups))
            kept = [group.filter(group[where]) for group in groups]
            return pa.concat_tables(kept) if kept else file.read(columns)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path}: damaged, or no Parquet file", str(error).splitlines()[0]) from None


def read_latency(folder: Path, columns: Sequence[str] | None = None, *, where: str | None = None) -> pa.Table:
    """Read a step's ``latency.parquet``, whole or some of its columns, and compute those it leaves out.

    Parameters
    ----------
    folder : Path
        The step's.
    columns, where
        As ``read_table``.

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
        return read_table(path, columns, where=where)
    rows = read_table(path, None if columns is None else needed(columns, dropped), where=where)
    plan = Run(folder.parent.parent).plan(int(folder.name)).start
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

    Attributes
    ----------
    schema : int
        The number of the schema that it is of.
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
        self.schema = schema

    @classmethod
    def create(cls, runs: Path, name: str, files: Mapping[str, str], environment: Environment) -> Run:
        """Make a new run directory with the experiment's files and the environment in it.

        It is named after the second. Where another run of the name began in that one, it is the next.
        """
        begun = utc_now()
        while True:
            path = runs / name / begun.strftime("%Y%m%dT%H%M%SZ")
            try:
                (path / "steps").mkdir(parents=True)
                break
            except FileExistsError:
                begun += timedelta(seconds=1)
        for file, text in files.items():
            write_atomically(path / file, text)
        write_atomically(
            path / "environment.json",
            json.dumps({"schema": SCHEMA_VERSION, SEALED: True, **environment}, indent=2),
        )
        return cls(path)

    @property
    def environment(self) -> Environment:
        """Contents of ``environment.json``."""
        path = self.path / "environment.json"
        try:
            loaded: Environment = json.loads(path.read_text(encoding="utf-8"))
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
        paths = self.path.glob("declined/*.json")
        declined = (_read(DeclinedStep, path, self.schema) for path in paths)
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
        self, index: int, files: StepFiles, clock: Callable[[], int] = time.monotonic_ns
    ) -> Interval:
        """Write a finished step whole and sealed, and return ``interval.json`` as it was written.

        ``clock`` is the one that the interval's times are of.

        Raises
        ------
        HarnessError
            When it cannot be written, for want of room for instance; nothing of it is left.
        """
        target = self.step_path(index)
        try:
            with folder_atomically(target) as folder:
                interval = files.write(folder, clock)
                for name, text in self._beside.items():
                    (folder / name).write_text(text)
                seal(folder)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise HarnessError(f"step {index} cannot be written to {target.parent}: {reason}") from error
        return interval

    def plan(self, index: int) -> StepPlan:
        """Read ``plan.json`` of a step."""
        return read_plan(self.step_path(index) / "plan.json", self.schema)

    def interval(self, index: int) -> Interval:
        """Read ``interval.json`` of a step."""
        return _read(Interval, self.step_path(index) / "interval.json", self.schema, migrate_interval)

    def quality(self, index: int) -> Quality:
        """Read ``quality.json`` of a step."""
        return _read(Quality, self.step_path(index) / "quality.json", self.schema, migrate_quality)


def read_plan(path: Path, schema: int) -> StepPlan:
    """Read a ``plan.json`` of a run of this schema number.

    Raises
    ------
    UsageError
        When it cannot be read, or is not what a plan is.
    """
    return _read(StepPlan, path, schema, migrate_plan)


def read_adaptation(path: Path, schema: int) -> pa.Table:
    """Read an ``adaptation.parquet`` of a run of this schema number.

    Raises
    ------
    UsageError
        When it cannot be read.
    """
    return migrate_adaptation(schema, read_table(path))


def _as_it_is(_version: int, found: JsonValue) -> JsonValue:
    """Return a record of a kind that never changed."""
    return found


def _read(
    kind: type[F], path: Path, schema: int, migrate: Callable[[int, JsonValue], JsonValue] = _as_it_is
) -> F:
    try:
        text = path.read_bytes()
        if schema < SCHEMA_VERSION:
            with suppress(ValueError):  # what is wrong with the text is said below
                text = json.dumps(migrate(schema, json.loads(text))).encode()
        return kind.model_validate_json(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise UsageError(f"{path}: not what a run's {path.name} is: {describe_fault(error)}") from None
