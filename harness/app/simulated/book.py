"""Counts of a played step by task and bucket, and rows of ``METRICS`` made of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from harness.app.simulated.tables import Played
from harness.models.contract.layout import FloatArray, IntArray
from harness.schemas import MetricField

NS_PER_MS = 1e6


class Book:
    """Counts by task and bucket."""

    def __init__(self, played: Played, bucket_ms: float, buckets: int) -> None:
        self.played, self.run = played, played.run
        self.layout = self.run.network.layout
        self.plan = self.layout.plan.query_plan
        self.bucket_ms, self.buckets = bucket_ms, buckets
        ends = np.asarray(bucket_ms * np.arange(1, buckets + 1), dtype=np.float64)
        self.ends_ms = played.epoch_ms(ends)
        self.identifiers = self.run.parts.identifiers
        by_task = self.layout.plan.by_task
        self.workers_of = np.array([by_task[t].worker.label for t in self.identifiers.tolist()], dtype=object)
        records = self.run.world.components
        self.tasks_of = {
            name: slice(int(r["first_task"]), int(r["first_task"] + r["tasks"]))
            for name, r in zip(self.layout.order, records, strict=False)
        }
        self.tasks = self.run.visits["task"].astype(np.int64)
        self.input = self.run.visits["input"]
        self.helped = np.isin(self.input, list(self.run.help_inputs))
        """Which tuples a helper served; what it does there is not instrumented."""

    def added(self, tasks: IntArray, times_ms: FloatArray, values: FloatArray | None = None) -> FloatArray:
        """Add up by task and bucket."""
        bucket = np.floor(times_ms / self.bucket_ms).astype(np.int64)
        inside = (bucket >= 0) & (bucket < self.buckets)
        cells = tasks[inside] * self.buckets + bucket[inside]
        weights = None if values is None else values[inside]
        size = self.identifiers.size
        return np.bincount(cells, weights, size * self.buckets).reshape(size, self.buckets).astype(np.float64)

    def dense(
        self,
        component: str,
        measurement: str,
        field: str,
        values: FloatArray,
        stream: str = "",
        peer: str = "",
    ) -> pd.DataFrame:
        """Return a row a task of the component and bucket."""
        mine = self.tasks_of[component]
        return self.rows(
            component,
            measurement,
            np.repeat(np.arange(mine.start, mine.stop), self.buckets),
            np.tile(np.arange(self.buckets), mine.stop - mine.start),
            values[mine].ravel(),
            field=field,
            stream=stream,
            peer=peer,
        )

    def rows(
        self,
        component: str,
        measurement: str,
        tasks: IntArray,
        buckets: IntArray,
        values: FloatArray,
        **labels: object,
    ) -> pd.DataFrame:
        """Return rows, with the labels that they have beside measurement, component, task and worker."""
        columns = {"stream": "", "peer": "", **labels}
        return pd.DataFrame(
            {
                "bucket_end_ms": self.ends_ms[buckets],
                "measurement": measurement,
                "component": component,
                "task": self.identifiers[tasks].astype(np.int32),
                "worker": self.workers_of[tasks],
                "value": values,
                **columns,
            }
        )

    def sparse(
        self, component: str, measurement: str, tasks: IntArray, times_ms: FloatArray, by: str, key: IntArray
    ) -> pd.DataFrame:
        """Count by task, bucket and a key, which stands in the column ``by``; zeros are left out."""
        bucket = np.floor(times_ms / self.bucket_ms).astype(np.int64)
        inside = (bucket >= 0) & (bucket < self.buckets)
        found, count = np.unique(
            np.stack([tasks[inside], bucket[inside], key[inside]]), axis=1, return_counts=True
        )
        labels = {
            "field": MetricField.COUNT,
            by: found[2].astype(str).astype(object),
        }  # a histogram's field is its bin
        return self.rows(component, measurement, found[0], found[1], count.astype(np.float64), **labels)

    @property
    def bolts(self) -> list[str]:
        """Components with an input."""
        return [name for name in self.layout.order if self.plan.inputs(name)]

    def kept(self, component: str) -> FloatArray:
        """Count the tuples to a component that its helpers emitted and kept, by task and bucket."""
        at = self.kept_of(component)
        return self.added(self.tasks[at], self.run.visits["queued"][at])

    def kept_of(self, component: str) -> IntArray:
        """Return which tuples to a component its helpers kept."""
        numbers = [number for number, name in self.run.help_inputs.items() if name == component]
        return np.flatnonzero(np.isin(self.input, numbers))
