"""Figures that set models against each other and against what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from harness.analysis.figures import style
from harness.analysis.figures.error_figures import what
from harness.analysis.figures.measured_figures import milliseconds, values
from harness.analysis.judge.distance import distances
from harness.analysis.judge.ranking import ranking
from harness.analysis.judge.results import WITHIN_NOISE, Results
from harness.schemas import LATENCIES, PERCENTILES, Measure

RANKED = (
    (Measure.GROUND_TRUTH, "mean"),
    (Measure.GROUND_TRUTH, "p99"),
    (Measure.COMPLETE, "mean"),
    (Measure.ACK, "mean"),
    (Measure.ARRIVALS, "mean"),
    (Measure.SERVICE, "mean"),
)
"""Measures and statistics that the leaderboard ranks by."""
LOWEST_PCT = 0.1


def has_latencies(data: Results) -> bool:
    """Return True if a mean latency was judged."""
    return len(_mean_latencies(data)) > 0


def _mean_latencies(data: Results) -> pd.DataFrame:
    """Return the judged off-diagonal pairs' mean latencies of the whole topology."""
    rows = data.judged()
    whole = (rows["subject"] == "") & (rows["protocol"] == "ours") & (rows["statistic"] == "mean")
    return rows[whole & rows["measure"].isin(LATENCIES)]


def measured_and_predicted(data: Results) -> Figure:
    """Draw predictions against measurements of the latencies' means, off-diagonal pairs only."""
    rows = _mean_latencies(data)
    measures = [m for m in LATENCIES if m in set(rows["measure"])]
    models = [m for m in data.models if m in set(rows["model"])]
    width = style.COLUMN_IN if len(measures) == 1 else style.PAGE_IN
    figure, axes = style.subplots(1, len(measures), width, width / len(measures) + 0.45)
    for ax, measure in zip(axes, measures, strict=True):
        _identity_panel(ax, rows[rows["measure"] == measure], models, data.models)
        ax.set_title(f"mean {style.measure_name(measure)}")
        ax.set_xlabel("measured (ms)")
    axes[0].set_ylabel("predicted (ms)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(6, len(labels)))
    return figure


def _identity_panel(ax: Axes, rows: pd.DataFrame, models: list[str], all_models: Sequence[str]) -> None:
    both = pd.concat([rows["actual"], rows["value"]]).dropna()
    both = both[both > 0]
    low, high = (both.min() * 0.8, both.max() * 1.25) if len(both) else (0.1, 10.0)
    line = np.array([low, high])
    ax.fill_between(line, line * 0.9, line * 1.1, color=style.GAP, linewidth=0, label="± 10 %")
    ax.plot(line, line, color=style.INK, linewidth=style.pt(0.6))
    for model in models:
        mine = rows[rows["model"] == model]
        seen = style.model_look(model, all_models)
        below = (mine["value"] - mine["low"]).clip(lower=0).fillna(0)
        above = (mine["high"] - mine["value"]).clip(lower=0).fillna(0)
        ax.errorbar(
            mine["actual"],
            mine["value"],
            xerr=mine["noise"].fillna(0),
            yerr=np.vstack([below, above]) if len(mine) else None,
            fmt=seen.marker,
            color=seen.colour,
            markeredgecolor="white",
            markeredgewidth=style.pt(0.3),
            elinewidth=style.pt(0.5),
            label=model,
        )
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    ax.set_box_aspect(1)
    steps = (1, 1.5, 2, 3, 5, 7) if high / low < 12 else (1, 2, 5) if high / low < 200 else (1,)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4) if high / low < 3 else LogLocator(subs=steps))
        axis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.set_minor_locator(NullLocator())


def has_percentiles(data: Results) -> bool:
    """Return True if a model predicts percentiles of the ground truth."""
    return any(len(data.cells(Measure.GROUND_TRUTH, p).query("judged > 0")) for p in PERCENTILES)


def predicted_distribution(data: Results) -> Figure:
    """Draw each step's measured distribution, and on it the percentiles predicted from all other steps.

    The vertical axis is that of a logistic distribution, so that 99 % has as much room as 90 %.
    """
    rows = data.judged()
    rows = rows[
        (rows["measure"] == Measure.GROUND_TRUTH) & (rows["subject"] == "") & (rows["protocol"] == "ours")
    ]
    rows = rows[rows["statistic"].isin(list(PERCENTILES))]
    models = [m for m in data.models if m in set(rows["model"])]
    drawn = [s for s in data.steps if len(values(data, s)[0])]
    columns = min(3, max(len(drawn), 1))
    bands = -(-max(len(drawn), 1) // columns)
    width = style.COLUMN_IN if columns == 1 else style.PAGE_IN
    figure, panels = style.subplots(bands, columns, width, 0.35 + 1.55 * bands, shared=True)
    for i, (ax, step) in enumerate(zip(panels, drawn, strict=False)):
        bins, counts = values(data, step)
        share = counts.cumsum() / counts.sum()
        inside = (share > 0.02) & (share < 0.998)
        ends_ms = milliseconds(bins + 1)
        ax.plot(ends_ms[inside], share[inside], color=style.INK, linewidth=style.pt(1.1))
        for j, model in enumerate(models):
            mine = rows[(rows["model"] == model) & (rows["proposed_step"] == step)]
            _percentile_points(ax, mine, model, data.models, 0.02 * (j - (len(models) - 1) / 2))
        ax.set_xscale("log")
        ax.set_yscale("logit")
        ax.set_ylim(0.2, 0.996)
        ax.set_yticks([0.25, 0.5, 0.75, 0.9, 0.95, 0.99], ["25", "50", "75", "90", "95", "99"])
        ax.yaxis.set_minor_locator(NullLocator())
        style.numbers_on(ax.xaxis)
        ax.grid(axis="y")
        ax.set_title(f"step {step}")
        if i + columns >= len(drawn):
            ax.tick_params(labelbottom=True, which="both")  # also above a panel that is not drawn
            ax.set_xlabel("ground-truth latency (ms)")
        if i % columns == 0:
            ax.set_ylabel("messages below (%)")
    for ax in panels[len(drawn) :]:
        ax.set_visible(False)
    handles = [Line2D([], [], color=style.INK, label="measured")]
    for model in models:
        seen = style.model_look(model, data.models)
        handles.append(Line2D([], [], color=seen.colour, marker=seen.marker, linestyle="", label=model))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)))
    return figure


def _percentile_points(ax: Axes, rows: pd.DataFrame, model: str, models: Sequence[str], shift: float) -> None:
    """Draw a point for every source step and percentile, with the model's interval where it gives one."""
    seen = style.model_look(model, models)
    fraction = rows["statistic"].map(PERCENTILES).to_numpy(dtype=float)
    odds = fraction / (1 - fraction) * np.exp(8 * shift)  # models beside each other, not on one another
    bounded = rows["low"].notna() & rows["high"].notna()
    y = odds / (1 + odds)
    ax.hlines(
        y[bounded.to_numpy()],
        rows.loc[bounded, "low"],
        rows.loc[bounded, "high"],
        color=seen.colour,
        linewidth=style.pt(0.4),
        alpha=0.6,
    )
    ax.plot(
        rows["value"],
        y,
        seen.marker,
        color=seen.colour,
        markersize=style.pt(2.6),
        markeredgecolor="white",
        markeredgewidth=style.pt(0.2),
        linestyle="",
        zorder=3,
    )


def error_by_distance(data: Results) -> Figure:
    """Draw the errors of the latencies' means against how far source and proposed plan are apart."""
    apart = distances(data.run.steps)
    measures = [m for m in (Measure.GROUND_TRUTH, Measure.COMPLETE) if _off_diagonal(data, m) is not None]
    figure, axes = style.subplots(
        1, len(measures), style.PAGE_IN if len(measures) > 1 else style.COLUMN_IN, 2.1
    )
    names: list[str] = []
    for ax, measure in zip(axes, measures, strict=True):
        cells = _off_diagonal(data, measure)
        assert cells is not None
        pairs = zip(cells["source_step"], cells["proposed_step"], strict=True)
        cells = cells.assign(apart=[apart[s, p] for s, p in pairs])
        models = [m for m in data.models if m in set(cells["model"])]
        names = list(dict.fromkeys([*names, *models]))
        noise = (cells["noise"] / cells["actual"]).dropna()
        if len(noise):
            floor = max(WITHIN_NOISE * 100 * float(noise.median()), LOWEST_PCT)
            ax.axhspan(LOWEST_PCT, floor, color=style.NOISE, linewidth=0)
        for i, model in enumerate(models):
            mine = cells[cells["model"] == model]
            seen = style.model_look(model, data.models)
            error = mine["abs_error_pct"].clip(lower=LOWEST_PCT)
            jitter = 0.05 * (i - (len(models) - 1) / 2)
            ax.plot(
                mine["apart"] + jitter,
                error,
                seen.marker,
                color=seen.colour,
                markersize=style.pt(2.8),
                alpha=0.6,
                markeredgewidth=0,
            )
            medians = mine.assign(error=error).groupby("apart")["error"].median()
            ax.plot(medians.index, medians, color=seen.colour, linestyle=seen.line, label=model)
        ax.set_yscale("log")
        style.numbers_on(ax.yaxis)
        ax.yaxis.set_major_formatter(lambda v, _: f"≤{v:g}" if v == LOWEST_PCT else f"{v:g}")
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], min_n_ticks=2))
        ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        ax.set_xlabel("distance of the plans (doublings)")
        ax.set_title(f"mean {style.measure_name(measure)}")
        ax.grid(axis="y")
    axes[0].set_ylabel("|P − A|/A (%)")
    handles: list[Artist] = [Patch(color=style.NOISE, label="noise floor (2σ)")]
    for model in names:
        seen = style.model_look(model, data.models)
        handles.append(
            Line2D([], [], color=seen.colour, marker=seen.marker, linestyle=seen.line, label=model)
        )
    figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)))
    return figure


def _off_diagonal(data: Results, measure: str) -> pd.DataFrame | None:
    cells = data.cells(measure)
    cells = cells[(cells["source_step"] != cells["proposed_step"]) & (cells["judged"] > 0)]
    return cells if len(cells) else None


def has_pairs(data: Results) -> bool:
    """Return True if an off-diagonal pair's ground truth was judged."""
    return _off_diagonal(data, Measure.GROUND_TRUTH) is not None


def leaderboard(runs: Sequence[Results]) -> Figure:
    """Draw the models' median errors with intervals, the best above, over one or several runs."""
    table = ranking(runs, {("ours", *kind) for kind in RANKED})
    panels_of = {kind: of for kind in RANKED if len(of := _of_kind(table, *kind))}
    columns = min(3, len(panels_of))
    bands = -(-len(panels_of) // columns)
    most = max(len(of) for of in panels_of.values())
    width = style.PAGE_IN if columns > 1 else style.COLUMN_IN
    figure, panels = style.subplots(bands, columns, width, 0.3 + bands * (0.62 + 0.17 * most))
    models = sorted(set(table["model"]))
    for ax, ((measure, statistic), of) in zip(panels, panels_of.items(), strict=False):
        known = of["noise_pct"].dropna()
        noise = max(float(known.median()), LOWEST_PCT) if len(known) else None
        if noise:
            ax.axvspan(LOWEST_PCT, noise, color=style.NOISE, linewidth=0)
        _ranks(ax, of, models)
        ax.set_yticks(range(len(of)), list(of["model"]))
        ax.set_ylim(most - 0.5, -0.5)
        ax.set_xscale("log")
        low = min(of["median_pct"].min() / 3, of["low_pct"].min() / 1.3, (noise or 100.0) / 3)
        ax.set_xlim(max(LOWEST_PCT, low), max(of["p95_pct"].max() * 1.6, 10))
        style.numbers_on(ax.xaxis)
        ax.set_title(what(measure, statistic))
        ax.grid(axis="x")
    for ax in panels[len(panels_of) :]:
        ax.set_visible(False)
    for ax in panels[max(0, len(panels_of) - columns) : len(panels_of)]:
        ax.set_xlabel("|P − A|/A (%)")
    handles = [
        Line2D([], [], color=style.INK, marker="o", label="median, 95 % interval"),
        Line2D([], [], color=style.INK, marker="|", linestyle="", label="95 % of the pairs below"),
        Patch(color=style.NOISE, label="noise floor (2σ)"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def _of_kind(table: pd.DataFrame, measure: str, statistic: str) -> pd.DataFrame:
    return table[(table["measure"] == measure) & (table["statistic"] == statistic)]


def _ranks(ax: Axes, table: pd.DataFrame, models: Sequence[str]) -> None:
    """Draw a line a model: its median error with interval, and its 95 % error."""
    for at, row in enumerate(table.to_dict("records")):
        seen = style.model_look(str(row["model"]), models)
        middle = max(float(row["median_pct"]), LOWEST_PCT)
        if row["low_pct"] == row["low_pct"]:  # else there were too few steps
            low, high = (max(float(row[k]), LOWEST_PCT) for k in ("low_pct", "high_pct"))
            ax.hlines(at, low, high, color=seen.colour, linewidth=style.pt(2.2), alpha=0.55)
        ax.plot(middle, at, seen.marker, color=seen.colour, markeredgecolor="white", zorder=3)
        ax.plot(float(row["p95_pct"]), at, "|", color=seen.colour, markersize=style.pt(6))
