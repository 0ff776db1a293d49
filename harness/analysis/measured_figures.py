"""Figures of what was measured: distributions by step, and the campaign over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.analysis import style
from harness.analysis.distribution import BINS_PER_OCTAVE, NEGATIVE, ZERO, binned_quantile
from harness.analysis.latencies import COMPLETE, GROUND_TRUTH
from harness.analysis.results import Results


def _values(data: Results, step: int) -> tuple[np.ndarray, np.ndarray]:
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


def _step_ticks(ax: Axes, data: Results) -> None:
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


def latency_by_step(data: Results) -> Figure:
    """Draw the distribution of all ground-truth latencies of every step, tail included (thesis 5.23)."""
    figure, ax = plt.subplots(
        figsize=(max(style.COLUMN_IN, 0.55 * len(data.steps) + 0.8), 2.6), layout="constrained"
    )
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


def ground_truth_and_complete(data: Results) -> Figure:
    """Draw ground truth beside Storm's complete latency, by step (thesis 5.34).

    Complete latency has a mean for each spout executor only; each is a point.
    """
    figure, ax = plt.subplots(
        figsize=(max(style.COLUMN_IN, 0.55 * len(data.steps) + 0.8), 2.6), layout="constrained"
    )
    complete = data.actuals[(data.actuals["measure"] == COMPLETE) & (data.actuals["protocol"] == "ours")]
    means = data.measured(GROUND_TRUTH).set_index("step")["value"]
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


def campaign_timeline(data: Results) -> Figure:
    """Draw tuples at the sinks and their latency over the campaign, with what each time was used for."""
    origin = min(s.interval.rebalance_start_ns for s in data.run.steps)
    gaps = data.timeline.groupby("step")["at_ns"].diff().dropna()
    half_ns = gaps.min() / 2 if len(gaps) else 0.0  # buckets that the step covers in part are left out

    def minutes(ns: Any) -> Any:
        return (ns - origin) / 60e9

    figure, (rate, latency) = plt.subplots(
        2, 1, figsize=(style.PAGE_IN, 3.2), sharex=True, layout="constrained"
    )
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
    rate.set_ylim(bottom=0, top=1.15 * max(data.timeline["tuples_tps"].max(), 1.0))
    _log_latency(latency, "ground truth (ms)")
    latency.set_xlabel("time since the campaign's start (min)")
    latency.legend(loc="upper right", ncols=2)
    figure.legend(loc="outside upper right", ncols=3, handles=rate.get_legend_handles_labels()[0])
    for ax in (rate, latency):
        ax.margins(x=0)
    return figure
