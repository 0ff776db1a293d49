"""A clock that only waiting moves."""

from __future__ import annotations

NS_PER_S = 1_000_000_000


class VirtualClock:
    """Time that passes while somebody sleeps (``harness.experiments.contracts.Clock``).

    Parameters
    ----------
    epoch_ns : int
        The wall clock's time when it begins; the monotonic clock begins an hour after its own zero.

    Examples
    --------
    >>> clock = VirtualClock(0)
    >>> before = clock.monotonic()
    >>> clock.sleep(2.5)
    >>> clock.monotonic() - before
    2.5
    """

    def __init__(self, epoch_ns: int) -> None:
        self._start_ns = 3600 * NS_PER_S
        self._now_ns = self._start_ns
        self._epoch_ns = epoch_ns

    def monotonic_ns(self) -> int:
        """Return the monotonic clock."""
        return self._now_ns

    def monotonic(self) -> float:
        """Return the same in seconds."""
        return self._now_ns / NS_PER_S

    def time_ns(self) -> int:
        """Return the wall clock, nanoseconds since the epoch."""
        return self._epoch_ns + self._now_ns - self._start_ns

    def epoch_ms(self, monotonic_ns: int) -> int:
        """Return the wall clock's milliseconds at a time of the monotonic clock."""
        return (self._epoch_ns + monotonic_ns - self._start_ns) // 1_000_000

    def sleep(self, seconds: float, /) -> None:
        """Let time pass."""
        self._now_ns += max(round(seconds * NS_PER_S), 0)
