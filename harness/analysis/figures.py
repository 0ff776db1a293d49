"""The figures of a run, each a function from small tables to a matplotlib figure.

Counterparts in the thesis: error matrices 5.24 and 5.28, latency by step 5.23, ground truth beside
complete latency 5.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from harness.analysis import style
from harness.analysis.distribution import BINS_PER_OCTAVE, NEGATIVE, ZERO, binned_quantile
from harness.analysis.inputs import RunRecord
from harness.analysis.latencies import COMPLETE, GROUND_TRUTH

GAP_LABELS = {
    "not-predicted": "no pred.",
    "not-measured": "not meas.",
    "unsteady": "unsteady",
    "saturated": "saturated",
    "invalid": "invalid",
}
LIMIT_PCT = 50.0
"""Where the matrices' colours end; the numbers go on."""


@dataclass(frozen=True)
class FigureData:
    """All that the figures need: a run's small files and small tables.

    Attributes
    ----------
    histogram : DataFrame
        ``distribution.histogram``.
    actuals : DataFrame
        What was measured, with noise (``errors.actuals``).
    matrices : DataFrame
        ``summary.matrices``.
    timeline : DataFrame
        ``timeline.timeline``.
    pairs : DataFrame
        Rows of ``errors.parquet`` whose subject is the whole topology.
    """

    run: RunRecord
    histogram: pd.DataFrame
    actuals: pd.DataFrame
    matrices: pd.DataFrame
    timeline: pd.DataFrame
    pairs: pd.DataFrame

    @property
    def steps(self) -> list[int]:
        """The finished steps."""
        return [s.index for s in self.run.steps]

    @property
    def models(self) -> list[str]:
        """Names of the models that predicted."""
        return sorted(self.matrices["model"].unique()) if len(self.matrices) else []


def draw_all(data: FigureData, folder: Path) -> list[str]:
    """Draw every figure as PNG and SVG into a folder; return their names in the report's order."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    with style.styled():
        for name, draw in catalogue(data):
            style.save(draw(), folder, name)
            names.append(name)
    return names


def catalogue(data: FigureData) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield the name of every figure that this run has data for, and what draws it."""
    kinds = data.matrices[["protocol", "measure", "statistic"]].drop_duplicates()
    for kind in kinds.itertuples():
        if (kind.protocol, kind.statistic) == ("ours", "mean") or kind.protocol == "thesis":
            key = (str(kind.protocol), str(kind.measure), str(kind.statistic))
            yield matrix_name(*key), lambda key=key: error_matrix(data, *key)  # type: ignore[misc]
    if len(data.histogram):
        yield "latency-by-step", lambda: latency_by_step(data)
        yield "ground-truth-and-complete", lambda: ground_truth_and_complete(data)
    if (data.pairs["verdict"] == "judged").any():
        yield "measured-and-predicted", lambda: measured_and_predicted(data)
    if len(data.timeline):
        yield "timeline", lambda: campaign_timeline(data)


def matrix_name(protocol: str, measure: str, statistic: str) -> str:
    """Return the file name of an error matrix."""
    parts = ["error-matrix", measure.replace("_", "-")]
    return "-".join(parts if protocol == "ours" else [*parts, protocol, statistic.replace("_", "-")])


def error_matrix(data: FigureData, protocol: str, measure: str, statistic: str) -> Figure:
    """Draw the error of every source -> proposed pair, a panel for each model (thesis 5.24).

    A latency's error is signed; where a pair has many subjects it is the median of absolute errors.
    """
    cells = data.matrices[
        (data.matrices["protocol"] == protocol)
        & (data.matrices["measure"] == measure)
        & (data.matrices["statistic"] == statistic)
    ]
    signed = bool((cells["comparisons"] == 1).all())
    models = [m for m in data.models if m in set(cells["model"])]
    width = style.COLUMN_IN if len(models) == 1 else style.PAGE_IN
    columns = min(len(models), 3)
    rows = -(-len(models) // columns)
    side = (width - 0.9) / columns
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, rows * (side + 0.25) + 0.35), squeeze=False, sharex=True, sharey=True
    )
    for ax in axes.flat[len(models) :]:
        ax.set_visible(False)
    for ax, model in zip(axes.flat, models, strict=False):
        _matrix_panel(ax, cells[cells["model"] == model], data.steps, signed)
        ax.set_title(_panel_title(model, cells[cells["model"] == model]))
    figure.supxlabel("proposed step", fontsize=8)
    figure.supylabel("source step", fontsize=8)
    low = -LIMIT_PCT if signed else 0.0
    scale = plt.cm.ScalarMappable(
        norm=Normalize(low, LIMIT_PCT), cmap=style.SIGNED if signed else style.UNSIGNED
    )
    bar = figure.colorbar(scale, ax=axes, shrink=0.8, extend="both" if signed else "max", aspect=25)
    kind = "(P − A)/A" if signed else "median |P − A|/A"
    bar.set_label(f"{kind} of {_what(measure, statistic)} (%)")
    bar.outline.set_visible(False)
    return figure


def _what(measure: str, statistic: str) -> str:
    named = {"mean": "mean ", "mean_same_node": "mean ", "p90_paths": ""}
    return f"{named.get(statistic, statistic + ' of ')}{style.measure_name(measure)}"


def _panel_title(model: str, cells: pd.DataFrame) -> str:
    off = cells.loc[cells["source_step"] != cells["proposed_step"], "abs_error_pct"].dropna()
    return f"{model}: median {off.median():.1f} %" if len(off) else f"{model}: nothing judged"


def _matrix_panel(ax: Axes, cells: pd.DataFrame, steps: list[int], signed: bool) -> None:
    column = "relative_error" if signed else "abs_error_pct"
    grid = cells.pivot_table(index="source_step", columns="proposed_step", values=column, dropna=False)
    grid = grid.reindex(index=steps, columns=steps).astype(float) * (100 if signed else 1)
    if len(steps) <= 12:
        text = grid.map(lambda v: _percent(v, signed))
        sizes = {"size": 7 if len(steps) <= 6 else 5}
    else:
        text, sizes = grid.map(lambda _: ""), {}
    sns.heatmap(
        grid,
        ax=ax,
        annot=text,
        fmt="",
        annot_kws=sizes,
        cmap=style.SIGNED if signed else style.UNSIGNED,
        vmin=-LIMIT_PCT if signed else 0,
        vmax=LIMIT_PCT,
        cbar=False,
        square=True,
        linewidths=0.5,
        linecolor="white",
    )
    gaps = cells[cells["judged"] == 0]
    for gap in gaps.to_dict("records"):
        at = steps.index(gap["proposed_step"]), steps.index(gap["source_step"])
        ax.add_patch(Rectangle(at, 1, 1, facecolor=style.GAP, edgecolor="white", hatch="////", linewidth=0.5))
        label = GAP_LABELS.get(gap["verdict"], gap["verdict"])
        ax.text(at[0] + 0.5, at[1] + 0.5, label.replace(" ", "\n"), ha="center", va="center", fontsize=5.5)
    for i in range(len(steps)):
        ax.add_patch(
            Rectangle((i + 0.03, i + 0.03), 0.94, 0.94, fill=False, edgecolor=style.INK, linewidth=0.8)
        )
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0)
    ax.tick_params(axis="y", rotation=0)


def _percent(value: float, signed: bool) -> str:
    if np.isnan(value):
        return ""
    if not signed:
        return f"{value:.1f}"
    return "0" if abs(value) < 0.5 else f"{value:+.0f}".replace("-", "−")


def _values(data: FigureData, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bins above zero of a step's latencies, and their counts."""
    mine = data.histogram[(data.histogram["step"] == step) & (data.histogram["bin"] > ZERO)]
    counted = mine.groupby("bin")["n"].sum()
    return counted.index.to_numpy(dtype=float), counted.to_numpy(dtype=float)


def _milliseconds(bins: np.ndarray | float) -> np.ndarray:
    return np.asarray(2.0 ** (np.asarray(bins) / BINS_PER_OCTAVE) / 1e6)


def _density(bins: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smooth a histogram on the log scale; bandwidth by Silverman's rule, one bin at least."""
    centre = bins + 0.5
    n = counts.sum()
    mean = (centre * counts).sum() / n
    spread = np.sqrt(((centre - mean) ** 2 * counts).sum() / n)
    width = max(0.9 * spread * n**-0.2, 1.0)
    grid = np.linspace(centre.min() - 2 * width, centre.max() + 2 * width, 256)
    kernel = np.exp(-0.5 * ((grid[:, None] - centre[None, :]) / width) ** 2)
    return grid, kernel @ counts / (n * width * np.sqrt(2 * np.pi))


def _step_ticks(ax: Axes, data: FigureData) -> None:
    labels = []
    for step in data.steps:
        n = int(_values(data, step)[1].sum())
        labels.append(f"{step}\n{_short(n)}")
    ax.set_xticks(range(len(data.steps)), labels)
    ax.set_xlabel("step / number of latencies")


def _short(n: int) -> str:
    return str(n) if n < 1000 else f"{n / 1000:.3g}k" if n < 1_000_000 else f"{n / 1e6:.3g}M"


def _log_latency(ax: Axes, label: str) -> None:
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.yaxis.set_minor_formatter(lambda v, _: f"{v:g}" if _few_decades(ax) and f"{v:.0e}"[0] in "25" else "")
    ax.tick_params(axis="y", which="minor", labelsize=6)
    ax.set_ylabel(label)
    ax.grid(axis="y", which="major")
    ax.set_axisbelow(True)


def _few_decades(ax: Axes) -> bool:
    low, high = ax.get_ylim()
    return bool(low > 0 and high / low < 300)


def latency_by_step(data: FigureData) -> Figure:
    """Draw the distribution of all ground-truth latencies of every step, tail included (thesis 5.23)."""
    figure, ax = plt.subplots(figsize=(max(style.COLUMN_IN, 0.55 * len(data.steps) + 0.8), 2.6))
    undrawn = 0
    for at, step in enumerate(data.steps):
        bins, counts = _values(data, step)
        mine = data.histogram[
            (data.histogram["step"] == step) & data.histogram["bin"].between(NEGATIVE, ZERO)
        ]
        undrawn += int(mine["n"].sum())
        if not len(bins):
            continue
        grid, density = _density(bins, counts)
        half = 0.42 * density / density.max()
        y = _milliseconds(grid)
        ax.fill_betweenx(y, at - half, at + half, color=style.COLOURS[4], alpha=0.55, linewidth=0)
        ax.plot(at - half, y, color=style.COLOURS[0], linewidth=0.5)
        ax.plot(at + half, y, color=style.COLOURS[0], linewidth=0.5)
        q05, q25, q50, q75, q95, q99 = (
            binned_quantile(bins, counts, q) / 1e6 for q in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
        )
        ax.plot([at, at], [q05, q95], color=style.INK, linewidth=0.7)
        ax.plot([at, at], [q25, q75], color=style.INK, linewidth=3, solid_capstyle="butt")
        ax.plot(at, q50, "o", color="white", markersize=3.5, markeredgecolor=style.INK, markeredgewidth=0.6)
        ax.plot(at, q99, "_", color=style.COLOURS[5], markersize=8, markeredgewidth=1.2)
    _log_latency(ax, "ground-truth latency (ms)")
    _step_ticks(ax, data)
    ax.set_title("○ median   ▮ quartiles   │ 5–95 %   – 99 %", fontsize=6.5, loc="right")
    if undrawn:
        ax.annotate(
            f"{undrawn} latencies of 0 or less are not drawn", (0, 0), xycoords="axes fraction", fontsize=6
        )
    return figure


def ground_truth_and_complete(data: FigureData) -> Figure:
    """Draw ground truth beside Storm's complete latency, by step (thesis 5.34).

    Complete latency has a mean for each spout executor only; each is a point.
    """
    figure, ax = plt.subplots(figsize=(max(style.COLUMN_IN, 0.55 * len(data.steps) + 0.8), 2.6))
    complete = data.actuals[(data.actuals["measure"] == COMPLETE) & (data.actuals["protocol"] == "ours")]
    means = data.actuals[
        (data.actuals["measure"] == GROUND_TRUTH)
        & (data.actuals["subject"] == "")
        & (data.actuals["protocol"] == "ours")
        & (data.actuals["statistic"] == "mean")
    ].set_index("step")["value"]
    for at, step in enumerate(data.steps):
        bins, counts = _values(data, step)
        if len(bins):
            q = {p: binned_quantile(bins, counts, p) / 1e6 for p in (0.05, 0.25, 0.5, 0.75, 0.95)}
            box = {
                "med": q[0.5],
                "q1": q[0.25],
                "q3": q[0.75],
                "whislo": q[0.05],
                "whishi": q[0.95],
                "mean": means.get(step, np.nan),
            }
            ax.bxp(
                [box],
                positions=[at - 0.18],
                widths=0.28,
                showfliers=False,
                showmeans=True,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": style.COLOURS[4], "edgecolor": style.INK, "linewidth": 0.6},
                medianprops={"color": style.INK, "linewidth": 1.0},
                whiskerprops={"linewidth": 0.6},
                capprops={"linewidth": 0.6},
                meanprops={
                    "marker": "D",
                    "markersize": 3.5,
                    "markerfacecolor": "white",
                    "markeredgecolor": style.INK,
                    "markeredgewidth": 0.6,
                },
            )
        mine = complete[complete["step"] == step]
        spouts = mine.loc[mine["subject"] != "", "value"].dropna().to_numpy()
        ax.plot(
            np.full(len(spouts), at + 0.18),
            spouts,
            "o",
            color=style.COLOURS[1],
            markersize=3,
            markeredgewidth=0,
        )
        whole = mine.loc[mine["subject"] == "", "value"].dropna()
        if len(whole):
            ax.plot(
                at + 0.18, whole.iloc[0], "D", color=style.COLOURS[5], markersize=4, markeredgecolor="white"
            )
    ax.plot([], [], "s", color=style.COLOURS[4], label="ground truth: 5–95 %, quartiles")
    ax.plot([], [], "D", color="white", markeredgecolor=style.INK, markersize=4, label="ground truth: mean")
    ax.plot([], [], "o", color=style.COLOURS[1], markersize=3, label="complete: a spout executor")
    ax.plot([], [], "D", color=style.COLOURS[5], markersize=4, label="complete: mean")
    _log_latency(ax, "latency (ms)")
    _step_ticks(ax, data)
    ax.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), borderaxespad=0.2, handletextpad=0.3)
    return figure


def measured_and_predicted(data: FigureData) -> Figure:
    """Draw predictions against measurements of the latencies' means, off-diagonal pairs only."""
    rows = data.pairs[
        (data.pairs["verdict"] == "judged")
        & (data.pairs["protocol"] == "ours")
        & (data.pairs["statistic"] == "mean")
        & (data.pairs["source_step"] != data.pairs["proposed_step"])
    ]
    measures = [m for m in style.MEASURE_NAMES if m in set(rows["measure"])][:3] or [GROUND_TRUTH]
    width = style.COLUMN_IN if len(measures) == 1 else style.PAGE_IN
    figure, axes = plt.subplots(
        1, len(measures), figsize=(width, width / len(measures) * 0.95 + 0.3), squeeze=False
    )
    for ax, measure in zip(axes.flat, measures, strict=True):
        mine = rows[rows["measure"] == measure]
        _identity_panel(ax, mine, data.models)
        ax.set_xlabel(f"measured {style.measure_name(measure)} (ms)")
        ax.set_ylabel("predicted (ms)")
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


def campaign_timeline(data: FigureData) -> Figure:
    """Draw tuples at the sinks and their latency over the campaign, with what each time was used for."""
    origin = min(s.interval.rebalance_start_ns for s in data.run.steps)
    gaps = data.timeline.groupby("step")["at_ns"].diff().dropna()
    half_ns = gaps.min() / 2 if len(gaps) else 0.0  # buckets that the step covers in part are left out

    def minutes(ns: Any) -> Any:
        return (ns - origin) / 60e9

    figure, (rate, latency) = plt.subplots(2, 1, figsize=(style.PAGE_IN, 3.2), sharex=True)
    for s in data.run.steps:
        at = s.interval
        spans: Mapping[str, tuple[int, int, str]] = {
            "rebalance": (at.rebalance_start_ns, at.up_ns, "#f3c6a5"),
            "burn-in": (at.up_ns, at.start_ns, "#eeeeee"),
            "measured": (at.start_ns, at.end_ns, "#cfe8dd"),
        }
        for ax in (rate, latency):
            for name, (start, end, colour) in spans.items():
                ax.axvspan(
                    minutes(start),
                    minutes(end),
                    color=colour,
                    linewidth=0,
                    label=name if s.index == data.steps[0] and ax is rate else None,
                )
        middle = (minutes(at.start_ns) + minutes(at.end_ns)) / 2
        rate.text(
            middle, 1.01, f"step {s.index}", transform=rate.get_xaxis_transform(), ha="center", fontsize=6.5
        )
        whole = data.timeline["at_ns"].between(at.up_ns + half_ns, at.end_ns - half_ns)
        mine = data.timeline[(data.timeline["step"] == s.index) & whole]
        x = minutes(mine["at_ns"].to_numpy())
        rate.plot(x, mine["tuples_tps"], color=style.COLOURS[0])
        first = s.index == data.steps[0]
        latency.plot(x, mine["p95_ms"], color=style.COLOURS[1], label="95 %" if first else None)
        latency.plot(x, mine["p50_ms"], color=style.COLOURS[0], label="median" if first else None)
    rate.set_ylabel("tuples at sinks (1/s)")
    rate.set_ylim(bottom=0)
    _log_latency(latency, "ground truth (ms)")
    latency.set_xlabel("time since the campaign's start (min)")
    latency.legend(loc="upper right", ncols=2)
    figure.legend(loc="outside upper right", ncols=3, handles=rate.get_legend_handles_labels()[0])
    for ax in (rate, latency):
        ax.margins(x=0)
    return figure
