"""The receiver: reads every record of the output topic and decodes it, member by member."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from harness.backends.kafka.client import Consumer, Offsets, require_reachable
from harness.errors import ClusterError
from harness.experiments.workload_tables import RECEIVED
from harness.machine.trust import Trust
from harness.workload.process import Inbox, Outbox, Process, Ready
from harness.workload.wire import Foreign, OwnWire, Wire

POLL_MS = 500
QUIET_S = 5.0
"""After this long without a record the broker is asked whether it is still there."""
NAMED_FOREIGN = 20
"""Foreign records that are named; all are counted."""


@dataclass(frozen=True)
class ReceiverSettings:
    """Settings of the receiver's process: broker, output topic with its start, and form of the records."""

    bootstrap: str
    topic: str
    offsets: Offsets | None
    wire: Wire
    trust: Trust | None


class Batch(NamedTuple):
    """Rows decoded, and where reading has come to."""

    rows: pa.Table
    records: int
    foreign: tuple[Foreign, ...]
    positions: Offsets


class Receiver:
    """The receiver's process, seen from the parent.

    Attributes
    ----------
    records : int
        Records read so far, foreign ones included.
    foreign_records : int
        Records that were not ours or damaged; the first few are named in ``foreign``.
    positions : ndarray of int64, shape (partitions,)
        Offset of the next record of each partition.

    Raises
    ------
    ClusterError
        By every method, when the process or Kafka is gone.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        offsets: Offsets | None = None,
        wire: Wire | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.topic = topic
        self.records = 0
        self.foreign_records = 0
        self.foreign: tuple[Foreign, ...] = ()
        self.positions: Offsets = np.zeros(0, dtype=np.int64)
        settings = ReceiverSettings(bootstrap, topic, offsets, wire or OwnWire(), trust)
        self._process = Process("receiver", _run, settings)
        try:
            self._process.wait_ready()
            while not len(self.positions):
                self.poll(1.0)
        except BaseException:
            self._process.end()
            raise

    @property
    def pid(self) -> int:
        """Its process identifier."""
        return self._process.pid

    def poll(self, timeout_s: float = 0.0) -> pa.Table:
        """Return the rows decoded since the last call, of schema ``RECEIVED``."""
        tables = [RECEIVED.empty_table()]
        while (batch := self._process.result(timeout_s)) is not None:
            assert isinstance(batch, Batch)
            tables.append(batch.rows)
            self.records += batch.records
            self.foreign_records += len(batch.foreign)
            self.foreign = (*self.foreign, *batch.foreign)[:NAMED_FOREIGN]
            self.positions = batch.positions
            timeout_s = 0.0
        return pa.concat_tables(tables)

    def read_to(self, ends: Offsets, timeout_s: float) -> pa.Table:
        """Return rows until every partition has been read up to ``ends``.

        Raises
        ------
        ClusterError
            When that does not happen in time, naming what is missing.
        """
        tables = [self.poll()]
        deadline = time.monotonic() + timeout_s
        while (self.positions < ends).any():
            if time.monotonic() > deadline:
                missing = int((ends - self.positions).clip(min=0).sum())
                raise ClusterError(
                    f"receiver: {missing} records of {self.topic} not read within {timeout_s:g} s"
                )
            tables.append(self.poll(0.1))
        return pa.concat_tables(tables)

    def close(self) -> None:
        """End the process."""
        self._process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _run(inbox: Inbox, results: Outbox, settings: ReceiverSettings) -> None:
    consumer = Consumer(settings.bootstrap, settings.topic, settings.offsets, settings.trust)
    results.put(Ready())
    # The parent learns where reading begins, also when nothing ever comes.
    results.put(Batch(RECEIVED.empty_table(), 0, (), consumer.positions.copy()))
    heard = time.monotonic()
    while not inbox.wait(0.0):  # the parent only ever hangs up
        records = consumer.poll(POLL_MS)
        if records:
            decoded = settings.wire.decode(records)
            results.put(Batch(decoded.rows, decoded.records, decoded.foreign, consumer.positions.copy()))
            heard = time.monotonic()
        elif time.monotonic() - heard > QUIET_S:
            require_reachable(settings.bootstrap, settings.trust)
            heard = time.monotonic()
