"""The index of dispersion for counts, I(t) = Var N(t) / E N(t), over time scales from 10 us to minutes.

One number (a squared coefficient of variation) cannot tell a burst of ten tuples from a slow change of rate.
This index can, since it shows at which time scale the variance is. Poisson arrivals have 1 at all scales,
evenly spaced ones 1 falling to 0, batches of ten at random times 10. The formulas here give the index after
each change to a flow. Waiting is got from the index by robust queueing (Whitt and You 2018), and departures
by their weighting of arrivals and services.
"""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import inlined, inner

RATIO = 1.8
SCALES_MS: FloatArray = np.asarray(0.01 * RATIO ** np.arange(28), dtype=np.float64)
"""Time scales, 0.01 ms to 78 s."""
_LOG_RATIO = math.log(RATIO)


@inlined
def rounding(mean: float) -> float:
    """Return Var / mean of a count that is x for sure but for where its boundaries fall.

    Exactly it is f (1 - f) / x with the fraction f of x; beyond the first fifth its mean over f is used.
    """
    return 1 - mean if mean < 0.2113 else 1 / (6 * mean)


@inlined
def renewal(intervals: float, scv: float) -> float:
    """Return the index of independent intervals of a squared coefficient of variation; x intervals long."""
    return scv + (1 - scv) * rounding(intervals)


@inlined
def in_turn(messages: float, tasks: float, share: float, scv: float) -> float:
    """Return the index of an executor's messages where all tasks get theirs one after another.

    The x messages of all tasks come in rounds of ``tasks``, and those to the executor's neighbouring tasks
    come together. That adds the variance of the overlap of a time with the executor's share of each round.

    Parameters
    ----------
    share : float
        Of the tasks.
    scv : float
        Of the time between messages of all tasks.
    """
    turns = messages / tasks
    both = overlap(turns - math.floor(turns), share)
    return (
        share * (renewal(messages, scv) - rounding(messages))
        + rounding(messages)
        + both * tasks * tasks / (share * messages)
    )


@inlined
def looked_at(time_ms: float, chance: float, poll_ms: float, emit_ms: float) -> float:
    """Return the index's increase by an executor that looks at its tasks one after another.

    A look finds a message with probability a, whatever others found, and then lasts c instead of p. So the
    time between two messages is c and a geometric number of looks of p. That time has a mean of
    m = c + p (1 - a) / a and a squared coefficient of variation of p^2 (1 - a) / a^2 / m^2. The coefficient
    is below 1 where an emit lasts longer than an empty look. It is above 1 where an emit lasts shorter and
    neighbouring tasks' messages come at once.

    Beside that, counts are of whole looks, which adds p / m, as a gate that opens every p. Exact for c of 0
    and p. Messages of one run of successful looks, c apart, are not seen together in a shorter time.

    Parameters
    ----------
    chance : float
        That a look finds a message.
    poll_ms, emit_ms : float
        What a look takes that finds nothing, and one that finds a message.
    """
    if not poll_ms > 0 or chance >= 1:
        return 0.0
    gap = chance * emit_ms + poll_ms * (1 - chance)
    beyond = poll_ms * poll_ms * (1 - chance) / (gap * gap) - 1
    beyond += released(time_ms / poll_ms) * chance * poll_ms / gap
    return beyond * max(1 - emit_ms / time_ms / (1 - chance), 0.0) if beyond > 0 else beyond


@inlined
def slept(time_ms: float, number: float, pass_ms: float, sleep_ms: float) -> float:
    """Return the index's increase by an executor that sleeps before each pass through its tasks.

    Messages that come in a sleep enter in the pass behind it. There the rate is higher by V over the pass, V
    being sleep and pass together. The increase is the variance of the overlap of a time with the passes'
    share of it (as in ``in_turn``).

    Parameters
    ----------
    number : float
        Of messages in V, other than of the same task.
    """
    period = pass_ms + sleep_ms
    if not sleep_ms > 0:
        return 0.0
    if not pass_ms > 0:
        return number * released(time_ms / period)
    periods, on = time_ms / period, pass_ms / period
    return number * overlap(periods - math.floor(periods), on) / (on * on * periods)


@inlined
def overlap(part: float, share: float) -> float:
    """Return the variance of the overlap of a part of a turn, anywhere in it, with a certain share of it."""
    less, more = min(part, 1 - part), min(share, 1 - share)
    if less > more:
        less, more = more, less
    return less * less * more - less * less * less / 3 - less * less * more * more


@inlined
def in_bursts(time_ms: float, number: float, period_ms: float, apart_ms: float, scv: float) -> float:
    """Return the index's increase by messages that come out in bursts, evenly spaced ones or at random.

    An executor that looks at tasks whose messages come in turn catches up with them once in a period.
    Messages of neighbouring tasks come out one after another, and then none until the turn has gone round. A
    burst brings b = E [B (B - 1)] / E B tuples beside each. Let y be a window's length over a burst's. Before
    a message the window has b (y - y^2 / 2) others of its burst up to y = 1, and b / 2 from there on. Two
    over y times the integral of that is b (y - y^2 / 3), and b (1 - 1 / (3 y)) from y = 1 on.

    Parameters
    ----------
    number : float
        Of a burst, on average.
    apart_ms : float
        Between two of them.
    scv : float
        Of the time between messages of all tasks: from 0, bursts of the whole numbers next to the average,
        to 1, of numbers that vary like Poisson's.
    """
    if not (number > 0 and period_ms > 0):
        return 0.0
    whole = math.floor(number)
    even = whole * (whole - 1 + 2 * (number - whole)) / number
    weight = min(scv, 1.0)
    beside = weight * number + (1 - weight) * even
    lengths = time_ms / max(number * apart_ms, 1e-9)
    seen = lengths - lengths * lengths / 3 if lengths < 1 else 1 - 1 / (3 * lengths)
    return beside * released(time_ms / period_ms) * seen


@inlined
def blurred(index: float, time_ms: float, blur_ms: float) -> float:
    """Return the index after delays drawn apart for each tuple; ``blur_ms``: mean distance of two of them."""
    return 1 + (index - 1) * time_ms / (time_ms + blur_ms) if blur_ms > 0 else index


@inlined
def drawn(index: float, probability: float) -> float:
    """Return the index of the part of a flow that is taken by chance, each tuple with probability p."""
    return probability * index + 1 - probability


@inlined
def dealt(index: float, share: float, rounds: float) -> float:
    """Return the index of the share p of a flow that is dealt out in turn; in t it makes ``rounds``."""
    return share * index + (1 - share) * (1 - rounds * 5 / 6 if rounds < 1 else 1 / (6 * rounds))


@inlined
def released(periods: float) -> float:
    """Return what a gate that opens every V adds to the index, over rate times V, at time x V."""
    fraction = periods - math.floor(periods)
    return fraction * (1 - fraction) / periods


@inlined
def at_scale(index: FloatArray, time_ms: float) -> float:
    """Return an index at any time, between the scales."""
    place = math.log(time_ms / SCALES_MS[0]) / _LOG_RATIO
    if place <= 0:
        return float(index[0])
    below = int(place)
    if below >= index.size - 1:
        return float(index[index.size - 1])
    return float(index[below] + (place - below) * (index[below + 1] - index[below]))


def _weight(time: float) -> float:
    """Return 1 - (1 - c(t)) / 2t with c the correlation function of canonical reflected Brownian motion."""
    root = math.sqrt(time)
    beyond = 0.5 * math.erfc(root / math.sqrt(2.0))
    density = math.exp(-time / 2) / math.sqrt(2 * math.pi)
    correlation = 2 * (1 - 2 * time - time * time) * beyond + 2 * root * density * (1 + time)
    return min(max(1 - (1 - correlation) / (2 * time), 0.0), 1.0)


_FINE = 8
_LEAST, _MOST = 1e-3, 60.0
"""Below, the weight grows from 0 with a square root; beyond, its correlation is nothing."""
_STEP = _LOG_RATIO / _FINE
_WEIGHTS: FloatArray = np.array(
    [_weight(_LEAST * math.exp(i * _STEP)) for i in range(math.ceil(math.log(_MOST / _LEAST) / _STEP) + 1)]
)
"""The weight at times so many of ``_STEP`` (of the logarithm) from the least: read off on straight lines."""


@inlined
def _weight_at(time: float, at: float) -> float:
    """Return the weight at time t, which is ``at`` steps of the logarithm from the least."""
    if at < 0:
        return math.sqrt(time) * 1.06
    below = int(at)
    if below >= _WEIGHTS.size - 1:
        return 1 - 1 / (2 * time)
    return float(_WEIGHTS[below] + (at - below) * (_WEIGHTS[below + 1] - _WEIGHTS[below]))


@inner
def departures(index: FloatArray, load: float, service_ms: float, scv: float, sleep_ms: float, rate: float,
               found: FloatArray) -> None:  # fmt: skip
    """Fill ``found`` with the index of an executor's departures.

    Tuples that come in a sleep leave when the sleep ends, one service apart. Behind that, departures are a
    mixture of arrivals and services (Whitt and You 2018, with the weight of a reflected Brownian motion).
    """
    limit = index[index.size - 1] + scv
    pace = (1 - load) ** 2 / (service_ms * limit) if service_ms > 0 and limit > 0 and load > 0 else 0.0
    at = math.log(pace * SCALES_MS[0] / _LEAST) / _STEP if pace > 0 else 0.0
    in_sleep = at_scale(index, sleep_ms) if sleep_ms > 0 else 0.0
    for k in range(index.size):
        time_ms = SCALES_MS[k]
        value = index[k]
        if sleep_ms > 0:
            asleep = index[k] if time_ms >= sleep_ms else in_sleep
            value = load * index[k] + (1 - load) * (asleep + rate * sleep_ms * released(time_ms / sleep_ms))
        if value > 1 and service_ms > 0:
            value = 1 + min(value - 1, time_ms / service_ms)
        weight = 1.0
        if pace > 0:
            weight = _weight_at(pace * time_ms, at)
            at += _FINE
        found[k] = weight * value + (1 - weight) * renewal(
            time_ms / service_ms if service_ms > 0 else 1e9, scv
        )
