"""Predictions put together: estimates by subject, and named gaps where there is no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, Layout, lay_out, outputs, require_same_topology
from harness.models.contract.observe import Measured, io_label, observe
from harness.plans import Executor, PhysicalPlan, Relief, Stream, connection_label
from harness.protocols import Estimate, Observation, Prediction, PredictionStatus
from harness.schemas import LATENCIES, Measure

MEASURES = (
    Measure.ROUTING,
    Measure.IO_RATIO,
    Measure.ARRIVALS,
    Measure.SERVICE,
    Measure.GROUND_TRUTH,
    Measure.COMPLETE,
    Measure.ACK,
)
"""Measures that every model answers or declines."""
STATISTICS: Mapping[str, tuple[str, ...]] = {
    Measure.GROUND_TRUTH: ("mean", "mean_same_node"),
    Measure.COMPLETE: ("mean", "p90_paths"),
}
"""Statistics that a model without an answer names a gap for; of the other measures, the mean."""

Part = tuple[tuple[str, ...], Callable[[], list[Estimate]]]
"""Measures, and what estimates them or raises ModelDeclined."""


class Saturated(ModelDeclined):
    """Executors that would be overloaded, so that there is no latency; the message names them."""


def first_latency(
    estimates: Iterable[Estimate], statistic: str, latencies: Sequence[str] = LATENCIES
) -> Estimate | None:
    """Return a statistic of the topology's first latency that is predicted with it; None without one.

    The latencies are ground truth, complete, and emit to ack, or as a source has them
    (``Observation.latencies``).

    Examples
    --------
    >>> found = [Estimate("complete_latency_ms", "mean", 22.0), Estimate("ack_latency_ms", "p95", 30.0)]
    >>> first_latency(found, "p95").measure, first_latency(found, "mean").measure
    ('ack_latency_ms', 'complete_latency_ms')
    """
    own = {e.measure: e for e in estimates if not e.subject and e.statistic == statistic}
    return next((own[m] for m in latencies if m in own and own[m].value is not None), None)


def subjects(plan: PhysicalPlan, measure: str) -> list[str]:
    """Return the subjects that a measure has in a plan; the empty one for latencies."""
    query_plan = plan.query_plan
    if measure in LATENCIES:
        return [""]
    if measure == Measure.ROUTING:
        return [connection_label(s, i, j) for s, i, j in plan.connections()]
    found = []
    for component in query_plan.components:
        if not query_plan.inputs(component.name):
            continue
        owners = [e.label for e in plan.of(component.name)] + [component.name]
        if measure == Measure.IO_RATIO:
            found += [io_label(o, out.stream) for out in outputs(query_plan, component.name) for o in owners]
        else:
            found += owners
    return found


def gaps(plan: PhysicalPlan, measure: str, why: ModelDeclined) -> list[Estimate]:
    """Return the measure without a value for each of its subjects, with the reason."""
    status: PredictionStatus = "saturated" if isinstance(why, Saturated) else "declined"
    return [
        Estimate(measure, statistic, None, subject, status=status, reason=str(why))
        for subject in subjects(plan, measure)
        for statistic in STATISTICS.get(measure, ("mean",))
    ]


def declined(plan: PhysicalPlan, why: ModelDeclined) -> Prediction:
    """Return a prediction that answers nothing: every measure is a gap with the reason."""
    return Prediction(tuple(gap for measure in MEASURES for gap in gaps(plan, measure, why)))


def answer(plan: PhysicalPlan, parts: Iterable[Part]) -> Prediction:
    """Collect the parts' estimates; a part that declines becomes gaps for its measures."""
    found: list[Estimate] = []
    for measures, estimate in parts:
        try:
            found += estimate()
        except ModelDeclined as why:
            found += [gap for measure in measures for gap in gaps(plan, measure, why)]
    return Prediction(tuple(found))


def require_no_relief(relief: Relief, whose: str) -> None:
    """Refuse a step in which bolts help each other or spouts pause.

    Raises
    ------
    ModelDeclined
        Naming whose step it is, and what was in force.

    Examples
    --------
    >>> require_no_relief(Relief(), "source")
    """
    if relief.parts:
        keys = " and ".join(f"topology.{part}" for part in relief.parts)
        raise ModelDeclined(f"the {whose} step has {keys}, whose worth no model knows")


def require_rate(rate_tps: float, whose: str) -> None:
    """Refuse an input rate that is not a positive number.

    Raises
    ------
    ModelDeclined
        Naming whose rate it is.
    """
    if not (np.isfinite(rate_tps) and rate_tps > 0):
        raise ModelDeclined(f"the {whose} input rate is {rate_tps:g} messages/s, not a positive number")


def observe_for(source: Observation, proposed: PhysicalPlan, rate_tps: float) -> tuple[Measured, Layout]:
    """Return what a source's metrics say, and the layout of a plan that is proposed for a rate.

    Raises
    ------
    ModelDeclined
        When a rate is not positive, the plan is of another topology, or a metric cannot be used.
    """
    require_rate(rate_tps, "proposed")
    require_rate(source.rate_tps, "source")
    require_same_topology(source.plan, proposed)
    return observe(source), lay_out(proposed)


def by_executor(
    measure: str,
    executors: Iterable[Executor],
    values: FloatArray,
    component: str,
    total: float,
    unknown: str,
) -> list[Estimate]:
    """Return a measure of executors and their component; NaN becomes a gap with the reason ``unknown``."""
    subject_values = [*((e.label, v) for e, v in zip(executors, values, strict=True)), (component, total)]
    return [number(measure, subject, value, unknown) for subject, value in subject_values]


def number(measure: str, subject: str, value: float, unknown: str, statistic: str = "mean") -> Estimate:
    """Return an estimate, or a gap with the reason ``unknown`` where the value is NaN."""
    if np.isnan(value):
        return Estimate(measure, statistic, None, subject, status="declined", reason=unknown)
    return Estimate(measure, statistic, float(value), subject)


def routing_estimates(layout: Layout, routing: Mapping[Stream, FloatArray]) -> list[Estimate]:
    """Return the routing probability of every logical connection; NaN becomes a gap."""
    found = []
    for stream, probabilities in routing.items():
        sources, targets = (layout.executors[layout.of[end]] for end in (stream.source, stream.target))
        for i, row in zip(sources, probabilities, strict=True):
            unknown = f"{i.label} emitted nothing on {stream.stream} in the source step"
            found += [
                number(Measure.ROUTING, connection_label(stream, i, j), p, unknown)
                for j, p in zip(targets, row, strict=True)
            ]
    return found
