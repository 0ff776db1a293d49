"""Tables beside the figures: LaTeX for a paper, CSV for other tools, and an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from harness.analysis.figures.all_figures import FigureKind
from harness.analysis.judge.ranking import intervals
from harness.analysis.judge.results import Results
from harness.analysis.judge.summary import ErrorSummary
from harness.analysis.report.sections import step_rows
from harness.schemas import Measure

COLUMNS = (
    ("ground truth", "mean", Measure.GROUND_TRUTH, "mean"),
    ("ground truth", "p99", Measure.GROUND_TRUTH, "p99"),
    ("complete", "mean", Measure.COMPLETE, "mean"),
    ("arrivals", "mean", Measure.ARRIVALS, "mean"),
    ("service", "mean", Measure.SERVICE, "mean"),
)
"""Columns of the LaTeX table, all by our protocol: median and worst error."""


def write(folder: Path, runs: Sequence[Results], names: Sequence[str]) -> None:
    """Write ``errors.tex``, ``errors.csv``, ``matrices.csv`` and ``steps.csv`` of one or several runs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "errors.tex").write_text(latex(runs, names), encoding="utf-8")
    _csv(folder / "errors.csv", errors(runs, names))
    frames = [of.matrices.assign(experiment=n) for of, n in zip(runs, names, strict=True)]
    _csv(folder / "matrices.csv", _first(pd.concat(frames, ignore_index=True), "experiment"))
    rows = [{"experiment": n, **row} for of, n in zip(runs, names, strict=True) for row in step_rows(of)]
    _csv(folder / "steps.csv", pd.DataFrame(rows))


def _csv(path: Path, table: pd.DataFrame) -> None:
    table.to_csv(path, index=False, float_format="%.9g", lineterminator="\n")


def _first(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table[[column, *(c for c in table.columns if c != column)]]


def errors(runs: Sequence[Results], names: Sequence[str]) -> pd.DataFrame:
    """Return the runs' error summaries with their provenance and the medians' 95 % intervals."""
    rows: list[dict[str, object]] = []
    for data, name in zip(runs, names, strict=True):
        found = intervals([data], {_kind(e) for e in data.summary["errors"]})
        for e in data.summary["errors"]:
            # The interval is of pairs' medians, which for many subjects are not the rows' median.
            ends = found.get((*_kind(e), e["model"]))
            rows.append(
                {
                    "experiment": name,
                    "run": data.run.path.name,
                    "commit": data.run.environment.get("commit", ""),
                    "verdict": data.summary["verdict"],
                    **e,
                    "pair_median_pct": ends.value if ends else None,
                    "pair_median_low_pct": ends.low if ends else None,
                    "pair_median_high_pct": ends.high if ends else None,
                }
            )
    return pd.DataFrame(rows)


def _kind(e: ErrorSummary) -> tuple[str, str, str]:
    return str(e["protocol"]), str(e["measure"]), str(e["statistic"])


def latex(runs: Sequence[Results], names: Sequence[str]) -> str:
    """Return a LaTeX table (booktabs): a row an experiment and model, median and worst error in percent."""
    rows = []
    for data, name in zip(runs, names, strict=True):
        ours = [e for e in data.summary["errors"] if e["protocol"] == "ours"]
        by_kind = {(e["model"], e["measure"], e["statistic"]): e for e in ours}
        for i, model in enumerate(data.models):
            row: dict[tuple[str, str], str] = {("", "experiment"): "" if i else name, ("", "model"): model}
            for group, label, measure, statistic in COLUMNS:
                e = by_kind.get((model, measure, statistic))
                median, worst = (e["median_abs_error_pct"], e["worst_abs_error_pct"]) if e else (None, None)
                known = median is not None and worst is not None
                row[group, label] = f"{median:.1f} / {worst:.0f}" if known else "--"
            rows.append(row)
    table = pd.DataFrame(rows)
    table.columns = pd.MultiIndex.from_tuples(list(rows[0]))
    head = (
        "% Relative error of predictions in percent, median / worst over all pairs of different steps\n"
        "% (all messages, none cut; arrivals and service: over executors). Needs \\usepackage{booktabs}.\n"
    )
    body = (
        table.style.hide(axis="index")
        .format(escape="latex")
        .format_index(axis=1, escape="latex")
        .to_latex(hrules=True, column_format="ll" + "r" * len(COLUMNS), multicol_align="c")
    )
    return head + body


def index(
    runs: Sequence[Results],
    names: Sequence[str],
    drawn: Mapping[str, Sequence[FigureKind]],
    ranked: bool,
    formats: Sequence[str],
) -> str:
    """Return a page in Markdown that shows every figure with its caption and provenance."""
    others = " and ".join(f.upper() for f in formats if f != "png")
    also = f", also as {others}" if others else ""
    out = ["# Figures", "", f"Made by `harness figures`{also}; the numbers"]
    out += ["are in `errors.tex`, `errors.csv`, `matrices.csv` and `steps.csv`.", ""]
    if ranked:
        out += ["## All runs", "", "![Leaderboard](leaderboard.png)", ""]
        out += ["Median error of each model over the off-diagonal pairs of all runs, with 95 % intervals"]
        out += ["from resampled steps.", ""]
    for data, name in zip(runs, names, strict=True):
        environment = data.run.environment
        kind = "" if data.summary["measured"] else " **not a measurement**,"
        out += [f"## {name}", ""]
        out += [
            f"Run {data.run.path.name},{kind} verdict {data.summary['verdict']},"
            f" commit {environment.get('commit') or 'not known'}, {len(data.steps)} steps:",
            "; ".join(f"{s}: {data.step_words(s)}" for s in data.steps) + ".",
            "",
        ]
        for figure in drawn[name]:
            out += [f"![{figure.name}]({name}/{figure.name}.png)", "", figure.full_caption, ""]
    return "\n".join(out)
