"""Batches of the rewriting layer in a plan: how many messages a second carry its tuples.

Each sending task has a batch for each receiving task (docs/rewriting.md). It leaves with its last tuple, or
so long after its first. Of tuples that come at random, N more come in that time with Poisson's probability.
So a batch of at most b holds 1 + E[min(N, b - 1)] on average.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import pdtr, pdtrc

from harness.models.composite.plan.flows import Flows
from harness.models.contract.layout import FloatArray, Layout
from harness.plans import BatchSize, Stream

Messages = Mapping[Stream, FloatArray]
"""Batches a second of each batched stream (source's executors, target's tasks)."""


def mean_rows(expected: FloatArray, size: int) -> FloatArray:
    """Return the mean number of rows of a batch.

    Parameters
    ----------
    expected : array
        Tuples that come while a batch waits at most.
    size : int
        Rows of a full batch, 2 or more.

    Examples
    --------
    Nothing comes, much comes, and by hand 1 + P(N > 0):

    >>> mean_rows(np.array([0.0, 1e6]), 20).tolist()
    [1.0, 20.0]
    >>> mean_rows(np.array([1.0]), 2).round(6).tolist()
    [1.632121]
    """
    more = size - 1
    below = expected * pdtr(more - 2, expected) if more > 1 else np.zeros(expected.shape)
    return np.asarray(1.0 + below + more * pdtrc(more - 1, expected))


def messages(layout: Layout, flows: Flows, batches: Mapping[Stream, BatchSize]) -> Messages:
    """Return the batches a second of each batched stream.

    Parameters
    ----------
    layout : Layout
    flows : Flows
        Tuples a second.
    batches : mapping of Stream to BatchSize
    """
    found = {}
    for stream, rule in batches.items():
        held, come = layout.membership[stream.source], flows.tasks[stream.source]
        total = held @ come
        made = np.divide(flows.emitted[stream], total, out=np.zeros(total.size), where=total > 0)
        by_task = (held.T @ made) * come
        rate = by_task[:, None] * (held.T @ np.nan_to_num(flows.routing[stream]))
        found[stream] = held @ (rate / mean_rows(rate * rule.flush_ms / 1000, rule.size))
    return found
