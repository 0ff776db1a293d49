"""Steps whose bolts help or whose spouts pause, over time.

Counterparts of figures 5 (a), 5 (b) and 6 of Liu, Yu and Wang (Leron: tuples executed, time under
back-pressure, and the difference of what helpers and helped bolts executed).
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from harness.analysis.figures import style
from harness.analysis.judge.results import Results
from harness.analysis.spark.inputs import StepRecord

PANELS = {
    "acked_so_far": "messages acked",
    "paused_pct": "spouts pause (% of the time)",
    "helped_so_far": "tuples served by helpers",
}
"""Columns of ``relief_points`` in the order of the paper's figures, and their axes' names."""


def has_relief(data: Results) -> bool:
    """Return True where a bolt may help, or a spout may pause."""
    return bool(len(data.relief_points))


def relief_over_time(data: Results) -> Figure:
    """Draw what was acked, how long spouts paused and what helpers served, a line a step."""
    points = data.relief_points
    lines = {_name(step): points[points["step"] == step.index] for step in data.run.steps}
    figure, axes = style.subplots(1, len(PANELS), style.PAGE_IN, 2.6)
    for ax, (column, name) in zip(axes, PANELS.items(), strict=True):
        for place, (label, buckets) in enumerate(lines.items()):
            look = style.look(place)
            known: pd.Series[float] = buckets[column]
            ax.plot(
                buckets["time_s"],
                known,
                color=look.colour,
                linestyle=look.line,
                marker=look.marker,
                markersize=style.pt(2.6),
                label=label,
            )
        ax.set_ylabel(name)
        ax.set_xlabel("time in the interval (s)")
        ax.set_ylim(bottom=0)
        ax.set_xlim(left=0)
        ax.grid(axis="y")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, columnspacing=1.2)
    return figure


def _name(step: StepRecord) -> str:
    """Return a step's number and what its plans differ in: relief, workers, rate."""
    relief = " and ".join(step.plan.relief.parts) or "no relief"
    workers = len(step.plan.start.workers)
    return f"{step.index}: {relief}, {workers} worker{'s' * (workers > 1)}, {step.interval.rate_tps:g}/s"
