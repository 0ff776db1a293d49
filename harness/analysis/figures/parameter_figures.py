"""Figures of the errors in what a model predicts on its way to a latency: routing, I/O, arrivals, service.

A digit is a source step; its place across is the proposed step, so a panel holds a whole error matrix.
"""

from __future__ import annotations

from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import NullLocator

from harness.analysis.figures import style
from harness.analysis.figures.error_figures import noise_floor_pct, what
from harness.analysis.judge.results import Results
from harness.schemas import Measure

LINEAR_PCT = 1.0
"""Below this the error axes are linear, so that an error of 0 has a place."""


def pair_errors(data: Results, measure: str, signed: bool = False, statistic: str = "mean") -> Figure:
    """Draw the median error of every pair, over the executors or connections of the proposed step."""
    cells = data.cells(measure, statistic)
    cells = cells[cells["judged"] > 0]
    models = [m for m in data.models if m in set(cells["model"])]
    figure, panels = _model_panels(models, 1.75)
    shown = cells["relative_error"] * 100 if signed else cells["abs_error_pct"]
    floor = noise_floor_pct(cells)
    highest = max(shown.abs().max(), floor.max()) if len(floor) else shown.abs().max()
    for ax, model in zip(panels, models, strict=False):
        ax.axhline(0, color=style.INK, linewidth=style.pt(0.5))
        for at, step in enumerate(data.steps):
            if step in floor.index:
                low = -floor[step] if signed else 0.0
                ax.fill_between([at - 0.48, at + 0.48], low, floor[step], color=style.NOISE, linewidth=0)
        mine = cells[cells["model"] == model].assign(error=shown)
        for cell in mine.to_dict("records"):
            own = cell["source_step"] == cell["proposed_step"]
            _digit(ax, data, cell["source_step"], cell["proposed_step"], cell["error"], own)
        off = mine.loc[mine["source_step"] != mine["proposed_step"], "error"]
        median = style.signed(off.median(), 1) if signed else f"{off.median():.1f}"
        ax.set_title(f"{model}: median {median} %" if len(off) else model)
        _percent_axis(ax, "y", signed, highest)  # the same for all models
        ax.set_xlim(-0.6, len(data.steps) - 0.4)
        ax.set_xticks(range(len(data.steps)), [str(s) for s in data.steps])
    _label_grid(panels, len(models), "proposed step", f"{'(P − A)/A' if signed else '|P − A|/A'} (%)")
    figure.suptitle(
        f"Median over executors, {what(measure, statistic)}. Digits: source steps (grey: the step itself);"
        " bars: noise floor (2σ)",
        fontsize=style.pt(6.5),
    )
    return figure


def _digit(ax: Axes, data: Results, source: int, proposed: int, error: float, own: bool) -> None:
    steps = data.steps
    share = 0.8 / max(len(steps) - 1, 1)
    x = steps.index(proposed) - 0.4 + share * steps.index(source)
    ax.text(
        x,
        error,
        str(source),
        ha="center",
        va="center_baseline",
        fontsize=style.pt(6.5 if len(steps) <= 9 else style.SMALLEST_PT - 1),
        color="#999999" if own else style.COLOURS[steps.index(source) % 7],
        fontweight="bold",
        path_effects=[withStroke(linewidth=style.pt(1.0), foreground="white")],  # on the line of 0, too
        clip_on=True,
    )


def _percent_axis(ax: Axes, which: Literal["x", "y"], signed: bool, highest: float) -> None:
    """Make an axis of percent with room for the highest: linear near 0, logarithmic beyond."""
    ends = (1, 10, 100, 1000, 10_000)
    highest = highest if highest > LINEAR_PCT else LINEAR_PCT  # also where it is not a number
    top = next((e * f for e in ends for f in (1, 2, 5) if e * f >= 1.3 * highest), 1e6)
    used = [e for e in ends if e <= top]
    marks = [*((-e) for e in reversed(used) if signed), 0, *used]
    words = [style.signed(m) if signed else f"{m:g}" for m in marks]
    limits = (-top if signed else -0.3, top)
    if which == "x":
        ax.set_xscale("symlog", linthresh=LINEAR_PCT, linscale=0.5)
        ax.set_xlim(limits)
        ax.set_xticks(marks, words)
    else:
        ax.set_yscale("symlog", linthresh=LINEAR_PCT, linscale=0.5)
        ax.set_ylim(limits)
        ax.set_yticks(marks, words)
    (ax.xaxis if which == "x" else ax.yaxis).set_minor_locator(NullLocator())
    ax.grid(axis=which, which="major")


def _model_panels(models: list[str], height_in: float) -> tuple[Figure, list[Axes]]:
    columns = min(3, max(len(models), 1))
    rows = -(-max(len(models), 1) // columns)
    width = style.COLUMN_IN if columns == 1 else style.PAGE_IN
    figure, panels = style.subplots(rows, columns, width, 0.3 + height_in * rows)
    for ax in panels[len(models) :]:
        ax.set_visible(False)
    return figure, panels


def _label_grid(panels: list[Axes], shown: int, x: str, y: str) -> None:
    columns = min(3, max(shown, 1))
    for i, ax in enumerate(panels[:shown]):
        if i % columns == 0:
            ax.set_ylabel(y)
        if i + columns >= shown:
            ax.set_xlabel(x)


def own_measurements(data: Results) -> Figure:
    """Draw the errors of predicting each step from its own measurements: what the model errs by itself."""
    cells = data.cells(Measure.GROUND_TRUTH)
    own = cells[(cells["source_step"] == cells["proposed_step"]) & (cells["judged"] > 0)]
    models = [m for m in data.models if m in set(own["model"])]
    figure, (ax,) = style.subplots(1, 1, style.COLUMN_IN, 2.1)
    floor = noise_floor_pct(own)
    for at, step in enumerate(data.steps):
        if step in floor.index:
            ax.fill_between(
                [at - 0.45, at + 0.45], -floor[step], floor[step], color=style.NOISE, linewidth=0, zorder=0
            )
    for i, model in enumerate(models):
        mine = own[own["model"] == model]
        seen = style.model_look(model, data.models)
        shift = 0.16 * (i - (len(models) - 1) / 2)
        ax.plot(
            [data.steps.index(s) + shift for s in mine["proposed_step"]],
            mine["relative_error"] * 100,
            seen.marker,
            color=seen.colour,
            label=model,
        )
    ax.axhline(0, color=style.INK, linewidth=style.pt(0.5))
    ax.set_xticks(range(len(data.steps)), [str(s) for s in data.steps])
    ax.set_xlabel("step, predicted from its own measurements")
    ax.set_ylabel("(P − A)/A, mean ground truth (%)")
    _percent_axis(ax, "y", True, (own["relative_error"] * 100).abs().max())
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def service_error_effect(data: Results) -> Figure:
    """Draw the error of the mean latency against that of the service times, by pair."""
    both = _service_and_latency(data)
    figure, (ax,) = style.subplots(1, 1, style.COLUMN_IN, 2.3)
    ax.axhline(0, color=style.INK, linewidth=style.pt(0.5))
    ax.axvline(0, color=style.INK, linewidth=style.pt(0.5))
    for model in sorted(both.index.get_level_values("model").unique()):
        mine = both.loc[model]
        seen = style.model_look(model, data.models)
        ax.plot(
            mine["service"],
            mine["latency"],
            seen.marker,
            color=seen.colour,
            markeredgecolor="white",
            markeredgewidth=style.pt(0.3),
            label=model,
        )
    ax.set_xlabel("median error of service times (%)")
    ax.set_ylabel("error of mean ground truth (%)")
    _percent_axis(ax, "x", True, both["service"].abs().max())
    _percent_axis(ax, "y", True, both["latency"].abs().max())
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def has_service_effect(data: Results) -> bool:
    """Return True if some model has a judged service time and latency for one pair."""
    return bool(len(_service_and_latency(data)))


def _service_and_latency(data: Results) -> pd.DataFrame:
    kinds = {}
    for name, measure in (("service", Measure.SERVICE), ("latency", Measure.GROUND_TRUTH)):
        cells = data.cells(measure)
        cells = cells[(cells["judged"] > 0) & (cells["source_step"] != cells["proposed_step"])]
        kinds[name] = cells.set_index(["model", "source_step", "proposed_step"])["relative_error"] * 100
    return pd.DataFrame(kinds).dropna()
