"""Reports of helpers, watched bolts and pausing spouts of a played step: rows of ``METRICS``.

Shares, states and pauses are told by the run's news; queues by when tuples came to them and left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from harness.app.simulated.book import NS_PER_MS, Book
from harness.models.contract.layout import FloatArray, IntArray
from harness.models.simulator.kinds import HELPED, NONE, PAUSE, PRESSED, RATIO, REACHED, REQUESTS, STATE
from harness.models.simulator.relieving import LOOK_MS
from harness.schemas import Metric, MetricField


def helps(book: Book) -> Iterator[pd.DataFrame]:
    """Yield what helpers served, and the share that they would serve outside of Leron back-pressure."""
    visits, network = book.run.visits, book.run.network
    for helped, helper in network.helpers.items():
        (stream,) = book.plan.inputs(helped)
        kept = book.kept_of(helped)
        sent = np.flatnonzero(np.isin(book.input, [_input_number(book, helped)]))
        parents = visits["parent"][sent]
        done = kept[np.isfinite(visits["served"][kept])]
        took = (visits["served"] - visits["received"])[done] * NS_PER_MS
        offered = book.kept(helped) + book.added(book.tasks[parents], visits["emitted"][parents])
        fields = {
            MetricField.OFFERED: offered,
            MetricField.TUPLES: book.added(book.tasks[done], visits["served"][done]),
            MetricField.WALL_SUM_NS: book.added(book.tasks[done], visits["served"][done], took),
            MetricField.RATIO: _last(book, RATIO, helped),
            MetricField.REQUESTS: _last(book, REQUESTS, helped),
        }
        for field, values in fields.items():
            yield book.dense(helper, Metric.HELP, field, values, stream.stream, helped)


def pressures(book: Book) -> Iterator[pd.DataFrame]:
    """Yield how full queues were, and what was done about them."""
    for name in book.run.network.marks:
        mean, most = _fills(book, name)
        state = _by_task(book, STATE, name)
        fields = {
            MetricField.FILL_PCT: mean,
            MetricField.FILL_MOST_PCT: most,
            MetricField.REACHED: _reached(book, name),
            MetricField.HELPED_NS: _times_ns(book, name, state, HELPED),
            MetricField.PRESSED_NS: _times_ns(book, name, state, PRESSED),
            MetricField.WATCHED_NS: _whole_ns(book),
        }
        for field, values in fields.items():
            yield book.dense(name, Metric.PRESSURE, field, values)


def pauses(book: Book) -> Iterator[pd.DataFrame]:
    """Yield for how long spouts paused."""
    if book.run.network.relief.backpressure is None:
        return
    for name in book.plan.spouts:
        changes = _by_task(book, PAUSE, name)
        for field, values in (
            (MetricField.PAUSED_NS, _times_ns(book, name, changes, 1)),
            (MetricField.WATCHED_NS, _whole_ns(book)),
        ):
            yield book.dense(name, Metric.PAUSED, field, values)


Changes = tuple[FloatArray, FloatArray]
"""Times in ms, and values from then on; before the first it is 0."""


def _input_number(book: Book, component: str) -> int:
    keys = [key.component for key in book.run.parts.inputs_by_number]
    return keys.index(component)


def _workers(book: Book, component: str) -> IntArray:
    """Return the worker of each of a component's tasks."""
    world, at = book.run.world, book.tasks_of[component]
    return np.asarray(world.executors["worker"][world.tasks["executor"][at]], dtype=np.int64)


def _by_task(book: Book, kind: int, component: str) -> list[Changes]:
    """Return the changes of something in the worker of each of a component's tasks."""
    news = book.run.world.news
    mine = news[news["kind"] == kind]
    if kind != PAUSE:
        mine = mine[mine["subject"] == list(book.run.network.marks).index(component)]
    found = [mine[mine["worker"] == worker] for worker in _workers(book, component).tolist()]
    return [(changes["time"], changes["value"]) for changes in found]


def _empty(book: Book) -> FloatArray:
    return np.zeros((book.identifiers.size, book.buckets))


def _edges_ms(book: Book) -> FloatArray:
    return np.asarray(book.bucket_ms * np.arange(book.buckets + 1))


def _whole_ns(book: Book) -> FloatArray:
    return _empty(book) + book.bucket_ms * NS_PER_MS


def _last(book: Book, kind: int, helped: str) -> FloatArray:
    """Return a value at the end of each bucket, by the helper's tasks."""
    found, helper = _empty(book), book.run.network.helpers[helped]
    news, ends = book.run.world.news, _edges_ms(book)[1:]
    number = list(book.run.network.marks).index(helped)
    mine = news[(news["kind"] == kind) & (news["subject"] == number)]
    for row, worker in enumerate(_workers(book, helper).tolist(), book.tasks_of[helper].start):
        here = mine[mine["worker"] == worker]
        values = np.concatenate([[0.0], here["value"]])
        found[row] = values[np.searchsorted(here["time"], ends, side="left")]
    return found


def _times_ns(book: Book, component: str, changes: list[Changes], wanted: int) -> FloatArray:
    """Return for how long of each bucket something had a value, by the component's tasks."""
    found, edges = _empty(book), _edges_ms(book)
    for row, (times, values) in enumerate(changes, book.tasks_of[component].start):
        at = np.concatenate([[0.0], times, [max(edges[-1], times.max(initial=0.0))]])
        on = np.concatenate([[0.0], values == wanted])
        passed = np.concatenate([[0.0], np.cumsum(np.diff(at) * on)])
        found[row] = np.diff(np.interp(edges, at, passed)) * NS_PER_MS
    return found


def _reached(book: Book, component: str) -> FloatArray:
    """Count how often the queue of each of the component's tasks came to its high mark."""
    world, at = book.run.world, book.tasks_of[component]
    news = world.news[world.news["kind"] == REACHED]
    found = _empty(book)
    for task in range(at.start, at.stop):
        times = news["time"][news["subject"] == world.tasks["executor"][task]]
        found[task] = np.histogram(times, _edges_ms(book))[0]
    return found


def _fills(book: Book, component: str) -> tuple[FloatArray, FloatArray]:
    """Return mean and highest fill of the tasks' queues at the looks of each bucket, in percent."""
    world, visits, at = book.run.world, book.run.visits, book.tasks_of[component]
    owner = world.tasks["executor"][book.tasks]
    mean, most = _empty(book), _empty(book)
    looks = np.arange(0.0, book.bucket_ms * book.buckets, LOOK_MS)
    bucket = (looks // book.bucket_ms).astype(np.int64)
    queued = (book.input != NONE) & ~book.helped
    for task in range(at.start, at.stop):
        mine = visits[queued & (owner == world.tasks["executor"][task])]
        came, went = np.sort(mine["queued"]), np.sort(mine["received"])
        fill = np.searchsorted(came, looks, "right") - np.searchsorted(went, looks, "right")
        pct = 100 * fill / book.run.network.queue_room
        mean[task] = np.bincount(bucket, pct, book.buckets) / np.bincount(bucket, minlength=book.buckets)
        np.maximum.at(most[task], bucket, pct)
    return mean, most
