"""Executors by Flink's autoscaler: DS2's rule at a utilisation, used where a component leaves its bounds.

Apache Flink Kubernetes Operator, ``JobVertexScaler``, ``ScalingMetricEvaluator`` and ``ScalingExecutor`` (at
6e9caeb4). All components get the executors for the target utilisation as soon as one that would change is
busier than target plus boundary, or less busy than target less boundary. While all are within, none changes.

Deviations: lag and restarts have no part in the rate (``job.autoscaler.catch-up.duration`` 0), since an
observation has neither. Sources keep their executors. Observed scalability, limits of one change and delays
of a scale-down are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from harness.protocols import Scalar, TuningDecision
from harness.tuning.bounds import bound_reason
from harness.tuning.dataflow import DataflowNode, rational
from harness.tuning.ds2 import scale
from harness.tuning.reading_tuner import ReadingTuner, TunedDataflow

BOUNDS = "max(u - b, 0) <= target / true_rate <= min(u + b, 1)"


def leaving_bounds(
    node: DataflowNode, target_tps: Fraction, utilisation: Fraction, boundary: Fraction
) -> Fraction | None:
    """Return a component's utilisation at a rate where it is outside the bounds; else None.

    Examples
    --------
    5 ms a tuple at 180/s is busy 0.9 of the time, within 0.4 to 1; at 70/s it is busy 0.35.

    >>> node = DataflowNode("a", Fraction(5, 1000))
    >>> leaving_bounds(node, Fraction(180), Fraction(7, 10), Fraction(3, 10))
    >>> leaving_bounds(node, Fraction(70), Fraction(7, 10), Fraction(3, 10))
    Fraction(7, 20)
    """
    busy = target_tps * node.ppt_s / node.executors
    within = max(utilisation - boundary, Fraction(0)) <= busy <= min(utilisation + boundary, Fraction(1))
    return None if within else busy


def bounded_scale(nodes: Sequence[DataflowNode], utilisation: Fraction, boundary: Fraction) -> TunedDataflow:
    """Return DS2's executors at a utilisation where a component that would change leaves its bounds.

    Else all keep their executors.

    Raises
    ------
    CyclicDataflow
        When nodes feed one another in a circle.
    """
    scaled = scale(nodes, utilisation)
    changing = [node for node in nodes if scaled.executors[node.name] != node.executors]
    out = {
        node.name: busy
        for node in changing
        if (busy := leaving_bounds(node, scaled.target_tps[node.name], utilisation, boundary)) is not None
    }
    if out or not changing:
        words = [f"{name} would be busy {float(busy):.2f} of the time" for name, busy in out.items()]
        reason = "; ".join(filter(None, [", ".join(words), bound_reason(scaled.decisions)]))
        return TunedDataflow(scaled.executors, scaled.decisions, reason)
    why = "No component that would change leaves its bounds, so all keep their executors."
    kept = []
    for node in nodes:
        target_tps = scaled.target_tps[node.name]
        values: dict[str, Scalar] = {
            "target_tps": float(target_tps),
            "true_rate_tps": float(node.executors / node.ppt_s) if node.ppt_s else None,
            "u": float(utilisation),
            "b": float(boundary),
            "p at u": scaled.executors[node.name],
        }
        kept.append(
            TuningDecision(node=node.name, formula=BOUNDS, values=values, result=node.executors, why=why)
        )
    named = ", ".join(node.name for node in changing)
    return TunedDataflow({n.name: n.executors for n in nodes}, tuple(kept), f"within its bounds: {named}")


class FlinkTuner(ReadingTuner):
    """Executors for a target utilisation, where one leaves its bounds (``harness.tuning.flink``).

    Attributes
    ----------
    utilisation : float
        Share of time that an executor is to be busy (``job.autoscaler.utilization.target``).
    boundary : float
        How far from it a component may be (``job.autoscaler.target.utilization.boundary``).
    """

    name = "flink"

    utilisation: Annotated[float, Field(gt=0, le=1)] = 0.7
    boundary: Annotated[float, Field(ge=0, le=1)] = 0.3

    def tune(self, nodes: tuple[DataflowNode, ...]) -> TunedDataflow:
        """Scale all components, or leave all as they are."""
        return bounded_scale(nodes, rational(self.utilisation), rational(self.boundary))
