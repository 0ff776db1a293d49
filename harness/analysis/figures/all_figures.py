"""The figures: a list with each one's counterpart in the thesis and the function that draws it.

Every figure is a function from a run's small tables to a matplotlib figure. ``harness figures`` draws all of
them, the report those marked ``in_report``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from harness.analysis.figures import measured_figures as measured
from harness.analysis.figures import model_figures as models
from harness.analysis.figures import parameter_figures as parameters
from harness.analysis.figures import (
    period_figures,
    relief_figure,
    scheduler_figures,
    stage_figures,
    style,
    timeline_figure,
)
from harness.analysis.figures.error_figures import error_matrix
from harness.analysis.judge.arithmetic import THESIS_STATISTICS
from harness.analysis.judge.results import Results
from harness.errors import UsageError
from harness.schemas import Measure

Drawing = Figure
"""A drawn figure, for modules that know no plotting library."""


@dataclass(frozen=True)
class FigureKind:
    """One figure of the registry.

    Attributes
    ----------
    name : str
        The file's name, and what ``--only`` takes.
    thesis : str
        Numbers of its counterparts in the thesis; empty where there is none.
    caption : str
        What it shows, in sentences.
    draw : callable
        From a run's results to the figure.
    drawable : callable
        Whether a run has what the figure needs.
    in_report : bool
        Whether the report shows it too.
    """

    name: str
    thesis: str
    caption: str
    draw: Callable[[Results], Figure]
    drawable: Callable[[Results], bool]
    in_report: bool = False

    @property
    def full_caption(self) -> str:
        """The caption with the thesis's numbers."""
        return self.caption + (f" Counterpart of the thesis's {self.thesis}." if self.thesis else "")


_LATENCY_MATRICES = "5.24, 5.28, 5.32, 5.36, 5.40 and 5.44"
_COMPLETE_MATRICES = "5.29, 5.30, 5.33, 5.37, 5.41 and 5.45"
_VIOLINS = "5.23, 5.27, 5.31, 5.35, 5.39 and 5.43"
_COMPARISONS = "5.34, 5.38, 5.42 and 5.46"


def _base(measure: str) -> str:
    return measure.removesuffix("_ms").removesuffix("_tps").replace("_", "-")


def _judged(measure: str, statistic: str, protocol: str, data: Results) -> bool:
    return bool((data.cells(measure, statistic, protocol)["judged"] > 0).any())


def _matrix(
    measure: str, statistic: str, protocol: str = "ours", signed: bool = True, thesis: str = ""
) -> FigureKind:
    parts = ["error-matrix", _base(measure)]
    parts += [statistic] if protocol == "ours" and statistic != "mean" else []
    parts += [] if protocol == "ours" else [protocol]
    parts += [] if signed else ["absolute"]
    theirs: Mapping[str, str] = {
        Measure.GROUND_TRUTH: "paths within one node, cut at the complete latency",
        Measure.COMPLETE: "Storm's value against the model's 90th percentile over paths, or its mean where it"
        " lists no paths",
    }
    how = (
        f"under the thesis's protocol: {theirs[measure]}"
        if protocol == "thesis"
        else "all messages, none cut"
    )
    named = (
        f"{'' if statistic in THESIS_STATISTICS.values() else statistic + ' '}{style.measure_name(measure)}"
    )
    kind = "Signed" if signed else "Absolute"
    caption = (
        f"{kind} relative error of the {named} of every source (down) to proposed (across) pair, {how}."
        " Framed cells predict a step from its own measurements; a ring marks errors within the noise floor."
    )
    return FigureKind(
        name="-".join(parts),
        thesis=thesis,
        caption=caption,
        draw=lambda data: error_matrix(data, measure, statistic, protocol, signed),
        drawable=partial(_judged, measure, statistic, protocol),
        in_report=signed
        and protocol == "ours"
        and statistic == "mean"
        and measure in (Measure.GROUND_TRUTH, Measure.COMPLETE),
    )


def _parameter(measure: str, thesis: str, signed: bool = False) -> FigureKind:
    return FigureKind(
        name=f"{_base(measure)}-error" + ("-signed" if signed else ""),
        thesis=thesis,
        caption=(
            f"Median {'relative' if signed else 'absolute'} error of the predicted"
            f" {style.measure_name(measure)} over the executors (or connections) of each proposed step, for"
            " every source step."
        ),
        draw=lambda data: parameters.pair_errors(data, measure, signed),
        drawable=partial(_judged, measure, "mean", "ours"),
    )


def _has_latencies(data: Results) -> bool:
    return any(len(measured.values(data, s)[0]) for s in data.steps)


def _has_stages(data: Results) -> bool:
    return bool((data.stages["bin"] >= 0).any())


REGISTRY: tuple[FigureKind, ...] = (
    _parameter(Measure.ROUTING, "5.10"),
    _parameter(Measure.IO_RATIO, "5.11, 5.12 and 5.13"),
    _parameter(Measure.ARRIVALS, "5.14 and 5.15"),
    _parameter(Measure.SERVICE, "5.16 and 5.25"),
    _parameter(Measure.SERVICE, "5.17", signed=True),
    FigureKind(
        "service-error-effect",
        "5.18",
        "Error of the mean ground-truth latency against the median error of the service times, by pair. The"
        " thesis simulates a queue with wrong service times; here both errors are measured.",
        parameters.service_error_effect,
        parameters.has_service_effect,
    ),
    FigureKind(
        "queue-waits",
        "5.19 and 5.20",
        "Time between the emit upstream and the receipt by a component, from the hop records: transfer and"
        " queueing. Marks: its mean by how far the tuple went. Below: the mean number of tuples on the way to"
        " one executor or waiting for it (Little's law). Storm 2.x passes no lists of tuples, so their sizes,"
        " which the thesis predicts, have no counterpart but this.",
        stage_figures.queue_waits,
        _has_stages,
    ),
    FigureKind(
        "latency-tail",
        "5.21 and 5.22",
        "Ground-truth latencies of the step with the longest tail: all of them (note the logarithmic counts),"
        " and those up to the step's mean complete latency, where the thesis cuts.",
        measured.latency_tail,
        _has_latencies,
    ),
    FigureKind(
        "latency-by-step",
        _VIOLINS,
        "Ground-truth latency of every step. Left halves: all messages. Right halves, hatched: without"
        " the tail that the thesis removes (above the mean complete latency).",
        measured.latency_by_step,
        _has_latencies,
        in_report=True,
    ),
    _matrix(Measure.GROUND_TRUTH, "mean", thesis=_LATENCY_MATRICES),
    _matrix(Measure.GROUND_TRUTH, "mean", signed=False),
    _matrix(Measure.GROUND_TRUTH, "mean_same_node", "thesis", thesis=_LATENCY_MATRICES),
    _matrix(Measure.GROUND_TRUTH, "p99"),
    FigureKind(
        "own-measurements",
        "5.26",
        "Error of predicting each step's mean ground truth from its own measurements; grey: noise floor"
        " (2σ). What is left here is the model's own error, without that of carrying parameters to"
        " another plan.",
        parameters.own_measurements,
        partial(_judged, Measure.GROUND_TRUTH, "mean", "ours"),
    ),
    _matrix(Measure.COMPLETE, "mean"),
    _matrix(Measure.COMPLETE, "p90_paths", "thesis", signed=False, thesis=_COMPLETE_MATRICES),
    _matrix(Measure.ACK, "mean"),
    FigureKind(
        "ground-truth-and-complete",
        _COMPARISONS,
        "Ground-truth latency beside Storm's complete latency. A complete latency below the ground truth, or"
        " far above it, is a property of the measure (thesis 5.7.3) and no error. Storm 2.x gives one"
        " complete latency for each spout executor and interval, where the thesis has a distribution.",
        measured.ground_truth_and_complete,
        _has_latencies,
        in_report=True,
    ),
    _matrix(Measure.ARRIVALS, "mean", signed=False),
    _matrix(Measure.SERVICE, "mean", signed=False),
    _matrix(Measure.WORKER_CPU, "mean", signed=False),
    FigureKind(
        "measured-and-predicted",
        "",
        "Predicted against measured means, off-diagonal pairs. Horizontal bars: the measurement's noise;"
        " vertical bars: the model's interval, where it gives one.",
        models.measured_and_predicted,
        models.has_latencies,
        in_report=True,
    ),
    FigureKind(
        "predicted-distribution",
        "",
        "Measured distribution of every step (line) and the 50th, 90th, 95th and 99th percentile that models"
        " predict for it from each other step (points; bars: the model's interval).",
        models.predicted_distribution,
        models.has_percentiles,
        in_report=True,
    ),
    FigureKind(
        "error-by-distance",
        "",
        "Error against the distance of source and proposed plan, in doublings of executors, workers and rate."
        " Points: pairs; lines: medians; grey: median noise floor (2σ).",
        models.error_by_distance,
        models.has_pairs,
    ),
    FigureKind(
        "leaderboard",
        "",
        "Median error of each model over the off-diagonal pairs, with 95 % intervals from resampled steps (no"
        " interval where a run has fewer than three).",
        lambda data: models.leaderboard([data]),
        models.has_pairs,
        in_report=True,
    ),
    FigureKind(
        "stages-by-step",
        "",
        "What the mean ground-truth latency of every step is made of, from the hop records.",
        stage_figures.stages_by_step,
        _has_stages,
        in_report=True,
    ),
    FigureKind(
        "timeline",
        "",
        "Every step from its rebalance to its end: rate and latencies, the burn-in that was found and the"
        " measured interval. Rate and emit-to-ack latency are from the metrics, which reach through the"
        " burn-in in archived runs too.",
        timeline_figure.timeline,
        lambda data: bool(len(data.timeline) or len(data.pace)),
        in_report=True,
    ),
    FigureKind(
        "latency-by-scheduler",
        "",
        "Ground-truth latency over time by who placed the executors, where counts and rate are the same. Each"
        " point is the mean of ten messages. Shaded: a step that adapts has asked for another plan, and waits"
        " for it. Counterpart of slides 43 to 49 of Aniello, Baldoni and Querzoni.",
        scheduler_figures.latency_by_scheduler,
        scheduler_figures.has_latency_points,
        in_report=True,
    ),
    FigureKind(
        "traffic-by-scheduler",
        "",
        "Tuples a second that left their worker node, over time, in the same steps: counted by the tasks that"
        " sent them, acks left out. Shaded: as above.",
        scheduler_figures.traffic_by_scheduler,
        scheduler_figures.has_traffic_points,
        in_report=True,
    ),
    FigureKind(
        "adaptation-by-period",
        "",
        "Steps that adapt, by period, all measured: the share of traffic within nodes, load distance and load"
        " index (100 % is the first period) of the plan in force, and the key groups, or else executors, that"
        " the period's decision moved. Counterpart of figures 1 to 3 of Madsen, Zhou and Cao.",
        period_figures.draw_of_run,
        period_figures.has_periods,
        in_report=True,
    ),
    FigureKind(
        "relief-over-time",
        "",
        "Steps whose bolts may help or whose spouts may pause: messages acked since the interval began, share"
        " of each metric bucket in which the spouts paused, and tuples that helpers served since then,"
        " which passed by the helped bolt. Counterpart of figures 5 (a), 5 (b) and 6 of Liu, Yu and Wang.",
        relief_figure.relief_over_time,
        relief_figure.has_relief,
        in_report=True,
    ),
)
BY_NAME = {kind.name: kind for kind in REGISTRY}


def chosen(only: Sequence[str]) -> list[FigureKind]:
    """Return the figures of those names, or all of them when none is given.

    Raises
    ------
    UsageError
        A name that no figure has.
    """
    for name in only:
        if name not in BY_NAME:
            raise UsageError(f"there is no figure {name!r}", f"use some of {', '.join(BY_NAME)}")
    return [kind for kind in REGISTRY if not only or kind.name in only]


def draw(data: Results, folder: Path, kinds: Sequence[FigureKind]) -> Iterator[FigureKind]:
    """Draw figures into a folder, in the style in force; yield those that the run has data for."""
    folder.mkdir(parents=True, exist_ok=True)
    with style.styled():
        for kind in kinds:
            if kind.drawable(data):
                style.save(kind.draw(data), folder, kind.name)
                yield kind
