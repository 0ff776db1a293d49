"""Starts of executors' work a second: of tuples that come together, only the first finds a sleeping executor.

A plan's costs beside its executors' own work (``background``) go with these starts more than with tuples. A
fetch from the input topic brings all messages that have come; a request to the output topic takes all records
that are there. Starts are counted from group to group along the plan. A spout emits as a group all that it
finds in one round; a bolt all that a group makes it emit without a pause. Each executor gets a part of each
group, or nothing.
"""

from __future__ import annotations

import numpy as np

from harness.models.composite.idling import Batching
from harness.models.composite.plan.flows import Flows
from harness.models.composite.plan.row_batches import Messages
from harness.models.contract.layout import FloatArray, Layout
from harness.plans import Stream

TOGETHER_MS = 1.0
"""Emits further apart than this are not of one group: each finds the next executor asleep."""


def starts(
    layout: Layout,
    flows: Flows,
    batches: Batching,
    round_ms: FloatArray,
    pause_ms: FloatArray,
    wall_ms: FloatArray,
    rows: Messages,
) -> FloatArray:
    """Return the starts a second of each executor (executors); 0 for ackers.

    Parameters
    ----------
    batches : Batching
    round_ms : array (executors)
        Of spouts: from one look at a task to the next one at it.
    pause_ms : array (executors)
        An idle bolt's sleep; what comes within one is found together.
    wall_ms : array (executors)
        A bolt's time for a tuple.
    rows : mapping of Stream to array (source's executors, target's tasks)
        Batches of the rewriting layer a second.
    """
    found = np.zeros(len(layout))
    groups: dict[Stream, FloatArray] = {}
    for name, streams in flows.into.items():
        at = layout.of[name]
        rate = layout.by_executor(name, flows.tasks[name])
        if streams:
            parts = (_parts(layout, flows, batches, s, groups[s], rows) for s in streams)
            come = sum(parts, np.zeros(rate.size))
            come = np.minimum(come, rate)
            free = np.maximum(1.0 - rate * wall_ms[at] / 1000, 0.0)
            begun = free * come / (1.0 + come * pause_ms[at] / 1000)
            size = np.divide(rate, begun, out=np.ones(rate.size), where=begun > 0)
            sent = rate / (1.0 + (size - 1.0) * np.exp(-wall_ms[at] / TOGETHER_MS))
        else:
            round_s = np.maximum(round_ms[at], 1e-9) / 1000
            begun = sent = -np.expm1(-rate * round_s) / round_s
        found[at] = begun
        groups |= {s: np.minimum(sent, made) for s, made in flows.emitted.items() if s.source == name}
    return found


def _parts(layout: Layout, flows: Flows, batches: Batching, stream: Stream, groups: FloatArray,
           batched: Messages) -> FloatArray:  # fmt: skip
    """Return the groups a second of which each of the target's executors gets a part.

    A tuple of a group goes to an executor with the probability p: of k, none does with (1 - p)^k.
    """
    made, rows = flows.emitted[stream], flows.routing[stream]
    size = np.divide(made, groups, out=np.ones(made.size), where=groups > 0)
    if rows.strides[0] == 0:
        to = layout.by_executor(stream.target, rows[0])[None]
        each = float(made.sum() / groups.sum()) if groups.sum() > 0 else 1.0
        groups, size = groups.sum(keepdims=True), np.array([each])
    else:
        to = np.array([layout.by_executor(stream.target, row) for row in rows])
    parts = np.asarray(groups @ -np.expm1(size[:, None] * np.log1p(-np.minimum(to, 1 - 1e-12))))
    if stream in batched:
        come = layout.by_executor(stream.target, batched[stream].sum(axis=0))
        return np.asarray(np.minimum(parts, come))
    if batches.flush_ms == 0:
        return parts
    flow = made.sum() / made.size * to.mean(axis=0)
    delivered = np.maximum(flow / batches.batch, np.minimum(flow, 1000 / batches.flush_ms))
    return np.asarray(np.minimum(parts, made.size * delivered))
