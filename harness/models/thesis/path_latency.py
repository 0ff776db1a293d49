"""End-to-end latencies of a plan from the delays of its parts.

Thesis 4.13.5 and 5.7.2. The thesis enumerates every path; there are 16^3 and more. A mean over paths
weighted by the product of their routing probabilities is carried backwards along the edges instead, and so
is the longest path; both equal the enumeration. Percentiles over paths are carried as multisets, exact up to
a number of points and thinned beyond.

Mended: 5.7.2 weights a path by the sum of its routing probabilities; it has to be their product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, IntArray, Layout, Span

BoolArray = NDArray[np.bool_]

POINTS = 1024
"""Path latencies kept for a percentile; more are thinned to as many at equal ranks."""


@dataclass(frozen=True)
class Delays:
    """Delays that a tuple meets; positions as in the layout.

    Attributes
    ----------
    layout : Layout
        The proposed plan.
    inside_ms : array (executors)
        From arrival at the receive queue to the emit: queueing, service, window. 0 for spouts.
    send_ms : array (executors)
        Executor's send thread.
    hop_ms : array (executors, executors)
        From one executor's send thread to another's receive queue: worker's send thread and network.
    routing : array (executors, executors)
        Global routing probabilities without acks; a row sums to 1, or to 0 where nothing is sent on.
    emission : array (executors)
        Share of each spout executor in all messages; 0 for bolts.
    """

    layout: Layout
    inside_ms: FloatArray
    send_ms: FloatArray
    hop_ms: FloatArray
    routing: FloatArray
    emission: FloatArray

    @property
    def sinks(self) -> tuple[Span, ...]:
        """Positions of each sink component's executors."""
        return tuple(self.layout.of[name] for name in self.layout.plan.query_plan.sinks)

    def upstream(self) -> list[Span]:
        """Positions of the components that are no sinks, the last first."""
        sinks = self.layout.plan.query_plan.sinks
        return [self.layout.of[name] for name in reversed(self.layout.order) if name not in sinks]


def mean_by_end(delays: Delays, ends: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean ground-truth latency of the paths that end in each class of sink executors.

    From the spout's emit, its send thread included, to the end of the sink's execute.

    Parameters
    ----------
    ends : array (executors, classes)
        1 where paths that end at the executor belong to the class; zero rows for others.

    Returns
    -------
    probability, mean_ms : array (executors, classes)
        For paths that start at the executor; the mean is NaN where the probability is 0. For bolts, of the
        rest of the path, from arrival.
    """
    weight = np.zeros(ends.shape)
    total = np.zeros(ends.shape)  # weight times latency
    for at in delays.sinks:
        weight[at] = ends[at]
        total[at] = ends[at] * delays.inside_ms[at, None]
    for at in delays.upstream():
        routing, hop = delays.routing[at], delays.hop_ms[at]
        weight[at] = routing @ weight
        own = delays.inside_ms[at] + delays.send_ms[at]
        total[at] = routing @ total + (routing * hop) @ weight + own[:, None] * weight[at]
    return weight, np.divide(total, weight, out=np.full(ends.shape, np.nan), where=weight > 0)


def ground_truth_ms(delays: Delays) -> dict[str, float]:
    """Return the mean ground-truth latency over all paths (key empty) and by sink component.

    Raises
    ------
    ModelDeclined
        When no path from a spout reaches a sink.
    """
    plan = delays.layout.plan.query_plan
    ends = np.zeros((len(delays.layout), 1 + len(plan.sinks)))
    for number, at in enumerate(delays.sinks, start=1):
        ends[at, 0] = ends[at, number] = 1.0
    weight, mean = mean_by_end(delays, ends)
    weighted = delays.emission[:, None] * weight
    if not weighted[:, 0].sum() > 0:
        raise ModelDeclined("no path from a spout to a sink is expected to be taken")
    return {
        name: float(weighted[:, i] @ np.nan_to_num(mean[:, i]) / weighted[:, i].sum())
        for i, name in enumerate(("", *plan.sinks))
        if weighted[:, i].sum() > 0
    }


def same_node_ground_truth_ms(delays: Delays) -> float:
    """Return the mean over the paths that begin and end on one worker node (5.7.2).

    Raises
    ------
    ModelDeclined
        When there is none.
    """
    names = {n.name: i for i, n in enumerate(delays.layout.plan.nodes)}
    node = np.array([names[e.worker.node] for e in delays.layout.executors])
    ends = (node[:, None] == np.arange(len(names))).astype(np.float64)
    weight, mean = mean_by_end(delays, ends)
    row = np.arange(node.size)
    weighted = delays.emission * weight[row, node]
    if not weighted.sum() > 0:
        raise ModelDeclined("no path begins and ends on one worker node")
    return float(weighted @ np.nan_to_num(mean[row, node]) / weighted.sum())


def _require_ackers(layout: Layout) -> IntArray:
    ackers = np.arange(len(layout))[layout.ackers]
    if not ackers.size:
        raise ModelDeclined("the plan has no acker, so no complete latency")
    return ackers


def longest_complete_ms(delays: Delays) -> dict[str, float]:
    """Return the mean of the longest paths' complete latencies (4.13.5), by spout executor's label.

    Each spout executor has a longest path on each of its output streams, and the mean over its streams is
    given; the empty key is the mean over all. A path goes on from the sink to an acker. The init delay, from
    the spout to the same acker, is taken off the path: the acker's own delay is in both and falls out.

    Raises
    ------
    ModelDeclined
        When the plan has no acker, or no spout reaches a sink.
    """
    layout = delays.layout
    ackers = _require_ackers(layout)
    rest = np.full((len(layout), ackers.size), -np.inf)
    for at in delays.sinks:
        own = delays.inside_ms[at] + delays.send_ms[at]
        rest[at] = own[:, None] + delays.hop_ms[at][:, ackers]
    for at in delays.upstream():
        onward = _longest(delays, at, slice(None), rest)
        rest[at] = onward + (delays.inside_ms[at] + delays.send_ms[at])[:, None]
    found: dict[str, list[float]] = {}
    for name in layout.plan.query_plan.spouts:
        at = layout.of[name]
        init = delays.hop_ms[at][:, ackers]  # the spout's send thread is in the path and in the init delay
        streams: dict[str, list[Span]] = {}
        for stream in layout.plan.query_plan.outputs(name):
            streams.setdefault(stream.stream, []).append(layout.of[stream.target])
        for targets in streams.values():
            onward = np.maximum.reduce([_longest(delays, at, to, rest) for to in targets])
            for executor, value in zip(layout.executors[at], (onward - init).max(axis=1), strict=True):
                if np.isfinite(value):
                    found.setdefault(executor.label, []).append(float(value))
    if not found:
        raise ModelDeclined("no path from a spout to a sink is expected to be taken")
    everything = [value for values in found.values() for value in values]
    return {"": float(np.mean(everything))} | {k: float(np.mean(v)) for k, v in found.items()}


def _longest(delays: Delays, at: Span, to: Span, rest: FloatArray) -> FloatArray:
    """Return, for executors ``at`` and each acker, the longest way on through executors ``to``."""
    way = delays.hop_ms[at, to, None] + rest[None, to]
    return np.asarray(np.where(delays.routing[at, to, None] > 0, way, -np.inf).max(axis=1))


def percentile_complete_ms(delays: Delays, q: float) -> dict[str, float]:
    """Return a percentile of the complete latencies of all paths (5.7.2), by spout executor's label.

    Every path that can be taken counts once. The percentile is the least latency that at least the share
    ``q`` of the paths does not exceed. The empty key is the mean over the spout executors.

    Raises
    ------
    ModelDeclined
        When the plan has no acker, or no spout reaches a sink.
    """
    layout = delays.layout
    by_spout: dict[int, list[_Multiset]] = {}
    for acker in _require_ackers(layout):
        rest: dict[int, _Multiset] = {}
        for at in delays.sinks:
            for i in range(at.start, at.stop):
                value = delays.inside_ms[i] + delays.send_ms[i] + delays.hop_ms[i, acker]
                rest[i] = _Multiset(np.array([value]), np.ones(1))
        for at in delays.upstream():
            for i in range(at.start, at.stop):
                onward = [int(j) for j in np.flatnonzero(delays.routing[i] > 0)]
                ways = [
                    rest[j].shifted(delays.hop_ms[i, j] + delays.inside_ms[i]) for j in onward if j in rest
                ]
                if ways:
                    rest[i] = _merged(ways)
                    if delays.emission[i] > 0:
                        by_spout.setdefault(i, []).append(rest[i].shifted(-delays.hop_ms[i, acker]))
                    else:
                        rest[i] = rest[i].shifted(delays.send_ms[i])
    if not by_spout:
        raise ModelDeclined("no path from a spout to a sink is expected to be taken")
    found = {layout.executors[i].label: _merged(parts).percentile(q) for i, parts in by_spout.items()}
    return {"": float(np.mean(list(found.values())))} | found


@dataclass(frozen=True)
class _Multiset:
    """Values, and how often each occurs."""

    values: FloatArray
    counts: FloatArray

    def shifted(self, by: float) -> _Multiset:
        return _Multiset(self.values + by, self.counts)

    def percentile(self, q: float) -> float:
        order = np.argsort(self.values, kind="stable")
        below = np.cumsum(self.counts[order])
        at = np.searchsorted(below, q * below[-1] * (1 - 1e-12))
        return float(self.values[order][min(int(at), order.size - 1)])


def _merged(parts: list[_Multiset]) -> _Multiset:
    """Return the union, thinned to ``POINTS`` values at the middle of equal ranges of rank."""
    values = np.concatenate([p.values for p in parts])
    counts = np.concatenate([p.counts for p in parts])
    if values.size <= POINTS:
        return _Multiset(values, counts)
    order = np.argsort(values, kind="stable")
    below = np.cumsum(counts[order])
    ranks = (np.arange(POINTS) + 0.5) / POINTS * below[-1]
    chosen = values[order][np.searchsorted(below, ranks)]
    return _Multiset(chosen, np.full(POINTS, below[-1] / POINTS))
