"""Measured values of each task in an observation: counts, service times, and counts by bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import ref

import numpy as np
import pandas as pd

from harness.errors import ModelDeclined
from harness.models.contract.layout import (
    FloatArray,
    IntArray,
    Layout,
    NodePair,
    Output,
    lay_out,
    node_pair,
    outputs,
)
from harness.plans import Stream
from harness.protocols import Observation
from harness.schemas import Metric, MetricField

_MEASUREMENTS = (Metric.RECEIVED, Metric.EMITTED, Metric.TRANSFERRED, Metric.SERVICE)

RoundTrips = Mapping[NodePair, FloatArray]
"""Every round trip that probes saw between two worker nodes, asked from either end: ms, ascending."""


def io_label(owner: str, stream: str) -> str:
    """Return an I/O ratio as a subject of measures: of an executor's label or a component's name.

    Examples
    --------
    >>> io_label("multiplier[17-20]", "default")
    'multiplier[17-20]:default'
    """
    return f"{owner}:{stream}"


@dataclass(frozen=True)
class Measured:
    """The measured interval by task; tasks ascend by identifier within a component.

    Attributes
    ----------
    layout : Layout
        The source plan.
    seconds : mapping of component to array (tasks)
        Time that the task's buckets cover.
    received_buckets : mapping of Stream to array (target's tasks, buckets)
        Tuples received. Tasks need not end their buckets together: a component's buckets are those of all
        of its tasks, and a task counts nothing in those of others.
    emitted_buckets : mapping of Output to array (component's tasks, buckets)
        Calls of emit, in the same buckets as the component's inputs.
    transferred : mapping of Stream to array (source's tasks, target's tasks)
        Tuples sent from task to task.
    service_count_buckets, service_ms_buckets : mapping of component to array (tasks, buckets)
        Tuples whose service was timed, and the sum of their wall-clock times; components with an input.
    round_trips : RoundTrips
        Empty where none were measured.
    """

    layout: Layout
    seconds: Mapping[str, FloatArray]
    received_buckets: Mapping[Stream, FloatArray]
    emitted_buckets: Mapping[Output, FloatArray]
    transferred: Mapping[Stream, FloatArray]
    service_count_buckets: Mapping[str, FloatArray]
    service_ms_buckets: Mapping[str, FloatArray]
    round_trips: RoundTrips = field(default_factory=dict)

    def received(self, stream: Stream) -> FloatArray:
        """Return the tuples that each task of the stream's target received."""
        return np.asarray(self.received_buckets[stream].sum(axis=1))

    def emitted(self, output: Output) -> FloatArray:
        """Return the calls of emit by each task of the component."""
        return np.asarray(self.emitted_buckets[output].sum(axis=1))

    def arrivals(self, component: str) -> FloatArray:
        """Return the tuples that each task of a component received on all of its inputs."""
        streams = self.layout.plan.query_plan.inputs(component)
        return np.asarray(np.stack([self.received(s) for s in streams]).sum(axis=0))

    def service_count(self, component: str) -> FloatArray:
        """Return how many tuples of each task had their service timed."""
        return np.asarray(self.service_count_buckets[component].sum(axis=1))

    def service_ms(self, component: str) -> FloatArray:
        """Return each task's mean service time by the wall clock; NaN where none was timed."""
        count = self.service_count(component)
        return np.asarray(self.service_ms_buckets[component].sum(axis=1) / np.where(count > 0, count, np.nan))


def observe(observation: Observation) -> Measured:
    """Read an observation's metrics.

    The observation read last is remembered: one source is asked for many plans, by several models.

    Raises
    ------
    ModelDeclined
        When a metric is missing, negative or not a number, when a task of the source plan has no
        observation, or when the metrics name a task that the plan lacks.
    """
    if _last and _last[0][0]() is observation:
        return _last[0][1]
    measured = measure(Rows(observation, lay_out(observation.plan)))
    _last[:] = [(ref(observation), measured)]
    return measured


_last: list[tuple[ref[Observation], Measured]] = []


def measure(rows: Rows) -> Measured:
    """Read an observation's metrics that were split before; see ``observe``."""
    layout = rows.layout
    plan = layout.plan.query_plan
    seconds: dict[str, FloatArray] = {}
    received: dict[Stream, FloatArray] = {}
    emitted: dict[Output, FloatArray] = {}
    transferred: dict[Stream, FloatArray] = {}
    service_count: dict[str, FloatArray] = {}
    service_ms: dict[str, FloatArray] = {}
    for name in layout.order:
        for stream in plan.inputs(name):
            mine = rows.of(Metric.RECEIVED, name, stream=stream.stream, peer=stream.source)
            rows.require_every_task(mine, f"received (from {stream.source}:{stream.stream})", name)
            received[stream] = rows.by_bucket(mine, name)
        for output in outputs(plan, name):
            mine = rows.of(Metric.EMITTED, name, stream=output.stream)
            rows.require_every_task(mine, f"emitted (on {output.stream})", name)
            emitted[output] = rows.by_bucket(mine, name)
        for stream in plan.outputs(name):
            transferred[stream] = rows.by_peer(
                rows.of(Metric.TRANSFERRED, name, stream=stream.stream), stream
            )
            if emitted[Output(name, stream.stream)].any() and not transferred[stream].any():
                raise ModelDeclined(
                    f"metric transferred of stream {stream.label} is missing from the source step"
                )
        if plan.inputs(name):
            service_count[name] = rows.by_bucket(rows.of(Metric.SERVICE, name), name)
            service_ms[name] = (
                rows.by_bucket(rows.of(Metric.SERVICE, name, field=MetricField.WALL_SUM_NS), name) / 1e6
            )
        seconds[name] = rows.seconds(name)
    return Measured(
        layout, seconds, received, emitted, transferred, service_count, service_ms, rows.round_trips
    )


class Rows:
    """The metrics of a plan's tasks, split by measurement, component and field, and checked.

    Raises
    ------
    ModelDeclined
        When there are none, or the interval has no length.
    """

    def __init__(self, observation: Observation, layout: Layout) -> None:
        if not (np.isfinite(observation.interval_s) and observation.interval_s > 0):
            raise ModelDeclined(f"the source step's interval is {observation.interval_s} s long")
        self.layout = layout
        self.interval_s = observation.interval_s
        metrics = observation.metrics
        used = metrics[metrics["measurement"].isin(_MEASUREMENTS) & metrics["component"].isin(layout.order)]
        if used.empty:
            raise ModelDeclined("the source step has no metrics of the topology's components")
        keys = ["measurement", "component", "field"]
        self.groups: dict[object, pd.DataFrame] = dict(iter(used.groupby(keys, observed=True, sort=False)))
        self.empty = used.iloc[:0]
        self.round_trips = round_trips(metrics)
        self.ends = {c: np.unique(g["bucket_end_ms"]) for c, g in used.groupby("component", observed=True)}

    def of(
        self,
        measurement: str,
        component: str,
        *,
        field: str = MetricField.COUNT,
        stream: str | None = None,
        peer: str | None = None,
    ) -> pd.DataFrame:
        """Return the rows of one field, all streams and peers unless they are named."""
        rows = self.groups.get((measurement, component, field), self.empty)
        if stream is not None:
            rows = rows[rows["stream"] == stream]
        if peer is not None:
            rows = rows[rows["peer"] == peer]
        require_counts(rows["value"].to_numpy(), f"{measurement}.{field} of {component}")
        return rows

    def at(self, tasks: IntArray, component: str) -> IntArray:
        """Positions of task identifiers within their component."""
        return positions(tasks, self.layout, component)

    def require_every_task(self, rows: pd.DataFrame, what: str, component: str) -> None:
        """Refuse rows that leave out a task of the component."""
        known = self.layout.tasks[component]
        seen = np.zeros(known.size, dtype=bool)
        seen[self.at(rows["task"].to_numpy(dtype=np.int64), component)] = True
        if not seen.any():
            raise ModelDeclined(f"metric {what} of {component} is missing from the source step")
        if not seen.all():
            task = int(known[~seen][0])
            executor = self.layout.plan.by_task[task]
            raise ModelDeclined(f"executor {executor.label} has no observation: {what} of task {task}")

    def seconds(self, component: str) -> FloatArray:
        """Time that each task's buckets cover: their number times their mean distance."""
        ends = self.ends.get(component, np.zeros(1, dtype=np.int64))
        seen = np.zeros((self.layout.tasks[component].size, ends.size), dtype=bool)
        for measurement in (Metric.RECEIVED, Metric.EMITTED):
            rows = self.groups.get((measurement, component, MetricField.COUNT), self.empty)
            at = self.at(rows["task"].to_numpy(dtype=np.int64), component)
            seen[at, np.searchsorted(ends, rows["bucket_end_ms"].to_numpy())] = True
        number = seen.sum(axis=1)
        span_s = (ends[::-1][seen[:, ::-1].argmax(axis=1)] - ends[seen.argmax(axis=1)]) / 1000
        return np.where(number > 1, span_s * number / np.maximum(number - 1, 1), self.interval_s)

    def by_bucket(self, rows: pd.DataFrame, component: str) -> FloatArray:
        """Values as an array (tasks, buckets); a bucket without a row counted nothing."""
        ends = self.ends.get(component, np.zeros(1, dtype=np.int64))
        at = self.at(rows["task"].to_numpy(dtype=np.int64), component)
        bucket = np.searchsorted(ends, rows["bucket_end_ms"].to_numpy())
        return added(at, bucket, rows["value"].to_numpy(), (self.layout.tasks[component].size, ends.size))

    def by_peer(self, rows: pd.DataFrame, stream: Stream) -> FloatArray:
        """Values as an array (source's tasks, target's tasks); rows to other subscribers are left out."""
        return np.asarray(self.by_peer_and(np.zeros(len(rows), dtype=np.int64), 1, rows, stream)[..., 0])

    def by_peer_and(self, group: IntArray, groups: int, rows: pd.DataFrame, stream: Stream) -> FloatArray:
        """Values as an array (source's tasks, target's tasks, groups), where each row has a group."""
        sources, targets = self.layout.tasks[stream.source], self.layout.tasks[stream.target]
        peer = numbers(rows["peer"])
        mine = np.isin(peer, targets)
        at = self.at(rows["task"].to_numpy(dtype=np.int64)[mine], stream.source)
        to = self.at(peer[mine].astype(np.int64), stream.target)
        flat = added(
            at,
            to * groups + group[mine],
            rows["value"].to_numpy()[mine],
            (sources.size, targets.size * groups),
        )
        return flat.reshape(sources.size, targets.size, groups)


def histogram(
    observation: Observation, layout: Layout, component: str, measurement: str, peer: str | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return a wrapper's histogram by task.

    Returns
    -------
    upper : array (bins)
        Upper bounds in ns, ascending; none where there is no histogram.
    count : array (tasks, bins)

    Raises
    ------
    ModelDeclined
        When a count is negative or not a number.
    """
    metrics = observation.metrics
    rows = metrics[(metrics["measurement"] == measurement) & (metrics["component"] == component)]
    if peer is not None:
        rows = rows[rows["peer"] == peer]
    require_counts(rows["value"].to_numpy(), f"{measurement} of {component}")
    upper, bins = np.unique(numbers(rows["field"]), return_inverse=True)
    at = positions(rows["task"].to_numpy(dtype=np.int64), layout, component)
    return upper, added(at, bins, rows["value"].to_numpy(), (layout.tasks[component].size, upper.size))


def round_trips(metrics: pd.DataFrame) -> RoundTrips:
    """Return the round trips in an interval's metrics; a packet that was lost has none.

    Raises
    ------
    ModelDeclined
        When one is negative or not a number.
    """
    mine = metrics[(metrics["measurement"] == Metric.ROUND_TRIP) & (metrics["field"] == MetricField.RTT_MS)]
    values = mine["value"].to_numpy(dtype=np.float64)
    require_counts(values, f"{Metric.ROUND_TRIP}.{MetricField.RTT_MS}")
    found: dict[NodePair, list[float]] = {}
    for one, other, ms in zip(mine["stream"], mine["peer"], values.tolist(), strict=True):
        found.setdefault(node_pair(one, other), []).append(ms)
    return {pair: np.sort(ms) for pair, ms in sorted(found.items())}


def positions(tasks: IntArray, layout: Layout, component: str) -> IntArray:
    """Return the positions of task identifiers among their component's.

    Raises
    ------
    ModelDeclined
        For a task that the component has not.
    """
    known = layout.tasks[component]
    at = np.minimum(np.searchsorted(known, tasks), known.size - 1)
    strange = tasks[known[at] != tasks]
    if strange.size:
        raise ModelDeclined(f"the metrics name task {strange[0]} of {component}; the source plan has none")
    return at.astype(np.int64)


def require_counts(values: FloatArray, what: str) -> None:
    """Refuse values that are negative or no numbers.

    Raises
    ------
    ModelDeclined
        Naming the metric and the value.
    """
    wrong = values[~(np.isfinite(values) & (values >= 0))]
    if wrong.size:
        raise ModelDeclined(f"metric {what} has the value {wrong[0]:g}")


def numbers(text: pd.Series[str]) -> FloatArray:
    """Read numbers that are kept as text; NaN for what is none."""
    kinds = pd.Categorical(text)
    values = pd.to_numeric(kinds.categories.to_series(), errors="coerce").to_numpy(dtype=np.float64)
    return np.asarray(np.append(values, np.nan)[kinds.codes])  # a missing text has the code -1


def added(row: IntArray, column: IntArray, value: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Return an array of that shape with the values added up at their rows and columns."""
    flat = np.bincount(row * shape[1] + column, weights=value, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.float64)
