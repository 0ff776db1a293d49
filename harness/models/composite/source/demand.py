"""Service of a tuple, its CPU demand and its waiting apart.

The wrappers measure each execute by the wall clock and by the thread's CPU clock. Wall-clock time is CPU time
stretched by contention for cores (``host_stretch``), plus waiting (sleeps, locks, other servers). So
contention stays behind with the source, and the proposed plan's is put in its place. The shape of a service
is the wall clock's: it has the pauses that make the tail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.atoms import from_histogram, merged, scaled
from harness.models.composite.source.evidence import Evidence, Histogram, ServiceSums
from harness.models.contract.layout import FloatArray
from harness.models.network import Atoms, constant
from harness.schemas import Metric, MetricField

MOSTLY = 0.5
"""Share of waiting in the service from which its shape is the wall clock's."""


@dataclass(frozen=True)
class Demand:
    """Cost of one tuple of a component.

    Attributes
    ----------
    cpu_ms, wait_ms : Atoms
        Up to its emits and acks; of a sink up to the ground truth's end.
    send_cpu_ms : float
        A sink's CPU after that.
    send_wait_ms : Atoms
        A sink's waiting after that.
    wall_ms : float
        Mean by the wall clock, in the source.
    """

    cpu_ms: Atoms
    wait_ms: Atoms
    send_cpu_ms: float
    send_wait_ms: Atoms
    wall_ms: float

    @property
    def total_cpu_ms(self) -> float:
        """Mean CPU time of one tuple."""
        return self.cpu_ms.mean_ms + self.send_cpu_ms


NOTHING = Demand(constant(0.0), constant(0.0), 0.0, constant(0.0), 0.0)
"""Demand of a component that nothing arrives at."""


def demands(
    evidence: Evidence, weights: FloatArray, stretched: float, before_end_ms: Mapping[str, float]
) -> Mapping[str, Demand]:
    """Return the cost of a tuple of every component with an input.

    Parameters
    ----------
    weights : array (blocks)
    stretched : float
        The source's stretch.
    before_end_ms : mapping of sink to float
        Mean time from reception to the ground truth's end, where hop records say it.

    Raises
    ------
    ModelDeclined
        When tuples of a component, or of a task, were received and none was timed.
    """
    found = {}
    for name, sums in evidence.service.items():
        received = _received(evidence, name, weights)
        timed = sums.count @ weights
        if not received.sum() > 0:
            found[name] = NOTHING
            continue
        if not timed.sum() > 0 or not (sums.wall_ms @ weights).sum() > 0:
            raise ModelDeclined(f"metric service of {name} is missing from the source step")
        if not sums.cpu_ms.sum() > 0:
            field = f"{Metric.SERVICE}.{MetricField.CPU_SUM_NS}"
            raise ModelDeclined(f"metric {field} of {name} is missing from the source step")
        found[name] = _demand(sums, weights, stretched, before_end_ms.get(name))
    return found


def _received(evidence: Evidence, name: str, weights: FloatArray) -> FloatArray:
    inputs = evidence.plan.query_plan.inputs(name)
    return np.asarray(sum(evidence.received[s] @ weights for s in inputs))


def _demand(sums: ServiceSums, weights: FloatArray, stretched: float, before_end_ms: float | None) -> Demand:
    number = float((sums.count @ weights).sum())
    wall_ms = float((sums.wall_ms @ weights).sum()) / number
    cpu_ms = float((sums.cpu_ms @ weights).sum()) / number
    wait_ms = max(wall_ms - stretched * cpu_ms, 0.0)
    mostly_waits = wait_ms > MOSTLY * wall_ms
    cpu = _shape(sums.cpu if mostly_waits else sums.wall, weights, cpu_ms)
    wait = _waits(sums.wall, weights, stretched * cpu_ms, wait_ms) if mostly_waits else constant(wait_ms)
    if before_end_ms is None:
        return Demand(cpu, wait, 0.0, constant(0.0), wall_ms)
    # A sink: before the ground truth's end it computes; its client comes after.
    before_cpu_ms = min(before_end_ms / stretched, cpu_ms)
    before_wait_ms = max(before_end_ms - stretched * before_cpu_ms, 0.0)
    after_wait_ms = max(wait_ms - before_wait_ms, 0.0)
    after = scaled(wait, after_wait_ms) if mostly_waits else _shape(sums.wall, weights, after_wait_ms)
    return Demand(
        scaled(cpu, before_cpu_ms),
        constant(before_wait_ms),
        cpu_ms - before_cpu_ms,
        after if after_wait_ms > 0 else constant(0.0),
        wall_ms,
    )


def _shape(histogram: Histogram, weights: FloatArray, mean_ms: float) -> Atoms:
    return from_histogram(histogram.values_ms, histogram.count @ weights, mean_ms)


def _waits(histogram: Histogram, weights: FloatArray, computing_ms: float, mean_ms: float) -> Atoms:
    """Return the waiting's distribution: the wall clock's, the computing taken off."""
    count = histogram.count @ weights
    if not count.sum() > 0:
        return constant(mean_ms)
    return scaled(merged(np.maximum(histogram.values_ms - computing_ms, 0.0), count), mean_ms)
