"""Caladrius's shares of rates, as measured or equal, with the source's I/O ratios and service times.

Kalim et al. 2019 and appendix D of the thesis. ``linear`` and ``caladrius`` differ in where rates bend.
"""

from __future__ import annotations

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.answers import number, routing_estimates
from harness.models.contract.io_ratios import task_coefficients
from harness.models.contract.layout import FloatArray, Layout, outputs
from harness.models.contract.observe import Measured, io_label
from harness.models.contract.routing import proportions
from harness.protocols import Estimate
from harness.schemas import Measure


def bolts(layout: Layout) -> list[str]:
    """Return the components that tuples arrive at, downstream."""
    return [name for name in layout.order if layout.plan.query_plan.inputs(name)]


def executor_shares(measured: Measured, layout: Layout, component: str, by_task: FloatArray) -> FloatArray:
    """Return each proposed executor's share of a component's tuples.

    The share is the measured one where the executors hold the same tasks as in the source plan (D.3.2), else
    an equal one.

    Parameters
    ----------
    by_task : ndarray, shape (tasks,)
        What the component's tasks got in the source step.
    """
    membership = layout.membership[component]
    if np.array_equal(membership, measured.layout.membership[component]) and by_task.any():
        return proportions(membership @ by_task)
    return np.full(membership.shape[0], 1 / membership.shape[0])


def routing(measured: Measured, layout: Layout) -> list[Estimate]:
    """Return routing probabilities: each stream's tuples by the shares of its target's executors."""
    shares = {}
    for stream, sent in measured.transferred.items():
        share = executor_shares(measured, layout, stream.target, sent.sum(axis=0))
        shares[stream] = np.tile(share, (layout.membership[stream.source].shape[0], 1))
    return routing_estimates(layout, shares)


def io_ratios(measured: Measured, layout: Layout) -> list[Estimate]:
    """Return I/O ratios: the mean of the tasks' least squares, the same for a component's executors."""
    estimates = []
    for name in bolts(layout):
        arrivals = {s: float(measured.received(s).sum()) for s in layout.plan.query_plan.inputs(name)}
        total = sum(arrivals.values())
        for output in outputs(layout.plan.query_plan, name):
            coefficients = task_coefficients(measured, output)
            sent = sum(float(np.nanmean(coefficients[s])) * a for s, a in arrivals.items() if a > 0)
            ratio = sent / total if total > 0 else np.nan
            for owner in [*(e.label for e in layout.executors[layout.of[name]]), name]:
                subject = io_label(owner, output.stream)
                estimates.append(number(Measure.IO_RATIO, subject, ratio, f"nothing arrived at {name}"))
    return estimates


def median_service_ms(measured: Measured, component: str) -> float:
    """Return the median of the service times of all tasks' metric buckets (D.3.3); NaN without any."""
    count = measured.service_count_buckets[component]
    timed = count > 0
    if not timed.any():
        return float("nan")
    return float(np.median(measured.service_ms_buckets[component][timed] / count[timed]))


def untimed(component: str) -> str:
    """Return the reason for a service time that is missing."""
    return f"metric service of {component} is missing from the source step"


def no_latency() -> list[Estimate]:
    """Decline every latency.

    Raises
    ------
    ModelDeclined
        Always.
    """
    raise ModelDeclined("Caladrius predicts throughput and back-pressure, no latency")
