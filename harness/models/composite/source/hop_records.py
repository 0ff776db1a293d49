"""The hop records of an observation as flat arrays: where and when every tuple was received and emitted.

A row of ``latency.parquet`` is a message, or a member of a window. Its records say for each component passed
the task, the time of reception and the time of emission. A *leg* is the way from one component to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, IntArray, Layout
from harness.protocols import Observation

COLUMNS = ("message_id", "child", "scheduled_ns", "sent_ns", "hops")
"""Columns of ``latency.parquet`` that are read."""
FIELDS = ("task", "received_ns", "emitted_ns")
"""Fields of every hop."""


@dataclass(frozen=True)
class HopRecords:
    """All hops of all rows, row after row; times are milliseconds since the earliest.

    Attributes
    ----------
    message, child : array (rows)
    scheduled_ms, sent_ms : array (rows)
        Of the message, at the generator.
    block : array (rows)
        Part of the interval that the message was scheduled in, numbered from 0.
    row : array (hops)
    first : array (hops) of bool
        Whether this is the spout's record.
    executor, task : array (hops)
        Position in the source's layout; position among the component's tasks.
    component : array (hops)
        Number of the component in the layout's order.
    received_ms, emitted_ms : array (hops)
    """

    message: IntArray
    child: IntArray
    scheduled_ms: FloatArray
    sent_ms: FloatArray
    block: IntArray
    row: IntArray
    first: NDArray[np.bool_]
    executor: IntArray
    task: IntArray
    component: IntArray
    received_ms: FloatArray
    emitted_ms: FloatArray

    @property
    def legs(self) -> IntArray:
        """Positions of the hops that have one before them."""
        return np.flatnonzero(~self.first)

    def visits(self, at: IntArray) -> IntArray:
        """Return a number for each hop's visit: the same tuple at the same executor has the same.

        Rows share a visit where they were one tuple: children before their multiplier, members behind their
        window.
        """
        order = np.lexsort((self.received_ms[at], self.executor[at]))
        executor, received = self.executor[at][order], self.received_ms[at][order]
        new = np.ones(at.size, dtype=np.int64)
        new[1:] = (np.diff(executor) != 0) | (np.diff(received) != 0)
        found = np.empty(at.size, dtype=np.int64)
        found[order] = np.cumsum(new) - 1
        return found


def hop_records(observation: Observation, layout: Layout, blocks: int) -> HopRecords | None:
    """Read the hop records; None where the observation has none (another jar's topology).

    Parameters
    ----------
    blocks : int
        Parts of the interval, of equal length.

    Raises
    ------
    ModelDeclined
        When a record names a task that the plan lacks, or is received before it was emitted.
    """
    latency = observation.latency
    if latency.empty or not set(COLUMNS) <= set(latency.columns):
        return None
    sizes, task, received, emitted = _flat(latency)
    if not sizes.any():
        return None
    row = np.repeat(np.arange(sizes.size), sizes)
    first = np.ones(row.size, dtype=bool)
    first[1:] = row[1:] != row[:-1]
    executor, position, component = _places(task, layout)
    scheduled = latency["scheduled_ns"].to_numpy(dtype=np.int64)
    origin = min(int(received.min()), int(scheduled.min()))
    found = HopRecords(
        message=latency["message_id"].to_numpy(dtype=np.int64),
        child=latency["child"].to_numpy(dtype=np.int64),
        scheduled_ms=(scheduled - origin) / 1e6,
        sent_ms=(latency["sent_ns"].to_numpy(dtype=np.int64) - origin) / 1e6,
        block=parts(scheduled, blocks),
        row=row,
        first=first,
        executor=executor,
        task=position,
        component=component,
        received_ms=(received - origin) / 1e6,
        emitted_ms=(emitted - origin) / 1e6,
    )
    _require_order(found, layout)
    return found


def _flat(latency: pd.DataFrame) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the rows' numbers of hops, and of all hops the tasks and times in ns."""
    hops = latency["hops"]
    if isinstance(hops.dtype, pd.ArrowDtype):  # as Parquet keeps them: without an object for every hop
        every = hops.list.flatten().struct
        task, received, emitted = (every.field(name).to_numpy(dtype=np.int64) for name in FIELDS)
        return hops.list.len().to_numpy(dtype=np.int64), task, received, emitted
    listed = hops.tolist()
    flat = [hop for way in listed for hop in way]
    task, received, emitted = (np.array([hop[name] for hop in flat], dtype=np.int64) for name in FIELDS)
    return np.array([len(way) for way in listed], dtype=np.int64), task, received, emitted


def parts(times: IntArray, number: int) -> IntArray:
    """Return which of a number of equal parts of the covered time each time is in.

    Examples
    --------
    >>> parts(np.array([10, 14, 19, 20]), 2).tolist()
    [0, 0, 1, 1]
    """
    first, last = int(times.min()), int(times.max())
    share = (times - first) / max(last - first, 1)
    return np.minimum((share * number).astype(np.int64), number - 1)


def _places(task: IntArray, layout: Layout) -> tuple[IntArray, IntArray, IntArray]:
    """Return executor, position among the component's tasks, and component of task identifiers."""
    known = np.concatenate([layout.tasks[name] for name in layout.order])
    held = {t: i for i, e in enumerate(layout.executors) for t in e.tasks}
    executors = np.array([held[int(t)] for t in known])
    number = np.concatenate([np.full(layout.tasks[n].size, i) for i, n in enumerate(layout.order)])
    within = np.concatenate([np.arange(layout.tasks[n].size) for n in layout.order])
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known[order], task), known.size - 1)
    at = order[at]
    strange = task[known[at] != task]
    if strange.size:
        raise ModelDeclined(f"a hop record names task {strange[0]}; the source plan has none")
    return executors[at], within[at], number[at]


def _require_order(records: HopRecords, layout: Layout) -> None:
    legs = records.legs
    early = records.received_ms[legs] < records.emitted_ms[legs - 1]
    late = records.emitted_ms < records.received_ms
    for wrong, what in (
        (legs[early], "received before it was sent"),
        (np.flatnonzero(late), "emitted early"),
    ):
        if wrong.size:
            label = layout.executors[int(records.executor[wrong[0]])].label
            raise ModelDeclined(
                f"a hop record of {label} is {what}: clocks that do not agree, or a wrong value"
            )


def grouped(keys: list[IntArray | FloatArray]) -> tuple[IntArray, IntArray]:
    """Return an order that sorts by the keys (the first decides first), and where each group starts in it."""
    order = np.lexsort(keys[::-1])
    new = np.zeros(order.size, dtype=bool)
    new[:1] = True
    for key in keys:
        ordered = np.asarray(key)[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(new)


def spout_messages(records: HopRecords) -> pd.DataFrame:
    """Return one row a message: executor, task, component, block, and its times, by scheduled time."""
    at = np.flatnonzero(records.first)
    row = records.row[at]
    frame = pd.DataFrame(
        {
            "message": records.message[row],
            "component": records.component[at],
            "executor": records.executor[at],
            "task": records.task[at],
            "block": records.block[row],
            "scheduled_ms": records.scheduled_ms[row],
            "sent_ms": records.sent_ms[row],
            "entered_ms": records.emitted_ms[at],
        }
    )
    return frame.drop_duplicates("message").sort_values("scheduled_ms", kind="stable").reset_index(drop=True)
