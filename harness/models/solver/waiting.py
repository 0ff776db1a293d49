"""Distribution of a tuple's wait in an executor's queue.

An executor that finds its queue empty sleeps and looks again: a single server with vacations. Its wait is
that of the server without vacations plus the rest of a sleep (Fuhrmann and Cooper 1985). That is exact for
tuples or batches that come at random. The first part of the wait, W, has a mean and a shape.

The mean is between two limits. One limit is that of light load, where the work comes in less than a service.
The other is that of heavy load, where the work takes many services to come. Both limits are the same, and
exact, where the index I of arrivals is 1 at all scales (M/G/1).

- At light load tuples meet in pairs. An earlier one is still served with probability P(S > u) after a time u,
  for which I gives the number that came. So (1 - rho) W = rate E[S^2] / 2 + E[S (I(S) - 1)] / 2.
- At heavy load, robust queueing (Whitt and You 2018) gives the mean work
  Z = sup_s { -(1 - rho) s + sqrt(2 rho s S (I(s) + c_s^2)) }.
  Waiting for the tuples of the same batch included, W = Z / rho - (1 + c_s^2) S / 2 (Brumelle 1971).

Bursts whose tuples come apart are too short for both limits when they are rare. The index also gives a bound
below which the mean is not taken (``least_wait``).

The shape is that of a number of independent parts that is 0 or geometric, as in M/G/1 (Pollaczek and
Khinchine). The first part's probability is that of waiting at all, and the parts are like the rest of a
service.

Where arrivals are more regular the longer one looks, long waits are rarer. A wait of x(u) or more has the
probability exp(-u), by the most likely way to it (Choe and Shroff 2000). There
x(u) = sup_s { -(1 - rho) s + sqrt(2 u rho s S (I(s) + c_s^2)) }, of which the mean above is the case u = 1.
The power of u that x grows with, 1 for arrivals at random, shortens the parts' number and then the parts.
"""

from __future__ import annotations

import math

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import inlined, inner
from harness.models.solver.variability import RATIO, SCALES_MS, at_scale

PROBABILITY, AGAIN, PART, LONG, APART, WIDTH, MEAN, SECOND, SLEEP = range(9)
"""Numbers of a waiting law.

- ``PROBABILITY``, ``AGAIN``: probability of a first and of a further part
- ``PART``: a part's mean
- ``LONG``: probability that a part is exponential
- ``APART``: how far the two means are apart that it then has
- ``WIDTH``: half-width, as a share of its mean, within which it is even otherwise
- ``MEAN``, ``SECOND``: first and second moment of the wait without the sleep
- ``SLEEP``: length of a sleep
"""
NUMBERS = 9


_LEAST_SCV = 1e-3
"""Least squared coefficient of variation of a part's length."""
_DEEP = 4.0
"""Depth at which a tail's shape is read: a probability of 2 %."""


@inner
def least_wait(load: float, service_ms: float, index: FloatArray) -> float:
    """Return a wait that the mean cannot be below: the work that comes in any time before a tuple, less it.

    With N tuples expected in the time t before one, its mean wait is N S - t or more, whatever t. The index
    says N: with E the excess over rate times t, t (I(t) - 1) / 2 is the integral of E.
    """
    found = 0.0
    for k in range(index.size - 1):
        before, after = SCALES_MS[k], SCALES_MS[k + 1]
        excess = (after * (index[k + 1] - 1) - before * (index[k] - 1)) / (after - before) / 2
        middle = (before + after) / 2
        found = max(found, excess * service_ms + (load - 1) * middle)
    return found


@inner
def light_wait(load: float, first: float, second: float, third: float, index: FloatArray) -> float:
    """Return the mean wait where tuples meet in pairs only, times 1 / (1 - load).

    The mean over services is taken of two values that have the service's first three moments.
    """
    variance = second - first * first
    pairs = load * second / (2 * first)
    if not variance > 1e-12 * first * first:
        pairs += _excess(first, index)
    else:
        spread = math.sqrt(variance)
        skew = (third - 3 * first * second + 2 * first * first * first) / (variance * spread)
        root = math.sqrt(1 + skew * skew / 4)
        low, high = first + spread * (skew / 2 - root), first + spread * (skew / 2 + root)
        of_low = (1 + skew / 2 / root) / 2
        pairs += of_low * _excess(max(low, 0.0), index) + (1 - of_low) * _excess(high, index)
    return max(pairs, 0.0) / (1 - load)


@inlined
def _excess(time_ms: float, index: FloatArray) -> float:
    """Return the integral up to t of what is expected to come after a tuple beyond what comes at any time."""
    return time_ms * (at_scale(index, time_ms) - 1) / 2 if time_ms > 0 else 0.0


@inner
def _work(load: float, service_ms: float, scv: float, index: FloatArray, depth: float) -> float:
    """Return the work that is there with a probability of exp(-depth)."""
    half = math.sqrt(RATIO)
    slope = 1 - load
    work = 0.0
    for k in range(index.size):
        square = 2 * depth * load * service_ms * (index[k] + scv)
        low = SCALES_MS[k] / half if k > 0 else 0.0
        time_ms = max(square / (4 * slope * slope), low)
        if k < index.size - 1:
            time_ms = min(time_ms, SCALES_MS[k] * half)
        work = max(work, math.sqrt(square * time_ms) - slope * time_ms)
    return work


@inner
def _power(load: float, service_ms: float, scv: float, index: FloatArray, shallow: float) -> float:
    """Return the power of the depth that the work grows with; 1 for an exponential tail, and at most.

    Parameters
    ----------
    shallow : float
        Work at a depth of 1.
    """
    deep = _work(load, service_ms, scv, index, _DEEP)
    return min(math.log(deep / shallow) / math.log(_DEEP), 1.0) if shallow > 0 else 1.0


@inner
def mean_wait(
    load: float, first: float, second: float, third: float, index: FloatArray, work: float
) -> float:
    """Return the mean wait without sleeps, from moments of the service.

    The mean is by pairs where the work comes in less than a service, by robust queueing where the work takes
    many. The time that the work takes is estimated from the amount of work (equal where the supremum is
    inside a scale, and without jumps).

    Parameters
    ----------
    work : float
        Of heavy load.
    """
    scv = max(second / (first * first) - 1, 0.0)
    heavy = max(work / load - (1 + scv) * first / 2, 0.0)
    light = light_wait(load, first, second, third, index)
    time = work / (1 - load)
    weight = time * time / (time * time + 4 * first * first)
    return max(light + weight * (heavy - light), least_wait(load, first, index))


@inner
def waiting_law(load: float, hold: FloatArray, index: FloatArray, sleep_ms: float, law: FloatArray) -> None:
    """Fill in the law of waiting at an executor.

    Parameters
    ----------
    load : float
        Below 1.
    hold : array (3)
        Moments of the time that a tuple holds the executor.
    index : array
        Of dispersion of arrivals.
    """
    first, second, third = hold[0], hold[1], hold[2]
    law[:] = 0.0
    law[SLEEP] = sleep_ms
    if not (0 < load < 1 and first > 0):
        return
    scv = max(second / (first * first) - 1, 0.0)
    work = _work(load, first, scv, index, 1.0)
    mean = mean_wait(load, first, second, third, index, work)
    if not mean > 1e-12 * first:
        return
    part, part_second = second / (2 * first), third / (3 * first)
    part_scv = max(part_second / (part * part) - 1, 0.0)
    burst = at_scale(index, first) - 1
    if burst > 1e-9:
        behind = 1 + math.expm1(-burst) / burst  # share of tuples that are not the first of their burst
        more = 1 - (1 - load) * (1 - behind)
        part_scv += (1 - load) * behind / more * (0.7 - part_scv)
    else:
        more = min(load, mean / (mean + part))
    again, part_scv = more, max(part_scv, _LEAST_SCV)
    power = _power(load, first, scv, index, work)
    if power < 1:
        # the squared coefficient of variation of u^power is power^1.85, to 0.02
        waiting_scv = (part_scv * (1 - more) + more) * power**1.85
        if (waiting_scv - part_scv) * (1 - part_scv) > 0 and (waiting_scv - 1) * (1 - part_scv) < 0:
            again = (waiting_scv - part_scv) / (1 - part_scv)
        else:  # one part is not shorter
            again, part_scv = 0.0, max(waiting_scv, _LEAST_SCV)
    waiting = mean / more
    _parts(waiting * (1 - again), part_scv, law)
    law[PROBABILITY] = more
    law[AGAIN] = again
    law[MEAN] = mean
    law[SECOND] = mean * waiting * (1 + part_scv * (1 - again) + again)


@inlined
def _parts(mean: float, scv: float, law: FloatArray) -> None:
    """Fit a part: exponential at times, even otherwise; beyond a variation of 1, one of two exponentials.

    Parts are as the rest of a service is where services are exponential (scv 1) or constant (1 / 3). In the
    second case no part is longer than a certain time, which no sum of exponential stages could express.

    Of two exponentials each brings half of the mean (balanced means; Tijms, Stochastic Models, 1994). Let z
    be the root of (scv - 1) / (scv + 1). With probability (1 + z) / 2 a part has the mean over 1 + z, or else
    the mean over 1 - z.
    """
    scv = max(scv, _LEAST_SCV)
    law[PART] = mean
    law[LONG] = min(max((3 * scv - 1) / 2, 0.0), 1.0)
    law[APART] = math.sqrt((scv - 1) / (scv + 1)) if scv > 1 else 0.0
    law[WIDTH] = min(math.sqrt(3 * scv), 1.0)
