"""The generator: sends message n at its scheduled time and says when it really did.

A message that is overdue is sent at once, and the schedule stays as it was made. A generator that falls
behind shows this as lateness (``sent_ns - scheduled_ns``), never hides it in a slower clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.backends.kafka.client import Delivery, Producer, require_reachable
from harness.errors import ClusterError
from harness.experiments.schedule import BegunSchedule, Due, OffsetsNs, Schedule
from harness.experiments.turns import Turns
from harness.experiments.workload_tables import SENT
from harness.machine.trust import Trust
from harness.workload.process import Inbox, Outbox, Process, Ready
from harness.workload.wire import OwnWire, Wire

LEAD_NS = 100_000_000
"""The first message is due this long after the start."""
REPORT_NS = 250_000_000
"""Rows are handed to the parent this often."""
MOST_UNANSWERED = 20_000
"""Records that may wait for the broker at once; beyond it the generator falls behind, visibly."""
FLUSH_TIMEOUT_S = 35.0
SILENCE_NS = 5_000_000_000
"""When a record has waited this long, the broker is asked whether it is still there."""


@dataclass(frozen=True)
class GeneratorSettings:
    """Settings of the generator's process: broker, input topics by weight, and form of the records."""

    bootstrap: str
    topics: Mapping[str, int]
    wire: Wire
    trust: Trust | None


class Begin(NamedTuple):
    """Send messages ``first_id``, ``first_id + 1``, ... as scheduled from position ``skip`` on."""

    schedule: Schedule
    first_id: int
    skip: int


class Began(NamedTuple):
    """The schedule's offsets count from this time."""

    base_ns: int


class Stop(NamedTuple):
    """Stop sending and answer with ``Stopped``."""


class Stopped(NamedTuple):
    """All rows up to this message have been handed over."""

    next_id: int


class SentRows(NamedTuple):
    """Messages whose fate became known: tuples in the order of the columns of ``SENT``.

    Plain values: the first pyarrow array of a process imports pandas, for longer than most gaps
    between two messages.
    """

    rows: list[tuple[int, int, int, int, int | None, int | None, str | None]]

    def table(self) -> pa.Table:
        """Turn them into columns."""
        columns = zip(*self.rows, strict=True) if self.rows else [[] for _ in SENT]
        return pa.Table.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, SENT, strict=True)], schema=SENT
        )


class Exhausted(NamedTuple):
    """The schedule has come to its end."""


@dataclass(frozen=True)
class Lateness:
    """Delay of messages behind their schedule, in milliseconds."""

    messages: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, sent: pa.Table) -> Lateness | None:
        """Compute it from rows of ``SENT``; None when there is no row."""
        if not sent.num_rows:
            return None
        late_ms = pc.subtract(sent["sent_ns"], sent["scheduled_ns"]).to_numpy() / 1e6
        p50, p99 = np.percentile(late_ms, [50, 99])
        return cls(len(late_ms), float(p50), float(p99), float(late_ms.max()))


class Generator:
    """The generator's process, seen from the parent.

    Parameters
    ----------
    bootstrap : str
        ``host:port`` of the broker.
    topics : mapping of str to int
        Input topics, which exist, and the share of the messages that each gets (``Turns``).
    wire : Wire, optional
        What records look like; by default those of the harness's topologies, without payload.
    first_id : int
        Identifier of the first message of all.
    trust : Trust, optional
        How the broker's certificate is known, where it speaks TLS at that address.

    Raises
    ------
    ClusterError
        By every method, when the process or Kafka is gone.

    Examples
    --------
    >>> with Generator("127.0.0.1:9092", {"run-in": 1}, OwnWire("x" * 64)) as generator:  # doctest: +SKIP
    ...     generator.start(Constant(50.0), first_id=0)
    ...     ...
    ...     rows = generator.stop()
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Mapping[str, int],
        wire: Wire | None = None,
        first_id: int = 0,
        trust: Trust | None = None,
    ) -> None:
        settings = GeneratorSettings(bootstrap, topics, wire or OwnWire(), trust)
        self._process = Process("generator", _run, settings)
        self.next_id = first_id
        self.sending = False
        self.exhausted = False
        self._schedule: Schedule | None = None
        self._skip = 0
        self._base_ns: int | None = None
        try:
            self._process.wait_ready()
        except BaseException:
            self._process.end()
            raise

    @property
    def pid(self) -> int:
        """Its process identifier."""
        return self._process.pid

    def start(self, schedule: Schedule, first_id: int | None = None, skip: int = 0) -> None:
        """Begin to send; returns at once.

        Parameters
        ----------
        schedule : Schedule
            When each message is due.
        first_id : int, optional
            Identifier of the first message; by default the one after the last that was sent.
        skip : int
            Scheduled messages to leave out, for a schedule that is taken up again.

        Raises
        ------
        ValueError
            When it is sending, or the identifier was given before.
        """
        first_id = self.next_id if first_id is None else first_id
        if self.sending:
            raise ValueError("the generator is sending: stop it first")
        if first_id < self.next_id:
            raise ValueError(f"message {first_id} was sent before: the next one is {self.next_id}")
        self._process.tell(Begin(schedule, first_id, skip))
        self.next_id, self.sending, self.exhausted = first_id, True, False
        self._schedule, self._skip, self._base_ns = schedule, skip, None

    def due(self, start_ns: int, end_ns: int) -> Due:
        """Count what was due in a span by the schedule begun last, whatever the process has sent of it.

        The process says when it began before it sends anything, so this is known once ``poll`` has returned
        a row.

        Raises
        ------
        ClusterError
            When it has not begun.
        """
        if self._schedule is None or self._base_ns is None:
            raise ClusterError("generator process: has not begun to send")
        return BegunSchedule(self._schedule, self._skip, self._base_ns).due(start_ns, end_ns)

    def poll(self) -> pa.Table:
        """Return the messages whose fate became known since the last call, rows of ``SENT``."""
        return self._collect(until_stopped=False)

    def stop(self) -> pa.Table:
        """Stop sending, wait for the broker's answers, and return all rows not yet handed out."""
        if not self.sending:
            return SENT.empty_table()
        self._process.tell(Stop())
        rows = self._collect(until_stopped=True)
        self.sending = False
        return rows

    def _collect(self, until_stopped: bool) -> pa.Table:
        tables = [SENT.empty_table()]
        deadline = time.monotonic() + FLUSH_TIMEOUT_S + 10
        while True:
            result = self._process.result(0.2 if until_stopped else 0.0)
            match result:
                case SentRows():
                    tables.append(result.table())
                case Began(base_ns):
                    self._base_ns = base_ns
                case Exhausted():
                    self.exhausted = True
                case Stopped(next_id):
                    self.next_id = next_id
                    break
                case None if not until_stopped:
                    break
                case None if time.monotonic() > deadline:
                    raise ClusterError("generator process: does not stop")
        return pa.concat_tables(tables)

    def close(self) -> None:
        """End the process."""
        self._process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- in the child ----


def _run(inbox: Inbox, results: Outbox, settings: GeneratorSettings) -> None:
    # The client's thread must give way soon when a message is due (Python's default is 5 ms).
    sys.setswitchinterval(0.0005)
    producer = Producer(settings.bootstrap, *settings.topics, trust=settings.trust)
    sender = _Sender(inbox, results, producer, settings)
    results.put(Ready())
    while True:
        command = inbox.take()
        if isinstance(command, Begin):
            sender.send(command)


class _Sender:
    """The child's loop."""

    def __init__(
        self, inbox: Inbox, results: Outbox, producer: Producer, settings: GeneratorSettings
    ) -> None:
        self._inbox = inbox
        self._results = results
        self._producer = producer
        self._wire = settings.wire
        self._partition_of = _partitions(settings.topics, producer.partitions)
        self._times: dict[int, tuple[int, int]] = {}
        self._done: list[Delivery] = []
        self._report_ns = 0
        self._asked_ns = 0

    def send(self, begin: Begin) -> None:
        """Send until told to stop; a schedule that ends is waited out."""
        next_id = begin.first_id
        base_ns, due = _due(begin)
        self._results.put(Began(base_ns))
        for message_id, due_ns in enumerate(due, start=begin.first_id):
            if self._stopped_before(due_ns):
                break
            sent_ns = time.monotonic_ns()
            self._times[message_id] = (due_ns, sent_ns)
            partition = self._partition_of[message_id % len(self._partition_of)]
            record = self._wire.outgoing(message_id)
            self._producer.send(partition, record.value, message_id, record.key, record.headers)
            next_id = message_id + 1
        else:
            self._results.put(Exhausted())
            while not self._stopped_before(time.monotonic_ns() + REPORT_NS):
                pass
        if self._producer.unanswered:
            require_reachable(self._producer.bootstrap, self._producer.trust)
        self._done += self._producer.flush(FLUSH_TIMEOUT_S)
        self._report(time.monotonic_ns())
        self._results.put(Stopped(next_id))

    def _stopped_before(self, due_ns: int) -> bool:
        """Wait until a message is due, harvesting answers meanwhile; true when told to stop."""
        while True:
            now_ns = time.monotonic_ns()
            if now_ns >= self._report_ns:
                self._done += self._producer.deliveries()
                self._report(now_ns)
                self._require_answers(now_ns)
                now_ns = time.monotonic_ns()
            full = self._producer.unanswered >= MOST_UNANSWERED
            wait_ns = 1_000_000 if full else min(due_ns, self._report_ns) - now_ns
            if self._inbox.wait(wait_ns / 1e9):
                assert isinstance(self._inbox.take(), Stop)
                return True
            if full:
                self._done += self._producer.deliveries()
            elif time.monotonic_ns() >= due_ns:
                return False

    def _require_answers(self, now_ns: int) -> None:
        oldest = next(iter(self._times.values()), None)
        if oldest is not None and now_ns - max(oldest[1], self._asked_ns) > SILENCE_NS:
            self._asked_ns = now_ns
            require_reachable(self._producer.bootstrap, self._producer.trust)

    def _report(self, now_ns: int) -> None:
        self._report_ns = now_ns + REPORT_NS
        if not self._done:
            return
        rows = [
            (d.tag, *self._times.pop(d.tag), d.partition, d.offset, d.append_ms, d.error) for d in self._done
        ]
        self._results.put(SentRows(rows))
        self._done = []


def _partitions(topics: Mapping[str, int], partitions: int) -> Sequence[int]:
    """Return the partitions of messages 0, 1, ... until they repeat: a plain list, quick to look up."""
    of_each = partitions // len(topics)
    repeats = sum(topics.values()) * of_each
    return [int(p) for p in Turns(list(topics.values())).partition_of(np.arange(repeats), of_each)]


def _due(begin: Begin) -> tuple[int, Iterator[int]]:
    """Return the time that offsets count from, and the monotonic time at which each message is due.

    The first offsets are drawn before the clock is read. A random schedule that is taken up late draws all of
    its past first. If the start were set before that, the messages due meanwhile would come in one burst.
    """
    chunks = begin.schedule.chunks(begin.skip)
    first = next(chunks, np.empty(0, dtype=np.int64))
    # taken up again: the gap before the first message is the schedule's own
    passed_ns = int(next(begin.schedule.chunks(begin.skip - 1))[0]) if begin.skip else 0
    base_ns = time.monotonic_ns() + LEAD_NS - passed_ns
    return base_ns, _moved(first, chunks, base_ns)


def _moved(first: OffsetsNs, rest: Iterator[OffsetsNs], base_ns: int) -> Iterator[int]:
    for chunk in chain((first,), rest):
        yield from (chunk + base_ns).tolist()
