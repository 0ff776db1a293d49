"""Steps that adapt, period by period: collocation, evenness of load, load and migrations.

Counterparts of figures 1 to 3 of Madsen, Zhou and Cao (Integrative Dynamic Reconfiguration in a Parallel
Stream Processing Engine, IV).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.analysis.figures import style
from harness.analysis.judge.results import Results

Floats = npt.NDArray[np.float64]

COLLOCATION, DISTANCE = "collocation factor (%)", "load distance (points)"
INDEX, MIGRATIONS = "load index (%)", "migrations in a period"
QUANTITIES = (COLLOCATION, DISTANCE, INDEX, MIGRATIONS)
"""The panels of figure 3, in its text's order; figure 1 is the second, figure 2 the last."""


@dataclass(frozen=True, eq=False)
class PeriodLine:
    """A line of the figure: a step that adapts.

    Attributes
    ----------
    name : str
    values : mapping of str to array (periods)
        By quantity; NaN where nothing says it.
    """

    name: str
    values: Mapping[str, Floats]

    def known(self, quantity: str) -> bool:
        """Return True where a number of it is known."""
        return quantity in self.values and bool(np.isfinite(self.values[quantity]).any())


def period_lines(data: Results) -> list[PeriodLine]:
    """Return a line for each step that adapts: figures of the plan in force, and what was moved then.

    Migrations are of key groups, or else of executors: 0 where the plan stayed, unknown of a tuner's numbers.
    """
    lines = []
    for step in data.run.steps:
        if (periods := step.adaptation) is None:
            continue
        moved = periods["groups_moved"].fillna(periods["executors_moved"])
        stayed = (periods["decision"] != "applied") & bool(moved.notna().any())
        values = {
            COLLOCATION: 100 * periods["collocation_factor"],
            DISTANCE: periods["load_distance_pct"],
            INDEX: periods["load_index_pct"],
            MIGRATIONS: moved.mask(stayed, 0),
        }
        of_step = {quantity: column.to_numpy(dtype=np.float64) for quantity, column in values.items()}
        lines.append(PeriodLine(f"step {step.index}: {step.asked_by}", of_step))
    return lines


def draw_periods(lines: Sequence[PeriodLine], note: str = "") -> Figure:
    """Draw a panel for each quantity that a line has, over the number of the period, and a note below."""
    shown = [q for q in QUANTITIES if any(line.known(q) for line in lines)]
    columns = 3 if len(shown) == 3 else min(2, len(shown))
    rows = -(-len(shown) // columns)
    width_in = style.PAGE_IN if columns > 1 else style.COLUMN_IN
    figure, axes = style.subplots(rows, columns, width_in, 0.4 + 1.7 * rows)
    for ax, quantity in zip(axes, shown, strict=False):
        for place, line in enumerate(lines):
            look = style.look(place)
            if line.known(quantity):
                values = line.values[quantity]
                ax.plot(
                    np.arange(1, values.size + 1),
                    values,
                    color=look.colour,
                    linestyle=look.line,
                    marker=look.marker,
                    markersize=style.pt(2.6),
                    label=line.name,
                )
        ax.set_ylabel(quantity)
        ax.set_xlabel("period")
        most = max(float(np.nanmax(line.values[quantity])) for line in lines if line.known(quantity))
        ax.set_ylim(0, 1.08 * most or 1)
        ax.set_xlim(left=0.5)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if quantity == MIGRATIONS:
            ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(axis="y")
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    figure.align_ylabels(axes[: len(shown)])
    if note:
        figure.supxlabel(note, fontsize=style.pt(style.SMALLEST_PT))
    by_label = {
        label: handle
        for ax in axes[: len(shown)]
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(by_label.values()),
        list(by_label),
        loc="outside upper center",
        ncols=min(4, len(by_label)),
        columnspacing=1.2,
    )
    return figure


def draw_of_run(data: Results) -> Figure:
    """Draw the steps of a run that adapt."""
    return draw_periods(period_lines(data))


def has_periods(data: Results) -> bool:
    """Return True where a step that adapts has something to draw."""
    return any(line.known(q) for line in period_lines(data) for q in QUANTITIES)
