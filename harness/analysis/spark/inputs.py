"""A run directory as the analysis reads it: every file found, readable and of the declared schema.

All mistakes are found here, before Spark is started. A file that is missing, cut short, foreign or of a newer
schema ends the command with one line that names the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from harness.errors import UsageError
from harness.experiments.adapted_periods import ADAPTED
from harness.experiments.clusters import MEASURED_KINDS
from harness.experiments.config import Step
from harness.experiments.loading import expand_steps, load
from harness.experiments.provenance import Provenance, experiment_digests, kept_files, of_step
from harness.experiments.records import ABSENT, CHANGES, SIMULATED
from harness.experiments.step_settings import AdaptSpec
from harness.quality import Quality
from harness.runs import SEALED, DeclinedStep, Interval, Run, StepPlan, read_adaptation
from harness.schemas import LATENCY, METRICS, PREDICTIONS
from harness.schemas.derivable import left_out
from harness.schemas.environment import Environment
from harness.schemas.migrations import FIRST

LATER_FINDINGS = ("began_empty", "alone", "clocks", "stolen")
"""Findings of ``quality.json`` that runs from before have none of."""
STORMS_OWN = "Storm's own"
"""Who places the executors of a step that names no scheduler and no placement."""
STEP_NUMBERS = 100_000
"""Where several runs are analysed in one job, the steps of the n-th are counted from n times this."""


@dataclass(frozen=True)
class StepRecord:
    """A finished step: what was asked, when it was measured, how well, and its tables' sizes."""

    index: int
    folder: Path
    plan: StepPlan
    interval: Interval
    quality: Quality
    latency_rows: int
    metrics_rows: int
    bucket_s: float | None
    """Length of the metric buckets as asked; None where they were drawn anew from those of another night."""
    asked: AskedOfStep | None = None
    """The step as the experiment asks for it; None where the experiment has no such step."""
    sealing: bool = False
    """True if the run's campaign sealed every step."""
    recorded: frozenset[str] = frozenset()
    """Findings that the run keeps of its steps, where not all runs do (``LATER_FINDINGS``)."""
    provenance: Provenance | None = None
    """Experiment, machine and code that it was measured with; None in runs from before that was kept."""
    derivable: tuple[str, ...] = ()
    """Columns that its table of latencies leaves out, as an archived run's does."""
    unwrapped: frozenset[str] = frozenset()
    """Components that could not be instrumented."""
    adaptation: pd.DataFrame | None = field(default=None, compare=False, repr=False)
    """``adaptation.parquet`` as it is today, its periods in order; None of a step that adapts nothing."""

    @property
    def reporting_tasks(self) -> tuple[int, ...]:
        """Tasks that report metrics: those of the query plan's instrumented components."""
        plan = self.plan.start
        names = {c.name for c in plan.query_plan.components} - self.unwrapped
        return tuple(t for t, e in sorted(plan.by_task.items()) if e.component in names)

    @property
    def drawn_anew(self) -> bool:
        """True where the run's tables were drawn anew from those of another night."""
        return self.bucket_s is None

    @property
    def may_be_absent(self) -> frozenset[str]:
        """Checks that need not apply: to messages of the topology's own, what was played, changed plans."""
        if self.asked is None:
            return frozenset()
        own = frozenset() if self.asked.sent else frozenset(ABSENT)
        played = frozenset() if self.asked.measured else frozenset(SIMULATED)
        adapted = frozenset(ADAPTED) if self.asked.adapt else frozenset()
        return own | played | adapted | (frozenset(CHANGES) if self.asked.step.changes else frozenset())

    @property
    def changes(self) -> bool:
        """True for a step whose plan or rate changed while it was measured."""
        return self.quality.adaptation is not None or bool(self.asked and self.asked.step.changes)

    @property
    def placed_by(self) -> str:
        """Name of who placed its executors at first."""
        return self.plan.placement.by if self.plan.placement else STORMS_OWN

    @property
    def asked_by(self) -> str:
        """Name of who is asked for its plans: again and again where it adapts, or else once."""
        return self.asked.adapt.by if self.asked and self.asked.adapt else self.placed_by

    @property
    def asked_workers(self) -> int:
        """Number of workers that were asked for; a scheduler may use others."""
        if self.asked is None or self.asked.step.tuned_by:  # a tuner says the number itself
            return len(self.plan.start.workers)
        return self.asked.step.configuration.workers

    @property
    def absent(self) -> Mapping[str, str]:
        """Checks that do not apply to it, and why."""
        may = self.may_be_absent
        return {name: why for name, why in self.quality.absent.items() if name in may}


@dataclass(frozen=True)
class AskedOfStep:
    """An experiment's request for one step.

    Attributes
    ----------
    step : Step
    precision_pct : float
    sent : bool
        Whether the harness sends the messages.
    measured : bool
        Whether it is measured on real servers.
    adapt : AdaptSpec, optional
        Who may change its plan while it is measured.
    """

    step: Step
    precision_pct: float
    sent: bool
    measured: bool
    adapt: AdaptSpec | None = None


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run directory's small files, read and checked; its large ones by path.

    Attributes
    ----------
    experiment, environment : mapping
        ``experiment.yaml`` and ``environment.json`` as they stand.
    steps : tuple of StepRecord
        The finished steps, by index.
    asked_steps : int
        Steps that the experiment asks for.
    predictions_rows : int
        Rows of ``predictions.parquet``.
    place : int
        Which of the runs of a job it is.
    declined : tuple of DeclinedStep
        Steps that were not measured, since their placement could not be had.
    """

    path: Path
    experiment: Mapping[str, object]
    environment: Environment
    steps: tuple[StepRecord, ...]
    asked_steps: int
    predictions_rows: int
    place: int = 0
    declined: tuple[DeclinedStep, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digests of the experiment as it is now, by key (``harness.experiments.provenance``)."""

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """The run alone."""
        return (self,)

    @property
    def name(self) -> str:
        """The experiment's name."""
        return str(self.experiment["name"])

    @property
    def bucket_s(self) -> float:
        """The length of the metric buckets, by which times are drawn; 2 s if not stated."""
        return _bucket_s(self.experiment)

    @property
    def labels(self) -> Mapping[int, str]:
        """Each step's configuration, with ``#2`` and so on for repeats; runs are compared by these."""
        seen: Counter[str] = Counter()
        found = {}
        for s in self.steps:
            seen[s.interval.configuration] += 1
            repeat = seen[s.interval.configuration]
            found[s.index] = s.interval.configuration + (f"#{repeat}" if repeat > 1 else "")
        return found

    @property
    def rows(self) -> int:
        """Raw rows of all steps."""
        return sum(s.latency_rows + s.metrics_rows for s in self.steps)

    @property
    def measured(self) -> bool:
        """True where real servers were measured, by both files (an experiment may name no kind)."""
        found, asked = self.kinds
        return found in MEASURED_KINDS and (not asked or asked in MEASURED_KINDS)

    @property
    def kinds(self) -> tuple[str, str]:
        """The kinds of cluster that ``environment.json`` and ``experiment.yaml`` name; empty for none."""
        cluster = self.experiment.get("cluster")
        asked = cluster.get("kind", "") if isinstance(cluster, Mapping) else ""
        return str(self.environment.get("cluster_kind") or ""), str(asked)

    @property
    def unwrapped(self) -> Mapping[str, str]:
        """Components that could not be instrumented, and why."""
        return _unwrapped(self.experiment)

    def numbered(self, place: int) -> RunRecord:
        """Return it as the run of a job at this place, its steps numbered accordingly."""
        first = place * STEP_NUMBERS
        steps = tuple(replace(s, index=first + s.index % STEP_NUMBERS) for s in self.steps)
        return replace(self, place=place, steps=steps)


@dataclass(frozen=True, eq=False)
class Archive:
    """Several runs that are analysed in one job."""

    runs: tuple[RunRecord, ...]

    @classmethod
    def of(cls, runs: Sequence[RunRecord]) -> Archive:
        """Return them with the steps numbered over all runs.

        Raises
        ------
        UsageError
            When a run is given twice.
        """
        for at, run in enumerate(runs):
            if any(run.path == other.path for other in runs[:at]):
                raise UsageError(f"{run.path}: given twice")
        return cls(tuple(run.numbered(place) for place, run in enumerate(runs)))

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """All runs' steps."""
        return tuple(s for run in self.runs for s in run.steps)


Source = RunRecord | Archive
"""Steps that are analysed in one job, of one run or of several; their numbers are unique in it."""


def spark_path(path: Path) -> str:
    """Return a path that Spark reads as it is written, whatever characters it holds."""
    return "".join(f"\\{c}" if c in "[]{}*?\\" else c for c in str(path))


def read_run(path: Path) -> RunRecord:
    """Read and check a run directory.

    Raises
    ------
    UsageError
        Naming the first file that is missing, unreadable or not of the declared schema.
    """
    record = read_raw(path)
    predictions = record.path / "predictions.parquet"
    if not predictions.is_file():
        raise UsageError(f"{predictions}: no such file", "make it with: harness predict RUN")
    return replace(record, predictions_rows=check_parquet(predictions, PREDICTIONS))


def read_raw(path: Path) -> RunRecord:
    """Read and check what was measured; predictions need not be there yet.

    Raises
    ------
    UsageError
        As ``read_run``.
    """
    run = Run(path)
    experiment = _yaml(run.path / "experiment.yaml")
    if not isinstance(experiment, dict) or "name" not in experiment:
        raise UsageError(f"{run.path / 'experiment.yaml'}: there is no key 'name'")
    if not (run.path / "steps").is_dir():
        raise UsageError(f"{run.path}: there is no folder 'steps'", "is this a run directory?")
    environment = run.environment
    bucket_s = None if environment.get("resampled") is not None else _bucket_s(experiment)
    if not run.finished_steps:
        raise UsageError(f"{run.path}: no finished step", "harness run --resume goes on with it")
    asked, sealing = _asked(run.path / "experiment.yaml"), bool(environment.get(SEALED))
    read = [_step(run, index, bucket_s, asked.get(index), sealing) for index in run.finished_steps]
    kept = frozenset(
        k for k in LATER_FINDINGS if sealing or any(getattr(s.quality, k) is not None for s in read)
    )
    unwrapped = frozenset(_unwrapped(experiment))
    steps = tuple(replace(step, recorded=kept, unwrapped=unwrapped) for step in read)
    declined = tuple(run.declined_steps.values())
    digests = experiment_digests(kept_files(run.path))
    return RunRecord(
        run.path, experiment, environment, steps, len(asked), 0, declined=declined, digests=digests
    )


def _bucket_s(experiment: Mapping[str, object]) -> float:
    measure = experiment.get("measure")
    return float(measure["bucket_s"]) if isinstance(measure, Mapping) and "bucket_s" in measure else 2.0


def _unwrapped(experiment: Mapping[str, object]) -> Mapping[str, str]:
    topology = experiment.get("topology")
    captured = topology.get("captured") if isinstance(topology, Mapping) else None
    return dict(captured.get("unwrapped") or {}) if isinstance(captured, Mapping) else {}


def _asked(path: Path) -> dict[int, AskedOfStep]:
    """Return what an experiment asks, by step."""
    experiment = load(path)
    common = (
        experiment.measure.interval.precision_pct,
        experiment.topology.traffic().sent,
        experiment.cluster.measured,
    )
    return {
        step.index: AskedOfStep(step, *common, adapt=experiment.steps.plan[step.spec].adapt)
        for step in expand_steps(experiment)
    }


def _step(
    run: Run, index: int, bucket_s: float | None, asked: AskedOfStep | None, sealing: bool
) -> StepRecord:
    folder = run.step_path(index)
    return StepRecord(
        index=index,
        folder=folder,
        plan=run.plan(index),
        interval=run.interval(index),
        quality=run.quality(index),
        latency_rows=check_parquet(folder / "latency.parquet", LATENCY),
        metrics_rows=check_parquet(folder / "metrics.parquet", METRICS),
        bucket_s=bucket_s,
        asked=asked,
        sealing=sealing,
        provenance=of_step(folder),
        derivable=left_out(pq.read_schema(folder / "latency.parquet")),
        adaptation=_adaptation(folder / "adaptation.parquet", run.environment.get("schema", FIRST)),
    )


def _adaptation(path: Path, schema: int) -> pd.DataFrame | None:
    if not path.exists():
        return None
    found: pd.DataFrame = read_adaptation(path, schema).to_pandas()
    return found.sort_values("period")


def _yaml(path: Path) -> object:
    try:
        found: object = YAML(typ="safe").load(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not readable ({str(error).splitlines()[0]})") from error
    return found


def check_parquet(path: Path, declared: pa.Schema) -> int:
    """Return a Parquet file's number of rows, having compared its columns with the declared ones.

    Raises
    ------
    UsageError
        When the file is missing, cut short or not Parquet, or lacks a column of the declared type.
    """
    try:
        with pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise UsageError(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]})") from error
    for wanted in (f for f in declared if f.name not in left_out(schema)):
        if wanted.name not in schema.names:
            raise UsageError(f"{path}: there is no column {wanted.name!r}", "see docs/run-directory.md")
        found = schema.field(wanted.name).type
        if not _same(found, wanted.type):
            raise UsageError(
                f"{path}: column {wanted.name!r} is {found}, not {wanted.type}", "see docs/run-directory.md"
            )
    return int(rows)


def _same(found: pa.DataType, declared: pa.DataType) -> bool:
    """Compare types; whether a column is dictionary-encoded is the writer's choice."""
    plain = [t.value_type if pa.types.is_dictionary(t) else t for t in (found, declared)]
    if pa.types.is_list(plain[0]) and pa.types.is_list(plain[1]):
        return _same(plain[0].value_type, plain[1].value_type)
    if pa.types.is_struct(plain[0]) and pa.types.is_struct(plain[1]):
        inner = [{f.name: f.type for f in t} for t in plain]
        return inner[0].keys() == inner[1].keys() and all(_same(inner[0][k], inner[1][k]) for k in inner[0])
    return bool(plain[0] == plain[1])
