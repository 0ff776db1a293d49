"""The source step's measured values as answers for the executors of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.errors import ModelDeclined
from harness.models.contract.answers import (
    answer,
    by_executor,
    declined,
    number,
    routing_estimates,
)
from harness.models.contract.layout import FloatArray, Layout, lay_out, outputs, require_same_topology
from harness.models.contract.observe import Measured, histogram, io_label, observe, require_counts
from harness.models.contract.routing import proportions
from harness.models.contract.service import executor_mean_ms
from harness.models.contract.thesis_protocol import same_node_mean_ms
from harness.plans import PhysicalPlan, Stream
from harness.protocols import Estimate, Observation, Prediction
from harness.schemas import PERCENTILES, Clock, Measure, Metric, MetricField


def measured_answers(source: Observation, proposed: PhysicalPlan) -> Prediction:
    """Answer with the source step's measured values.

    With the source plan itself as the proposed plan, the answer has the measured values of every subject.

    Parameters
    ----------
    source : Observation
        What was measured of the source plan.
    proposed : PhysicalPlan
        Of the same query plan; its executors are the subjects.
    """
    try:
        require_same_topology(source.plan, proposed)
        measured, layout = observe(source), lay_out(proposed)
    except ModelDeclined as why:
        return declined(proposed, why)
    return answer(
        proposed,
        [
            ((Measure.ROUTING,), lambda: routing_estimates(layout, _routing(measured, layout))),
            ((Measure.IO_RATIO,), lambda: _io_ratios(measured, layout)),
            ((Measure.ARRIVALS,), lambda: _arrivals(measured, layout)),
            ((Measure.SERVICE,), lambda: _service(source, measured, layout)),
            ((Measure.GROUND_TRUTH,), lambda: _ground_truth(source, measured)),
            ((Measure.COMPLETE,), lambda: _complete(source, measured, layout)),
            ((Measure.ACK,), lambda: _ack(source, layout)),
        ],
    )


def _bolts(layout: Layout) -> Iterator[tuple[str, FloatArray]]:
    for name in layout.order:
        if layout.plan.query_plan.inputs(name):
            yield name, layout.membership[name]


def _owners(layout: Layout, component: str) -> list[str]:
    return [*(e.label for e in layout.executors[layout.of[component]]), component]


def _with_whole(membership: FloatArray) -> FloatArray:
    """Add a row for the component as a whole, which holds every task."""
    return np.vstack([membership, np.ones(membership.shape[1])])


def _routing(measured: Measured, layout: Layout) -> Mapping[Stream, FloatArray]:
    return {
        s: proportions(layout.membership[s.source] @ sent @ layout.membership[s.target].T)
        for s, sent in measured.transferred.items()
    }


def _io_ratios(measured: Measured, layout: Layout) -> list[Estimate]:
    found = []
    for name, membership in _bolts(layout):
        received = _with_whole(membership) @ measured.arrivals(name)
        for output in outputs(layout.plan.query_plan, name):
            emitted = _with_whole(membership) @ measured.emitted(output)
            ratios = emitted / np.where(received > 0, received, np.nan)
            for owner, ratio in zip(_owners(layout, name), ratios, strict=True):
                subject = io_label(owner, output.stream)
                found.append(
                    number(Measure.IO_RATIO, subject, ratio, f"nothing arrived at the tasks of {owner}")
                )
    return found


def _arrivals(measured: Measured, layout: Layout) -> list[Estimate]:
    found = []
    for name, membership in _bolts(layout):
        rate = membership @ (measured.arrivals(name) / measured.seconds[name])
        executors = layout.executors[layout.of[name]]
        found += by_executor(Measure.ARRIVALS, executors, rate, name, float(rate.sum()), "")
    return found


def _service(source: Observation, measured: Measured, layout: Layout) -> list[Estimate]:
    """Return means from sums, and percentiles where there are histograms."""
    found = []
    for name, membership in _bolts(layout):
        rows = _with_whole(membership)
        means = executor_mean_ms(measured.service_count(name), measured.service_ms(name), rows)
        for owner, mean in zip(_owners(layout, name), means, strict=True):
            found.append(number(Measure.SERVICE, owner, mean, "no service of its tasks was timed"))
        upper, count = histogram(source, layout, name, Metric.SERVICE_HIST, Clock.WALL)
        found += _percentiles(Measure.SERVICE, _owners(layout, name), upper, rows @ count)
    return found


def _percentiles(measure: str, subjects: list[str], upper: FloatArray, counts: FloatArray) -> list[Estimate]:
    """Return p50, p90, p95 and p99 in ms of every subject whose histogram has something in it."""
    return [
        Estimate(measure, name, histogram_quantile(upper, count, q) / 1e6, subject)
        for subject, count in zip(subjects, counts, strict=True)
        if count.any()
        for name, q in PERCENTILES.items()
    ]


def _ground_truth(source: Observation, measured: Measured) -> list[Estimate]:
    latency = source.latency
    inside = np.zeros(0, dtype=bool) if latency.empty else latency["in_interval"].to_numpy(dtype=bool)
    if not inside.any():
        raise ModelDeclined("no message of the source step's interval reached a sink")
    values = latency["ground_truth_ms"].to_numpy(dtype=np.float64)[inside]
    if np.isnan(values).any():
        raise ModelDeclined("messages of the source step without ground truth (their ends share no clock)")
    if (values < 0).any():
        raise ModelDeclined(f"a ground-truth latency of the source step is negative ({values.min():g} ms)")
    sinks = pd.Categorical(latency["sink"][inside])
    by_subject = {"": values}
    by_subject |= {str(s): values[sinks.codes == i] for i, s in enumerate(sinks.categories)}
    found = []
    for subject, mine in by_subject.items():
        if mine.size:
            found.append(Estimate(Measure.GROUND_TRUTH, "mean", float(mine.mean()), subject))
            quantiles = np.quantile(mine, list(PERCENTILES.values()))
            for name, value in zip(PERCENTILES, quantiles, strict=True):
                found.append(Estimate(Measure.GROUND_TRUTH, name, float(value), subject))
    try:
        cut_ms = _complete_by_task(source, measured).mean_ms
        value = same_node_mean_ms(latency, source.plan, cut_ms)
        return [*found, Estimate(Measure.GROUND_TRUTH, "mean_same_node", value)]
    except ModelDeclined as why:
        return [
            *found,
            Estimate(Measure.GROUND_TRUTH, "mean_same_node", None, status="declined", reason=str(why)),
        ]


@dataclass(frozen=True)
class _Complete:
    """Storm's complete latency by spout task (its executor's), and the tuples that weigh it."""

    latency_ms: Mapping[str, FloatArray]
    emitted: Mapping[str, FloatArray]

    @property
    def mean_ms(self) -> float:
        sums = [
            (float(n.sum()), float(n @ np.nan_to_num(self.latency_ms[c]))) for c, n in self.emitted.items()
        ]
        return sum(s for _, s in sums) / sum(n for n, _ in sums)


def _complete_by_task(source: Observation, measured: Measured) -> _Complete:
    known = source.complete_latency_ms
    if not known:
        raise ModelDeclined("Storm's complete latency of the source step is missing")
    require_counts(np.array(list(known.values())), "complete latency of the spouts")
    latency: dict[str, FloatArray] = {}
    emitted: dict[str, FloatArray] = {}
    layout = measured.layout
    for name in layout.plan.query_plan.spouts:
        emits = [measured.emitted(o) for o in outputs(layout.plan.query_plan, name)]
        if emits:
            by_executor_ms = np.array([known.get(e.label, np.nan) for e in layout.executors[layout.of[name]]])
            latency[name] = by_executor_ms[layout.membership[name].argmax(axis=0)]
            emitted[name] = np.where(np.isnan(latency[name]), 0.0, np.stack(emits).sum(axis=0))
    if not sum(float(n.sum()) for n in emitted.values()) > 0:
        raise ModelDeclined("no spout executor of the source plan has a complete latency")
    return _Complete(latency, emitted)


def _complete(source: Observation, measured: Measured, layout: Layout) -> list[Estimate]:
    """Return Storm's own complete latency, given to the tasks and gathered again by their emits.

    The thesis's protocol compares the same value under the statistic ``p90_paths``, and takes the plain
    mean over the spout executors for the whole (5.7.2).
    """
    by_task = _complete_by_task(source, measured)
    found = [
        Estimate(Measure.COMPLETE, "mean", by_task.mean_ms),
        Estimate(Measure.COMPLETE, "p90_paths", float(np.mean(list(source.complete_latency_ms.values())))),
    ]
    for name, emitted in by_task.emitted.items():
        values = executor_mean_ms(emitted, by_task.latency_ms[name], layout.membership[name])
        for e, value in zip(layout.executors[layout.of[name]], values, strict=True):
            unknown = "nothing that its tasks emitted was acked"
            found += [number(Measure.COMPLETE, e.label, value, unknown, s) for s in ("mean", "p90_paths")]
    return found


def _ack(source: Observation, layout: Layout) -> list[Estimate]:
    """Return emit-to-ack times by spout executor and over all spouts."""
    metrics = source.metrics
    found: list[Estimate] = []
    whole: dict[float, float] = {}
    count_total, sum_total = 0.0, 0.0
    for name in layout.plan.query_plan.spouts:
        rows = metrics[(metrics["measurement"] == Metric.ACK) & (metrics["component"] == name)]
        require_counts(rows["value"].to_numpy(), f"ack of {name}")
        table = rows.pivot_table(index="task", columns="field", values="value", aggfunc="sum", observed=True)
        if MetricField.COUNT not in table or MetricField.SUM_NS not in table:
            raise ModelDeclined(f"metric ack of {name} is missing from the source step")
        at = table.reindex(layout.tasks[name]).fillna(0.0)
        count, sum_ms = at[MetricField.COUNT].to_numpy(), at[MetricField.SUM_NS].to_numpy() / 1e6
        count_total, sum_total = count_total + float(count.sum()), sum_total + float(sum_ms.sum())
        membership = layout.membership[name]
        acked = membership @ count
        means = membership @ sum_ms / np.where(acked > 0, acked, np.nan)
        labels = [e.label for e in layout.executors[layout.of[name]]]
        for label, mean in zip(labels, means, strict=True):
            found.append(number(Measure.ACK, label, mean, "nothing that its tasks emitted was acked"))
        upper, bins = histogram(source, layout, name, Metric.ACK_HIST)
        found += _percentiles(Measure.ACK, labels, upper, membership @ bins)
        for bound, many in zip(upper, bins.sum(axis=0), strict=True):
            whole[float(bound)] = whole.get(float(bound), 0.0) + float(many)
    if not count_total > 0:
        raise ModelDeclined("no tuple was acked in the source step")
    upper = np.array(sorted(whole))
    counts = np.array([[whole[u] for u in upper]])
    return [
        Estimate(Measure.ACK, "mean", sum_total / count_total),
        *_percentiles(Measure.ACK, [""], upper, counts),
        *found,
    ]


def histogram_quantile(upper: FloatArray, count: FloatArray, q: float) -> float:
    """Return a quantile of a wrapper's histogram, straight between the ends of the bin it falls into.

    Parameters
    ----------
    upper : array (bins)
        Upper bounds, ascending, in ns: below 32 every whole number, above 16 bins of equal width an octave.
    count : array (bins)
        Durations in each, not all 0.
    q : float
        Between 0 and 1.

    Examples
    --------
    >>> histogram_quantile(np.array([1024.0, 1088.0]), np.array([1.0, 1.0]), 0.5)
    1024.0
    """
    used = np.flatnonzero(count)
    below = np.cumsum(count[used])
    target = q * below[-1]
    i = int(np.searchsorted(below, target))
    bound = float(upper[used[i]])
    width = 1.0 if bound <= 32 else float(2.0 ** (np.frexp(bound - 1)[1] - 5))
    return bound - width * float((below[i] - target) / count[used[i]])
