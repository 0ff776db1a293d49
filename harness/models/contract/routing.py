"""Routing probabilities: measured between tasks, predicted between the executors of a proposed plan.

Thesis 4.4 and 4.5. Arrays are (sources, targets). An executor's row is NaN where its tasks emitted nothing on
the stream in the source step, so that nothing is known of the row and no tuple is expected.

The thesis knows shuffle and fields grouping. Its rule for fields is applied here to every grouping whose
choice of the task is seen only by observation (partial-key, direct, custom). The groupings all, global, none
and local-or-shuffle follow from their definitions.

Equation 4.3 gives every executor the same share of a shuffled stream. The equation is used as printed, also
where executors hold different numbers of tasks. It is used although Storm 2.x prefers near and idle executors
unless load-aware messaging is disabled.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.models.contract.layout import FloatArray, Layout, Output
from harness.models.contract.observe import Measured
from harness.plans import Grouping, QueryPlan, Stream

KEYED: frozenset[Grouping] = frozenset({"fields", "partial-key", "direct", "custom"})
"""Groupings whose choice of a task is known by observation only."""


def keyed_input(query_plan: QueryPlan, component: str) -> bool:
    """Return True if some input of the component distributes tuples unevenly over its tasks."""
    return any(s.grouping in KEYED for s in query_plan.inputs(component))


def proportions(total: FloatArray, axis: int = -1) -> FloatArray:
    """Divide by the sum along an axis; NaN where that is zero.

    Over all tasks of a component, the result is the measured output or input proportions (eq. 4.4, 4.10).
    Over the tasks of an executor, the result is the estimated ones (eq. 4.5, 4.11).

    Examples
    --------
    >>> proportions(np.array([70.0, 10.0, 15.0, 5.0])).tolist()  # figure 4.7
    [0.7, 0.1, 0.15, 0.05]
    """
    whole = total.sum(axis=axis, keepdims=True)
    return total / np.where(whole > 0, whole, np.nan)


def task_routing_probabilities(transferred: FloatArray) -> FloatArray:
    """Return the task to task routing probabilities of one stream (eq. 4.2).

    Parameters
    ----------
    transferred : array (source's tasks, target's tasks)
        Tuples sent from task to task.
    """
    return proportions(transferred)  # eq. 4.2


def estimated_proportions(measured: FloatArray, membership: FloatArray) -> FloatArray:
    """Return each task's expected share of its executor's tuples (ETOP, eq. 4.5; ETIP, eq. 4.11).

    Parameters
    ----------
    measured : array (tasks)
        Measured proportions (MTOP, MTIP), or counts, which give the same result.
    membership : array (executors, tasks)
        1 where the executor holds the task.

    Returns
    -------
    array (executors, tasks)
        Rows sum to 1, or are NaN where the executor's tasks had no tuple.
    """
    return proportions(membership * measured)  # eq. 4.5, 4.11


def keyed_probabilities(transferred: FloatArray, sources: FloatArray, targets: FloatArray) -> FloatArray:
    """Predict a keyed stream's routing where the source component has a keyed input (eq. 4.6).

    Parameters
    ----------
    transferred : array (source's tasks, target's tasks)
        Tuples sent from task to task in the source step.
    sources, targets : array (executors, tasks)
        Which proposed executor holds which task.

    Returns
    -------
    array (source's executors, target's executors)
    """
    etop = estimated_proportions(proportions(transferred.sum(axis=1)), sources)
    trp = np.nan_to_num(task_routing_probabilities(transferred))
    return np.asarray(etop @ trp @ targets.T)  # eq. 4.6


def unkeyed_probabilities(transferred: FloatArray, sources: int, targets: FloatArray) -> FloatArray:
    """Predict a keyed stream's routing where the source component's inputs are all balanced (4.5.1).

    Every source executor sees the same keys, so one row of component to task probabilities (table 4.1)
    serves all of them.

    Returns
    -------
    array (source's executors, target's executors)
    """
    component = proportions(transferred.sum(axis=0))
    return np.tile(component @ targets.T, (sources, 1))


def stream_probabilities(measured: Measured, proposed: Layout, stream: Stream) -> FloatArray:
    """Predict the stream routing probabilities between executors of the proposed plan (4.5.1).

    Returns
    -------
    array (source's executors, target's executors)
        Rows sum to 1, or are NaN where nothing is known. With all-grouping a row is each executor's share
        of the copies.
    """
    sources, targets = proposed.membership[stream.source], proposed.membership[stream.target]
    shape = (sources.shape[0], targets.shape[0])
    match stream.grouping:
        case "shuffle":
            return np.full(shape, 1 / shape[1])  # eq. 4.3
        case "none" | "all":
            return np.tile(proportions(targets.sum(axis=1)), (shape[0], 1))
        case "global":
            return np.tile(targets[:, 0], (shape[0], 1))
        case "local-or-shuffle":
            here = proposed.worker[proposed.of[stream.source], None]
            near = (here == proposed.worker[None, proposed.of[stream.target]]).astype(np.float64)
            return proportions(np.where(near.any(axis=1, keepdims=True), near, 1.0))
        case _:
            transferred = measured.transferred[stream]
            if keyed_input(proposed.plan.query_plan, stream.source):
                return keyed_probabilities(transferred, sources, targets)
            return unkeyed_probabilities(transferred, shape[0], targets)


def copies(measured: Measured, stream: Stream) -> float:
    """Return how many tuples one emit sends on this stream: 1, or with all-grouping one a task.

    Measured, since a custom grouping may choose any number of tasks.
    """
    emitted = float(measured.emitted(Output(stream.source, stream.stream)).sum())
    return float(measured.transferred[stream].sum()) / emitted if emitted > 0 else 0.0


def stream_output_proportions(outputs: FloatArray) -> FloatArray:
    """Return the share of each stream in an executor's output (SOP, 4.4.2).

    Parameters
    ----------
    outputs : array (executors, streams)
        Tuples a second by stream.
    """
    return proportions(outputs)


def global_probabilities(
    stream_routing: Mapping[Stream, FloatArray], outputs: Mapping[Stream, FloatArray]
) -> Mapping[Stream, FloatArray]:
    """Return the global routing probabilities of one component's executors by stream (eq. 4.7).

    Parameters
    ----------
    stream_routing : mapping of Stream to array (source's executors, target's executors)
        Of every stream that leaves the component.
    outputs : mapping of Stream to array (source's executors)
        Tuples a second that each executor sends on the stream, every subscriber's apart.

    Returns
    -------
    mapping of Stream to array (source's executors, target's executors)
        All streams together sum to 1 for each executor that emits at all.
    """
    share = stream_output_proportions(np.stack([outputs[s] for s in stream_routing], axis=1))
    return {s: r * share[:, i, None] for i, (s, r) in enumerate(stream_routing.items())}  # eq. 4.7
