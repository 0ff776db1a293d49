"""Comparison of nights with each other: measured latency, and models' errors, night by night."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from harness.analysis.figures import style
from harness.schemas import Measure

PANEL_IN = 1.6
SHOWN = 30
"""Nights shown, the newest."""
FEWEST_SHOWN = 3
"""Room for so many nights, so that the first few stand at whole numbers."""
LATENCIES = (Measure.GROUND_TRUTH, Measure.COMPLETE)


def draw(history: pd.DataFrame, folder: Path, name: str = "trend") -> Path:
    """Draw the trend figure as PNG and SVG; return the SVG.

    Parameters
    ----------
    history : DataFrame
        Schema ``harness.regression.history.HISTORY``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with style.styled(style.STYLES["screen"]):
        style.save(trend(history), folder, name)
    return folder / f"{name}.svg"


def trend(history: pd.DataFrame) -> Figure:
    """Return a row of panels an experiment: measured means, and the models' median errors by latency."""
    experiments = sorted(history["experiment"].unique())
    judged = (history["family"] == "accuracy") & history["measure"].isin(LATENCIES)
    models = sorted(history[judged]["model"].unique())
    rows, columns = max(1, len(experiments)), 1 + len(LATENCIES)
    figure, axes = style.subplots(rows, columns, style.PAGE_IN, 0.6 + PANEL_IN * rows)
    titles = ("measured mean (ms)", *(f"error of {style.measure_name(m)} (%)" for m in LATENCIES))
    for i, experiment in enumerate(experiments):
        panels = axes[i * columns : (i + 1) * columns]
        of, nights = _placed(history[history["experiment"] == experiment])
        _measured(panels[0], of)
        for ax, measure in zip(panels[1:], LATENCIES, strict=True):
            _errors(ax, of, measure, models)
        for ax, title in zip(panels, titles, strict=True):
            ax.set_xlim(-max(nights, FEWEST_SHOWN) + 0.5, 0.5)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
            ax.set_ylim(bottom=0, top=1.15 * ax.get_ylim()[1])
            if i == 0:
                ax.set_title(title)
            if i == len(experiments) - 1:
                ax.set_xlabel("night (0: the newest)")
        panels[0].set_ylabel(experiment)
    if models:
        figure.legend(
            handles=[_line_of(m, models) for m in models],
            loc="outside lower center",
            ncols=min(6, len(models)),
        )
    return figure


def _placed(history: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the newest nights' rows, numbered up to 0, and how many nights there are."""
    of = history.sort_values(["run", "night"])
    keys = list(zip(of["run"], of["commit"], strict=True))
    nights = list(dict.fromkeys(keys))[-SHOWN:]
    place = {key: i - len(nights) + 1 for i, key in enumerate(nights)}
    at = pd.Series([place.get(key) for key in keys], index=of.index, dtype="float64")
    return of.assign(at=at)[at.notna()], len(nights)


def _line_of(model: str, models: list[str]) -> Line2D:
    look = style.model_look(model, models)
    return Line2D(
        [],
        [],
        color=look.colour,
        marker=look.marker,
        linestyle=look.line,
        label=model,
        markersize=style.pt(3),
    )


def _measured(ax: Axes, of: pd.DataFrame) -> None:
    """Draw the mean over the steps of each latency's measured mean."""
    rows = _means(of, "measured")
    rows = rows[rows["subject"] == ""]
    for measure, line, off in zip(LATENCIES, style.LINES[:2], (-9, 4), strict=True):
        nights = _by_night(rows[rows["measure"] == measure])
        _line(ax, nights, style.Appearance(style.INK, "o", line, ""))
        if len(nights):
            ax.annotate(
                style.measure_name(measure).removesuffix(" latency"),
                (nights.index[-1], nights["value"].iloc[-1]),
                textcoords="offset points",
                xytext=(style.pt(3), style.pt(off)),
                ha="right",
                fontsize=style.pt(6),
            )


def _errors(ax: Axes, of: pd.DataFrame, measure: str, models: list[str]) -> None:
    """Draw every model's median error of a latency's mean."""
    rows = _means(of, "accuracy")
    rows = rows[rows["measure"] == measure]
    for model in models:
        _line(ax, _by_night(rows[rows["model"] == model]), style.model_look(model, models))


def _means(of: pd.DataFrame, family: str) -> pd.DataFrame:
    return of[(of["family"] == family) & (of["statistic"] == "mean") & (of["protocol"] == "ours")]


def _by_night(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.groupby("at").agg(value=("value", "mean"), noisy=("noisy", "first"))


def _line(ax: Axes, nights: pd.DataFrame, look: style.Appearance) -> None:
    """Draw one number over the nights; noisy nights have hollow marks."""
    if nights.empty:
        return
    x, y = nights.index.to_numpy(dtype=float), nights["value"].to_numpy(dtype=float)
    ax.plot(x, y, color=look.colour, linestyle=look.line, linewidth=style.pt(0.8))
    noisy = (nights["noisy"] != "").to_numpy()
    for mask, face in ((~noisy, look.colour), (noisy, "white")):
        if np.any(mask):
            ax.plot(
                x[mask],
                y[mask],
                look.marker,
                color=look.colour,
                markerfacecolor=face,
                markersize=style.pt(3),
                linestyle="none",
            )
