"""Caladrius's model: rates are lines of the input rate that bend where the first executor is saturated.

Kalim et al. 2019 and appendix D of the thesis. An executor whose inputs come at t tuples a second emits
``alpha min(t, SP)``, SP being its saturation point. A component's executors share its input, so the one with
the largest share bends the component's line first. Along the way from the spouts lines are composed, and the
topology bends at the least of the components' bends, as back-pressure then holds the spouts back:

    t0' = min over components of SP_c / (product of the alphas before it)

CPU grows in proportion to the input, up to the bend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import ModelDeclined
from harness.models.baselines.proportionality import (
    bolts,
    executor_shares,
    io_ratios,
    median_service_ms,
    no_latency,
    routing,
    untimed,
)
from harness.models.contract.answers import answer, by_executor, declined, number, observe_for
from harness.models.contract.layout import FloatArray, Layout, outputs
from harness.models.contract.observe import Measured, Rows, require_counts
from harness.plans import PhysicalPlan
from harness.protocols import Estimate, Observation, Prediction, Settings
from harness.schemas import Measure, Metric, MetricField

NOTES = """\
Caladrius (appendix D of the thesis; Kalim et al. 2019), which predicts throughput, CPU and back-pressure on
Heron. A component's arrival rate grows with the input rate; an executor gets an equal part of it or, where
the component's executors hold the same tasks as in the source plan, its measured part, since Caladrius takes
the routing of a running topology as measured (D.3.2). I/O ratios: mean of the tasks' least squares, the same
for all executors of a component. Service time: the median over the tasks' metric buckets (D.3.3), unchanged;
its inverse is an executor's saturation point, which Caladrius reads from a run in back-pressure. At the input
rate at which the first executor reaches that point every rate bends and stays: that is the highest
sustainable rate, and back-pressure is foreseen above it. Where a service time is missing no bend is known,
and rates are lines. CPU of a worker, in proportion to its executors' tuples: each component's measured CPU
time of a tuple, and an equal part for each tuple of what the source's processes used beside. Heron's
instances are processes of their own, whose CPU is read directly.
Latency: Caladrius predicts none, so ground-truth, complete and ack latency are declined."""


def caladrius(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
    """Scale the source step's rates with the input rate, up to the first saturation point.

    Parameters
    ----------
    source : Observation
        What was measured of the source plan.
    proposed : PhysicalPlan
        Of the same query plan.
    settings : Settings
        Not used.
    rate_tps : float
        Messages a second in the proposed step.

    Returns
    -------
    Prediction
        Every measure, or a named gap; loads, throughput, highest sustainable rate and workers' CPU beside.
    """
    del settings
    try:
        measured, layout = observe_for(source, proposed, rate_tps)
    except ModelDeclined as why:
        return declined(proposed, why)
    lines = rate_lines(measured, layout, source.rate_tps)
    return answer(
        proposed,
        [
            ((Measure.ROUTING,), lambda: routing(measured, layout)),
            ((Measure.IO_RATIO,), lambda: io_ratios(measured, layout)),
            ((Measure.ARRIVALS,), lambda: _arrivals(lines, layout, rate_tps)),
            ((Measure.SERVICE,), lambda: _service(lines, layout)),
            ((Measure.GROUND_TRUTH, Measure.COMPLETE, Measure.ACK), no_latency),
            ((), lambda: _capacity(lines, layout, rate_tps)),
            ((), lambda: _worker_cpu(source, measured, lines, layout, rate_tps)),
        ],
    )


@dataclass(frozen=True, eq=False)
class RateLine:
    """A component's rates as lines of the input rate, an executor each.

    Attributes
    ----------
    slope : ndarray, shape (executors,)
        Tuples that arrive for each message that goes into the topology.
    service_ms : float
        Service time; NaN where none was timed.

    Examples
    --------
    Two executors, one with three quarters of 2 tuples a message; 10 ms a tuple are 100 tuples a second:

    >>> line = RateLine(np.array([1.5, 0.5]), service_ms=10.0)
    >>> round(line.bend_tps, 3)
    66.667
    """

    slope: FloatArray
    service_ms: float

    @property
    def bend_tps(self) -> float:
        """Input rate at which the executor with the largest share is saturated; NaN where it is not known."""
        steepest = float(self.slope.max(initial=0.0))
        return 1000 / (self.service_ms * steepest) if steepest > 0 else np.inf

    def loads(self, rate_tps: float) -> FloatArray:
        """Return the share of time that each executor needs for what an input rate brings."""
        return np.asarray(np.where(self.slope > 0, self.slope * rate_tps * self.service_ms / 1000, 0.0))


def rate_lines(measured: Measured, proposed: Layout, source_rate_tps: float) -> Mapping[str, RateLine]:
    """Return the lines of all bolts, downstream."""
    lines = {}
    for name in bolts(proposed):
        by_task = measured.arrivals(name) / measured.seconds[name]
        slope = float(by_task.sum()) / source_rate_tps * executor_shares(measured, proposed, name, by_task)
        lines[name] = RateLine(np.asarray(slope), median_service_ms(measured, name))
    return lines


def first_bend(lines: Mapping[str, RateLine]) -> tuple[float, str]:
    """Return the input rate at which the topology bends, and the component that does it.

    The rate is NaN where a component's is not known, and infinite where nothing arrives anywhere.
    """
    bends = {name: line.bend_tps for name, line in lines.items()}
    unknown = [name for name, bend_tps in bends.items() if np.isnan(bend_tps)]
    first = unknown[0] if unknown else min(bends, key=lambda name: bends[name])
    return bends[first], first


def _bent(rate_tps: float, lines: Mapping[str, RateLine]) -> float:
    """Return the input rate that goes through."""
    bend_tps, _ = first_bend(lines)
    return rate_tps if np.isnan(bend_tps) else min(rate_tps, bend_tps)


def _by_executor(
    measure: str, name: str, layout: Layout, values: FloatArray, whole: float, unknown: str
) -> list[Estimate]:
    return by_executor(measure, layout.executors[layout.of[name]], values, name, whole, unknown)


def _service(lines: Mapping[str, RateLine], layout: Layout) -> list[Estimate]:
    estimates = []
    for name, line in lines.items():
        values = np.full(len(line.slope), line.service_ms)
        estimates += _by_executor(Measure.SERVICE, name, layout, values, line.service_ms, untimed(name))
    return estimates


def _arrivals(lines: Mapping[str, RateLine], layout: Layout, rate_tps: float) -> list[Estimate]:
    through_tps = _bent(rate_tps, lines)
    estimates = []
    for name, line in lines.items():
        rate = line.slope * through_tps
        estimates += _by_executor(Measure.ARRIVALS, name, layout, rate, float(rate.sum()), "")
    return estimates


def _capacity(lines: Mapping[str, RateLine], layout: Layout, rate_tps: float) -> list[Estimate]:
    """Return loads, and what goes through at most and at the rate asked."""
    estimates = []
    for name, line in lines.items():
        loads = line.loads(rate_tps)
        estimates += _by_executor(
            Measure.UTILISATION, name, layout, loads, float(loads.mean()), untimed(name)
        )
    bend_tps, component = first_bend(lines)
    if np.isinf(bend_tps):
        return estimates
    through_tps = min(rate_tps, bend_tps)  # NaN where the bend is
    estimates.append(number(Measure.SUSTAINABLE, "", bend_tps, untimed(component)))
    estimates.append(
        number(Measure.THROUGHPUT, "", through_tps if bend_tps > 0 else bend_tps, untimed(component))
    )
    return estimates


def _worker_cpu(
    source: Observation,
    measured: Measured,
    lines: Mapping[str, RateLine],
    layout: Layout,
    rate_tps: float,
) -> list[Estimate]:
    """Return the CPU of each worker process: its executors' tuples times the CPU of each."""
    workers = layout.worker_labels
    try:
        tuple_ms, beside_ms = tuple_cpu_ms(source, measured)
    except ModelDeclined as why:
        return [number(Measure.WORKER_CPU, label, np.nan, str(why)) for label in workers]
    through_tps = _bent(rate_tps, lines)
    cores = np.zeros(len(workers))
    for name in layout.order:
        if name in lines:
            rates = lines[name].slope * through_tps
        else:
            by_task = _emitted_tps(measured, name)
            rates = (
                by_task.sum()
                * through_tps
                / source.rate_tps
                * executor_shares(measured, layout, name, by_task)
            )
        cpu = rates * (tuple_ms.get(name, 0.0) + beside_ms) / 1000
        cores += np.bincount(layout.worker[layout.of[name]], weights=cpu, minlength=len(workers))
    return [
        Estimate(Measure.WORKER_CPU, "mean", float(c), label) for label, c in zip(workers, cores, strict=True)
    ]


def _emitted_tps(measured: Measured, spout: str) -> FloatArray:
    """Return how many tuples a second each task of a spout emits on all streams."""
    emits = [measured.emitted(out) for out in outputs(measured.layout.plan.query_plan, spout)]
    return np.asarray(np.sum(emits, axis=0) / measured.seconds[spout])


def tuple_cpu_ms(source: Observation, measured: Measured) -> tuple[Mapping[str, float], float]:
    """Return the CPU time of a tuple by component, and what each tuple costs its process beside that.

    The second is the processes' CPU less that of all executes, over all tuples that bolts received and spouts
    emitted.

    Raises
    ------
    ModelDeclined
        When the CPU of a component with arrivals, or of the processes, was not measured.
    """
    rows = Rows(source, measured.layout)
    tuple_ms: dict[str, float] = {}
    executes_cores, tuples_tps = 0.0, 0.0
    for name in measured.layout.order:
        if not measured.layout.plan.query_plan.inputs(name):
            tuples_tps += float(_emitted_tps(measured, name).sum())
            continue
        arrivals_tps = float((measured.arrivals(name) / measured.seconds[name]).sum())
        read = float(rows.of(Metric.SERVICE, name, field=MetricField.CPU_COUNT)["value"].sum())
        cpu_ns = float(rows.of(Metric.SERVICE, name, field=MetricField.CPU_SUM_NS)["value"].sum())
        if arrivals_tps > 0 and not read > 0:
            field = f"{Metric.SERVICE}.{MetricField.CPU_SUM_NS}"
            raise ModelDeclined(f"metric {field} of {name} is missing from the source step")
        tuple_ms[name] = cpu_ns / 1e6 / read if read > 0 else 0.0
        executes_cores += tuple_ms[name] * arrivals_tps / 1000
        tuples_tps += arrivals_tps
    beside_cores = max(0.0, _process_cores(source) - executes_cores)
    return tuple_ms, 1000 * beside_cores / tuples_tps if tuples_tps > 0 else 0.0


def _process_cores(source: Observation) -> float:
    """Return how many cores the source's worker processes used, all together."""
    metrics = source.metrics
    mine = metrics[(metrics["measurement"] == Metric.WORKER) & (metrics["field"] == MetricField.CPU_NS)]
    field = f"{Metric.WORKER}.{MetricField.CPU_NS}"
    require_counts(mine["value"].to_numpy(), field)
    cores = 0.0
    for _, of_worker in mine.groupby("worker", observed=True):
        ends = np.unique(of_worker["bucket_end_ms"].to_numpy())
        if len(ends) > 1:
            covered_ms = float(np.median(np.diff(ends))) * len(ends)
            cores += float(of_worker["value"].sum()) / 1e6 / covered_ms
    if not cores > 0:
        raise ModelDeclined(f"metric {field} is missing from the source step")
    return cores
