"""``harness compare``: two runs, or two models, side by side, with an interval on the difference.

Errors are compared pair by pair of steps: the median over the pairs of each side, and their difference with
the interval of ``bootstrap``. Two models are always compared on the pairs that both were judged on. Two runs
are compared pair by pair where they are of the same experiment (the same configurations), and else as they
are, unpaired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from harness.analysis.judge import bootstrap
from harness.analysis.judge.bootstrap import ENDS, PAIR, ConfidenceInterval
from harness.analysis.judge.judged_rows import judged_rows
from harness.analysis.spark.inputs import RunRecord, check_parquet, read_raw
from harness.errors import UsageError
from harness.schemas import ERRORS

KIND = ["protocol", "measure", "statistic"]
COLUMN = "abs_error_pct"
TWO_SIDED_95 = 1.96


@dataclass(frozen=True)
class Row:
    """One line of the comparison: medians in percent, their difference (second less first) in points.

    ``paired`` says whether both sides are the same pairs of steps; low and high are None with fewer than
    three steps.
    """

    model: str
    protocol: str
    measure: str
    statistic: str
    pairs: int
    first_pct: float
    second_pct: float
    difference: float
    low: float | None
    high: float | None
    paired: bool

    @property
    def better(self) -> str:
        """Which side errs less: ``first``, ``second``, or empty where the interval does not say."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return ""
        return "second" if self.high < 0 else "first"


@dataclass(frozen=True)
class MeasuredRow:
    """One configuration as two runs measured it, and the difference in percent with its 95 % interval."""

    configuration: str
    measure: str
    statistic: str
    first: float
    second: float
    difference_pct: float
    low_pct: float | None
    high_pct: float | None


@dataclass(frozen=True)
class Comparison:
    """Two sides by name, their errors, and what was measured where the sides are runs."""

    first: str
    second: str
    rows: list[Row]
    measured: list[MeasuredRow]
    notes: list[str]

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "first": self.first,
            "second": self.second,
            "errors": [asdict(r) | {"better": r.better} for r in self.rows],
            "measured": [asdict(r) for r in self.measured],
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Side:
    """One run: its record and its pair table."""

    name: str
    run: RunRecord
    errors: pd.DataFrame


def sides(
    paths: Sequence[Path], progress: Callable[[str], None] = lambda _: None, master: str | None = None
) -> list[Side]:
    """Read the runs' pair tables; what has none yet is computed, without writing it.

    Raises
    ------
    UsageError
        Naming the first file that is missing, unreadable, foreign or of a newer schema.
    """
    records = [read_raw(path) for path in paths]
    names = [r.name for r in records]
    labels = [n if names.count(n) == 1 else f"{n}/{r.path.name}" for n, r in zip(names, records, strict=True)]
    if len(set(labels)) < len(labels):
        raise UsageError(f"{next(n for n in labels if labels.count(n) > 1)}: given twice")
    tables: dict[Path, pd.DataFrame] = {}
    for r in records:
        if (r.path / "errors.parquet").is_file():
            check_parquet(r.path / "errors.parquet", ERRORS)
            tables[r.path] = pq.read_table(r.path / "errors.parquet").to_pandas()
    missing = [r.path for r in records if r.path not in tables]
    if missing:
        # Spark and the plotting libraries are needed for this only.
        from harness.analysis.judge.computing import results  # noqa: PLC0415

        tables |= {p: of.frame for p, of in zip(missing, results(missing, progress, master), strict=True)}
    return [Side(n, r, tables[r.path]) for n, r in zip(labels, records, strict=True)]


def compare(runs: Sequence[Side], models: Sequence[str] = ()) -> Comparison:
    """Compare two models over one or more runs, or two runs for each model.

    Parameters
    ----------
    runs : sequence of Side
        What ``sides`` gives.
    models : sequence of str
        Two models to set against each other; or, with two runs, the models to look at (all when empty).

    Raises
    ------
    UsageError
        When the runs and models are not two of either, or a model predicted nothing there.
    """
    known = sorted({m for side in runs for m in side.errors["model"].unique()})
    for model in models:
        if model not in known:
            raise UsageError(f"{model}: has no predictions in these runs", f"these have: {', '.join(known)}")
    if len(set(models)) == 2 and len(models) == 2:
        return _models(runs, models[0], models[1])
    if len(runs) != 2 or len(models) > 2:
        raise UsageError(
            "two runs, or two models (--model A --model B) over any number of runs, can be compared",
            f"given were {len(runs)} run(s) and {len(models)} model(s)",
        )
    return _runs(runs[0], runs[1], models or known)


def cells(errors: pd.DataFrame) -> pd.DataFrame:
    """Return the judged off-diagonal pairs' errors: one row a model, kind and pair (median of subjects)."""
    judged = (errors["verdict"] == "judged") & (errors[ENDS[0]] != errors[ENDS[1]])
    grouped = errors[judged_rows(errors) & judged].groupby(["model", *KIND, *ENDS])
    return grouped[COLUMN].median().to_frame().reset_index()


def _models(runs: Sequence[Side], first: str, second: str) -> Comparison:
    found = pd.concat([cells(s.errors).assign(run=s.name) for s in runs], ignore_index=True)
    keys = [*KIND, *PAIR]
    a, b = (found[found["model"] == m].set_index(keys)[COLUMN] for m in (first, second))
    both = pd.DataFrame({"a": a, "b": b}).dropna().reset_index()
    rows = []
    for key, of in both.groupby(KIND, sort=True):
        kind = [str(k) for k in key]
        d = bootstrap.paired_difference(of, "a", "b")
        rows.append(_row("", kind, len(of), of["a"].median(), of["b"].median(), d, True))
    if not rows:
        raise UsageError(f"{first} and {second} were judged on no pair in common", "see harness report")
    return Comparison(first, second, rows, [], _notes(rows, [s.name for s in runs]))


def _runs(first: Side, second: Side, models: Sequence[str]) -> Comparison:
    paired = _same_experiment(first.run, second.run)
    a, b = cells(first.errors), cells(second.errors)
    notes = []
    if paired:
        a, b = _by_configuration(a, first.run), _by_configuration(b, second.run)
    else:
        notes.append("the runs are of different experiments: their pairs are not matched")
    rows = []
    for key, of in a[a["model"].isin(list(models))].groupby(["model", *KIND], sort=True):
        model, *kind = map(str, key)
        other = b[(b["model"] == model) & (b[KIND] == kind).all(axis=1)]
        if paired:
            both = of.merge(other, on=ENDS, suffixes=("_a", "_b")).assign(run="")
            if len(both):
                d = bootstrap.paired_difference(both, f"{COLUMN}_a", f"{COLUMN}_b")
                medians = both[f"{COLUMN}_a"].median(), both[f"{COLUMN}_b"].median()
                rows.append(_row(model, kind, len(both), *medians, d, True))
        elif len(other):
            d = bootstrap.unpaired_difference(of.assign(run="a"), other.assign(run="b"), COLUMN)
            pairs = min(len(of), len(other))
            rows.append(_row(model, kind, pairs, of[COLUMN].median(), other[COLUMN].median(), d, False))
    measured = _measured(first, second) if paired else []
    return Comparison(first.name, second.name, rows, measured, [*notes, *_notes(rows, [])])


def _row(
    model: str,
    kind: Sequence[str],
    pairs: int,
    first: float,
    second: float,
    d: ConfidenceInterval,
    paired: bool,
) -> Row:
    return Row(
        model, kind[0], kind[1], kind[2], pairs, float(first), float(second), d.value, d.low, d.high, paired
    )


def _notes(rows: Sequence[Row], runs: Sequence[str]) -> list[str]:
    out = [f"over the pairs of {', '.join(runs)}"] if len(runs) > 1 else []
    tested = sum(r.low is not None for r in rows)
    if tested < len(rows):
        out.append(f"{len(rows) - tested} differences without an interval: fewer than three steps")
    if tested:
        chance = max(1, round(tested / 20))
        out.append(
            f"each interval is for itself: were nothing different, about {chance} of these {tested} would"
            " leave 0 out by chance"
        )
    return out


def _same_experiment(first: RunRecord, second: RunRecord) -> bool:
    """Return True if two runs are of one query plan and have at least two configurations in common."""
    plans = [r.steps[0].plan.start.query_plan for r in (first, second)]
    common = {*first.labels.values()} & {*second.labels.values()}
    return plans[0] == plans[1] and len(common) > 1


def _by_configuration(of: pd.DataFrame, run: RunRecord) -> pd.DataFrame:
    """Name steps by their configurations."""
    names = run.labels
    return of.assign(**{end: of[end].map(names) for end in ENDS})


def _measured(first: Side, second: Side) -> list[MeasuredRow]:
    """Compare the measurements of each configuration; the interval is from the noise of both."""
    tables = []
    for side in (first, second):
        names = side.run.labels
        rows = side.errors
        rows = rows[(rows["subject"] == "") & (rows["protocol"] == "ours") & rows["actual"].notna()]
        rows = rows.drop_duplicates(["proposed_step", "measure", "statistic"])
        rows = rows.assign(configuration=rows["proposed_step"].map(names))
        tables.append(rows.set_index(["configuration", "measure", "statistic"])[["actual", "noise"]])
    both = tables[0].join(tables[1], how="inner", lsuffix="_a", rsuffix="_b").reset_index()
    found = []
    for r in both.to_dict("records"):
        if r["actual_a"] == 0:
            continue
        difference = 100 * (r["actual_b"] - r["actual_a"]) / r["actual_a"]
        spread = 100 * TWO_SIDED_95 * math.hypot(r["noise_a"], r["noise_b"]) / abs(r["actual_a"])
        known = not math.isnan(spread)
        found.append(
            MeasuredRow(
                r["configuration"],
                r["measure"],
                r["statistic"],
                float(r["actual_a"]),
                float(r["actual_b"]),
                float(difference),
                float(difference - spread) if known else None,
                float(difference + spread) if known else None,
            )
        )
    return found
