"""Latencies of a proposed plan anchored at the source's measured latencies, where no hop was recorded.

A topology that nobody here wrote has no hop records. The times of its hops and polls are then assumed, and so
are wrong by an amount that the source shows. There the same assumptions give a latency beside the measured
one. Where the assumptions give too little, the difference is time that was not seen, and is added to the
proposed plan's latency. Where they give too much, that latency is reduced by the same share, so that nothing
becomes negative. Each percentile is moved by its own difference (quantile delta mapping, Cannon et al. 2015).
A percentile that fell below a lower one is raised to that one.

So the source itself is predicted as it was measured, whatever was assumed, and only the change is predicted.
Where the assumptions give the source no latency at all, no latency that rests on them is given. Where they
give more than twice a measured statistic, that statistic is not given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.protocols import Estimate, Prediction
from harness.schemas import LATENCIES, PERCENTILES, Measure

CARRIED = "no hop records: what hops take is carried over from the source"
"""Said of every latency that was anchored."""
COUNTED = (Measure.ROUTING, Measure.IO_RATIO, Measure.ARRIVALS)
"""Measures that follow from counters alone."""
_TOO_MUCH = 2.0
"""Times what was measured: beyond, most of the prediction for the source was not there."""

_Key = tuple[str, str, str]
_Known = Mapping[_Key, float]


def anchored(prediction: Prediction, source: Prediction, measured: Prediction) -> Prediction:
    """Return a prediction whose latencies are anchored at the source's.

    Parameters
    ----------
    prediction : Prediction
        Of the proposed plan.
    source : Prediction
        Of the source plan, by the same model.
    measured : Prediction
        What was measured in the source.

    Returns
    -------
    Prediction
        A latency of an executor that only the proposed plan has is moved like the mean executor of its
        component, that of a path like its sink's. One whose statistic was not measured in the source is
        declined, and so are waits in queues. If the source itself is predicted to be saturated, all that does
        not follow from counters is: it cannot be told whether it was, or what is assumed is wrong.

    Examples
    --------
    The source was predicted 2 ms too short:

    >>> def of(value, low=None, high=None):
    ...     return Prediction((Estimate("ack_latency_ms", "mean", value, "", low, high),))
    >>> [e] = anchored(of(5.0, 4.0, 6.0), of(3.0), of(5.0)).estimates
    >>> e.value, e.low, round(e.high, 6)
    (7.0, 5.6, 8.4)

    And a half too long:

    >>> anchored(of(6.0), of(3.0), of(2.0)).estimates[0].value
    4.0
    """
    full = next((e.reason for e in source.estimates if e.status == "saturated"), None)
    if full is not None:
        why = f"without hop records the source itself is predicted to be saturated: {full}"
        return Prediction(
            tuple(
                e if e.measure in COUNTED or e.status == "declined" else _without(e, why)
                for e in prediction.estimates
            )
        )
    at, real = _known(source.estimates), _known(measured.estimates)
    return _in_order(_moved(e, at, real) for e in prediction.estimates)


def _known(estimates: Iterable[Estimate]) -> _Known:
    """Return the latencies by subject, and by component the mean of its executors."""
    own: dict[_Key, float] = {}
    of_component: dict[_Key, list[float]] = {}
    for e in estimates:
        if e.measure in LATENCIES and e.value is not None:
            own[e.measure, e.statistic, e.subject] = e.value
            key = e.measure, e.statistic, _component(e.subject)
            of_component.setdefault(key, []).append(e.value)
    return {k: sum(v) / len(v) for k, v in of_component.items()} | own


def _component(subject: str) -> str:
    """Return the component of an executor's label, or the last one of a path's."""
    return subject.rpartition("/")[2].partition("[")[0]


def _without(estimate: Estimate, why: str) -> Estimate:
    return replace(estimate, value=None, low=None, high=None, status="declined", reason=why)


def _moved(estimate: Estimate, at: _Known, real: _Known) -> Estimate:
    if estimate.measure == Measure.QUEUE_WAIT and estimate.value is not None:
        return _without(estimate, "no hop records: what a tuple waits for its receiver is not known")
    if estimate.measure not in LATENCIES or estimate.value is None:
        return estimate
    keys = [
        (estimate.measure, estimate.statistic, s) for s in (estimate.subject, _component(estimate.subject))
    ]
    key = next((k for k in keys if at.get(k, 0.0) > 0 and real.get(k, 0.0) > 0), None)
    if key is None:
        what = "measured" if any(at.get(k, 0.0) > 0 for k in keys) else "predicted"
        measure = f"{estimate.measure} ({estimate.statistic})"
        return _without(estimate, f"no hop records, and the source's {measure} was not {what}")
    before, after = at[key], real[key]
    if before > _TOO_MUCH * after:
        why = f"no hop records, and the source is predicted to take {before:.3g} ms where it took {after:.3g}"
        return _without(estimate, why)
    more = estimate.value + after - before if after > before else estimate.value * after / before
    return replace(_scaled(estimate, more), reason=CARRIED)


def _scaled(estimate: Estimate, value: float) -> Estimate:
    """Give a positive estimate another value, and its interval the same width for its size."""
    assert estimate.value is not None, "what has no value is not moved"
    factor = value / estimate.value if estimate.value > 0 else 1.0
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return replace(estimate, value=value, low=low, high=high)


def _in_order(estimates: Iterable[Estimate]) -> Prediction:
    """Raise percentiles that lie below a lower one."""
    found, least = [], dict[tuple[str, str], float]()
    for e in estimates:
        of = e.measure, e.subject
        if e.reason != CARRIED or e.value is None or e.statistic not in PERCENTILES:
            found.append(e)
            continue
        least[of] = max(e.value, least.get(of, 0.0))
        found.append(_scaled(e, least[of]))
    return Prediction(tuple(found))
