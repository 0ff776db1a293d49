"""A comparison as a figure and a table: the differences with their intervals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from harness.analysis.figures import style
from harness.analysis.figures.error_figures import what
from harness.analysis.judge.comparing import Comparison, Row
from harness.machine.whole_files import own_folder

MOST_ROWS = 40


def draw(found: Comparison) -> Figure:
    """Draw every difference of medians with its interval; left of 0 the second side errs less."""
    rows = shown(found)[:MOST_ROWS]
    figure, (ax,) = style.subplots(1, 1, style.PAGE_IN, 0.75 + 0.2 * max(len(rows), 1))
    for at, row in enumerate(rows):
        colour = style.INK if not row.better else style.COLOURS[2 if row.better == "second" else 5]
        marker = {"": "o", "first": ">", "second": "<"}[row.better]
        if row.low is not None and row.high is not None:
            ax.hlines(at, row.low, row.high, color=colour, linewidth=style.pt(1.6))
        ax.plot(row.difference, at, marker, color=colour, markeredgecolor="white", zorder=3)
        ax.annotate(
            f"{row.first_pct:.1f} → {row.second_pct:.1f} % ({row.pairs})",
            (1.01, at),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=style.pt(6.5),
        )
    ax.axvline(0, color=style.INK, linewidth=style.pt(0.5))
    ax.set_yticks(range(len(rows)), [name(row) for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xscale("symlog", linthresh=1.0)
    ax.xaxis.set_major_formatter(lambda v, _: style.signed(v))
    ax.set_xlabel(f"difference of median errors, {found.second} less {found.first} (points, 95 % interval)")
    ax.set_title(f"← {found.second} errs less        {found.first} errs less →")
    ax.grid(axis="x")
    return figure


def shown(found: Comparison) -> list[Row]:
    """Return the rows that a reader looks at: means, 99th percentiles and the thesis's statistics."""
    return [r for r in found.rows if r.statistic in ("mean", "p99") or r.protocol == "thesis"]


def name(row: Row) -> str:
    """Return what a row compares, in words."""
    theirs = " (thesis)" if row.protocol == "thesis" else ""
    return (f"{row.model}: " if row.model else "") + what(row.measure, row.statistic) + theirs


def write(found: Comparison, out: Path, style_name: str) -> list[Path]:
    """Write ``comparison`` as figure and CSV into a folder, whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    with own_folder(out, "comparison") as folder:
        with style.styled(style.STYLES[style_name]):
            style.save(draw(found), folder, "comparison")
        _table(found.rows, found).to_csv(folder / "comparison.csv", index=False, lineterminator="\n")
        written = []
        for path in sorted(folder.iterdir()):
            os.replace(path, out / path.name)
            written.append(out / path.name)
        return written


def _table(rows: Sequence[Row], found: Comparison) -> pd.DataFrame:
    table = pd.DataFrame([vars(r) | {"better": r.better} for r in rows])
    return table.rename(columns={"first_pct": f"{found.first}_pct", "second_pct": f"{found.second}_pct"})
