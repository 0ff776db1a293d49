"""Latencies of a plan from one whose own are known, where nobody recorded what hops and polls take.

A topology that nobody here wrote has no hop records. What its hops take is then assumed, and so is wrong by
an amount that the source shows: there the same assumptions give a latency beside the measured one. What they
say too little is time that was not seen, and is added to what they say of the proposed plan; what they say
too much is a share, and is taken off as such, so that nothing becomes negative. Each percentile is moved by
its own difference (quantile delta mapping, Cannon et al. 2015); one that fell below a lower one is that one.

The source is predicted as it was measured, whatever was assumed; what is predicted to change is the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.models.answers import LATENCIES
from harness.protocols import Estimate, Prediction

CARRIED = "no hop records: what hops take is carried over from the source"
"""Said of every latency that was anchored."""
COUNTED = ("routing_probability", "io_ratio", "arrival_rate_tps")
"""Measures that follow from counters alone."""
_LEVELS = ("p50", "p90", "p95", "p99")

_Known = Mapping[tuple[str, str, str], float]


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
        Latencies of a subject that only the proposed plan has (an executor) are moved like the whole. A
        latency whose statistic was not measured in the source is declined. So is all that does not follow
        from counters, if the source itself would be saturated by what is assumed of it: it was not.

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
        why = f"what is assumed without hop records would saturate the source, which was measured ({full})"
        return Prediction(
            tuple(e if e.measure in COUNTED else _without(e, why) for e in prediction.estimates)
        )
    at, real = _known(source.estimates), _known(measured.estimates)
    return _in_order(_moved(e, at, real) for e in prediction.estimates)


def _known(estimates: Iterable[Estimate]) -> _Known:
    return {(e.measure, e.statistic, e.subject): e.value for e in estimates if e.value is not None}


def _without(estimate: Estimate, why: str) -> Estimate:
    return replace(estimate, value=None, low=None, high=None, status="declined", reason=why)


def _moved(estimate: Estimate, at: _Known, real: _Known) -> Estimate:
    if estimate.measure not in LATENCIES or estimate.value is None:
        return estimate
    own, whole = ((estimate.measure, estimate.statistic, s) for s in (estimate.subject, ""))
    key = own if own in at and own in real else whole
    if key not in real or not at.get(key, 0.0) > 0:
        measure = f"{estimate.measure} ({estimate.statistic})"
        return _without(estimate, f"no hop records, and the source's {measure} is not known")
    before, after = at[key], real[key]
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
        if e.reason != CARRIED or e.value is None or e.statistic not in _LEVELS:
            found.append(e)
            continue
        least[of] = max(e.value, least.get(of, 0.0))
        found.append(_scaled(e, least[of]))
    return Prediction(tuple(found))
