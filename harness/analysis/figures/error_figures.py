"""Figures of the errors as matrices: source steps down, proposed steps across, a panel for each model."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from harness.analysis.figures import style
from harness.analysis.judge.results import WITHIN_NOISE, Results

GAP_LABELS = {
    "not-predicted": "no pred.",
    "not-measured": "not meas.",
    "unsteady": "unsteady",
    "saturated": "saturated",
    "invalid": "invalid",
}
LIMIT_PCT = 50.0
"""Where the matrices' colours end; the numbers go on."""
MOST_NUMBERS = 16
"""Beyond so many steps the cells have no room for numbers."""

_LEFT_IN, _RIGHT_IN, _BOTTOM_IN, _TOP_IN, _GAP_IN = 0.42, 0.72, 0.62, 0.22, 0.12


def error_matrix(data: Results, measure: str, statistic: str, protocol: str, signed: bool) -> Figure:
    """Draw the error of every source -> proposed pair.

    Below each proposed step stands its noise floor, two standard deviations of what measuring it again would
    give; a ring marks the cells whose error is within it.

    Parameters
    ----------
    signed : bool
        Draw (P - A)/A, else |P - A|/A. Where a pair has many subjects it is the median over them.
    """
    cells = data.cells(measure, statistic, protocol)
    judged = cells.groupby("model")["judged"].sum()
    models = [m for m in data.models if judged.get(m, 0) > 0]
    norm = Normalize(-LIMIT_PCT if signed else 0.0, LIMIT_PCT)
    colours: Colormap = sns.color_palette("vlag" if signed else "light:#31688e", as_cmap=True)
    columns = 3 if len(data.steps) <= 6 else 2
    columns = min(columns, len(models))
    figure, panels, bar_at = _panels(len(models), columns)
    floor = noise_floor_pct(cells)
    for i, (ax, model) in enumerate(zip(panels, models, strict=True)):
        mine = cells[cells["model"] == model]
        _matrix_panel(ax, mine, data.steps, signed, norm, colours)
        ax.set_title(_panel_title(model, mine))
        _step_labels(ax, data.steps, floor, i % columns == 0, i + columns >= len(models))
    width, height = figure.get_size_inches() / style.pt(1)
    middle = (width - _RIGHT_IN + _LEFT_IN) / 2 / width
    label = "proposed step, with its noise floor (±2σ, %)" if len(floor) else "proposed step"
    small = style.pt(style.SMALLEST_PT)
    figure.text(middle, 0.19 / height, label, ha="center")
    declined = [m for m in sorted(set(cells["model"])) if m not in models]
    notes = ["○ error within the noise floor"] if len(floor) else []
    notes += [f"nothing judged: {', '.join(declined)}"] if declined else []
    figure.text(middle, 0.05 / height, " · ".join(notes), ha="center", fontsize=small)
    figure.text(0.08 / width, 0.5, "source step", va="center", rotation=90)
    bar = figure.colorbar(
        ScalarMappable(norm, colours), cax=bar_at, extend="both" if signed else "max", extendfrac=0.04
    )
    median = "" if len(cells) and (cells["comparisons"] == 1).all() else "median "
    kind = f"{median}(P − A)/A" if signed else f"{median}|P − A|/A"
    bar.set_label(f"{kind}, {what(measure, statistic)} (%)", fontsize=style.pt(6.5))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=small)
    return figure


def noise_floor_pct(cells: pd.DataFrame) -> pd.Series[float]:
    """Return two standard deviations of each proposed step's noise in percent of what was measured."""
    known = cells[(cells["judged"] > 0) & cells["noise"].notna() & (cells["actual"] != 0)]
    share = WITHIN_NOISE * 100 * known["noise"] / known["actual"].abs()
    found: pd.Series[float] = share.groupby(known["proposed_step"]).median()
    return found


def _panels(count: int, columns: int) -> tuple[Figure, list[Axes], Axes]:
    """Return a figure with square panels and a place for the colour bar.

    The places are computed here: a layout engine would draw everything twice to find them.
    """
    rows = -(-count // columns)
    width = style.COLUMN_IN if count == 1 else style.PAGE_IN if count > 2 else 5.2
    side = (width - _LEFT_IN - _RIGHT_IN - (columns - 1) * _GAP_IN) / columns
    height = _BOTTOM_IN + rows * (side + _TOP_IN)
    figure = plt.figure(figsize=style.size(width, height))
    panels = []
    for i in range(count):
        row, column = divmod(i, columns)
        x = _LEFT_IN + column * (side + _GAP_IN)
        y = height - (row + 1) * (side + _TOP_IN)
        panels.append(figure.add_axes((x / width, y / height, side / width, side / height)))
    tall = min(rows * (side + _TOP_IN) - _TOP_IN, 3.0)
    at = (
        (width - _RIGHT_IN + 0.1) / width,
        (height - _TOP_IN - 0.95 * tall) / height,
        0.09 / width,
        0.9 * tall / height,
    )
    return figure, panels, figure.add_axes(at)


def what(measure: str, statistic: str) -> str:
    """Return a measure and its statistic in words."""
    named = {"mean": "mean ", "mean_same_node": "mean ", "p90_paths": ""}
    return f"{named.get(statistic, statistic + ' of ')}{style.measure_name(measure)}"


def _panel_title(model: str, cells: pd.DataFrame) -> str:
    off = cells.loc[cells["source_step"] != cells["proposed_step"], "abs_error_pct"].dropna()
    return f"{model}: median {off.median():.1f} %" if len(off) else model


def _step_labels(ax: Axes, steps: Sequence[int], floor: pd.Series[float], left: bool, bottom: bool) -> None:
    places = np.arange(len(steps)) + 0.5
    few = len(steps) <= 10
    with_noise = [f"{s}\n±{floor[s]:.1f}" if s in floor.index else f"{s}\n" for s in steps]
    small = style.pt(style.SMALLEST_PT)
    ax.set_xticks(places, with_noise if len(floor) and few else [str(s) for s in steps], fontsize=small)
    ax.set_yticks(places, [str(s) for s in steps], fontsize=small)
    ax.tick_params(length=0, labelleft=left, labelbottom=bottom)


def _matrix_panel(
    ax: Axes, cells: pd.DataFrame, steps: Sequence[int], signed: bool, norm: Normalize, colours: Colormap
) -> None:
    size = len(steps)
    place = {step: i for i, step in enumerate(steps)}
    grid = np.full((size, size), np.nan)
    text_pt = style.pt(7 if size <= 6 else style.SMALLEST_PT if size <= 10 else 5)
    for cell in cells.to_dict("records"):
        row, column = place[cell["source_step"]], place[cell["proposed_step"]]
        if cell["judged"]:
            error = cell["relative_error"] * 100 if signed else cell["abs_error_pct"]
            grid[row, column] = error
            ink = "white" if _luminance(colours(norm(error))) < 0.45 else style.INK
            text = style.signed(error) if signed else f"{error:.0f}" if abs(error) >= 10 else f"{error:.1f}"
            if cell["error_over_noise"] <= WITHIN_NOISE:
                ax.plot(
                    column + 0.84,
                    row + 0.17,
                    "o",
                    markersize=style.pt(2.2),
                    markerfacecolor="none",
                    markeredgecolor=ink,
                    markeredgewidth=style.pt(0.5),
                    zorder=3,
                )
        else:
            with mpl.rc_context({"hatch.color": "white"}):
                gap = Rectangle((column, row), 1, 1, facecolor=style.GAP, edgecolor="white", hatch="////")
            ax.add_patch(gap)
            ink = style.INK
            text = GAP_LABELS.get(cell["verdict"], cell["verdict"]).replace(" ", "\n") if size <= 7 else ""
        if size <= MOST_NUMBERS:
            shown = text_pt if cell["judged"] else style.pt(5.5)
            ax.text(column + 0.5, row + 0.52, text, ha="center", va="center", fontsize=shown, color=ink)
    ax.pcolormesh(grid, cmap=colours, norm=norm, edgecolors="white", linewidth=style.pt(0.5))
    for i in range(size):
        own = Rectangle((i + 0.03, i + 0.03), 0.94, 0.94, fill=False, edgecolor=style.INK)
        ax.add_patch(own)
    ax.set(xlim=(0, size), ylim=(size, 0))
    for spine in ax.spines.values():
        spine.set_visible(False)


def _luminance(rgba: tuple[float, float, float, float]) -> float:
    return 0.2126 * rgba[0] + 0.7152 * rgba[1] + 0.0722 * rgba[2]
