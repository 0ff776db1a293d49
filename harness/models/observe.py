"""What an observation says of each task: counts, service times, and counts by bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.errors import ModelDeclined
from harness.models.layout import FloatArray, IntArray, Layout, Output, lay_out, outputs
from harness.plans import Stream
from harness.protocols import Observation

_FIELDS = {
    "received": ("count",),
    "emitted": ("count",),
    "transferred": ("count",),
    "service": ("count", "wall_sum_ns"),
}


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
    """Totals over the measured interval by task; tasks ascend by identifier within a component.

    Attributes
    ----------
    layout : Layout
        The source plan.
    interval_s : float
        Length of the interval.
    received : mapping of Stream to array (target's tasks)
        Tuples received.
    emitted : mapping of Output to array (component's tasks)
        Calls of emit.
    transferred : mapping of Stream to array (source's tasks, target's tasks)
        Tuples sent from task to task.
    received_buckets, emitted_buckets : mapping to array (tasks, buckets)
        The same counts by metric bucket; all have the same buckets.
    service_count : mapping of component to array (tasks)
        Tuples whose service was timed; components with an input only.
    service_ms : mapping of component to array (tasks)
        Their mean service time by the wall clock; NaN where none was timed.
    """

    layout: Layout
    interval_s: float
    received: Mapping[Stream, FloatArray]
    emitted: Mapping[Output, FloatArray]
    transferred: Mapping[Stream, FloatArray]
    received_buckets: Mapping[Stream, FloatArray]
    emitted_buckets: Mapping[Output, FloatArray]
    service_count: Mapping[str, FloatArray]
    service_ms: Mapping[str, FloatArray]

    def arrivals(self, component: str) -> FloatArray:
        """Tuples received by each task of a component, over all of its inputs."""
        streams = self.layout.plan.query_plan.inputs(component)
        return np.sum([self.received[s] for s in streams], axis=0)


def observe(observation: Observation) -> Measured:
    """Read an observation's metrics.

    Raises
    ------
    ModelDeclined
        When a metric is missing, negative or not a number, when a task of the source plan has no
        observation, or when the metrics name a task that the plan lacks.
    """
    if not (np.isfinite(observation.interval_s) and observation.interval_s > 0):
        raise ModelDeclined(f"the source step's interval is {observation.interval_s} s long")
    layout = lay_out(observation.plan)
    plan = observation.plan.query_plan
    rows = _Rows(observation.metrics, layout)
    received_buckets: dict[Stream, FloatArray] = {}
    emitted_buckets: dict[Output, FloatArray] = {}
    transferred: dict[Stream, FloatArray] = {}
    service_count: dict[str, FloatArray] = {}
    service_ms: dict[str, FloatArray] = {}
    for name in layout.order:
        for stream in plan.inputs(name):
            mine = rows.of("received", name, stream=stream.stream, peer=stream.source)
            rows.require_every_task(mine, f"received (from {stream.source}:{stream.stream})", name)
            received_buckets[stream] = rows.by_bucket(mine, name)
        for output in outputs(plan, name):
            mine = rows.of("emitted", name, stream=output.stream)
            rows.require_every_task(mine, f"emitted (on {output.stream})", name)
            emitted_buckets[output] = rows.by_bucket(mine, name)
        for stream in plan.outputs(name):
            transferred[stream] = rows.by_peer(rows.of("transferred", name, stream=stream.stream), stream)
        if plan.inputs(name):
            service_count[name] = rows.totals(rows.of("service", name), name)
            wall_ns = rows.totals(rows.of("service", name, field="wall_sum_ns"), name)
            count = np.where(service_count[name] > 0, service_count[name], np.nan)
            service_ms[name] = wall_ns / count / 1e6
    return Measured(
        layout,
        observation.interval_s,
        {s: b.sum(axis=1) for s, b in received_buckets.items()},
        {o: b.sum(axis=1) for o, b in emitted_buckets.items()},
        transferred,
        received_buckets,
        emitted_buckets,
        service_count,
        service_ms,
    )


class _Rows:
    """The metrics of a plan's tasks, split by measurement, component and field, and checked."""

    def __init__(self, metrics: pd.DataFrame, layout: Layout) -> None:
        self.layout = layout
        used = metrics[metrics["measurement"].isin(_FIELDS) & metrics["component"].isin(layout.order)]
        if used.empty:
            raise ModelDeclined("the source step has no metrics of the topology's components")
        self.ends = np.unique(used["bucket_end_ms"].to_numpy())
        keys = ["measurement", "component", "field"]
        self.groups: dict[object, pd.DataFrame] = dict(iter(used.groupby(keys, observed=True, sort=False)))
        self.empty = used.iloc[:0]

    def of(
        self,
        measurement: str,
        component: str,
        *,
        field: str = "count",
        stream: str | None = None,
        peer: str | None = None,
    ) -> pd.DataFrame:
        rows = self.groups.get((measurement, component, field), self.empty)
        if stream is not None:
            rows = rows[rows["stream"] == stream]
        if peer is not None:
            rows = rows[rows["peer"] == peer]
        value = rows["value"].to_numpy()
        wrong = value[~(np.isfinite(value) & (value >= 0))]
        if wrong.size:
            raise ModelDeclined(f"metric {measurement}.{field} of {component} has the value {wrong[0]:g}")
        return rows

    def at(self, tasks: IntArray, component: str) -> IntArray:
        """Positions of task identifiers within their component."""
        known = self.layout.tasks[component]
        at = np.minimum(np.searchsorted(known, tasks), known.size - 1)
        strange = tasks[known[at] != tasks]
        if strange.size:
            raise ModelDeclined(f"the metrics name task {strange[0]} of {component}; the source plan has none")
        return at.astype(np.int64)

    def require_every_task(self, rows: pd.DataFrame, what: str, component: str) -> None:
        known = self.layout.tasks[component]
        seen = np.zeros(known.size, dtype=bool)
        seen[self.at(rows["task"].to_numpy(dtype=np.int64), component)] = True
        if not seen.any():
            raise ModelDeclined(f"metric {what} of {component} is missing from the source step")
        if not seen.all():
            task = int(known[~seen][0])
            executor = self.layout.plan.by_task[task]
            raise ModelDeclined(f"executor {executor.label} has no observation: {what} of task {task}")

    def totals(self, rows: pd.DataFrame, component: str) -> FloatArray:
        at = self.at(rows["task"].to_numpy(dtype=np.int64), component)
        size = self.layout.tasks[component].size
        return np.bincount(at, weights=rows["value"].to_numpy(), minlength=size).astype(np.float64)

    def by_bucket(self, rows: pd.DataFrame, component: str) -> FloatArray:
        """Values as an array (tasks, buckets); a bucket without a row counted nothing."""
        at = self.at(rows["task"].to_numpy(dtype=np.int64), component)
        bucket = np.searchsorted(self.ends, rows["bucket_end_ms"].to_numpy())
        size = self.layout.tasks[component].size
        flat = np.bincount(
            at * self.ends.size + bucket, weights=rows["value"].to_numpy(), minlength=size * self.ends.size
        )
        return flat.reshape(size, self.ends.size).astype(np.float64)

    def by_peer(self, rows: pd.DataFrame, stream: Stream) -> FloatArray:
        """Values as an array (source's tasks, target's tasks); rows to other subscribers are left out."""
        sources, targets = self.layout.tasks[stream.source], self.layout.tasks[stream.target]
        peer = pd.to_numeric(rows["peer"].astype(str)).to_numpy()
        mine = np.isin(peer, targets)
        at = self.at(rows["task"].to_numpy(dtype=np.int64)[mine], stream.source)
        to = self.at(peer[mine].astype(np.int64), stream.target)
        value = rows["value"].to_numpy()[mine]
        flat = np.bincount(at * targets.size + to, weights=value, minlength=sources.size * targets.size)
        if self.of("emitted", stream.source, stream=stream.stream)["value"].sum() > 0 and flat.sum() == 0:
            raise ModelDeclined(f"metric transferred of stream {stream.label} is missing from the source step")
        return flat.reshape(sources.size, targets.size).astype(np.float64)
