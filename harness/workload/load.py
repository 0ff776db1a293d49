"""The workload of a run: generator and receiver together, counted step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import pyarrow as pa

from harness.backends.kafka.client import PARTITIONS, Topics
from harness.experiments.schedule import Due, Poisson, Schedule
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.machine.trust import Trust
from harness.workload.generator import Generator
from harness.workload.receiver import Receiver
from harness.workload.wire import Foreign, OwnWire, Wire

READ_TIMEOUT_S = 30.0
_MOST_PARTS = 64


class KafkaLoad:
    """Sends to input topics and reads an output topic, all of which exist.

    Parameters
    ----------
    bootstrap : str
        ``host:port`` of the broker.
    input_topics : mapping of str to int
        Where messages go, and the share of them that each topic gets.
    output_topic : str
        Where the sinks' records come from.
    wire : Wire, optional
        What records look like; by default those of the harness's topologies, without payload.
    first_id : int
        Identifier of the first message of all; identifiers only grow.
    group : str
        Consumer group of the topology's spouts; empty when it is not known.
    trust : Trust, optional
        How the broker's certificate is known, where it speaks TLS at that address.

    Raises
    ------
    ClusterError
        By every method, when a process or Kafka is gone.
    """

    def __init__(
        self,
        bootstrap: str,
        input_topics: Mapping[str, int],
        output_topic: str,
        wire: Wire | None = None,
        first_id: int = 0,
        group: str = "",
        trust: Trust | None = None,
    ) -> None:
        self._group = group
        self._topics = Topics(bootstrap, trust)
        self.input_topics: Mapping[str, int] = {name: i * PARTITIONS for i, name in enumerate(input_topics)}
        self.output_topic = output_topic
        wire = wire or OwnWire()
        self.by_broker = wire.by_broker
        self.receiver = Receiver(bootstrap, output_topic, wire=wire, trust=trust)
        try:
            self.generator = Generator(bootstrap, input_topics, wire, first_id, trust)
        except BaseException:
            self.receiver.close()
            raise
        self.begin_step()

    @property
    def processes(self) -> Mapping[str, int]:
        """Its own processes: ``generator`` and ``receiver``."""
        return {"generator": self.generator.pid, "receiver": self.receiver.pid}

    def begin_step(self) -> None:
        """Forget what was sent and received until now; what comes later belongs to this step."""
        before = self._input_records()
        self.receiver.read_to(self._topics.end_offsets(self.output_topic), READ_TIMEOUT_S)
        self.generator.poll()
        self._before = (before, int(self.receiver.positions.sum()))
        self._read_before = (self.receiver.records, self.receiver.foreign_records)
        self._sent = _Growing(SENT)
        self._received = _Growing(RECEIVED)

    def start(self, schedule: Schedule) -> None:
        """Begin to send at the times of a schedule; identifiers go on where they ended.

        A random schedule goes on as well, so that no step repeats the gaps of another; the others
        begin anew.
        """
        skip = self.generator.next_id if isinstance(schedule, Poisson) else 0
        self.generator.start(schedule, skip=skip)

    def stop(self) -> None:
        """Stop sending; returns when the broker has answered for all that was sent."""
        self._sent.add(self.generator.stop())

    def due(self, start_ns: int, end_ns: int) -> Due:
        """Count what was due in a span by the step's schedule, whether it was sent or not."""
        self._sent.add(self.generator.poll())
        return self.generator.due(start_ns, end_ns)

    def sent(self) -> pa.Table:
        """Return what was sent since the step began and is answered for, rows of ``SENT``."""
        self._sent.add(self.generator.poll())
        return self._sent.table

    def received(self) -> pa.Table:
        """Return what was received since the step began, rows of ``RECEIVED``."""
        self._received.add(self.receiver.poll())
        return self._received.table

    def catch_up(self) -> None:
        """Read all that is in the output topic by now."""
        ends = self._topics.end_offsets(self.output_topic)
        self._received.add(self.receiver.read_to(ends, READ_TIMEOUT_S))

    def taken(self) -> bool:
        """Return True if the spouts have told Kafka that they read all that was sent.

        Their successors read the rest again, in the next step.
        """
        if not self._group:
            return True
        return all(
            bool((self._topics.committed(self._group, name) >= self._topics.end_offsets(name)).all())
            for name in self.input_topics
        )

    def counts(self) -> tuple[int, int]:
        """Return the broker's own counts of records since the step began, by their offsets.

        Input topics are counted to their ends. The output topic is counted to the position that the receiver
        has read to, for comparison with ``records_read``; both ``catch_up`` and ``received`` move it on. The
        output topic's end would be another moment's. A sliding window of time goes on firing, with no new
        members, until its last tuple is as old as the window is long.
        """
        return self._input_records() - self._before[0], int(self.receiver.positions.sum()) - self._before[1]

    def _input_records(self) -> int:
        return sum(int(self._topics.end_offsets(name).sum()) for name in self.input_topics)

    @property
    def records_read(self) -> int:
        """Records of the output topic that the receiver read since the step began."""
        return self.receiver.records - self._read_before[0]

    @property
    def foreign_records(self) -> int:
        """Those among them that could not be decoded."""
        return self.receiver.foreign_records - self._read_before[1]

    @property
    def foreign(self) -> tuple[Foreign, ...]:
        """The first few records of the run that could not be decoded, with the reason."""
        return self.receiver.foreign

    def close(self) -> None:
        """End both processes."""
        self.generator.close()
        self.receiver.close()
        self._topics.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Growing:
    """A table in parts, joined now and then so that reading it stays cheap."""

    def __init__(self, schema: pa.Schema) -> None:
        self._parts = [schema.empty_table()]

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._parts.append(rows)
        if len(self._parts) > _MOST_PARTS:
            self._parts = [self.table.combine_chunks()]

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables(self._parts)
