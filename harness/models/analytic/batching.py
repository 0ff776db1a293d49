"""How long a tuple waits for its batch, or for the flush that comes before it is full.

Between one executor and another a batch leaves when it has ``batch`` tuples, and whatever is there leaves at
each flush, every ``flush_ms``. With on average x = rate x flush tuples between two flushes: full batches take
the share of tuples that Poisson counts put into them, and such a tuple waits for 0 to batch - 1 more
arrivals,
each number alike; the others wait for the flush, which then is at any distance up to the time that a batch
takes to fill or the period, whichever is shorter.
"""

from __future__ import annotations

import math

from harness.models.analytic.compiled import inner
from harness.models.analytic.spectrum import ComplexArray, complex_exp, gap_log
from harness.models.layout import FloatArray


@inner
def full_share(rate: float, batch: int, flush_ms: float) -> float:
    """Return the share of tuples that leave in a full batch: E [batch floor(N / batch)] / E N, N Poisson."""
    x = rate * flush_ms
    if x <= 0:
        return 0.0
    spread = 8 * math.sqrt(x) + 10
    low, high = max(int(x - spread), 0), int(x + spread) + 1
    p = math.exp(low * math.log(x) - x - math.lgamma(low + 1.0))
    found = 0.0
    for count in range(low, high):
        found += p * batch * (count // batch)
        p *= x / (count + 1)
    return min(found / x, 1.0)


@inner
def batch_moments(rate: float, batch: int, flush_ms: float, found: FloatArray) -> None:
    """Fill in the first two moments of the wait."""
    full = full_share(rate, batch, flush_ms)
    many, square = (batch - 1) / 2, (batch - 1) * (2 * batch - 1) / 6
    rest = min(flush_ms, batch / rate) if rate > 0 else flush_ms
    found[0] = full * many / rate + (1 - full) * rest / 2 if rate > 0 else rest / 2
    found[1] = (1 - full) * rest * rest / 3
    if rate > 0:
        found[1] += full * (square + many) / (rate * rate)


@inner
def times_batch(rate: float, batch: int, flush_ms: float, step: float, found: ComplexArray) -> None:
    """Multiply by the characteristic function of the wait."""
    full = full_share(rate, batch, flush_ms)
    rest = min(flush_ms, batch / rate) if rate > 0 else flush_ms
    turn = complex(math.cos(rest * step), math.sin(rest * step))
    at = turn
    for k in range(1, found.size):
        value = complex(1.0, 0.0)
        if rest > 0:
            value = (at - 1) / complex(0.0, k * step * rest)
        if full > 0:
            gap = gap_log(rate, 1.0, k * step)
            value = (1 - full) * value + full * (1 - complex_exp(gap * batch)) / (
                1 - complex_exp(gap)
            ) / batch
        found[k] *= value
        at *= turn
