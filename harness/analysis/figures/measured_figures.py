"""Figures of the measured latencies: distributions by step, with and without tail, beside Storm's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from harness.analysis.figures import style
from harness.analysis.judge.results import Results
from harness.analysis.spark.distribution import BINS_PER_OCTAVE, NEGATIVE, ZERO, binned_quantile
from harness.analysis.spark.latencies import complete_mean_ms
from harness.schemas import Measure

Floats = npt.NDArray[np.float64]

TAIL_BINS = 70


def values(data: Results, step: int) -> tuple[Floats, Floats]:
    """Return the bins above zero of a step's latencies, and their counts."""
    mine = data.histogram[(data.histogram["step"] == step) & (data.histogram["bin"] > ZERO)]
    counted = mine.groupby("bin")["n"].sum()
    return counted.index.to_numpy(dtype=float), counted.to_numpy(dtype=float)


def milliseconds(bins: Floats | float) -> Floats:
    """Return where bins begin, in ms."""
    return np.asarray(2.0 ** (np.asarray(bins) / BINS_PER_OCTAVE) / 1e6)


def cuts(data: Results) -> dict[int, float]:
    """Return where the thesis cuts (caption of 5.22): the mean complete latency, of steps that have one."""
    found = {s.index: complete_mean_ms(s) for s in data.run.steps}
    return {step: ms for step, ms in found.items() if ms is not None}


def log_latency(ax: Axes, label: str) -> None:
    """Make the y axis one of latencies in ms, logarithmic, with plain numbers."""
    ax.set_yscale("log")
    style.numbers_on(ax.yaxis)
    ax.set_ylabel(label)
    ax.grid(axis="y", which="major")


def _short(n: float) -> str:
    return f"{n:.0f}" if n < 1000 else f"{n / 1000:.3g}k" if n < 1_000_000 else f"{n / 1e6:.3g}M"


def _wide_enough(data: Results) -> float:
    return min(max(style.COLUMN_IN, 0.5 * len(data.steps) + 0.6), style.PAGE_IN)


def _density(bins: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Smooth a histogram on the log scale; bandwidth by Silverman's rule, one bin at least."""
    centre = bins + 0.5
    n = counts.sum()
    mean = (centre * counts).sum() / n
    spread = np.sqrt(((centre - mean) ** 2 * counts).sum() / n)
    width = max(0.9 * spread * n**-0.2, 1.0)
    grid = np.linspace(centre.min() - 2 * width, centre.max() + 2 * width, 256)
    kernel = np.exp(-0.5 * ((grid[:, None] - centre[None, :]) / width) ** 2)
    return grid, kernel @ counts / (n * width * np.sqrt(2 * np.pi))


def latency_by_step(data: Results) -> Figure:
    """Draw the latencies of every step: on the left all, on the right those below the thesis's cut."""
    figure, (ax,) = style.subplots(1, 1, _wide_enough(data), 2.4)
    cut_ms = cuts(data)
    labels = []
    for at, step in enumerate(data.steps):
        bins, counts = values(data, step)
        kept = milliseconds(bins + 0.5) <= cut_ms.get(step, -1.0)
        share = f"{100 * counts[kept].sum() / counts.sum():.0f} %" if len(bins) and step in cut_ms else "–"
        labels.append(f"{step}\n{_short(counts.sum())}\n{share}")
        if len(bins):
            _half_violin(ax, at, bins, counts, -1)
            if kept.any():
                _half_violin(ax, at, bins[kept], counts[kept], +1)
            _summary(ax, at, bins, counts)
    log_latency(ax, "ground-truth latency (ms)")
    ax.set_xticks(range(len(data.steps)), labels)
    ax.set_xlabel("step / latencies / of them below the cut")
    ax.set_xlim(-0.6, len(data.steps) - 0.4)
    all_, below = style.look(4), style.look(1)
    handles = [
        Patch(facecolor=all_.colour, edgecolor=style.INK, label="all"),
        Patch(facecolor="white", edgecolor=below.colour, hatch="////", label="below mean complete latency"),
        Line2D([], [], marker="o", color="white", markeredgecolor=style.INK, linestyle="", label="median"),
        Line2D([], [], color=style.INK, linewidth=style.pt(2.6), label="quartiles"),
        Line2D([], [], color=style.INK, label="5–95 %"),
        Line2D([], [], marker="_", color=style.COLOURS[5], linestyle="", label="99 %"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, columnspacing=1.0, handlelength=1.4)
    undrawn = data.histogram[data.histogram["bin"].between(NEGATIVE, ZERO)]["n"].sum()
    if undrawn:
        ax.set_title(f"{undrawn} latencies of 0 or less are not drawn")
    return figure


def _half_violin(ax: Axes, at: float, bins: Floats, counts: Floats, side: int) -> None:
    grid, density = _density(bins, counts)
    y, edge = milliseconds(grid), at + side * 0.43 * density / density.max()
    if side < 0:
        ax.fill_betweenx(y, edge, at, color=style.COLOURS[4], alpha=0.6, linewidth=0)
        ax.plot(edge, y, color=style.COLOURS[0], linewidth=style.pt(0.5))
    else:
        ax.fill_betweenx(
            y, at, edge, facecolor="none", edgecolor=style.COLOURS[1], hatch="////", linewidth=style.pt(0.5)
        )


def _summary(ax: Axes, at: float, bins: Floats, counts: Floats) -> None:
    q05, q25, q50, q75, q95, q99 = (
        binned_quantile(bins, counts, q) / 1e6 for q in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    )
    ax.plot([at, at], [q05, q95], color=style.INK, linewidth=style.pt(0.7))
    ax.plot([at, at], [q25, q75], color=style.INK, linewidth=style.pt(2.6), solid_capstyle="butt")
    ax.plot(at, q50, "o", color="white", markersize=style.pt(3.2), markeredgecolor=style.INK, zorder=3)
    ax.plot(at, q99, "_", color=style.COLOURS[5], markersize=style.pt(7), markeredgewidth=style.pt(1.2))


def latency_tail(data: Results) -> Figure:
    """Draw one step's latencies, the one with the longest tail: all of them, and those below the cut."""
    cut_ms = cuts(data)
    stretch = {
        step: binned_quantile(*values(data, step), 0.999) / binned_quantile(*values(data, step), 0.5)
        for step in data.steps
        if len(values(data, step)[0])
    }
    step = max(stretch, key=lambda k: (k in cut_ms, stretch[k]))
    bins, counts = values(data, step)
    ms = milliseconds(bins + 0.5)
    figure, axes = style.subplots(1, 2, style.PAGE_IN, 1.75)
    limit = cut_ms.get(step, float(ms.max()))
    for ax, inside, title in (
        (axes[0], ms <= np.inf, "all latencies"),
        (axes[1], ms <= limit, f"up to the mean complete latency, {style.number(limit)} ms"),
    ):
        if not inside.any():
            ax.set_title(f"{title}: none")
            continue
        edges = np.linspace(0, float(ms[inside].max()) * 1.02, TAIL_BINS + 1)
        found = _rebinned(bins[inside], counts[inside], edges)
        ax.stairs(found, edges, fill=True, color=style.COLOURS[4], alpha=0.6)
        ax.stairs(found, edges, color=style.COLOURS[0], linewidth=style.pt(0.7), baseline=None)
        mean = (ms[inside] * counts[inside]).sum() / counts[inside].sum()
        ax.axvline(mean, color=style.INK, linewidth=style.pt(0.8), linestyle="--")
        ax.annotate(
            f" mean {style.number(mean)} ms",
            (mean, 0.97),
            xycoords=("data", "axes fraction"),
            va="top",
            fontsize=style.pt(6.5),
        )
        ax.set_title(f"{title}: {_short(counts[inside].sum())}")
        ax.set_xlabel("ground-truth latency (ms)")
        ax.set_xlim(0, edges[-1])
    axes[0].set_yscale("log")
    axes[0].set_ylim(bottom=0.7)
    axes[0].set_ylabel("messages (log)")
    axes[1].set_ylabel("messages")
    figure.suptitle(f"step {step}")
    return figure


def _rebinned(bins: Floats, counts: Floats, edges: Floats) -> Floats:
    """Return how many latencies lie between the edges (ms), those of a bin spread evenly over it."""
    ends_ms = np.stack([milliseconds(bins), milliseconds(bins + 1)], axis=1).ravel()
    below = np.stack([counts.cumsum() - counts, counts.cumsum()], axis=1).ravel()
    return np.diff(np.interp(edges, ends_ms, below))


def ground_truth_and_complete(data: Results) -> Figure:
    """Draw ground truth beside Storm's complete latency, by step.

    Complete latency has a mean for each spout executor only; each is a point.
    """
    figure, (ax,) = style.subplots(1, 1, _wide_enough(data), 2.4)
    complete = data.actuals[
        (data.actuals["measure"] == Measure.COMPLETE) & (data.actuals["protocol"] == "ours")
    ]
    means = data.measured(Measure.GROUND_TRUTH).set_index("step")["value"]
    spout, whole = style.COLOURS[1], style.COLOURS[5]
    for at, step in enumerate(data.steps):
        bins, counts = values(data, step)
        if len(bins):
            box = LatencyBox.of(bins, counts, float(means.get(step, np.nan)))
            draw_box(ax, at - 0.18, box, style.COLOURS[4])
        mine = complete[complete["step"] == step]
        of_spouts = mine.loc[mine["subject"] != "", "value"].dropna().to_numpy()
        spread = np.linspace(-0.06, 0.06, len(of_spouts)) if len(of_spouts) > 1 else np.zeros(len(of_spouts))
        ax.plot(at + 0.18 + spread, of_spouts, "x", color=spout, markersize=style.pt(3))
        of_all = mine.loc[mine["subject"] == "", "value"].dropna()
        ax.plot(
            np.full(len(of_all), at + 0.18),
            of_all,
            "s",
            color=whole,
            markersize=style.pt(4),
            markeredgecolor="white",
        )
    log_latency(ax, "latency (ms)")
    ax.set_xticks(range(len(data.steps)), [str(s) for s in data.steps])
    ax.set_xlabel("step")
    ax.set_xlim(-0.6, len(data.steps) - 0.4)
    handles = [
        Patch(facecolor=style.COLOURS[4], edgecolor=style.INK, label="ground truth, 5–95 %"),
        Line2D([], [], marker="D", color="white", markeredgecolor=style.INK, linestyle="", label="its mean"),
        Line2D([], [], marker="x", color=spout, linestyle="", label="complete, each spout"),
        Line2D([], [], marker="s", color=whole, linestyle="", label="its mean"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, columnspacing=1.0, handlelength=1.4)
    return figure


@dataclass(frozen=True)
class LatencyBox:
    """A distribution as a box shows it: quantiles at 5, 25, 50, 75 and 95 %, and the mean, in ms."""

    quantiles_ms: tuple[float, ...]
    mean_ms: float

    @classmethod
    def of(
        cls, bins: Floats, counts: Floats, mean_ms: float, bins_per_octave: int = BINS_PER_OCTAVE
    ) -> LatencyBox:
        """Return the box of a histogram.

        Examples
        --------
        >>> box = LatencyBox.of(np.array([20.0]), np.array([100.0]), 1.5, bins_per_octave=1)
        >>> [round(ms, 3) for ms in box.quantiles_ms]  # one bin, from 2**20 ns on
        [1.086, 1.247, 1.483, 1.763, 2.026]
        """
        ends = (0.05, 0.25, 0.5, 0.75, 0.95)
        return cls(tuple(_quantile_ms(bins, counts, p, bins_per_octave) for p in ends), mean_ms)


def draw_box(ax: Axes, at: float, box: LatencyBox, colour: str, width: float = 0.28) -> None:
    """Draw a box: whiskers at 5 and 95 %, a diamond at the mean."""
    q05, q25, q50, q75, q95 = box.quantiles_ms
    ax.bxp(
        [{"med": q50, "q1": q25, "q3": q75, "whislo": q05, "whishi": q95, "mean": box.mean_ms}],
        positions=[at],
        widths=width,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": colour, "edgecolor": style.INK, "linewidth": style.pt(0.5)},
        medianprops={"color": style.INK, "linewidth": style.pt(1.0)},
        whiskerprops={"linewidth": style.pt(0.5)},
        capprops={"linewidth": style.pt(0.5)},
        meanprops={
            "marker": "D",
            "markersize": style.pt(3),
            "markerfacecolor": "white",
            "markeredgecolor": style.INK,
            "markeredgewidth": style.pt(0.5),
        },
    )


def _quantile_ms(bins: Floats, counts: Floats, fraction: float, bins_per_octave: int) -> float:
    ends = counts.cumsum()
    at = int(np.searchsorted(ends, fraction * ends[-1]))
    inside = (fraction * ends[-1] - (ends[at] - counts[at])) / counts[at]
    return float(2 ** ((bins[at] + inside) / bins_per_octave) / 1e6)
