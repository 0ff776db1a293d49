"""Figures of the errors: matrices of source and proposed steps, predictions against measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from harness.analysis import style
from harness.analysis.latencies import GROUND_TRUTH
from harness.analysis.results import Results

GAP_LABELS = {
    "not-predicted": "no pred.",
    "not-measured": "not meas.",
    "unsteady": "unsteady",
    "saturated": "saturated",
    "invalid": "invalid",
}
LIMIT_PCT = 50.0
"""Where the matrices' colours end; the numbers go on."""

_LEFT_IN, _RIGHT_IN, _BOTTOM_IN, _TOP_IN, _GAP_IN = 0.45, 0.75, 0.42, 0.25, 0.12


def error_matrix(data: Results, protocol: str, measure: str, statistic: str) -> Figure:
    """Draw the error of every source -> proposed pair, a panel for each model (thesis 5.24).

    A latency's error is signed; where a pair has many subjects it is the median of absolute errors.
    """
    table = data.matrices
    cells = table[
        (table["protocol"] == protocol) & (table["measure"] == measure) & (table["statistic"] == statistic)
    ]
    signed = bool((cells["comparisons"] == 1).all())
    models = [m for m in data.models if m in set(cells["model"])]
    norm = Normalize(-LIMIT_PCT if signed else 0.0, LIMIT_PCT)
    colours: Colormap = sns.color_palette("vlag" if signed else "light:#31688e", as_cmap=True)
    figure, panels, bar_at = _panels(len(models))
    for i, (ax, model) in enumerate(zip(panels, models, strict=True)):
        mine = cells[cells["model"] == model]
        _matrix_panel(ax, mine, data.steps, signed, norm, colours)
        ax.set_title(_panel_title(model, mine), fontsize=7.5)
        ax.tick_params(labelleft=i % 3 == 0, labelbottom=i + 3 >= len(models))
    width, height = figure.get_size_inches()
    figure.text(
        (width - _RIGHT_IN + _LEFT_IN) / 2 / width, 0.06 / height, "proposed step", ha="center", fontsize=8
    )
    figure.text(0.1 / width, 0.5, "source step", va="center", rotation=90, fontsize=8)
    bar = figure.colorbar(
        ScalarMappable(norm, colours), cax=bar_at, extend="both" if signed else "max", extendfrac=0.04
    )
    kind = "(P − A)/A" if signed else "median |P − A|/A"
    bar.set_label(f"{kind}, {_what(measure, statistic)} (%)", fontsize=7)
    bar.outline.set_visible(False)
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes], Axes]:
    """Return a figure with square panels, three in a row, and a place for the colour bar.

    The places are computed here: a layout engine would draw everything twice to find them.
    """
    columns, rows = min(count, 3), -(-count // 3)
    width = style.COLUMN_IN if count == 1 else style.PAGE_IN if count > 2 else 5.4
    side = (width - _LEFT_IN - _RIGHT_IN - (columns - 1) * _GAP_IN) / columns
    height = _BOTTOM_IN + rows * (side + _TOP_IN)
    figure = plt.figure(figsize=(width, height))
    panels = []
    for i in range(count):
        row, column = divmod(i, 3)
        x = _LEFT_IN + column * (side + _GAP_IN)
        y = height - (row + 1) * (side + _TOP_IN)
        panels.append(figure.add_axes((x / width, y / height, side / width, side / height)))
    tall = rows * (side + _TOP_IN) - _TOP_IN
    at = (
        (width - _RIGHT_IN + 0.1) / width,
        (_BOTTOM_IN + 0.05 * tall) / height,
        0.09 / width,
        0.9 * tall / height,
    )
    return figure, panels, figure.add_axes(at)


def _what(measure: str, statistic: str) -> str:
    named = {"mean": "mean ", "mean_same_node": "mean ", "p90_paths": ""}
    return f"{named.get(statistic, statistic + ' of ')}{style.measure_name(measure)}"


def _panel_title(model: str, cells: pd.DataFrame) -> str:
    off = cells.loc[cells["source_step"] != cells["proposed_step"], "abs_error_pct"].dropna()
    return f"{model}: median {off.median():.1f} %" if len(off) else f"{model}: nothing judged"


def _matrix_panel(
    ax: Axes, cells: pd.DataFrame, steps: Sequence[int], signed: bool, norm: Normalize, colours: Colormap
) -> None:
    size = len(steps)
    place = {step: i for i, step in enumerate(steps)}
    grid = np.full((size, size), np.nan)
    text_size = 7 if size <= 6 else 5.5 if size <= 9 else 4.5
    for cell in cells.to_dict("records"):
        row, column = place[cell["source_step"]], place[cell["proposed_step"]]
        if cell["judged"]:
            error = cell["relative_error"] * 100 if signed else cell["abs_error_pct"]
            grid[row, column] = error
            ink = "white" if _luminance(colours(norm(error))) < 0.45 else style.INK
            label = _percent(error, signed)
        else:
            ax.add_patch(
                Rectangle(
                    (column, row), 1, 1, facecolor=style.GAP, edgecolor="white", hatch="////", linewidth=0.5
                )
            )
            ink = style.INK
            label = GAP_LABELS.get(cell["verdict"], cell["verdict"]).replace(" ", "\n")
        if size <= 14:
            shown = text_size if cell["judged"] else text_size - 1.2
            ax.text(column + 0.5, row + 0.5, label, ha="center", va="center", fontsize=shown, color=ink)
    ax.pcolormesh(grid, cmap=colours, norm=norm, edgecolors="white", linewidth=0.5)
    for i in range(size):
        inset = Rectangle((i + 0.03, i + 0.03), 0.94, 0.94, fill=False, edgecolor=style.INK, linewidth=0.8)
        ax.add_patch(inset)
    ax.set(xlim=(0, size), ylim=(size, 0))
    ax.set_xticks(np.arange(size) + 0.5, [str(s) for s in steps])
    ax.set_yticks(np.arange(size) + 0.5, [str(s) for s in steps])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _luminance(rgba: tuple[float, float, float, float]) -> float:
    return 0.2126 * rgba[0] + 0.7152 * rgba[1] + 0.0722 * rgba[2]


def _percent(value: float, signed: bool) -> str:
    if not signed:
        return f"{value:.1f}"
    return "0" if abs(value) < 0.5 else f"{value:+.0f}".replace("-", "−")


def measured_and_predicted(data: Results) -> Figure:
    """Draw predictions against measurements of the latencies' means, off-diagonal pairs only."""
    rows = data.judged()
    rows = rows[(rows["subject"] == "") & (rows["protocol"] == "ours") & (rows["statistic"] == "mean")]
    measures = [m for m in style.MEASURE_NAMES if m in set(rows["measure"])][:3] or [GROUND_TRUTH]
    models = [m for m in data.models if m in set(rows.loc[rows["measure"].isin(measures), "model"])]
    width = style.COLUMN_IN if len(measures) == 1 else style.PAGE_IN
    figure, axes = plt.subplots(
        1,
        len(measures),
        figsize=(width, width / len(measures) + 0.45),
        squeeze=False,
        layout="constrained",
    )
    for ax, measure in zip(axes.flat, measures, strict=True):
        mine = rows[rows["measure"] == measure]
        _identity_panel(ax, mine, models)
        ax.set_title(f"mean {style.measure_name(measure)}")
        ax.set_xlabel("measured (ms)")
    axes.flat[0].set_ylabel("predicted (ms)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)))
    return figure


def _identity_panel(ax: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    both = pd.concat([rows["actual"], rows["value"]]).dropna()
    both = both[both > 0]
    low, high = (both.min() * 0.8, both.max() * 1.25) if len(both) else (0.1, 10.0)
    line = np.array([low, high])
    ax.fill_between(line, line * 0.9, line * 1.1, color=style.GAP, linewidth=0, label="± 10 %")
    ax.plot(line, line, color=style.INK, linewidth=0.7)
    for i, model in enumerate(models):
        mine = rows[rows["model"] == model]
        colour, marker = style.COLOURS[i % len(style.COLOURS)], style.MARKERS[i % len(style.MARKERS)]
        below = (mine["value"] - mine["low"]).clip(lower=0).fillna(0)
        above = (mine["high"] - mine["value"]).clip(lower=0).fillna(0)
        ax.errorbar(
            mine["actual"],
            mine["value"],
            xerr=mine["noise"].fillna(0),
            yerr=np.vstack([below, above]) if len(mine) else None,
            fmt=marker,
            color=colour,
            markersize=3.5,
            markeredgecolor="white",
            markeredgewidth=0.3,
            elinewidth=0.5,
            label=model,
        )
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    ax.set_aspect("equal")
    steps = (1, 1.5, 2, 3, 5, 7) if high / low < 12 else (1, 2, 5) if high / low < 200 else (1,)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=steps))
        axis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.set_minor_locator(NullLocator())
