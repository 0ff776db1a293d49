"""Figures of where the time goes: transfer and queues, services and windows, from the hop records."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from harness.analysis.figures import style
from harness.analysis.figures.measured_figures import LatencyBox, draw_box, log_latency
from harness.analysis.judge.results import Results
from harness.analysis.spark.stages import BINS_PER_OCTAVE, INSIDE, PLACES, TRANSFER, means, order, visits
from harness.schemas import Measure


def _bolts(data: Results) -> list[str]:
    return [component for component, stage in order(data.query) if stage == TRANSFER]


def queue_waits(data: Results) -> Figure:
    """Draw the time from the emit upstream to the receipt, by component and step.

    Above is the whole distribution as a box, and its mean by how far the tuple went. Below is the mean number
    of tuples on the way or waiting for one executor (Little: arrivals times wait).
    """
    bolts = _bolts(data)
    columns = min(3, len(bolts))
    bands = -(-len(bolts) // columns)
    width = style.COLUMN_IN if columns == 1 else style.PAGE_IN
    figure, panels = style.subplots(2 * bands, columns, width, 0.35 + 2.4 * bands)
    waits = [ax for band in range(bands) for ax in panels[2 * band * columns :][:columns]]
    sizes = [ax for band in range(bands) for ax in panels[(2 * band + 1) * columns :][:columns]]
    by_place = _means_by_place(data)
    number = _waiting(data)
    for i, (ax, small) in enumerate(zip(waits, sizes, strict=True)):
        if i >= len(bolts):
            ax.set_visible(False)
            small.set_visible(False)
            continue
        if i:
            ax.sharey(waits[0])
            small.sharey(sizes[0])
        component = bolts[i]
        for at, step in enumerate(data.steps):
            bins, counts = visits(data.stages, step, component, TRANSFER)
            if len(bins):
                mean = by_place["all"].get((step, component), np.nan)
                box = LatencyBox.of(bins, counts, mean, BINS_PER_OCTAVE)
                draw_box(ax, at, box, style.COLOURS[4], width=0.5)
            for j, place in enumerate(PLACES):
                mean = by_place[place].get((step, component), np.nan)
                ax.plot(
                    at + 0.14 * (j - 1),
                    mean,
                    "<o>"[j],
                    color=style.COLOURS[(1, 2, 5)[j]],
                    markersize=style.pt(3),
                    zorder=4,
                )
        mine = number[number["component"] == component]
        small.bar(
            [data.steps.index(s) for s in mine["step"]],
            mine["tuples"],
            width=0.5,
            color=style.COLOURS[4],
            edgecolor=style.INK,
            linewidth=style.pt(0.5),
        )
        ax.set_title(component)
        for panel in (ax, small):
            panel.set_xticks(range(len(data.steps)), [str(s) for s in data.steps])
        ax.tick_params(labelbottom=False)
        small.set_xlabel("step")
    for i, (ax, small) in enumerate(zip(waits, sizes, strict=True)):
        if i % columns == 0:
            log_latency(ax, "wait (ms)")
            small.set_ylabel("tuples waiting")
        else:
            ax.tick_params(labelleft=False, which="both")
            ax.grid(axis="y", which="major")
            small.tick_params(labelleft=False)
    handles = [
        Patch(facecolor=style.COLOURS[4], edgecolor=style.INK, label="all: 5–95 %, quartiles, mean ◇"),
        *(
            Line2D([], [], marker="<o>"[j], color=style.COLOURS[(1, 2, 5)[j]], linestyle="", label=place)
            for j, place in enumerate(PLACES)
        ),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4 if columns > 1 else 2)
    return figure


def _means_by_place(data: Results) -> dict[str, dict[tuple[int, str], float]]:
    """Return mean transfer and queue in ms by place, step and component."""
    rows = data.stages[(data.stages["stage"] == TRANSFER) & (data.stages["bin"] >= -2)]
    found: dict[str, dict[tuple[int, str], float]] = {}
    for place in ("all", *PLACES):
        mine = rows if place == "all" else rows[rows["place"] == place]
        sums = mine.groupby(["step", "component"])[["sum_ns", "n"]].sum()
        means = sums["sum_ns"] / sums["n"] / 1e6
        found[place] = {(int(k[0]), str(k[1])): float(v) for k, v in means.items()}  # type: ignore[index]
    return found


def _waiting(data: Results) -> pd.DataFrame:
    """Return the mean number of tuples on the way to, or waiting for, one executor of a component."""
    wait_ms = _means_by_place(data)["all"]
    arrivals = data.actuals[data.actuals["measure"] == Measure.ARRIVALS]
    rates = arrivals.set_index(["step", "subject"])["value"]
    rows = [
        (s.index, component, float(rates.get((s.index, component), np.nan)) / len(s.plan.start.of(component)))
        for s in data.run.steps
        for component in _bolts(data)
    ]
    found = pd.DataFrame(rows, columns=["step", "component", "tps"])
    ms = [wait_ms.get((step, component), np.nan) for step, component, _ in rows]
    return found.assign(tuples=found["tps"] * np.array(ms) / 1e3)


def stages_by_step(data: Results) -> Figure:
    """Draw the parts of the mean latency of every step, from spout to sink."""
    found = means(data.stages, data.query)["part_ms"]
    parts = [p for p in order(data.query) if any((s, *p) in found.index for s in data.steps)]
    components = list(dict.fromkeys(c for c, _ in parts))
    figure, (ax,) = style.subplots(1, 1, style.PAGE_IN, 0.75 + 0.24 * len(data.steps))
    for at, step in enumerate(data.steps):
        left = 0.0
        for component, stage in parts:
            width = float(found.get((step, component, stage), 0.0))
            colour = style.COLOURS[components.index(component) % len(style.COLOURS)]
            ax.barh(
                at,
                width,
                left=left,
                height=0.72,
                color="white" if stage == TRANSFER else colour,
                edgecolor=colour if stage == TRANSFER else "white",
                hatch="/////" if stage == TRANSFER else "",
                linewidth=style.pt(0.4),
            )
            left += width
        ax.text(left, at, f" {style.number(left)} ms", va="center", fontsize=style.pt(6.5))
    ax.set_yticks(range(len(data.steps)), [f"{s}: {data.step_words(s)}" for s in data.steps])
    ax.invert_yaxis()
    ax.set_xlabel("mean ground-truth latency (ms), transfer and queue hatched")
    ax.set_ylabel("step")
    ax.margins(x=0.08)
    handles = [
        Patch(
            facecolor="white" if stage == TRANSFER else style.COLOURS[components.index(c) % 7],
            edgecolor=style.COLOURS[components.index(c) % 7],
            hatch="/////" if stage == TRANSFER else "",
            label=f"{'to ' if stage == TRANSFER else ''}{c}"
            + (" (window)" if stage == INSIDE and data.query.component(c).window else ""),
        )
        for c, stage in parts
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(parts), 6), columnspacing=1.0)
    return figure
