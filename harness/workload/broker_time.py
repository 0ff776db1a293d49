"""When a record was appended, by its broker's stamp, on this machine's monotonic clock.

The schedule is on the monotonic clock. A stamp is a time of day in whole milliseconds, which may be another
machine's. Three shifts bring the stamp to the monotonic clock. The first is the broker's lead before the run.
The second is the difference of this machine's two clocks when the record is read, at most some seconds later.
The third is half a millisecond, to the middle of the stamp's millisecond.
"""

from __future__ import annotations

import time
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

CLOCK_READINGS = 5
Stamps = TypeVar("Stamps", int, NDArray[np.int64])


def appended_ns(append_ms: Stamps, offset_ns: int) -> Stamps:
    """Return stamps on the monotonic clock.

    Examples
    --------
    >>> appended_ns(1012, offset_ns=-1_000_000_000)
    12500000
    """
    return append_ms * 1_000_000 + 500_000 + offset_ns


def monotonic_minus_stamps_ns(ahead_ms: float = 0.0) -> int:
    """Return the monotonic clock's lead over the broker's time of day, in ns.

    Of several readings the quickest counts: a process may be kept from its core during another.

    Parameters
    ----------
    ahead_ms : float
        Lead of the broker's time of day over this machine's.
    """
    readings = []
    for _ in range(CLOCK_READINGS):
        before_ns, epoch_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after_ns - before_ns, (before_ns + after_ns) // 2 - epoch_ns))
    return min(readings)[1] - round(ahead_ms * 1e6)
