"""Effect of a slowed link between two nodes, measured and predicted: two runs of one experiment.

The effect is the difference of mean ground truths between the run with the slowed link and the one without,
step by step. The predicted effect is the difference of a model's predictions in the two runs, each from one
source step of its own run. A model sees nothing of the other run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from harness.analysis.figures import style
from harness.errors import UsageError
from harness.plans import PhysicalPlan
from harness.runs import Run
from harness.schemas import Measure, Metric, MetricField

MODEL = "composite"
MEASURE, STATISTIC = Measure.GROUND_TRUTH, "mean"
GOAL = 0.10
"""Within this share of the measured effect the predicted one should be."""
NAME = "slowed-link"


class Link(NamedTuple):
    """Two nodes, and what a packet between them took, one way, as it was and slowed: medians of probes."""

    nodes: tuple[str, str]
    fast_ms: float
    slow_ms: float

    @property
    def delay_ms(self) -> float:
        """Time by which a packet took longer."""
        return self.slow_ms - self.fast_ms


@dataclass(frozen=True)
class Effect:
    """A step in both runs.

    Attributes
    ----------
    step : int
    executors, workers : int
        Executors of a component, and worker processes.
    crossings : float
        How often a row went between the link's nodes, on average, in the run with the slowed link.
    fast_ms, slow_ms, fast_half_ms, slow_half_ms : float
        Mean ground truth of either run, and the half-width of its interval.
    predicted_fast_ms, predicted_slow_ms : mapping of int to float
        Of this step, by source step.
    """

    step: int
    executors: int
    workers: int
    crossings: float
    fast_ms: float
    slow_ms: float
    fast_half_ms: float
    slow_half_ms: float
    predicted_fast_ms: Mapping[int, float]
    predicted_slow_ms: Mapping[int, float]

    @property
    def measured_ms(self) -> float:
        """Latency that the slowed link added."""
        return self.slow_ms - self.fast_ms

    @property
    def half_ms(self) -> float:
        """Half-width of its interval: both means are uncertain."""
        return math.hypot(self.fast_half_ms, self.slow_half_ms)

    @property
    def predicted_ms(self) -> Mapping[int, float]:
        """Latency that the slowed link was predicted to add, by source step."""
        fast, slow = self.predicted_fast_ms, self.predicted_slow_ms
        return {source: slow[source] - fast[source] for source in sorted(fast.keys() & slow.keys())}

    @property
    def label(self) -> str:
        """The step in words."""
        workers = f"{self.workers} worker{'s' * (self.workers > 1)}"
        executors = f"{self.executors} executor{'s' * (self.executors > 1)}"
        return f"{workers}\n{executors}\n{self.crossings:.2f} crossings"


def between(run: Run) -> tuple[str, str]:
    """Return the two nodes of the first step that has its workers on two.

    Raises
    ------
    UsageError
        When no step has.
    """
    for step in run.finished_steps:
        nodes = sorted({w.node for w in run.plan(step).start.workers})
        if len(nodes) == 2:
            return nodes[0], nodes[1]
    raise UsageError(f"{run.path}: no step has its workers on two nodes")


def link(fast: Run, slow: Run) -> Link:
    """Return the link, as the probes of both runs saw it.

    Raises
    ------
    UsageError
        When they saw none.
    """
    nodes = between(fast)
    return Link(nodes, *(_one_way_ms(run, nodes) for run in (fast, slow)))


def _one_way_ms(run: Run, nodes: tuple[str, str]) -> float:
    found = []
    for step in run.finished_steps:
        rows = pq.read_table(run.step_path(step) / "metrics.parquet").to_pandas()
        mine = (rows["measurement"] == Metric.ROUND_TRIP) & (rows["field"] == MetricField.RTT_MS)
        ends = [{one, other} == set(nodes) for one, other in zip(rows["stream"], rows["peer"], strict=True)]
        found.append(rows["value"].to_numpy()[mine.to_numpy() & np.array(ends, dtype=np.bool_)])
    if not sum(values.size for values in found):
        raise UsageError(f"{run.path}: no round trip between {' and '.join(nodes)} was measured")
    return float(np.median(np.concatenate(found)) / 2)


def crossings(rows: Sequence[Sequence[int]], plan: PhysicalPlan, nodes: tuple[str, str]) -> float:
    """Return how often rows went between two nodes, on average; a row is the tasks that it passed."""
    node = {task: e.worker.node for task, e in plan.by_task.items()}
    return float(np.mean([sum({node[a], node[b]} == set(nodes) for a, b in pairwise(row)) for row in rows]))


def effects(fast: Run, slow: Run) -> list[Effect]:
    """Return what the slowed link did to each step.

    Raises
    ------
    UsageError
        When the runs have other steps or plans, or no predictions.
    """
    if fast.finished_steps != slow.finished_steps:
        raise UsageError(f"{fast.path} and {slow.path} have other steps")
    nodes, found = between(fast), []
    said = [_predictions(run) for run in (fast, slow)]
    for step in fast.finished_steps:
        plan = slow.plan(step).start
        if plan.executors != fast.plan(step).start.executors:
            raise UsageError(f"step {step}: the plans of the two runs differ")
        was, became = (run.interval(step) for run in (fast, slow))
        by_source = [{s: ms for (s, proposed), ms in of.items() if proposed == step} for of in said]
        found.append(
            Effect(
                step=step,
                executors=max(len(plan.of(c.name)) for c in plan.query_plan.components),
                workers=len(plan.workers),
                crossings=crossings(_passed(slow, step), plan, nodes),
                fast_ms=was.mean_ms,
                slow_ms=became.mean_ms,
                fast_half_ms=was.half_width_ms,
                slow_half_ms=became.half_width_ms,
                predicted_fast_ms=by_source[0],
                predicted_slow_ms=by_source[1],
            )
        )
    return found


def _passed(run: Run, step: int) -> list[list[int]]:
    """Return the tasks that each row of the interval passed."""
    table = pq.read_table(run.step_path(step) / "latency.parquet", columns=["in_interval", "hops"])
    hops = table.filter(table["in_interval"])["hops"].to_pylist()
    return [[hop["task"] for hop in row] for row in hops]


def _predictions(run: Run) -> dict[tuple[int, int], float]:
    path = run.path / "predictions.parquet"
    if not path.is_file():
        raise UsageError(f"{path}: no such file", "make it with: harness predict RUN")
    rows = pq.read_table(path).to_pandas()
    mine = rows[
        (rows["model"] == MODEL)
        & (rows["measure"] == MEASURE)
        & (rows["statistic"] == STATISTIC)
        & (rows["subject"] == "")
        & rows["value"].notna()
    ]
    if mine.empty:
        raise UsageError(f"{path}: nothing that {MODEL} predicted", "make it with: harness predict RUN")
    ends = zip(mine["source_step"].tolist(), mine["proposed_step"].tolist(), strict=True)
    return dict(zip(ends, mine["value"].tolist(), strict=True))


def table(found: list[Effect]) -> pd.DataFrame:
    """Return a row for each source and step."""
    return pd.DataFrame(
        [
            {
                "source_step": source,
                "step": e.step,
                "workers": e.workers,
                "executors": e.executors,
                "crossings": e.crossings,
                "measured_ms": e.measured_ms,
                "half_width_ms": e.half_ms,
                "predicted_ms": predicted,
                "relative_error": predicted / e.measured_ms - 1,
                "measured_fast_ms": e.fast_ms,
                "measured_slow_ms": e.slow_ms,
                "predicted_fast_ms": e.predicted_fast_ms[source],
                "predicted_slow_ms": e.predicted_slow_ms[source],
            }
            for e in found
            for source, predicted in e.predicted_ms.items()
        ]
    )


def draw(found: list[Effect], slow_link: Link) -> Figure:
    """Draw the effect, measured and predicted from every step, and the latencies that it is made of."""
    figure, (left, right) = style.subplots(1, 2, style.PAGE_IN, 3.1)
    at = np.arange(len(found))
    measured = np.array([e.measured_ms for e in found])
    left.bar(at, measured, 0.62, color=style.NOISE, edgecolor=style.INK, label="measured, 95 % interval")
    left.errorbar(at, measured, [e.half_ms for e in found], fmt="none", ecolor=style.INK, capsize=style.pt(2))
    said = f"± {100 * GOAL:g} % of it"
    for x, e in enumerate(found):
        for edge in (1 - GOAL, 1 + GOAL) if e.crossings > 0 else ():
            ends = x - 0.42, x + 0.42
            left.hlines(edge * e.measured_ms, *ends, color=style.INK, linestyle=":", label=said)
            said = "_"
    sources = sorted({source for e in found for source in e.predicted_ms})
    for source in sources:
        look = style.look(source)
        known = [(x, e.predicted_ms[source]) for x, e in enumerate(found) if source in e.predicted_ms]
        x, predicted = np.array(known).T
        left.plot(
            x + 0.14 * (sources.index(source) - (len(sources) - 1) / 2),
            predicted,
            look.marker,
            color=look.colour,
            markeredgecolor="white",
            label=f"predicted from step {source}",
        )
    left.set_ylabel("added to the mean ground truth (ms)")
    left.set_title(f"{slow_link.delay_ms:.2f} ms between {' and '.join(slow_link.nodes)}, each way")
    every = [0.0, *measured, *(ms for e in found for ms in e.predicted_ms.values())]
    left.set_ylim(1.1 * min(every), 1.5 * max(0.1, *every))  # room for the legend
    left.legend(ncols=2)
    dashes = partial(right.plot, marker="_", linestyle="none", color=style.INK, markersize=style.pt(9))
    for shift, place, name, means, from_steps in (
        (-0.19, 0, "as it is", [e.fast_ms for e in found], [e.predicted_fast_ms for e in found]),
        (0.19, 5, "slowed", [e.slow_ms for e in found], [e.predicted_slow_ms for e in found]),
    ):
        look = style.look(place)
        right.bar(
            at + shift, means, 0.36, color=look.colour, hatch=look.hatch, alpha=0.45, label=f"link {name}"
        )
        for i, e in enumerate(found):
            others = [ms for source, ms in from_steps[i].items() if source != e.step]
            dashes(np.full(len(others), i + shift), others)
    dashes([], [], label="predicted from the other steps")
    right.set_ylabel("mean ground truth (ms)")
    every = [
        ms for e in found for ms in (e.slow_ms, *e.predicted_fast_ms.values(), *e.predicted_slow_ms.values())
    ]
    right.set_ylim(0, 1.35 * max(every))
    right.legend(loc="upper left")
    for axis in (left, right):
        names = [f"step {e.step}\n{e.label}" for e in found]
        axis.set_xticks(at, names, fontsize=style.pt(style.SMALLEST_PT))
        axis.grid(axis="y")
    return figure


def publish(fast: Path, slow: Path, out: Path) -> pd.DataFrame:
    """Draw two runs into a folder (PNG, SVG and a CSV), and return the rows.

    Raises
    ------
    UsageError
        As ``effects`` and ``link``, and when a run's verdict is invalid.
    """
    runs = Run(fast), Run(slow)
    for run in runs:
        if run.verdict == "invalid":
            raise UsageError(f"{run.path}: its verdict is invalid", "harness report RUN says why")
    found = effects(*runs)
    out.mkdir(parents=True, exist_ok=True)
    with style.styled(style.STYLES["screen"]):
        style.save(draw(found, link(*runs)), out, NAME)
    rows = table(found)
    rows.to_csv(out / f"{NAME}.csv", index=False, float_format="%.4g", lineterminator="\n")
    return rows
