"""Forecasts of traffic as a figure: what was measured, and the band in which the rate is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.analysis.figures import style
from harness.errors import UsageError
from harness.machine.whole_files import write_atomically
from harness.protocols import RateForecast, RateHistory

FORMATS = ("svg", "png", "pdf")
MOST_PANELS = 12
PAST = 3
"""Length of the past that is drawn, in multiples of the forecast; all of it where that is less."""


@dataclass(frozen=True, eq=False)
class ForecastPanel:
    """One subject's history and its forecasts by model; a declined forecast is left out.

    Attributes
    ----------
    title : str
        The subject, as a reader knows it.
    forecasts : sequence of (str, RateForecast)
        Model and forecast; the outermost quantiles are the ends of the band.
    limit_tps : float, optional
        Rate above which there is an alert.
    """

    title: str
    history: RateHistory
    forecasts: Sequence[tuple[str, RateForecast]]
    limit_tps: float | None = None


def draw_forecasts(panels: Sequence[ForecastPanel]) -> Figure:
    """Draw a panel a subject: the past, each model's median and band, and the limit."""
    shown = panels[:MOST_PANELS]
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    figure, axes = style.subplots(rows, columns, style.PAGE_IN, 0.5 + 1.9 * rows)
    for ax, panel in zip(axes, shown, strict=False):
        _draw_panel(ax, panel)
        ax.set_title(panel.title)
        ax.set_xlabel("time from now (s)")
        ax.set_ylabel("rate (1/s)")
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)), columnspacing=1.0)
    return figure


def _draw_panel(ax: Axes, panel: ForecastPanel) -> None:
    now_s = float(panel.history.time_s[-1])
    ahead_s = max((float(f.time_s[-1]) - now_s for _, f in panel.forecasts if len(f.time_s)), default=0.0)
    past_s = panel.history.time_s - now_s
    recent = past_s >= -PAST * ahead_s if ahead_s else np.full(len(past_s), True)
    ax.plot(past_s[recent], panel.history.rate_tps[recent], color=style.INK, label="measured")
    for place, (model, forecast) in enumerate(panel.forecasts):
        if not len(forecast.time_s):
            continue
        look = style.look(place)
        at_s = forecast.time_s - now_s
        low, high = forecast.rate_tps[:, 0], forecast.rate_tps[:, -1]
        name = f"{model} ({100 * (forecast.levels[-1] - forecast.levels[0]):.0f} % band)"
        ax.fill_between(at_s, low, high, color=look.colour, alpha=0.25, linewidth=0)
        middle = forecast.rate_tps[:, int(np.argmin(np.abs(np.array(forecast.levels) - 0.5)))]
        ax.plot(at_s, middle, color=look.colour, linestyle=look.line, label=name)
    if panel.limit_tps is not None:
        ax.axhline(panel.limit_tps, color=style.COLOURS[5], linestyle=":", label="limit")
    ax.axvline(0, color=style.INK, linewidth=style.pt(0.5))
    ax.set_ylim(bottom=0)


def check_figure_path(path: Path) -> None:
    """Raise UsageError unless a figure can be written to the path."""
    if path.suffix.lstrip(".") not in FORMATS:
        raise UsageError(
            f"{path}: no kind of figure", f"end it with one of {', '.join('.' + f for f in FORMATS)}"
        )
    if not path.parent.is_dir():
        raise UsageError(f"{path}: its folder does not exist", "make it first")


def write_forecasts(panels: Sequence[ForecastPanel], path: Path) -> int:
    """Write the figure, whole or not at all, in the format that the file's ending names.

    Returns
    -------
    int
        How many panels were drawn, at most ``MOST_PANELS``.

    Raises
    ------
    UsageError
        When the ending is not one of ``FORMATS``, or the folder is not there.
    """
    check_figure_path(path)
    chosen = replace(style.STYLES["screen"], formats=(path.suffix.lstrip("."),))
    with TemporaryDirectory() as folder, style.styled(chosen):
        (drawn,) = style.save(draw_forecasts(panels), Path(folder), "forecast")
        write_atomically(path, drawn.read_bytes())
    return min(len(panels), MOST_PANELS)
