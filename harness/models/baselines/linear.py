"""Caladrius's proportionality: rates grow with the input rate, shared out over the executors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.answers import (
    answer,
    by_executor,
    declined,
    number,
    require_rate,
    routing_estimates,
)
from harness.models.contract.io_ratios import task_coefficients
from harness.models.contract.layout import FloatArray, Layout, lay_out, outputs, require_same_topology
from harness.models.contract.observe import Measured, io_label, observe
from harness.models.contract.routing import proportions
from harness.plans import PhysicalPlan
from harness.protocols import Estimate, Observation, Prediction, Settings
from harness.schemas import Measure

NOTES = """\
Caladrius (appendix D of the thesis; Kalim et al. 2019), which predicts throughput and back-pressure on Heron.
A component's arrival rate grows with the input rate; an executor gets an equal part of it or, where the
component's executors hold the same tasks as in the source plan, its measured part, since Caladrius takes the
routing of a running topology as measured (D.3.2). I/O ratios: mean of the tasks' least squares, the same for
all executors of a component. Service time: the median over the tasks' metric buckets (D.3.3), unchanged. An
executor whose arrival rate reaches its service rate is saturated: Caladrius would foresee back-pressure.
Latency: Caladrius predicts none, so ground-truth, complete and ack latency are declined."""


def linear(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
    """Scale the source step's rates with the input rate and share them out over the proposed executors.

    Parameters
    ----------
    source : Observation
        What was measured of the source plan.
    proposed : PhysicalPlan
        Of the same query plan.
    settings : Settings
        Not used.
    rate_tps : float
        Messages a second in the proposed step.
    """
    del settings
    try:
        require_rate(rate_tps, "proposed")
        require_rate(source.rate_tps, "source")
        require_same_topology(source.plan, proposed)
        measured, layout = observe(source), lay_out(proposed)
    except ModelDeclined as why:
        return declined(proposed, why)
    return answer(
        proposed,
        [
            ((Measure.ROUTING,), lambda: _routing(measured, layout)),
            ((Measure.IO_RATIO,), lambda: _io_ratios(measured, layout)),
            ((Measure.ARRIVALS,), lambda: _arrivals(measured, layout, rate_tps / source.rate_tps)),
            ((Measure.SERVICE,), lambda: _service(measured, layout)),
            ((Measure.GROUND_TRUTH, Measure.COMPLETE, Measure.ACK), _no_latency),
        ],
    )


def _no_latency() -> list[Estimate]:
    raise ModelDeclined("Caladrius predicts throughput and back-pressure, no latency")


def _share(measured: Measured, layout: Layout, component: str, by_task: FloatArray) -> FloatArray:
    """Return each proposed executor's share of what arrives at its component."""
    membership = layout.membership[component]
    if np.array_equal(membership, measured.layout.membership[component]) and by_task.any():
        return proportions(membership @ by_task)
    return np.full(membership.shape[0], 1 / membership.shape[0])


def _routing(measured: Measured, layout: Layout) -> list[Estimate]:
    shares = {}
    for stream, sent in measured.transferred.items():
        share = _share(measured, layout, stream.target, sent.sum(axis=0))
        shares[stream] = np.tile(share, (layout.membership[stream.source].shape[0], 1))
    return routing_estimates(layout, shares)


def _bolts(layout: Layout) -> list[str]:
    return [name for name in layout.order if layout.plan.query_plan.inputs(name)]


def _io_ratios(measured: Measured, layout: Layout) -> list[Estimate]:
    found = []
    for name in _bolts(layout):
        arrivals = {s: float(measured.received(s).sum()) for s in layout.plan.query_plan.inputs(name)}
        total = sum(arrivals.values())
        for output in outputs(layout.plan.query_plan, name):
            coefficients = task_coefficients(measured, output)
            sent = sum(float(np.nanmean(coefficients[s])) * a for s, a in arrivals.items() if a > 0)
            ratio = sent / total if total > 0 else np.nan
            for owner in [*(e.label for e in layout.executors[layout.of[name]]), name]:
                subject = io_label(owner, output.stream)
                found.append(number(Measure.IO_RATIO, subject, ratio, f"nothing arrived at {name}"))
    return found


def _median_service_ms(measured: Measured, component: str) -> float:
    """Return the median of the service times of all tasks' metric buckets; NaN without any."""
    count = measured.service_count_buckets[component]
    timed = count > 0
    if not timed.any():
        return float("nan")
    return float(np.median(measured.service_ms_buckets[component][timed] / count[timed]))


def _service(measured: Measured, layout: Layout) -> list[Estimate]:
    found = []
    for name in _bolts(layout):
        value = _median_service_ms(measured, name)
        executors = layout.executors[layout.of[name]]
        unknown = f"metric service of {name} is missing from the source step"
        values = np.full(len(executors), value)
        found += by_executor(Measure.SERVICE, executors, values, name, value, unknown)
    return found


def _arrivals(measured: Measured, layout: Layout, scale: float) -> list[Estimate]:
    found = []
    for name in _bolts(layout):
        by_task = measured.arrivals(name) / measured.seconds[name]
        rate = float(by_task.sum()) * scale * _share(measured, layout, name, by_task)
        load = rate * _median_service_ms(measured, name) / 1000
        executors = layout.executors[layout.of[name]]
        estimates = by_executor(Measure.ARRIVALS, executors, rate, name, float(rate.sum()), "")
        for estimate, busy in zip(estimates, [*load, load.max()], strict=True):
            reason = f"overloaded: {estimate.subject} (load {busy:.2f})"
            saturated = replace(estimate, value=None, status="saturated", reason=reason)
            found.append(saturated if busy >= 1 else estimate)
    return found
