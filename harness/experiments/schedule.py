"""When each message is due: schedules made in advance, as nanoseconds after the workload's start.

A schedule depends on its settings alone, never on when a message was really sent. So a workload that falls
behind shows as lateness and does not slow its own clock. The arithmetic is on integers:
the offsets read from message k on are, to the nanosecond, the tail of those read from message 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError

if TYPE_CHECKING:  # the generator's process imports this module, and needs no checks of settings
    from harness.experiments.workload_settings import RateChange, Workload

NS_PER_S = 1_000_000_000
CHUNK = 4096
"""Offsets in one chunk."""
_MAX_DENOMINATOR = 1_000_000

OffsetsNs = npt.NDArray[np.int64]


class Schedule(Protocol):
    """Send times of messages 0, 1, 2, ... of a workload."""

    @property
    def rate_tps(self) -> float:
        """Messages a second in the long run."""
        ...

    def chunks(self, first: int = 0) -> Iterator[OffsetsNs]:
        """Yield the offsets of messages ``first``, ``first + 1``, ... in ns, never decreasing."""
        ...


class Due(NamedTuple):
    """Messages that are due in a span of time, and whether the schedule ended before the span did."""

    messages: int
    ended: bool


@dataclass(frozen=True)
class BegunSchedule:
    """A schedule whose start is known, so that what is due can be counted without asking who sends it.

    Attributes
    ----------
    schedule : Schedule
    skip : int
        Position of the first message that is sent.
    base_ns : int
        The time that the schedule's offsets count from.

    Examples
    --------
    >>> BegunSchedule(Constant(10), skip=0, base_ns=0).due(NS_PER_S, 3 * NS_PER_S)
    Due(messages=20, ended=False)
    """

    schedule: Schedule
    skip: int
    base_ns: int

    def due(self, start_ns: int, end_ns: int) -> Due:
        """Count the messages that are due from a time on and before another one."""
        messages = 0
        for chunk in self.schedule.chunks(self.skip):
            first, last = np.searchsorted(chunk, [start_ns - self.base_ns, end_ns - self.base_ns])
            messages += int(last - first)
            if last < len(chunk):
                return Due(messages, ended=False)
        return Due(messages, ended=True)


def _positive(rate_tps: float) -> None:
    if not (0 < rate_tps < float("inf")):
        raise UsageError(f"rate {rate_tps} messages/s", "a rate is a number above zero")


@dataclass(frozen=True)
class Constant:
    """Equal gaps: message n is due at n / rate, rounded down to a nanosecond.

    The rate is taken as the nearest fraction whose denominator is at most a million. So a rate written with
    up to six decimals is kept exactly, however long the schedule.

    Examples
    --------
    >>> next(Constant(3).chunks())[:4].tolist()
    [0, 333333333, 666666666, 1000000000]
    """

    rate_tps: float

    def __post_init__(self) -> None:
        _positive(self.rate_tps)
        if self.exact_rate_tps == 0:
            raise UsageError(f"rate {self.rate_tps} messages/s", "the least is 0.000001")

    @property
    def exact_rate_tps(self) -> Fraction:
        """The rate that is kept."""
        return Fraction(repr(self.rate_tps)).limit_denominator(_MAX_DENOMINATOR)

    def chunks(self, first: int = 0) -> Iterator[OffsetsNs]:
        """Yield the offsets from message ``first`` on, without end."""
        rate = self.exact_rate_tps
        # Within a chunk (remainder + i * step) stays below 4096 * 1e9 * 1e6 < 2**63; the start of
        # each chunk is a Python integer, which has no bound.
        step = NS_PER_S * rate.denominator
        i = np.arange(CHUNK, dtype=np.int64) * step
        while True:
            base, remainder = divmod(first * step, rate.numerator)
            yield base + (i + remainder) // rate.numerator
            first += CHUNK


@dataclass(frozen=True)
class Poisson:
    """Independent exponential gaps, rounded to a nanosecond; the first message has one before it.

    The same seed gives the same schedule (with the same release of numpy).

    Examples
    --------
    >>> a, b = next(Poisson(50.0, seed=1).chunks()), next(Poisson(50.0, seed=1).chunks(first=10))
    >>> bool((a[10:] == b).all())
    True
    """

    rate_tps: float
    seed: int

    def __post_init__(self) -> None:
        _positive(self.rate_tps)

    def chunks(self, first: int = 0) -> Iterator[OffsetsNs]:
        """Yield the offsets from message ``first`` on, without end; earlier ones are drawn and skipped."""
        rng = np.random.default_rng(self.seed)
        scale_ns = NS_PER_S / self.rate_tps
        last, number = 0, 0
        while True:
            gaps = np.rint(rng.standard_exponential(CHUNK) * scale_ns).astype(np.int64)
            offsets = last + np.cumsum(gaps)
            last = int(offsets[-1])
            number += CHUNK
            if number > first:
                yield offsets[max(0, first - (number - CHUNK)) :]


@dataclass(frozen=True)
class Changing:
    """A schedule whose rate changes at given times: the steady one, with its time run faster or slower.

    Between two changes the steady schedule's time runs at the new rate over the first. So equal gaps stay
    equal, and a Poisson process stays one (the time change of an inhomogeneous Poisson process).

    Attributes
    ----------
    steady : Schedule
        At the first rate.
    changes : tuple of (int, float)
        Nanoseconds after the start, rising, and messages a second from then on.

    Examples
    --------
    One message a second, and two from 2 s on.

    >>> next(Changing(Constant(1), ((2 * NS_PER_S, 2.0),)).chunks())[:6].tolist()
    [0, 1000000000, 2000000000, 2500000000, 3000000000, 3500000000]
    """

    steady: Schedule
    changes: tuple[tuple[int, float], ...]

    @property
    def rate_tps(self) -> float:
        """Messages a second after the last change."""
        return self.changes[-1][1] if self.changes else self.steady.rate_tps

    def chunks(self, first: int = 0) -> Iterator[OffsetsNs]:
        """Yield the offsets from message ``first`` on, to the end of the steady schedule."""
        first_tps = self.steady.rate_tps
        at_ns = np.array([0, *(at for at, _ in self.changes)], dtype=np.int64)
        speed = np.array([1.0, *(rate_tps / first_tps for _, rate_tps in self.changes)])
        passed = np.concatenate(([0.0], np.cumsum(np.diff(at_ns) * speed[:-1])))  # of the steady schedule
        ends_ns = np.append(at_ns[1:], np.iinfo(np.int64).max)
        for chunk in self.steady.chunks(first):
            part = np.searchsorted(passed, chunk, side="right") - 1
            since_ns = np.floor((chunk - passed[part]) / speed[part]).astype(np.int64)
            yield np.minimum(at_ns[part] + since_ns, ends_ns[part])


@dataclass(frozen=True, eq=False)
class Trace:
    """Offsets read from a file; ends after the last one unless it repeats with a period.

    Attributes
    ----------
    offsets_ns : ndarray of int64, shape (n,)
        Offsets from the start, never decreasing.
    period_ns : int, optional
        Start of the next repetition after the start of the last one.
    """

    offsets_ns: OffsetsNs
    period_ns: int | None = None

    @classmethod
    def read(cls, path: Path, period_s: float | None = None) -> Trace:
        """Read one offset in seconds from the start a line; blank lines and ``#`` comments are left out.

        Parameters
        ----------
        period_s : float, optional
            When given, the trace starts again every ``period_s`` seconds, without end.

        Raises
        ------
        UsageError
            Naming file and line: not a number, negative, before the line above it, or no offset at
            all; or a period shorter than the trace.
        """
        return cls.of_lines(path, trace_lines(path), period_s)

    @classmethod
    def of_lines(cls, path: Path, lines: Sequence[tuple[int, str]], period_s: float | None = None) -> Trace:
        """Return the trace of offsets that a file has, each with the number of its line.

        Raises
        ------
        UsageError
            As ``read``.
        """
        offsets: list[int] = []
        for number, text in lines:
            offset = _nanoseconds(text, f"trace {path}, line {number}")
            if offsets and offset < offsets[-1]:
                raise UsageError(f"trace {path}, line {number}: {text} s is before the line above it")
            offsets.append(offset)
        if not offsets:
            raise UsageError(f"trace {path}: holds no offset", "one send time in seconds a line")
        period = None if period_s is None else _nanoseconds(repr(period_s), f"trace {path}, period")
        if period is not None and (period <= 0 or period < offsets[-1]):
            raise UsageError(f"trace {path}: the period of {period_s} s ends before the trace does")
        return cls(np.array(offsets, dtype=np.int64), period)

    @property
    def rate_tps(self) -> float:
        """Messages a second: over the period, or from the start to the last offset."""
        length_ns = self.period_ns if self.period_ns is not None else int(self.offsets_ns[-1])
        return len(self.offsets_ns) * NS_PER_S / length_ns if length_ns else float("inf")

    def chunks(self, first: int = 0) -> Iterator[OffsetsNs]:
        """Yield the offsets from message ``first`` on, to the end of the trace if it does not repeat."""
        size = len(self.offsets_ns)
        while self.period_ns is not None or first < size:
            repetition, position = divmod(first, size)
            part = self.offsets_ns[position : position + CHUNK]
            yield part + repetition * (self.period_ns or 0)
            first += len(part)


def schedule_of(
    workload: Workload, rate_tps: float, changes: Sequence[RateChange] = (), interval_at_s: float = 0.0
) -> Schedule:
    """Return the send times of a step's messages; a trace keeps its own rate.

    Steps whose rate changes do not go on with a random schedule, as others do. They have the same send times,
    which compares what adapts to these.

    Parameters
    ----------
    workload : Workload
    rate_tps : float
        Messages a second in the step, until the first change.
    changes : sequence of RateChange
        In seconds of the interval.
    interval_at_s : float
        When the interval begins, in seconds after the first message.
    """
    steady = _steady_schedule(workload, rate_tps)
    if not changes:
        return steady
    after = ((round((interval_at_s + c.at_s) * NS_PER_S), c.rate_tps) for c in changes)
    return Changing(steady, tuple(after))


def _steady_schedule(workload: Workload, rate_tps: float) -> Schedule:
    if workload.arrivals == "constant":
        return Constant(rate_tps)
    if workload.arrivals == "poisson":
        return Poisson(rate_tps, workload.seed)
    assert workload.trace is not None  # checked when the experiment was loaded
    return Trace.read(workload.trace)


def trace_lines(path: Path) -> list[tuple[int, str]]:
    """Return a trace file's lines without comments, each with its number; empty ones are left out.

    Raises
    ------
    UsageError
        When the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"trace {path}: cannot be read: {e}") from e
    texts = ((number, line.partition("#")[0].strip()) for number, line in enumerate(lines, start=1))
    return [(number, text) for number, text in texts if text]


def _nanoseconds(text: str, where: str) -> int:
    """Read a decimal number of seconds as whole nanoseconds."""
    try:
        seconds = Decimal(text)
    except InvalidOperation:
        raise UsageError(f"{where}: {text!r} is not a number of seconds") from None
    if not seconds.is_finite() or seconds < 0 or seconds > 10**9:
        raise UsageError(f"{where}: {text} s", "an offset lies between 0 and a thousand million seconds")
    return int((seconds * NS_PER_S).to_integral_value())
