"""Growth of the backlog: messages due in the interval against messages that came out in it.

A topology that keeps up lets out as many messages as go in, whatever its latency. One that is saturated lets
out fewer: the difference stays in its queues, and the latency grows for as long as one measures. So a step is
called saturated by its counts, not by its latency. Its growth must be larger than the noise of the counts
between batches explains (level 0.5 %), and at least `LEAST_SHARE` of the messages that went in. Each half of
the interval must have its part of the growth, too. A topology that only stopped on the way, for a dead worker
or a neighbour on the host, is disturbed and not saturated, so it is measured again.

Net inflows of a steady topology add up to nothing but a change of its population (they undo each other). So
the noise between batches is more than the growth's own, and a steady step is hardly ever called saturated.
The other way round, a load of just over 1 shows only when the growth passes all thresholds. Over 60 s at 100
messages a second that is in one interval of three at a load of 1.05, and in nearly all at 1.1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from harness.quality import Backlog

Int64 = npt.NDArray[np.int64]

BATCHES = 20
"""Parts of equal time of an interval."""
ALPHA = 0.005
LEAST_SHARE = 0.02
"""Growth, as a share of the messages due, below which a topology is said to keep up."""
HALF_SHARE = 0.25
"""Growth of either half of the interval, as a share of the whole's, below which something stopped. A steady
growth has 1 give or take the noise of the counts; a stop after 43 % of the time or later has less."""


def backlog(due_ns: Int64, done_ns: Int64, start_ns: int, end_ns: int) -> Backlog:
    """Compare what was due in an interval with what came out in it.

    Parameters
    ----------
    due_ns : array of int64
        When each message of the step was scheduled.
    done_ns : array of int64
        When the last of each message's outputs left; messages without any are left out.
    start_ns, end_ns : int
        The interval.

    Raises
    ------
    ValueError
        When it is empty.

    Examples
    --------
    100 messages a second go in, 80 come out.

    >>> due, done = (np.arange(0, 60_000_000_000, step) for step in (10_000_000, 12_500_000))
    >>> found = backlog(due, done, 0, 60_000_000_000)
    >>> found.saturated, round(found.growth_tps), round(found.throughput_tps)
    (True, 20, 80)
    """
    if not start_ns < end_ns:
        raise ValueError(f"the interval from {start_ns} to {end_ns} ns is empty")
    seconds = (end_ns - start_ns) / 1e9
    went_in, came_out = (_counts(t, start_ns, end_ns) for t in (due_ns, done_ns))
    per_s = BATCHES / seconds
    stayed = (went_in - came_out) * per_s
    growth, growth_error = _mean_and_error(stayed)
    of_halves = stayed.reshape(2, -1).mean(axis=1)
    throughput, throughput_error = _mean_and_error(came_out * per_s)
    surely = growth > float(stdtrit(BATCHES - 1, 1 - ALPHA)) * growth_error
    return Backlog(
        growth_tps=growth,
        growth_error_tps=growth_error,
        throughput_tps=throughput,
        throughput_error_tps=throughput_error,
        saturated=bool(
            surely
            and growth >= LEAST_SHARE * went_in.sum() / seconds > 0
            and of_halves.min() >= HALF_SHARE * growth
        ),
    )


def done_ns(message_ids: Int64, left_ns: Int64) -> Int64:
    """Return when the last output of each message left.

    Examples
    --------
    >>> done_ns(np.array([7, 8, 7]), np.array([1, 2, 3])).tolist()
    [3, 2]
    """
    if not message_ids.size:
        return left_ns
    order = np.argsort(message_ids, kind="stable")
    begins = np.flatnonzero(np.diff(message_ids[order], prepend=message_ids[order][0] - 1))
    return np.asarray(np.maximum.reduceat(left_ns[order], begins))


def _counts(times_ns: Int64, start_ns: int, end_ns: int) -> npt.NDArray[np.float64]:
    edges = np.linspace(start_ns, end_ns, BATCHES + 1)
    return np.histogram(times_ns[(times_ns >= start_ns) & (times_ns < end_ns)], edges)[0].astype(np.float64)


def _mean_and_error(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
