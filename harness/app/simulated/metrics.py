"""A played step's metrics, as the instrumented bolts and spouts would report them: rows of ``METRICS``.

What a server alone knows is not there: garbage collection, heap, lines lost on their way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa

from harness.app.simulated import relief_metrics
from harness.app.simulated.book import NS_PER_MS, Book
from harness.app.simulated.networks import ACK_MS, EMIT_MS, SEND_MS
from harness.app.simulated.tables import Played
from harness.models.contract.layout import IntArray
from harness.models.simulator.kinds import NONE
from harness.schemas import METRICS, Clock, Metric, MetricField

BINS_LOG2 = 4
"""Logarithm of a histogram's bins an octave."""


def metrics(played: Played, bucket_s: float, buckets: int) -> pa.Table:
    """Return the rows of so many buckets, from the time at which the plan was up."""
    book = _InstrumentedBook(played, 1000 * bucket_s, buckets)
    parts = [book.arrivals(), book.emits(), book.services(), book.acks(), book.workers()]
    if played.run.network.relief.parts:
        parts += [relief_metrics.helps(book), relief_metrics.pressures(book), relief_metrics.pauses(book)]
    frame = pd.concat([rows for part in parts for rows in part])
    columns = {}
    for field in METRICS:
        column = pa.array(frame[field.name].to_numpy(), from_pandas=False)
        columns[field.name] = column.dictionary_encode() if pa.types.is_dictionary(field.type) else column
    return pa.table(columns).cast(METRICS)


def upper_bounds_ns(durations_ns: IntArray) -> IntArray:
    """Return the bin of each duration by its upper bound: 16 of equal width an octave, 1 ns wide below 32.

    Examples
    --------
    >>> upper_bounds_ns(np.array([0, 15, 31, 32, 33, 1000])).tolist()
    [1, 16, 32, 34, 34, 1024]
    """
    octave = np.floor(np.log2(np.maximum(durations_ns, 1))).astype(np.int64)
    shift = np.maximum(octave - BINS_LOG2, 0)
    return np.asarray(((durations_ns >> shift) + 1) << shift)


class _InstrumentedBook(Book):
    """Reports of instrumented bolts and spouts."""

    def arrivals(self) -> Iterator[pd.DataFrame]:
        """Yield tuples taken up by each bolt, and the time between them."""
        visits = self.run.visits
        for number, key in enumerate(self.run.parts.inputs_by_number):
            mine = np.flatnonzero(self.input == number)
            counts = self.added(self.tasks[mine], visits["received"][mine])
            yield self.dense(
                key.component, Metric.RECEIVED, MetricField.COUNT, counts, key.stream, key.source
            )
        bolts = np.flatnonzero((self.input != NONE) & ~self.helped & np.isfinite(visits["received"]))
        bolts = bolts[np.lexsort((visits["received"][bolts], self.tasks[bolts]))]
        tasks, times = self.tasks[bolts], visits["received"][bolts]
        same = np.flatnonzero(tasks[1:] == tasks[:-1]) + 1
        gaps_ns = (times[same] - times[same - 1]) * NS_PER_MS
        for field, values in (
            (MetricField.COUNT, None),
            (MetricField.SUM_NS, gaps_ns),
            (MetricField.SUMSQ_NS2, gaps_ns**2),
        ):
            added = self.added(tasks[same], times[same], values)
            for name in self.bolts:
                yield self.dense(name, Metric.INTERARRIVAL, field, added)

    def emits(self) -> Iterator[pd.DataFrame]:
        """Yield calls of emit by output, and the tuples that they made by task of the target."""
        visits, firings = self.run.visits, self.run.world.firings
        told: set[tuple[str, str]] = set()
        streams = {(s.target, s.source, s.stream): s for s in self.plan.streams}
        for number, key in enumerate(self.run.parts.inputs_by_number):
            mine = np.flatnonzero(self.input == number)
            parent = visits["parent"][mine].astype(np.int64)
            sources, times = np.empty(mine.size, dtype=np.int64), np.empty(mine.size)
            one = parent >= 0
            sources[one] = visits["task"][parent[one]]
            times[one] = visits["emitted"][parent[one]]
            sources[~one] = firings["task"][~parent[~one]]
            times[~one] = firings["time"][~parent[~one]]
            stream = streams[key]
            if (key.source, key.stream) not in told:
                told.add((key.source, key.stream))
                copies = self.plan.component(key.component).tasks if stream.grouping == "all" else 1
                counts = self.added(sources, times) / copies + self.kept(key.component)
                yield self.dense(key.source, Metric.EMITTED, MetricField.COUNT, counts, key.stream)
            to = self.identifiers[self.tasks[mine]]
            at = self.tasks_of[key.source]
            own = (sources >= at.start) & (sources < at.stop)  # others are helpers of it
            yield self.sparse(
                key.source, Metric.TRANSFERRED, sources[own], times[own], "peer", to[own]
            ).assign(stream=key.stream)

    def services(self) -> Iterator[pd.DataFrame]:
        """Yield what executing tuples took, by the wall clock and in CPU time."""
        visits = self.run.visits
        for name in self.bolts:
            mine = self.tasks_of[name]
            at = np.flatnonzero(
                (self.tasks >= mine.start)
                & (self.tasks < mine.stop)
                & ~self.helped
                & np.isfinite(visits["received"])
            )
            tasks, held_ms = self.tasks[at], SEND_MS if name in self.plan.sinks else 0.0
            ended = visits["served"][at] + held_ms
            wall, cpu = (ended - visits["received"][at]) * NS_PER_MS, visits["cpu"][at] * NS_PER_MS
            count = self.added(tasks, ended)
            for field in (MetricField.COUNT, MetricField.CPU_COUNT):
                yield self.dense(name, Metric.SERVICE, field, count)
            for clock, times, sum_field, squares_field in (
                (Clock.WALL, wall, MetricField.WALL_SUM_NS, MetricField.WALL_SUMSQ_NS2),
                (Clock.CPU, cpu, MetricField.CPU_SUM_NS, MetricField.CPU_SUMSQ_NS2),
            ):
                yield self.dense(name, Metric.SERVICE, sum_field, self.added(tasks, ended, times))
                yield self.dense(name, Metric.SERVICE, squares_field, self.added(tasks, ended, times**2))
                bins = upper_bounds_ns(np.rint(times).astype(np.int64))
                yield self.sparse(name, Metric.SERVICE_HIST, tasks, ended, "field", bins).assign(peer=clock)

    def acks(self) -> Iterator[pd.DataFrame]:
        """Yield the times from emit to ack."""
        roots = self.run.messages
        mine = np.flatnonzero(np.isfinite(roots["acked"]))
        tasks, times = roots["task"][mine].astype(np.int64), roots["acked"][mine]
        took = (times - roots["entered"][mine]) * NS_PER_MS
        count = self.added(tasks, times)
        fields = {
            MetricField.ACKED: count,
            MetricField.FAILED: 0 * count,
            MetricField.COUNT: count,
            MetricField.SUM_NS: self.added(tasks, times, took),
            MetricField.SUMSQ_NS2: self.added(tasks, times, took**2),
        }
        for name in self.plan.spouts:
            for field, values in fields.items():
                yield self.dense(name, Metric.ACK, field, values)
            own = (tasks >= self.tasks_of[name].start) & (tasks < self.tasks_of[name].stop)
            bins = upper_bounds_ns(np.rint(took[own]).astype(np.int64))
            yield self.sparse(name, Metric.ACK_HIST, tasks[own], times[own], "field", bins)

    def workers(self) -> Iterator[pd.DataFrame]:
        """Yield the CPU time of each worker process: its tuples', its messages' at spouts, its acks'."""
        world, visits = self.run.world, self.run.visits
        worker = world.executors["worker"]
        cpu = np.where(self.input == NONE, EMIT_MS, visits["cpu"])
        acks = world.messages[np.isfinite(world.messages["received"])]
        parts = [
            (worker[world.tasks["executor"][self.tasks]], visits["received"], cpu),
            (worker[acks["acker"]], acks["received"], np.full(acks.size, ACK_MS)),
        ]
        found = np.zeros((len(self.layout.workers), self.buckets))
        for who, times, cpu_ms in parts:
            bucket = np.floor(np.nan_to_num(times, nan=-1.0) / self.bucket_ms).astype(np.int64)
            inside = (bucket >= 0) & (bucket < self.buckets)
            np.add.at(found, (who[inside], bucket[inside]), cpu_ms[inside] * NS_PER_MS)
        for number in range(found.shape[0]):
            first = self.layout.executors[int(np.argmax(self.layout.worker == number))]
            yield pd.DataFrame(
                {
                    "bucket_end_ms": self.ends_ms,
                    "measurement": Metric.WORKER,
                    "component": first.component,
                    "task": np.int32(first.first_task),
                    "worker": first.worker.label,
                    "stream": "",
                    "peer": "",
                    "field": MetricField.CPU_NS,
                    "value": found[number],
                }
            )
