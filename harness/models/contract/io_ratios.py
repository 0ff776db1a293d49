"""Input to output ratios: coefficients of each input stream for each output stream.

Thesis 4.6 and 4.7. A task's coefficients come from least squares on its counts by metric bucket. An
executor's are the mean over the component's tasks where all inputs are balanced. Otherwise they are the mean
over the executor's own tasks, weighted by each task's share of the executor's input (ETIP).

The example after eq. 4.9 prints an arrival rate of 24 in its text and 26 in its vector; its result, 169,
needs 26.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, Layout, Output, outputs
from harness.models.contract.observe import Measured
from harness.models.contract.routing import KEYED, estimated_proportions, keyed_input
from harness.plans import Stream

Coefficients = Mapping[Output, Mapping[Stream, FloatArray]]
"""For each output and each input of its component, a coefficient by proposed executor."""


def least_squares(received: FloatArray, emitted: FloatArray) -> FloatArray:
    """Fit output counts as a weighted sum of input counts, without a constant (4.6.1).

    Parameters
    ----------
    received : array (inputs, buckets)
        One task's tuples received by input stream.
    emitted : array (buckets)
        Its emits on one output stream.

    Returns
    -------
    array (inputs)
        NaN for an input that received nothing; the shortest solution where inputs are collinear.

    Examples
    --------
    >>> least_squares(np.array([[1.0, 2.0, 4.0]]), np.array([10.0, 20.0, 40.0])).round(6).tolist()
    [10.0]
    """
    used = received.any(axis=1)
    found = np.full(received.shape[0], np.nan)
    if used.any():
        found[used] = np.linalg.lstsq(received[used].T, emitted, rcond=None)[0]
    return found


def task_coefficients(measured: Measured, output: Output) -> Mapping[Stream, FloatArray]:
    """Return every task's coefficients for one output, by input stream (4.6.1).

    Returns
    -------
    mapping of Stream to array (tasks)
        NaN where the task received nothing from the stream.
    """
    inputs = measured.layout.plan.query_plan.inputs(output.component)
    received = np.stack([measured.received_buckets[s] for s in inputs], axis=1)
    emitted = measured.emitted_buckets[output]
    fitted = np.stack([least_squares(r, e) for r, e in zip(received, emitted, strict=True)], axis=1)
    return dict(zip(inputs, fitted, strict=True))


def mean_coefficient(by_task: FloatArray, output: Output, stream: Stream) -> float:
    """Return the plain mean over the tasks that received anything (4.7.1).

    Raises
    ------
    ModelDeclined
        When none did.
    """
    if np.isnan(by_task).all():
        raise ModelDeclined(
            f"no I/O ratio for {output.component}:{output.stream}: nothing arrived on {stream.label}"
        )
    return float(np.nanmean(by_task))


def executor_coefficients(measured: Measured, proposed: Layout) -> Coefficients:
    """Predict every proposed executor's coefficients (4.7).

    Where a component has keyed inputs, an executor's tasks are weighted by ETIP. A balanced input stream
    beside a keyed one may reach tasks that it did not reach in the source step. The thesis has no rule for
    these; the mean over the tasks that the stream did reach is used.

    Raises
    ------
    ModelDeclined
        When nothing arrived on an input stream, so that its coefficient is unknown.
    """
    plan = proposed.plan.query_plan
    found: dict[Output, dict[Stream, FloatArray]] = {}
    for name in proposed.order:
        if not plan.inputs(name):
            continue
        membership = proposed.membership[name]
        for output in outputs(plan, name):
            found[output] = {}
            for stream, by_task in task_coefficients(measured, output).items():
                mean = np.full(membership.shape[0], mean_coefficient(by_task, output, stream))
                if keyed_input(plan, name):
                    etip = estimated_proportions(measured.received(stream), membership)
                    weighted = etip @ np.nan_to_num(by_task)  # unnumbered equation after eq. 4.11
                    unknown = 0.0 if stream.grouping in KEYED else mean
                    mean = np.where(np.isnan(weighted), unknown, weighted)
                found[output][stream] = mean
    return found
