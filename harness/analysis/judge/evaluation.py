"""The evaluation set: its split by what runs may be used for, and every run's judged pairs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import pandas as pd
import pyarrow.parquet as pq
from pydantic import ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from harness.analysis.judge import checks
from harness.analysis.judge.judging import all_judged
from harness.analysis.judge.placements import PlacementGroup, ranked_placements
from harness.analysis.judge.predicted_with import stale
from harness.analysis.judge.predicting import predict
from harness.analysis.judge.rescoring import linked_copy
from harness.analysis.spark.inputs import Archive, RunRecord, check_parquet, read_raw, read_run
from harness.analysis.spark.session import spark_session
from harness.errors import UsageError, describe_fault
from harness.plans import Frozen
from harness.runs import Run, read_table
from harness.schemas import ERRORS, Measure

Part = Literal["tuning", "development", "reporting", "neither"]


class Split(Frozen):
    """Experiments by what their runs may be used for.

    Attributes
    ----------
    tuning : tuple of str
        Models are fitted to them.
    development : tuple of str
        Not fitted to, but looked at while models were made.
    reporting : tuple of str
        Never looked at.
    """

    tuning: tuple[str, ...]
    development: tuple[str, ...]
    reporting: tuple[str, ...]

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        counted = Counter((*set(self.tuning), *set(self.development), *set(self.reporting)))
        if several := sorted(name for name, sets in counted.items() if sets > 1):
            raise ValueError(f"{', '.join(several)}: in several sets")
        return self

    def part(self, experiment: str) -> Part:
        """Return the set that an experiment is in.

        Examples
        --------
        >>> Split(tuning=("a",), development=("b",), reporting=()).part("b")
        'development'
        """
        sets: dict[Part, tuple[str, ...]] = {
            "tuning": self.tuning,
            "development": self.development,
            "reporting": self.reporting,
        }
        return next((part for part, names in sets.items() if experiment in names), "neither")

    @property
    def shown(self) -> Part:
        """The set that accuracy is stated for: what nobody looked at, else what nothing was fitted to."""
        return "reporting" if self.reporting else "development"


def read_split(path: Path) -> Split:
    """Read a split.

    Raises
    ------
    UsageError
        When the file is missing or is no split.
    """
    try:
        return Split.model_validate(YAML(typ="safe").load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "give one with --split") from error
    except (YAMLError, ValidationError) as error:
        problem = describe_fault(error) if isinstance(error, ValidationError) else str(error).splitlines()[0]
        raise UsageError(
            f"{path}: {problem}", "a split has the keys tuning, development and reporting, lists"
        ) from error


@dataclass(frozen=True)
class Evaluated:
    """One run of the evaluation set.

    Attributes
    ----------
    name : str
        ``<experiment>/<UTC start>``.
    part : str
        The set that its experiment is in.
    verdict : str
        Of the measurement.
    machine : str
        Cores and their kind.
    configurations : mapping of int to str
        Of each finished step what was asked for, its rate included.
    saturated : frozenset of int
        Steps whose backlog grew.
    stolen_pct : float or None
        Share of the machine's CPU time that its host gave to others, in the step in which it was most.
    busy_pct : mapping of int to float
        Share of the machine's CPU time that was in use in each step's interval, where it was recorded.
    pairs : DataFrame
        Rows of ``errors.parquet``.
    placements : tuple of PlacementGroup
        Plans of the run that differ by placement alone, and how models ranked them.
    """

    name: str
    experiment: str
    part: Part
    verdict: str
    machine: str
    configurations: Mapping[int, str]
    commit: str
    saturated: frozenset[int]
    stolen_pct: float | None
    busy_pct: Mapping[int, float]
    pairs: pd.DataFrame
    placements: tuple[PlacementGroup, ...] = ()

    @property
    def steps(self) -> int:
        """Number of finished steps."""
        return len(self.configurations)


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Return the run directories that paths name or hold, ``<folder>/<experiment>/<UTC start>``.

    Raises
    ------
    UsageError
        When a path holds none.
    """
    found = []
    for path in paths:
        runs = [p.parent for p in sorted(path.glob("*/*/environment.json"))]
        if (path / "environment.json").is_file():
            runs = [path]
        if not runs:
            raise UsageError(f"{path}: no run directory", "give runs, or a folder of runs")
        found += runs
    return found


def evaluate(
    paths: Sequence[Path],
    split: Split,
    progress: Callable[[str], None] = lambda _: None,
    master: str | None = None,
) -> list[Evaluated]:
    """Return every run's judged pairs, in the order given.

    A run that was reported with today's models is taken as it was judged then. Any other, an archived one
    for instance, which keeps no pair table, is predicted and judged anew with all registered models, in a
    temporary folder.

    Raises
    ------
    UsageError
        Naming the first file that is missing or unreadable.
    """
    records = {path: read_measured(path) for path in paths}
    anew = [p for p in paths if not _as_today(p)]
    judged_anew = dict(_judge(anew, progress, master)) if anew else {}
    return [
        _evaluated(records[p], split, *(judged_anew[p] if p in judged_anew else _as_reported(p)))
        for p in paths
    ]


def read_measured(path: Path) -> RunRecord:
    """Read a run's small files.

    Raises
    ------
    UsageError
        When one is missing or unreadable, or the run was simulated.
    """
    record = read_raw(path)
    if not record.measured:
        raise UsageError(f"{path}: simulated, not measured", "accuracy is told of measured runs only")
    return record


def _as_today(path: Path) -> bool:
    """Say whether a run keeps judged pairs, of today's models and of what was measured."""
    errors = path / "errors.parquet"
    if not errors.is_file():
        return False
    check_parquet(errors, ERRORS)
    models = read_table(errors, ["model"])["model"].unique().to_pylist()
    return not stale(Run(path), errors, models)


def _as_reported(path: Path) -> tuple[str, pd.DataFrame]:
    check_parquet(path / "errors.parquet", ERRORS)
    try:
        verdict = json.loads((path / "verdict.json").read_text(encoding="utf-8"))["verdict"]
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{path / 'verdict.json'}: not readable", "report the run again") from error
    frame: pd.DataFrame = pq.read_table(path / "errors.parquet").to_pandas()
    return str(verdict), frame


def _judge(
    paths: Sequence[Path], progress: Callable[[str], None], master: str | None
) -> Iterator[tuple[Path, tuple[str, pd.DataFrame]]]:
    rows = sum(read_raw(path).rows for path in paths)  # every mistake is found before Spark is started
    with spark_session(rows, master, remember_classes=True) as spark, ExitStack() as copies:
        runs = []
        for path in paths:
            progress(f"{path}: predicting")
            copy = copies.enter_context(linked_copy(path))
            predict(Run(copy))
            runs.append(read_run(copy))
        progress(f"judging {len(runs)} run{'s' * (len(runs) > 1)} with Spark")
        with all_judged(spark, Archive.of(runs)) as found:
            for path, own in zip(paths, found.runs, strict=True):
                yield path, (checks.verdict(own.checks), own.pairs.to_pandas())


def _evaluated(record: RunRecord, split: Split, verdict: str, pairs: pd.DataFrame) -> Evaluated:
    run = Run(record.path)
    experiment = run.path.parent.name
    machine = run.environment.get("machine") or {}
    intervals = {i: run.interval(i) for i in run.finished_steps}
    stolen = [i.machine_steal_pct for i in intervals.values() if i.machine_steal_pct is not None]
    return Evaluated(
        name=f"{experiment}/{run.path.name}",
        experiment=experiment,
        part=split.part(experiment),
        verdict=verdict,
        machine=f"{machine.get('cores', 'unknown')} x {machine.get('cpu', 'unknown')}",
        configurations={step: i.configuration for step, i in intervals.items()},
        commit=str(run.environment.get("commit") or "unknown"),
        saturated=frozenset(i for i in run.finished_steps if run.quality(i).saturated),
        stolen_pct=max(stolen, default=None),
        busy_pct={n: i.machine_busy_pct for n, i in intervals.items() if i.machine_busy_pct is not None},
        pairs=pairs,
        placements=ranked_placements(record, pairs),
    )


def means(pairs: pd.DataFrame, model: str, measure: str) -> pd.DataFrame:
    """Return a model's off-diagonal rows of ``errors.parquet`` on a measure's means, by our protocol."""
    return pairs[
        (pairs["model"] == model)
        & (pairs["measure"] == measure)
        & (pairs["statistic"] == "mean")
        & (pairs["protocol"] == "ours")
        & (pairs["source_step"] != pairs["proposed_step"])
    ]


def mean_ground_truth(pairs: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return those on the ground truth of the whole topology."""
    found = means(pairs, model, Measure.GROUND_TRUTH)
    return found[found["subject"] == ""]
