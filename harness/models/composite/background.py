"""CPU that a plan uses beside its executors' own work: looking, polling, sending, and all else on its hosts.

Each worker process and each spout's client cost CPU at all times. So do each look of an idle executor, each
poll of a spout's task, and each round of a spout that finds messages (a fetch). So do each time that a sink
begins to send (a request), and each tuple or ack that goes to or comes from another worker.

These costs were fitted to the tuning set's workers (docs/model.md, 'CPU'); the source's own CPU use scales
them to the machine at hand. CPU use of the host's other processes (brokers, supervisors, the harness) shows
only as contention (``host_stretch``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray, Layout
from harness.plans import Stream

WORKER_CORES = 0.076
"""Cores of a worker process with nothing to do; its transfer thread included."""
CONSUMER_CORES = 0.015
"""Cores of a spout executor's client with nothing to do."""
LOOK_MS = 0.0069
"""CPU of a look at an empty queue; falling asleep after it, and waking, included."""
POLL_MS = 0.105
"""CPU of a Kafka poll that finds nothing."""
REMOTE_MS = 0.031
"""CPU of a tuple or ack at each of its two ends, where it goes to another worker."""
FETCH_MS = 0.50
"""CPU of a spout's round that finds messages, beside the emits: its client's."""
REQUEST_MS = 0.61
"""CPU of what a sink's client does each time that its executor begins to work, in its own threads."""
ACK_MS = 0.025
"""CPU of one message at an acker; no metric says it."""


@dataclass(frozen=True)
class Activity:
    """Looks, polls, fetches and requests of a plan's executors, and workers' remote tuples, a second.

    Attributes
    ----------
    looks, polls : array (executors)
        Looks at an empty queue; empty polls of a spout's tasks.
    consumers : array (executors)
        1 where a spout is, which has a client of its own; else 0.
    fetches, requests : array (executors)
        Rounds of a spout that find messages; starts of a sink.
    remote : array (workers)
        Tuples and acks that the worker sends to or gets from others.
    """

    looks: FloatArray
    polls: FloatArray
    consumers: FloatArray
    fetches: FloatArray
    requests: FloatArray
    remote: FloatArray

    @cached_property
    def own_ms(self) -> FloatArray:
        """CPU time a second that goes with each executor, beside its tuples' demand."""
        return (
            self.looks * LOOK_MS
            + self.polls * POLL_MS
            + self.consumers * (CONSUMER_CORES * 1000)
            + self.fetches * FETCH_MS
            + self.requests * REQUEST_MS
        )

    def worker_cores(self, worker: IntArray, remote: FloatArray | None = None) -> FloatArray:
        """Return the cores that each worker process is expected to use beside its executors' demand.

        Parameters
        ----------
        worker : array (executors)
            Where they are.
        remote : array (workers), optional
            Where they are elsewhere than was said.
        """
        remote = self.remote if remote is None else remote
        own_ms = np.bincount(worker, weights=self.own_ms, minlength=remote.size)
        return np.asarray(WORKER_CORES + (own_ms + remote * REMOTE_MS) / 1000)


def remote_traffic(
    layout: Layout,
    emitted: Mapping[Stream, FloatArray],
    routing: Mapping[Stream, FloatArray],
    holder: Mapping[str, IntArray],
    served: FloatArray,
    entered: FloatArray,
) -> FloatArray:
    """Return tuples and acks that cross workers, at each worker (workers), a second.

    Parameters
    ----------
    emitted : mapping of Stream to array (source's executors)
        Emits a second.
    routing : mapping of Stream to array (source's executors, target's tasks)
    holder : mapping of component to array (tasks)
        Position of the task's executor among the component's.
    served, entered : array (executors)
        Tuples that bolts serve, and messages that spouts emit; each tells an acker.
    """
    number = len(layout.workers)
    one = np.eye(number)
    crossing = np.zeros((number, number))
    for stream, rate in emitted.items():
        rows, to = routing[stream], layout.worker[layout.of[stream.target]][holder[stream.target]]
        if rows.strides[0] == 0:
            sent = np.bincount(layout.worker[layout.of[stream.source]], weights=rate, minlength=number)
            crossing += np.outer(sent, np.bincount(to, weights=rows[0], minlength=number))
            continue
        sources = one[layout.worker[layout.of[stream.source]]]
        crossing += (sources * rate[:, None]).T @ (rows @ one[to])
    if layout.ackers.stop > layout.ackers.start:
        acker = np.bincount(layout.worker[layout.ackers], minlength=number).astype(np.float64)
        acker /= acker.sum()
        told = np.bincount(layout.worker, weights=served + entered, minlength=number)
        crossing += np.outer(told, acker)
        crossing += np.outer(acker, np.bincount(layout.worker, weights=entered, minlength=number))
    np.fill_diagonal(crossing, 0.0)
    return np.asarray(crossing.sum(axis=0) + crossing.sum(axis=1))


def exchanged(
    layout: Layout,
    emitted: Mapping[Stream, FloatArray],
    routing: Mapping[Stream, FloatArray],
    holder: Mapping[str, IntArray],
    served: FloatArray,
    entered: FloatArray,
    position: int,
) -> FloatArray:
    """Return the tuples and acks between one executor and all of each worker's (workers), a second.

    Parameters
    ----------
    emitted, routing, holder, served, entered
        As for ``remote_traffic``.
    position : int
        Of the executor.
    """
    worker, number = layout.worker, len(layout.workers)
    found = np.zeros(number)
    component = layout.executors[position].component
    at = position - layout.of[component].start
    for stream, rate in emitted.items():
        rows = routing[stream]
        if stream.source == component:
            to = worker[layout.of[stream.target]][holder[stream.target]]
            found += np.bincount(to, weights=rate[at] * rows[at], minlength=number)
        if stream.target == component:
            mine = np.flatnonzero(holder[component] == at)
            come = rate * rows[:, mine].sum(axis=1)
            found += np.bincount(worker[layout.of[stream.source]], weights=come, minlength=number)
    if layout.ackers.stop > layout.ackers.start:
        acker = np.bincount(worker[layout.ackers], minlength=number) / (
            layout.ackers.stop - layout.ackers.start
        )
        if position < layout.ackers.start:
            found += (served[position] + 2 * entered[position]) * acker
        else:
            told = np.bincount(worker, weights=served + 2 * entered, minlength=number)
            found += told / (layout.ackers.stop - layout.ackers.start)
    return found


def acker_arrivals(layout: Layout, served: FloatArray, entered: FloatArray) -> FloatArray:
    """Return the messages a second at each acker executor: one for each message and each tuple served."""
    number = layout.ackers.stop - layout.ackers.start
    return np.full(number, (served.sum() + entered.sum()) / max(number, 1))
