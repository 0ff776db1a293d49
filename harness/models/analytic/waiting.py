"""How long a tuple waits in an executor's queue, as a distribution.

An executor that finds its queue empty sleeps and looks again: a single server with vacations, whose wait is
that of the server without them plus the rest of a sleep (Fuhrmann and Cooper 1985), exact for tuples or
batches that come at random. The first part, W, has

- its mean from robust queueing (Whitt and You 2018): the mean work Z = sup_s { -(1 - rho) s +
  sqrt(2 rho s S (I(s) + c_s^2)) }, exact where the index I is the same at all scales (M/G/1, batches),
  right in
  its limits of light and heavy load elsewhere, and W = Z / rho - (1 + c_s^2) S / 2 (Brumelle 1971), which
  includes waiting for the tuples of the same batch;
- the shape of a geometric number of independent parts, as in M/G/1 (Pollaczek and Khinchine), whose first
  part's probability is that of waiting at all, and whose parts are like the rest of a service.
"""

from __future__ import annotations

import math

from harness.models.analytic.compiled import inlined, inner
from harness.models.analytic.variability import RATIO, SCALES_MS, at_scale
from harness.models.layout import FloatArray

PROBABILITY, STAGES, FEWER, STAGE_RATE, MEAN, SECOND, SLEEP = range(7)
"""Numbers of a waiting law: probability of a further part, Erlang stages of a part (one fewer with
probability
``FEWER``), stages a ms; first and second moment of the wait without the sleep; length of a sleep."""
NUMBERS = 7
_MOST_STAGES = 8


@inner
def mean_wait(load: float, service_ms: float, scv: float, index: FloatArray) -> float:
    """Return the mean wait without sleeps, by robust queueing."""
    half = math.sqrt(RATIO)
    slope = 1 - load
    work = 0.0
    for k in range(index.size):
        square = 2 * load * service_ms * (index[k] + scv)
        low = SCALES_MS[k] / half if k > 0 else 0.0
        s = max(square / (4 * slope * slope), low)
        if k < index.size - 1:
            s = min(s, SCALES_MS[k] * half)
        work = max(work, math.sqrt(square * s) - slope * s)
    return max(work / load - (1 + scv) * service_ms / 2, 0.0)


@inner
def waiting_law(load: float, first: float, second: float, third: float, index: FloatArray, sleep_ms: float,
                law: FloatArray) -> None:  # fmt: skip
    """Fill in the law of waiting at an executor.

    Parameters
    ----------
    load : float
        Below 1.
    first, second, third : float
        Moments of the time that a tuple holds the executor.
    index : array
        Of dispersion of arrivals.
    """
    law[:] = 0.0
    law[SLEEP] = sleep_ms
    if not 0 < load < 1:
        return
    scv = max(second / (first * first) - 1, 0.0)
    mean = mean_wait(load, first, scv, index)
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
    part = mean * (1 - more) / more
    _stages(part, part_scv, law)
    number = more / (1 - more)
    law[PROBABILITY] = more
    law[MEAN] = mean
    law[SECOND] = mean * mean + number * part_scv * part * part + number / (1 - more) * part * part


@inlined
def _stages(mean: float, scv: float, law: FloatArray) -> None:
    """Fit a mixture of Erlang k and k - 1 (scv up to 1; larger ones are taken as 1, smaller as 1 / 8)."""
    scv = min(max(scv, 1 / _MOST_STAGES), 1.0)
    stages = math.ceil(1 / scv - 1e-9)
    fewer = (stages * scv - math.sqrt(stages * (1 + scv) - stages * stages * scv)) / (1 + scv)
    law[STAGES] = stages
    law[FEWER] = min(max(fewer, 0.0), 1.0) if stages > 1 else 0.0
    law[STAGE_RATE] = (stages - law[FEWER]) / mean
