"""Steadiness of a step: burn-in detection while the step runs, and refusal of a drift afterwards.

Messages are put into buckets of equal time. Two series are judged: the latency, and the rate of arrivals
(against the rate of sending where that is known). MSER cuts off the start, by the truncation that minimises
the standard error of the rest. Shapes of change are fitted to the rest: a linear trend, and a change of level
after 10, 15, ... 90 % of the time. Each has a size in percent of the mean. Its standard error comes from the
residual's variance at low frequencies (the first cosine coefficients of the bucket series). So messages that
share fate, such as the members of a window, are not counted as independent. Correlation longer than about a
twelfth of the time judged is not seen as noise: it is a drift.

Two questions are kept apart. *Detected*: some shape differs from zero (level 1 % for all together) and
exceeds the tolerance, so a drift is shown. *Bounded*: the 90 % intervals of the trend and of the change
between halves lie within the tolerance. Then steadiness is shown, and burn-in may end early. A series that is
neither passes only when the most time is up, and the reason says so with the change that may be there.

The table shows the share, in percent, of simulated intervals of 60 s that are refused with a tolerance of 10
%. A figure is of 200 to 600 intervals; ``tests/experiments/test_steady.py`` asserts each within binomial
bounds. The kinds of stream:

- *plain*: 50 messages a second, coefficient of variation 0.5, independent;
- *slow*: half of that variance in a level with a time constant of 0.3 s;
- *windows*: tumbling, 10 tuples, 16 keys, 500 tuples a second; the rarest key's windows last 2.7 s, or 20 s
  (mean 144 ms, 99th percentile 1.4 s).

| stream                            | plain | slow | windows, 2.7 s | windows, 20 s |
| --------------------------------- | ----: | ---: | -------------: | ------------: |
| steady (false refusals)           |     1 |    1 |              0 |             0 |
| steady, interval of 30 s          |     1 |    2 |              1 |             2 |
| trend, 50 % from end to end       |   100 |   56 |            100 |            20 |
| 30 % more from the middle on      |   100 |   42 |            100 |            14 |
| 50 % more in the last tenth       |   100 |   42 |            100 |            31 |
| settling from 3 times the level   |   100 |   98 |            100 |           100 |
| growth to 6 times the level       |   100 |  100 |            100 |           100 |

Burn-in was tried between 15 s and 60 s, asked every 3 s. Of 200 steady streams of each kind at least 199 were
let pass (at 500 messages a second after 20 s on average, the others near the most time). A trend of 3 % a
second, or growth without bound, was never let pass with plain streams and 2.7 s windows. Of slow streams with
one up to 27 % were let pass; for these the interval's own check is the second guard.

Times are those of *arrival at the sink*, in seconds since the plan was up. By time of sending, the latest
messages would be only the quick ones, and a steady stream would seem to drift. Where max spout pending holds
messages back, latencies that begin at the spout stay bounded under saturation. Then judge latencies that
begin at the scheduled time, or give ``sent_s`` and ``outputs_per_message``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct
from scipy.special import stdtrit

from harness.experiments.precision import Floats, batch_totals, deviations, samples

DETECTION_ALPHA = 0.01
"""Level at which a drift is detected, for all shapes of one series together."""
BOUND_ALPHA = 0.05
"""Level of each side when a drift is shown to be within the tolerance."""
CHANGES_AFTER_PCT = tuple(range(10, 91, 5))
"""Shares of the time after which a change of level is looked for."""
INDEPENDENT_SHAPES = 12
"""The shapes overlap: the largest of all is exceeded by chance as that of so many independent ones.

Found by simulation of white noise, 6 to 16 coefficients and 12 to 120 buckets: 8 to 13.
"""
TREND, HALVES = "trend", "change after 50 % of the time"
TINY = 1e-12
"""Keeps a series without any noise from a division by zero."""
LEAST_BUCKETS = 12
"""Fewer buckets are not judged."""


@dataclass(frozen=True)
class Drift:
    """The clearest change found in one series, in percent of its mean.

    Attributes
    ----------
    measure : str
        ``latency`` or ``rate``.
    shape : str
        The shape whose size is largest against its standard error.
    change_pct : float
        Its size; a trend's is from one end to the other.
    low_pct, high_pct : float
        Its interval, which holds for all shapes together at 99 %.
    detected : bool
        The interval excludes zero and the size exceeds the tolerance.
    bounded : bool
        Trend and change between halves are shown to be within plus and minus the tolerance.
    """

    measure: str
    shape: str
    change_pct: float
    low_pct: float
    high_pct: float
    detected: bool
    bounded: bool

    def __str__(self) -> str:
        interval = f"{self.low_pct:+.1f} to {self.high_pct:+.1f} %"
        return f"{self.measure}: {self.shape} {self.change_pct:+.1f} % ({interval})"


@dataclass(frozen=True)
class Steadiness:
    """An answer, and whether it is final.

    Attributes
    ----------
    steady : bool
        Measuring may begin, or the interval stands.
    decided : bool
        False while more data may change the answer; always true of a finished interval.
    start_s : float or None
        Where the steady part begins; None when not steady.
    reason : str
        One line.
    latency, rate : Drift or None
        What was found; None when there was too little to judge.
    """

    steady: bool
    decided: bool
    start_s: float | None
    reason: str
    latency: Drift | None = None
    rate: Drift | None = None


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The messages of a step as far as known: their arrivals, and where it is known when they were sent.

    Attributes
    ----------
    times_s, latency_ms : array_like, shape (n,)
        When each message arrived at the sink, in seconds, and its latency.
    weights : array_like, shape (n,), optional
        How many messages each value stands for (`harness.experiments.precision.batch_totals`).
    sent_s : array_like, shape (m,), optional
        When messages were sent: the rate of arrivals is then judged against the rate of sending, which
        also makes it independent of a schedule that is random or not constant.
    outputs_per_message : float, optional
        Arrivals that a message sent leads to, on average. With ``sent_s`` it reveals arrivals that
        fall short of it, as those of a saturated topology do.

    Raises
    ------
    ValueError
        When it is known to what a message leads, and not when any was sent.
    """

    times_s: ArrayLike
    latency_ms: ArrayLike
    weights: ArrayLike | None = None
    sent_s: ArrayLike | None = None
    outputs_per_message: float | None = None

    def __post_init__(self) -> None:
        if self.outputs_per_message is not None and self.sent_s is None:
            raise ValueError("outputs_per_message needs sent_s")

    def series(self, start_s: float, end_s: float, buckets: int) -> _Series:
        """Count and sum by bucket of equal time.

        Raises
        ------
        ValueError
            When the span is empty or arrays differ in length.
        StepInvalid
            When a value is missing or negative.
        """
        times, latency = samples(self.times_s, self.latency_ms)
        counts, sums = batch_totals(times, latency, start_s, end_s, buckets, self.weights)
        return _Series(counts, sums, _sends(self.sent_s, start_s, end_s, buckets), self.outputs_per_message)


class _Series(NamedTuple):
    """Arrivals, sums of their latencies and messages sent, by bucket; and arrivals that one leads to."""

    counts: Floats
    sums: Floats
    sends: Floats
    outputs_per_message: float | None

    def since(self, cut: int) -> _Series:
        """Return it without its first buckets."""
        counts, sums, sends = (values[cut:] for values in self[:3])
        return _Series(counts, sums, sends, self.outputs_per_message)


def burn_in(
    arrivals: Arrivals, now_s: float, least_s: float, most_s: float, drift_pct: float, bucket_s: float = 1.0
) -> Steadiness:
    """Decide from the data so far whether burn-in is over; meant to be called every few seconds.

    Parameters
    ----------
    arrivals : Arrivals
        In seconds since the plan was up. Those from ``now_s`` on are ignored.
    now_s : float
        Seconds since the plan was up.
    least_s, most_s : float
        Burn-in ends no earlier than ``least_s``; at ``most_s`` the answer is final.
    drift_pct : float
        Change, in percent of the mean over the part judged, that still counts as steady.
    bucket_s : float
        Length of a bucket.

    Returns
    -------
    Steadiness
        ``decided`` and not ``steady``: the most time is up and the step drifts.

    Raises
    ------
    ValueError
        When times are out of order (least over most) or arrays differ in length.
    StepInvalid
        When a value is missing or negative.
    """
    if not (0 <= least_s <= most_s and bucket_s > 0 and drift_pct > 0):
        raise ValueError("burn-in needs 0 <= least_s <= most_s, bucket_s > 0 and drift_pct > 0")
    final = now_s >= most_s
    buckets = int(now_s / bucket_s + 1e-9)
    if now_s < least_s or buckets < LEAST_BUCKETS:
        return Steadiness(False, final, None, f"{now_s:.0f} s are too short to judge")
    # An unfinished last bucket waits for the next call.
    series = arrivals.series(0, buckets * bucket_s, buckets)
    if not series.counts.any():
        return Steadiness(False, final, None, f"no message arrived in {now_s:.0f} s")
    cut = min(truncation(series.counts, series.sums), buckets - LEAST_BUCKETS)
    start = cut * bucket_s
    drifts = _judge(series.since(cut), drift_pct)
    if drifts is None:
        return Steadiness(False, final, None, f"no message arrived since {start:.0f} s")
    answer = _answer(drifts, start, drift_pct)
    if answer.steady and not (final or all(d.bounded for d in drifts)):
        loose = next(d for d in drifts if not d.bounded)
        return Steadiness(
            False, False, None, f"drift not yet shown to be within {drift_pct:g} %: {loose}", *drifts
        )
    return answer if final or answer.steady else Steadiness(False, False, None, answer.reason, *drifts)


def interval(
    arrivals: Arrivals, start_s: float, end_s: float, drift_pct: float, bucket_s: float = 1.0
) -> Steadiness:
    """Judge a measured interval: it stands unless a drift is detected in it.

    Parameters are those of `burn_in`, with the interval's two ends on the clock of the arrivals. The
    buckets are shortened where that is needed to have `LEAST_BUCKETS` of them, and so that they fill the
    interval.

    Raises
    ------
    ValueError
        When the interval is empty or arrays differ in length.
    StepInvalid
        When a value is missing or negative.
    """
    buckets = max(LEAST_BUCKETS, round((end_s - start_s) / bucket_s))
    drifts = _judge(arrivals.series(start_s, end_s, buckets), drift_pct)
    if drifts is None:
        return Steadiness(False, True, None, "no message arrived in the interval")
    return _answer(drifts, start_s, drift_pct)


def truncation(counts: Floats, sums: Floats) -> int:
    """Return how many buckets to cut off so that the mean of the rest has the least standard error.

    This is MSER on bucket means, weighted by their numbers of messages; at most half is cut off.
    """
    n = counts.size
    tail_counts, tail_sums = counts[::-1].cumsum()[::-1], sums[::-1].cumsum()[::-1]
    products = [(a * b)[::-1].cumsum()[::-1] for a, b in ((sums, sums), (sums, counts), (counts, counts))]
    cuts = slice(0, n // 2 + 1)
    total = tail_counts[cuts]
    if not total[-1] > 0:
        return n // 2
    mean = tail_sums[cuts] / total
    squares = products[0][cuts] - 2 * mean * products[1][cuts] + mean**2 * products[2][cuts]
    return int(np.argmin(squares / total**2))


def drift(measure: str, counts: Floats, sums: Floats, tolerance_pct: float) -> Drift:
    """Find the clearest change in the ratio of sums to counts over equal buckets.

    Parameters
    ----------
    measure : str
        What the ratio is, for the message.
    counts, sums : ndarray, shape (n,)
        By bucket; at least `LEAST_BUCKETS`, and not all zero.
    tolerance_pct : float
        Size that does not matter.
    """
    mean = sums.sum() / counts.sum()
    series = deviations(counts, sums) * (100 / mean if mean > 0 else 0.0)
    used = low_frequencies(series.size)
    detect, bound = _critical(used)
    names, shapes, squares, spectra = _shapes(series.size, used)
    changes = shapes @ series / squares
    # The residual's low frequencies, one row a shape; one coefficient was spent on the fit.
    residuals = dct(series, norm="ortho")[1 : used + 1] - changes[:, None] * spectra
    errors = np.sqrt(np.square(residuals).sum(axis=1) / (used - 1) / squares)
    clearest = int(np.argmax(np.abs(changes) / np.maximum(errors, TINY)))
    change, error = float(changes[clearest]), float(errors[clearest])
    judged = [names.index(TREND), names.index(HALVES)]
    return Drift(
        measure,
        names[clearest],
        change,
        change - detect * error,
        change + detect * error,
        detected=abs(change) > max(tolerance_pct, detect * error),
        bounded=bool((np.abs(changes[judged]) + bound * errors[judged] <= tolerance_pct).all()),
    )


def low_frequencies(n: int) -> int:
    """Return how many cosine coefficients of n buckets measure the noise.

    The number is 0.4 n^(2/3), as is usual for such estimates, and at least 12 (below 11 degrees of freedom
    the power falls off). It is never more than half of all.
    """
    return min(n // 2, max(12, round(0.4 * math.pow(n, 2 / 3))))


def shortfall(sends: Floats, counts: Floats, outputs_per_message: float, tolerance_pct: float) -> Drift:
    """Compare the arrivals with those that the messages sent should lead to.

    Parameters
    ----------
    sends, counts : ndarray, shape (n,)
        Messages sent and messages arrived, by bucket.
    outputs_per_message : float
        Arrivals expected of one message sent.
    tolerance_pct : float
        Shortfall that does not matter.
    """
    spectrum = dct(deviations(sends, counts), norm="ortho")[1 : low_frequencies(sends.size) + 1]
    unit = 100 / outputs_per_message
    error = unit * float(np.sqrt(np.square(spectrum).mean() / sends.size))
    change = unit * float(counts.sum() / sends.sum()) - 100
    detect, bound = _critical(spectrum.size + 1)
    return Drift(
        "rate",
        "arrivals against those expected",
        change,
        change - detect * error,
        change + detect * error,
        detected=change < -max(tolerance_pct, detect * error),
        bounded=change - bound * error >= -tolerance_pct,
    )


@cache
def _shapes(n: int, used: int) -> tuple[tuple[str, ...], Floats, Floats, Floats]:
    """Return names, shapes over n buckets (mean 0, size 1), sums of squares and low frequencies."""
    bucket = np.arange(n)
    steps = [1.0 * (bucket >= round(n * percent / 100)) for percent in CHANGES_AFTER_PCT]
    shapes = np.array([(bucket + 0.5) / n, *steps])
    shapes -= shapes.mean(axis=1, keepdims=True)
    names = (TREND, *(f"change after {percent} % of the time" for percent in CHANGES_AFTER_PCT))
    spectra = dct(shapes, norm="ortho", axis=1)[:, 1 : used + 1]
    return names, shapes, np.square(shapes).sum(axis=1), spectra


@cache
def _critical(used: int) -> tuple[float, float]:
    """Return the standard errors needed to detect a drift, and those that bound one."""
    detect = float(stdtrit(used - 1, 1 - DETECTION_ALPHA / (2 * INDEPENDENT_SHAPES)))
    return detect, float(stdtrit(used - 1, 1 - BOUND_ALPHA))


def _sends(sent_s: ArrayLike | None, start_s: float, end_s: float, buckets: int) -> Floats:
    """Count the messages sent by bucket; where that is unknown, the rate is judged against time itself."""
    if sent_s is None:
        return np.ones(buckets)
    sent = np.asarray(sent_s, dtype=np.float64)
    return batch_totals(*samples(sent, np.zeros_like(sent)), start_s, end_s, buckets)[0]


def _judge(series: _Series, tolerance_pct: float) -> tuple[Drift, Drift] | None:
    """Return the drifts of latency and rate; None when nothing arrived or nothing was sent."""
    counts, sums, sends, outputs_per_message = series
    if not (counts.any() and sends.any()):
        return None
    latency = drift("latency", counts, sums, tolerance_pct)
    rate = drift("rate", sends, counts, tolerance_pct)
    if outputs_per_message is not None and not rate.detected:
        missing = shortfall(sends, counts, outputs_per_message, tolerance_pct)
        if missing.detected or (rate.bounded and not missing.bounded):
            rate = missing
    return latency, rate


def _answer(drifts: tuple[Drift, Drift], start_s: float, tolerance_pct: float) -> Steadiness:
    detected = [d for d in drifts if d.detected]
    if detected:
        return Steadiness(False, True, None, "; ".join(f"drift of {d}" for d in detected), *drifts)
    loose = [d for d in drifts if not d.bounded]
    reason = f"drift is within {tolerance_pct:g} %"
    if loose:
        reason = "no drift detected; noise leaves room for " + "; ".join(map(str, loose))
    return Steadiness(True, True, start_s, reason, *drifts)
