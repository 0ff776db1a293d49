"""Distribution of a tuple's wait for its batch to go.

A batch goes when it has ``limit`` tuples and another one comes, or at the flush, every ``flush_ms``,
whichever is first. Tuples come ``group`` at a time (a multiplier's outputs), the groups at random: K of them
between two flushes is Poisson with mean x / group, x = rate times flush. Of n = group K tuples,
r = 1 + (n - 1) mod limit leave at the flush (none of none) and the others in full batches. So

- the share of tuples that leave in a full batch is E [n - r] / x;
- the tuples that wait are, at any time since the flush, r of n(t). By Little's law the mean wait is
  their mean over rate. The integral over t of P(K(t) = k) up to the flush is P(K > k) over the rate of
  groups;
- of K groups at random the g-th from the end is g / (K + 1) of the period before the flush. That is the
  mean wait of those that leave with the flush; the rest of the mean wait is that of full batches.

Exact for groups of one size at random. Where arrivals are more regular, the index of dispersion is short of
1. For the share that is missing, K is taken as the whole numbers next to its mean.

The flush is a tuple in the sender's own queue. A flush may come while the tuple itself waits or is served
there (time s, before the tuple is sent). The sender then takes the flush right behind the tuple and those
that came between the two. A later flush waits for the sender's look, ``look_ms`` apart, and for the tuples in
the sender's queue then.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import inlined, inner
from harness.models.solver.spectrum import ComplexArray, complex_exp, gap_log

SOON, SOON_MS, LATE, LATE_MS, LOOK_MS, FULL, LIMIT, RATE, INDEX, FIRST, SECOND = range(11)
"""Numbers of a holding law. With probability ``SOON`` the wait is anything up to ``SOON_MS``; ``LATE``, up to
``LATE_MS`` and then up to ``LOOK_MS``; ``FULL``, of 1 to ``LIMIT`` more arrivals, at ``RATE`` a ms with
an index of dispersion; else nothing. The last two: its first moments."""
NUMBERS = 11


class BatchSender(NamedTuple):
    """The sending executor as a flush meets it.

    Attributes
    ----------
    before_ms, before_ms2 : float
        First two moments of the time before a tuple is sent in which a flush goes right after it.
    after_ms : float
        From sending until then.
    look_ms : float
        Between looks when there is nothing to do.
    load, work_ms : float
        Share of the time that it is busy, and mean work in its queue that a flush meets.
    """

    before_ms: float
    before_ms2: float
    after_ms: float
    look_ms: float
    load: float
    work_ms: float


@inlined
def _left(tuples: float, limit: int) -> float:
    """Return how many of n tuples a batch holds that goes when it is full and another one comes."""
    return 1 + (tuples - 1) % limit if tuples > 0 else 0.0


@inner
def _batched(
    rate: float, limit: int, flush_ms: float, group: float, regular: float
) -> tuple[float, float, float]:
    """Return the share in full batches, their mean wait, and the mean wait of those that are flushed."""
    come = rate * flush_ms
    mean = come / group
    spread = 8 * math.sqrt(mean) + 10
    low, high = max(int(mean - spread), 0), int(mean + spread) + 1
    probability = math.exp(low * math.log(mean) - mean - math.lgamma(low + 1.0))
    full = content = rest = waited = below = 0.0
    for k in range(low):
        content += _left(k * group, limit)
    for k in range(low, high):
        below += probability
        tuples = k * group
        left = _left(tuples, limit)
        groups = left / group
        full += probability * (tuples - left)
        rest += probability * left
        waited += probability * left * max((groups + 1) / 2, 1.0) / (k + 1) * flush_ms
        content += left * max(1 - below, 0.0)
        probability *= mean / (k + 1)
    whole_ms = content / mean / rate
    waits = max(whole_ms - waited / come, 0.0)  # of full batches, a tuple of any kind
    whole = math.floor(come)
    if regular > 0:
        waits *= 1 - regular
        full, rest, waited = (1 - regular) * full, (1 - regular) * rest, (1 - regular) * waited
        for tuples in (whole, whole + 1):
            weight = regular * (come - whole if tuples > whole else whole + 1 - come)
            left = _left(tuples, limit)
            full += weight * (tuples - left)
            waits += weight * (tuples - left) / come * (limit + 1) / 2 / rate
            rest += weight * left
            waited += weight * left * (left + 1) / 2 / (tuples + 1) * flush_ms
    flushed_ms = waited / rest if rest > 0 else 0.0
    share = full / (full + rest) if full + rest > 0 else 0.0
    full_ms = waits / share if share > 1e-9 else 0.0
    return share, min(full_ms, limit / rate), flushed_ms


@inner
def hold_law(
    rate: float, limit: int, flush_ms: float, index: float, sender: BatchSender, law: FloatArray
) -> None:
    """Fill in the law of waiting for a batch that is flushed.

    Parameters
    ----------
    rate : float
        At which the batch fills; 0 leaves nothing but the wait for the flush.
    index : float
        Of dispersion of what fills it, at the time scale at which it does.
    """
    law[:] = 0.0
    share, full_ms, flushed_ms = 0.0, 0.0, flush_ms / 2
    if rate * flush_ms > 1e-9:
        regular = max(1 - index, 0.0)
        share, full_ms, flushed_ms = _batched(rate, limit, flush_ms, max(index, 1.0), regular)
    law[FULL], law[LIMIT], law[INDEX] = share, limit, index
    law[RATE] = (limit + 1) / 2 / full_ms if full_ms > 0 else math.inf
    # the time before sending as two values with its moments, those of flushed tuples' flushes even
    most = 2 * flushed_ms
    spread = math.sqrt(max(sender.before_ms2 - sender.before_ms**2, 0.0))
    soon = late = late_ms = 0.0
    for sign in (-1, 1):
        before = min(max(sender.before_ms + sign * spread, 0.0), most)
        soon += before / 2
        late += (most - before) / 2
        late_ms += (most - before) ** 2 / 4
    if most > 0:
        law[SOON], law[LATE] = (1 - share) * soon / most, (1 - share) * late / most
    law[SOON_MS] = sender.load * min(sender.before_ms, most) + 2 * sender.after_ms
    law[LATE_MS] = max(2 * late_ms / late if late > 0 else 0.0, sender.look_ms)
    law[LOOK_MS] = sender.look_ms + 2 * (sender.work_ms + sender.after_ms)
    _moments(law)


@inner
def gather_law(rate: float, limit: int, index: float, law: FloatArray) -> None:
    """Fill in the law of waiting for a batch that nothing flushes: any number of arrivals up to full and one.

    However tuples come, what waits is any number from 1 to the limit alike; Little's law then says the mean.
    """
    law[:] = 0.0
    law[FULL], law[LIMIT], law[RATE], law[INDEX] = 1.0, limit, rate, index
    _moments(law)


@inlined
def _moments(law: FloatArray) -> None:
    late, look = law[LATE_MS], law[LOOK_MS]
    law[FIRST] = law[SOON] * law[SOON_MS] / 2 + law[LATE] * (late + look) / 2
    law[SECOND] = law[SOON] * law[SOON_MS] ** 2 / 3
    law[SECOND] += law[LATE] * (late * late / 3 + look * look / 3 + late * look / 2)
    if law[FULL] > 0 and law[RATE] < math.inf:
        many, square = (law[LIMIT] + 1) / 2, (law[LIMIT] + 1) * (2 * law[LIMIT] + 1) / 6
        law[FIRST] += law[FULL] * many / law[RATE]
        law[SECOND] += law[FULL] * (square + law[INDEX] * many) / (law[RATE] * law[RATE])


@inner
def times_hold(law: FloatArray, step: float, found: ComplexArray) -> None:
    """Multiply by the characteristic function of a holding law."""
    full = law[FULL] if law[RATE] < math.inf else 0.0
    at_once = 1 - law[SOON] - law[LATE] - full
    soon_turn, soon_at = _turn(law[SOON_MS] * step)
    late_turn, late_at = _turn(law[LATE_MS] * step)
    look_turn, look_at = _turn(law[LOOK_MS] * step)
    for k in range(1, found.size):
        value = complex(at_once, 0.0)
        soon = _even(soon_at, k * step * law[SOON_MS])
        value += law[SOON] * soon
        value += law[LATE] * _even(late_at, k * step * law[LATE_MS]) * _even(look_at, k * step * law[LOOK_MS])
        if full > 0:
            gap = gap_log(law[RATE], law[INDEX], k * step)
            one = complex_exp(gap)
            value += full * one * (1 - complex_exp(gap * law[LIMIT])) / (1 - one) / law[LIMIT]
        found[k] *= value
        soon_at *= soon_turn
        late_at *= late_turn
        look_at *= look_turn


@inlined
def _turn(angle: float) -> tuple[complex, complex]:
    turn = complex(math.cos(angle), math.sin(angle))
    return turn, turn


@inlined
def _even(at: complex, angle: float) -> complex:
    """Return the characteristic function of an even distribution from 0; ``at``: e to the i ``angle``."""
    return (at - 1) / complex(0.0, angle) if angle > 0 else complex(1.0, 0.0)
