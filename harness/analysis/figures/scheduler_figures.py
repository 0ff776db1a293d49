"""Schedulers beside each other over time: latency, and traffic between nodes.

Counterparts of the evaluation of Aniello, Baldoni and Querzoni (Adaptive Online Scheduling in Storm, slides
41 to 49), where a point of the latency is the mean of ten messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.analysis.figures import style
from harness.analysis.figures.measured_figures import log_latency
from harness.analysis.judge.results import Results
from harness.analysis.spark.inputs import StepRecord
from harness.analysis.spark.placed_steps import compared_steps

COLUMNS = 3


class RoundPanel(NamedTuple):
    """One round of compared steps: a panel.

    Attributes
    ----------
    title : str
        Which of several rounds, and of several counts; empty where there is one of each.
    steps : mapping of str to StepRecord
        By who placed the executors.
    """

    title: str
    steps: Mapping[str, StepRecord]


def round_panels(data: Results) -> list[RoundPanel]:
    """Return a panel for each round of a run's compared steps."""
    groups = compared_steps(data.run)
    panels = []
    for group in groups:
        counts = data.step_words(next(iter(group.by.values()))[0].index) if len(groups) > 1 else ""
        for n, steps in enumerate(group.rounds, start=1):
            words = [counts, f"round {n}" if len(group.rounds) > 1 else ""]
            panels.append(RoundPanel(", ".join(filter(None, words)), steps))
    return panels


def has_latency_points(data: Results) -> bool:
    """Return True where steps that differ by who placed their executors have latencies."""
    return bool(len(data.latency_points))


def has_traffic_points(data: Results) -> bool:
    """Return True where tuples went between nodes in such steps."""
    return bool((data.traffic_points["between_nodes_tps"] > 0).any())


def latency_by_scheduler(data: Results) -> Figure:
    """Draw the latency over time, each point the mean of ten messages."""
    figure, axes = _drawn(data, data.latency_points, "latency_ms", line=False)
    for ax in axes:
        log_latency(ax, "")
    _label(axes, "ground-truth latency (ms)")
    return figure


def traffic_by_scheduler(data: Results) -> Figure:
    """Draw the tuples a second that left their node, over time."""
    figure, axes = _drawn(data, data.traffic_points, "between_nodes_tps", line=True)
    axes[0].set_ylim(bottom=-0.02 * axes[0].get_ylim()[1])
    for ax in axes:
        ax.grid(axis="y")
    _label(axes, "between nodes (tuples/s)")
    return figure


def _drawn(data: Results, points: pd.DataFrame, column: str, *, line: bool) -> tuple[Figure, list[Axes]]:
    """Draw a panel a round; return the figure and its panels."""
    panels = round_panels(data)
    names = list(dict.fromkeys(who for panel in panels for who in panel.steps))
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width_in = style.PAGE_IN if columns > 1 else 0.7 * style.PAGE_IN
    figure, axes = style.subplots(rows, columns, width_in, 0.6 + 1.9 * rows, shared=True)
    for ax, panel in zip(axes, panels, strict=False):
        for who, step in panel.steps.items():
            look = style.look(names.index(who))
            mine = points[points["step"] == step.index]
            if line:
                mine = _broken(mine)
            ax.plot(
                mine["time_s"],
                mine[column],
                color=look.colour,
                linestyle=look.line if line else "",
                marker=look.marker,
                markersize=style.pt(2.6 if line else 1.7),
                markeredgewidth=0.0,
            )
            if step.adaptation is not None:
                _changes(ax, step.adaptation, step, look.colour)
        ax.set_title(panel.title)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    handles = [
        Line2D(
            [],
            [],
            color=look.colour,
            linestyle=look.line if line else "",
            marker=look.marker,
            markersize=style.pt(3.2),
            markeredgewidth=0.0,
            label=who,
        )
        for who, look in ((who, style.look(n)) for n, who in enumerate(names))
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 6), columnspacing=1.2)
    return figure, axes[: len(panels)]


def _broken(points: pd.DataFrame) -> pd.DataFrame:
    """Return points with one without a value wherever some are missing, so that no line is drawn there."""
    gap_s = points["time_s"].diff()
    after = points[gap_s > 1.5 * gap_s.min()]
    holes = pd.DataFrame({"time_s": after["time_s"] - gap_s.min() / 2})
    return pd.concat([points, holes]).sort_values("time_s")


def _changes(ax: Axes, periods: pd.DataFrame, step: StepRecord, colour: str) -> None:
    """Shade the times from when another plan was asked for until it was in force."""
    applied = periods[periods["asked_ns"].notna()]
    for asked_ns, in_force_ns in zip(applied["asked_ns"], applied["in_force_ns"], strict=True):
        start_s, end_s = ((ns - step.interval.start_ns) / 1e9 for ns in (asked_ns, in_force_ns))
        ax.axvspan(start_s, end_s, facecolor=colour, alpha=0.25, linewidth=0)


def _label(axes: Sequence[Axes], quantity: str) -> None:
    """Name the axes once."""
    columns = min(COLUMNS, len(axes))
    for i, ax in enumerate(axes):
        ax.set_ylabel(quantity if i % columns == 0 else "")
        below = i + columns >= len(axes)
        ax.set_xlabel("time in the interval (s)" if below else "")
        ax.tick_params(labelbottom=below)
