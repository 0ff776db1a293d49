"""The campaign step by step: rate and latencies over time, and what each time was used for."""

from __future__ import annotations

import textwrap

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from harness.analysis.figures import style
from harness.analysis.figures.measured_figures import log_latency
from harness.analysis.judge.results import Results
from harness.runs import Interval

COLUMNS = 5
PHASES = {"rebalance": ("#f3c6a5", "xxxx"), "burn-in": ("#eeeeee", ""), "measured": ("#cfe8dd", "")}


def timeline(data: Results) -> Figure:
    """Draw every step from its rebalance to its end: tuples at the sinks above, latencies below.

    Each step has a column; time is counted from the step's rebalance (or submission).
    """
    columns = min(COLUMNS, len(data.steps))
    bands = -(-len(data.steps) // columns)
    width = style.PAGE_IN if columns > 2 else style.COLUMN_IN
    figure, panels = style.subplots(2 * bands, columns, width, 0.5 + 1.75 * bands)
    rates = [ax for band in range(bands) for ax in panels[2 * band * columns :][:columns]]
    latencies = [ax for band in range(bands) for ax in panels[(2 * band + 1) * columns :][:columns]]
    _share(rates)
    _share(latencies)
    half_ns = _bucket_ns(data.timeline) / 2
    for s, rate, latency in zip(data.run.steps, rates, latencies, strict=False):
        at = s.interval
        for ax in (rate, latency):
            _phases(ax, at)
        _lines(data, s.index, at, rate, latency, half_ns)
        title = textwrap.fill(f"{s.index}: {data.step_words(s.index)}", 120 // columns)
        rate.set_title(title, fontsize=style.pt(6.5))
        rate.tick_params(labelbottom=False)
        latency.set_xlabel("time (s)")
    for ax in (*rates[len(data.steps) :], *latencies[len(data.steps) :]):
        ax.set_visible(False)
    drawn = [np.asarray(line.get_ydata(), dtype=float) for ax in rates for line in ax.get_lines()[1:]]
    highest = max((float(np.nanmax(y)) for y in drawn if np.isfinite(y).any()), default=1.0)
    rates[0].set_ylim(0, 1.15 * highest)
    if not any(
        (np.asarray(line.get_ydata(), dtype=float) > 0).any()
        for ax in latencies
        for line in ax.get_lines()[1:]
    ):
        latencies[0].set_ylim(0.1, 10)  # a logarithmic axis finds no limits of its own
        for ax in latencies[: len(data.steps)]:
            ax.annotate("none is measured", (0.5, 0.5), xycoords="axes fraction", ha="center", va="center")
    for i, (rate, latency) in enumerate(zip(rates, latencies, strict=True)):
        if i % columns == 0:
            rate.set_ylabel("at sinks (1/s)")
            log_latency(latency, "latency (ms)")
        else:
            rate.tick_params(labelleft=False)
            latency.tick_params(labelleft=False, which="both")
            latency.grid(axis="y", which="major")
    figure.legend(
        handles=_handles(), loc="outside upper center", ncols=7, columnspacing=1.0, handlelength=1.4
    )
    return figure


def _share(panels: list[Axes]) -> None:
    for ax in panels[1:]:
        ax.sharey(panels[0])


def _bucket_ns(timeline: pd.DataFrame) -> float:
    gaps = timeline.groupby("step")["at_ns"].diff().dropna()
    return float(gaps.min()) if len(gaps) else 0.0


def _seconds(ns: float, at: Interval) -> float:
    return (ns - at.rebalance_start_ns) / 1e9


def _times_s(rows: pd.DataFrame, at: Interval) -> npt.NDArray[np.float64]:
    return np.asarray((rows["at_ns"].to_numpy() - at.rebalance_start_ns) / 1e9)


def _phases(ax: Axes, at: Interval) -> None:
    ends = {
        "rebalance": (at.rebalance_start_ns, at.up_ns),
        "burn-in": (at.up_ns, at.start_ns),
        "measured": (at.start_ns, at.end_ns),
    }
    for name, (start, end) in ends.items():
        colour, hatch = PHASES[name]
        ax.axvspan(
            _seconds(start, at),
            _seconds(end, at),
            facecolor=colour,
            edgecolor="white",
            hatch=hatch,
            linewidth=0,
        )
    ax.axvline(_seconds(at.start_ns, at), color=style.INK, linewidth=style.pt(0.6), linestyle=":")
    ax.set_xlim(0, _seconds(at.end_ns, at))


def _lines(data: Results, step: int, at: Interval, rate: Axes, latency: Axes, half_ns: float) -> None:
    """Draw rate and latency of a step; buckets that the step covers in part are left out."""
    of_metrics = data.pace[data.pace["step"] == step]
    width_ns = _bucket_ns(data.pace)
    whole = of_metrics["at_ns"].between(at.up_ns + width_ns, at.end_ns - width_ns / 2)
    of_metrics = of_metrics[whole]
    mine = data.timeline[data.timeline["step"] == step].iloc[1:-1]
    mine = mine[mine["at_ns"].between(at.up_ns + half_ns, at.end_ns - half_ns)]
    source = of_metrics if len(of_metrics) else mine
    rate.plot(_times_s(source, at), source["tuples_tps"], color=style.COLOURS[0])
    x = _times_s(of_metrics, at)
    latency.plot(x, of_metrics["ack_ms"], color=style.COLOURS[6], linestyle=":")
    x = _times_s(mine, at)
    latency.plot(x, mine["p95_ms"], color=style.COLOURS[5], linestyle="--")
    latency.plot(x, mine["p50_ms"], color=style.COLOURS[0])


def _handles() -> list[Artist]:
    spans = [
        Patch(facecolor=colour, edgecolor="white", hatch=hatch, label=name)
        for name, (colour, hatch) in PHASES.items()
    ]
    return [
        *spans,
        Line2D([], [], color=style.COLOURS[0], label="rate; median"),
        Line2D([], [], color=style.COLOURS[5], linestyle="--", label="95 %"),
        Line2D([], [], color=style.COLOURS[6], linestyle=":", label="emit to ack, mean"),
    ]
