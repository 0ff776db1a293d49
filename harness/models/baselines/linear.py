"""Caladrius's proportionality: rates grow with the input rate, shared out over the executors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.errors import ModelDeclined
from harness.models.baselines.proportionality import (
    bolts,
    executor_shares,
    io_ratios,
    median_service_ms,
    no_latency,
    routing,
    untimed,
)
from harness.models.contract.answers import answer, by_executor, declined, observe_for
from harness.models.contract.layout import Layout
from harness.models.contract.observe import Measured
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
        measured, layout = observe_for(source, proposed, rate_tps)
    except ModelDeclined as why:
        return declined(proposed, why)
    return answer(
        proposed,
        [
            ((Measure.ROUTING,), lambda: routing(measured, layout)),
            ((Measure.IO_RATIO,), lambda: io_ratios(measured, layout)),
            ((Measure.ARRIVALS,), lambda: _arrivals(measured, layout, rate_tps / source.rate_tps)),
            ((Measure.SERVICE,), lambda: _service(measured, layout)),
            ((Measure.GROUND_TRUTH, Measure.COMPLETE, Measure.ACK), no_latency),
        ],
    )


def _service(measured: Measured, layout: Layout) -> list[Estimate]:
    found = []
    for name in bolts(layout):
        value = median_service_ms(measured, name)
        executors = layout.executors[layout.of[name]]
        values = np.full(len(executors), value)
        found += by_executor(Measure.SERVICE, executors, values, name, value, untimed(name))
    return found


def _arrivals(measured: Measured, layout: Layout, scale: float) -> list[Estimate]:
    found = []
    for name in bolts(layout):
        by_task = measured.arrivals(name) / measured.seconds[name]
        rate = float(by_task.sum()) * scale * executor_shares(measured, layout, name, by_task)
        load = rate * median_service_ms(measured, name) / 1000
        executors = layout.executors[layout.of[name]]
        estimates = by_executor(Measure.ARRIVALS, executors, rate, name, float(rate.sum()), "")
        for estimate, busy in zip(estimates, [*load, load.max()], strict=True):
            reason = f"overloaded: {estimate.subject} (load {busy:.2f})"
            saturated = replace(estimate, value=None, status="saturated", reason=reason)
            found.append(saturated if busy >= 1 else estimate)
    return found
