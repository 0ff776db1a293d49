"""Kafka: topics, a producer that reports every record's fate, and a consumer of whole topics.

The only module that imports ``kafka``. Whatever goes wrong there leaves as one line in a
``ClusterError`` that names the broker's address.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetSpec, TopicPartition
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NoError,
    NotCoordinatorError,
)
from kafka.net.compat import KafkaNetClient
from kafka.structs import OffsetAndMetadata

from harness.errors import ClusterError
from harness.machine.trust import Trust, require_trusted

PARTITIONS = 16
"""Partitions of a topic: as many as the spout has tasks."""

Offsets = npt.NDArray[np.int64]
"""One offset a partition, by partition number."""

CONNECT_TIMEOUT_MS = 10_000
DELIVERY_TIMEOUT_MS = 30_000
"""A record without an answer after this time counts as failed."""

COORDINATOR_TIMEOUT_S = 30.0
"""Longest time that a broker may take to find the coordinator of its first consumer group."""
NO_COORDINATOR_YET = (
    CoordinatorNotAvailableError,
    CoordinatorLoadInProgressError,
    NotCoordinatorError,
)
"""Errors that a broker answers for a group while it makes or loads the topic of all groups' offsets."""

# The library reports its reconnections as log records; without a handler Python prints them.
logging.getLogger("kafka").addHandler(logging.NullHandler())


class Delivery(NamedTuple):
    """Fate of one record: ``offset`` and ``append_ms`` are None where ``error`` is set."""

    tag: int
    partition: int
    offset: int | None
    append_ms: int | None
    error: str | None


class Record(NamedTuple):
    """One record read from a topic; ``append_ms`` is the broker's clock at the log append."""

    partition: int
    offset: int
    append_ms: int
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@contextmanager
def _one_line(bootstrap: str, doing: str) -> Iterator[None]:
    """Turn the library's exceptions into one line."""
    try:
        yield
    except (KafkaError, OSError) as e:
        reason = " ".join(str(e).split()) or type(e).__name__
        raise ClusterError(f"kafka at {bootstrap}: cannot {doing}: {reason}") from e


def require_reachable(bootstrap: str, trust: Trust | None = None, timeout_s: float = 5.0) -> None:
    """Connect to the broker's port and hang up.

    The client library waits for a broker that is gone, or whose certificate it does not accept, without ever
    saying so; this says so.

    Raises
    ------
    ClusterError
        When nothing answers at that address.
    UsageError
        When its certificate is not one that is trusted.
    """
    host, _, port = bootstrap.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as plain:
            if trust is not None:
                trust.context().wrap_socket(plain, server_hostname=host).close()
    except (OSError, ValueError) as e:
        require_trusted(trust, f"kafka at {bootstrap}", e)
        raise ClusterError(f"kafka at {bootstrap}: not reachable: {e}") from e


def _security(trust: Trust | None) -> dict[str, object]:
    """Return a client's settings of TLS; none in plain text."""
    return {} if trust is None else {"security_protocol": "SSL", "ssl_context": trust.context()}


class Topics:
    """Topics of one broker: create, delete, and how much was appended to them.

    Parameters
    ----------
    bootstrap : str
        ``host:port`` of the broker.
    trust : Trust, optional
        How its certificate is known, where it speaks TLS at that address.

    Raises
    ------
    ClusterError
        By every method, when the broker cannot be reached or refuses.

    Examples
    --------
    >>> with Topics("127.0.0.1:9092") as topics:  # doctest: +SKIP
    ...     topics.create("run-in")
    ...     topics.end_offsets("run-in").sum()
    0
    """

    def __init__(self, bootstrap: str, trust: Trust | None = None) -> None:
        self.bootstrap = bootstrap
        require_reachable(bootstrap, trust)
        with _one_line(bootstrap, "connect"):
            self._admin = KafkaAdminClient(
                bootstrap_servers=bootstrap, bootstrap_timeout_ms=CONNECT_TIMEOUT_MS, **_security(trust)
            )
        self._known: dict[str, list[TopicPartition]] = {}

    def create(self, topic: str, partitions: int = PARTITIONS) -> None:
        """Create an empty topic, stamped with the broker's time, and wait for its leaders.

        Raises
        ------
        ClusterError
            Also when the topic exists: a run never appends to another run's topic.
        """
        options = {
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": {"message.timestamp.type": "LogAppendTime"},
        }
        with _one_line(self.bootstrap, f"create topic {topic}"):
            self._admin.create_topics({topic: options}, wait_for_metadata=True)

    def delete(self, topic: str) -> None:
        """Delete a topic and its records."""
        with _one_line(self.bootstrap, f"delete topic {topic}"):
            self._admin.delete_topics([topic])
        self._known.pop(topic, None)

    def names(self) -> frozenset[str]:
        """Return the names of the topics there are, Kafka's own left out."""
        with _one_line(self.bootstrap, "list topics"):
            return frozenset(n for n in self._admin.list_topics() if not n.startswith("__"))

    def end_offsets(self, topic: str) -> Offsets:
        """Return how many records each partition has ever been given, shape (partitions,)."""
        with _one_line(self.bootstrap, f"read the end of {topic}"):
            partitions = self._partitions_of(topic)
            found = self._admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        return np.array([found[p].offset for p in partitions], dtype=np.int64)

    def committed(self, group: str, topic: str) -> Offsets:
        """Return up to where a consumer group says that it has read, shape (partitions,).

        That is 0 at first, and while the broker does not know yet.
        """
        with _one_line(self.bootstrap, f"read the offsets of group {group}"):
            partitions = self._partitions_of(topic)
            try:
                found = self._admin.list_group_offsets({group: partitions})[group]
            except NO_COORDINATOR_YET:
                found = {}
        offsets = [found[p].offset if p in found else 0 for p in partitions]
        return np.array(offsets, dtype=np.int64).clip(min=0)

    def commit(self, group: str, topic: str, offsets: Offsets) -> None:
        """Say for a consumer group without members up to where it has read."""
        with _one_line(self.bootstrap, f"commit offsets of group {group}"):
            places = zip(self._partitions_of(topic), offsets.tolist(), strict=True)
            wanted = {p: OffsetAndMetadata(offset, "", -1) for p, offset in places}
            deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
            while True:
                try:
                    answers = self._admin.alter_group_offsets(group, wanted)
                    for partition, error in answers.items():
                        if error is not NoError:
                            raise error(str(partition))
                    return
                except NO_COORDINATOR_YET:  # for the whole group, or for one partition of it
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)

    def _partitions_of(self, topic: str) -> list[TopicPartition]:
        if topic not in self._known:
            (described,) = self._admin.describe_topics([topic])
            count = len(described["partitions"])
            if not count:
                raise ClusterError(f"kafka at {self.bootstrap}: there is no topic {topic}")
            self._known[topic] = [TopicPartition(topic, p) for p in range(count)]
        return self._known[topic]

    def close(self) -> None:
        """Hang up."""
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stored(Protocol):
    """Where a record was appended, as the client says it."""

    offset: int
    timestamp: int


class SendFuture(Protocol):
    """The client's word on a record: once ``is_done``, where it is stored or why it is not."""

    is_done: bool
    exception: Exception | None
    value: Stored


class _PatientClient(KafkaNetClient):  # type: ignore[misc]
    """The client's connections, of which one with as many requests under way as it may have is waited for.

    The client's own (kafka-python 3.0.12) says that it can be asked again at once. So the sending thread asks
    for as long as the broker is slow to answer, and takes most of a core from whoever makes the broker slow.
    """

    def connection_delay(self, node_id: int | str) -> float:
        """Return how long to wait before the connection is asked for again; an answer ends that."""
        return math.inf if self.connected(node_id) else float(super().connection_delay(node_id))


class Producer:
    """Sends each record at once and keeps it until its fate is known.

    Idempotent, so that a retry inside the client can neither repeat nor reorder a record.

    Parameters
    ----------
    bootstrap : str
        ``host:port`` of the broker.
    topics : str
        One or more. Their partitions are counted together, in this order.
    trust : Trust, optional
        How its certificate is known, where it speaks TLS at that address.
    """

    def __init__(
        self,
        bootstrap: str,
        *topics: str,
        trust: Trust | None = None,
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
    ) -> None:
        self.bootstrap = bootstrap
        self.trust = trust
        require_reachable(bootstrap, trust)
        with _one_line(bootstrap, "connect"):
            self._client = KafkaProducer(
                bootstrap_servers=bootstrap,
                bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
                max_block_ms=CONNECT_TIMEOUT_MS,
                delivery_timeout_ms=delivery_timeout_ms,
                request_timeout_ms=delivery_timeout_ms,
                reconnect_backoff_max_ms=1_000,
                linger_ms=0,
                acks="all",
                enable_idempotence=True,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                kafka_client=_PatientClient,
                **_security(trust),
            )
        self._places = [TopicPartition(t, p) for t in topics for p in range(self._partitions_of(t))]
        self._open: deque[tuple[int, int, SendFuture]] = deque()

    @property
    def partitions(self) -> int:
        """Partitions of all topics together."""
        return len(self._places)

    def _partitions_of(self, topic: str) -> int:
        try:  # now, or the first record would wait for it
            found = self._client.partitions_for(topic)
        except KafkaError:  # the client asks for an unknown topic again and again until its time is up
            found = None
        if not found:
            self._client.close(timeout=0)
            raise ClusterError(f"kafka at {self.bootstrap}: there is no topic {topic}")
        return len(found)

    def send(
        self,
        partition: int,
        value: bytes,
        tag: int,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Hand a record to the client, which sends it from a thread of its own.

        Parameters
        ----------
        partition : int
            Counted over all topics, here and in the record's ``Delivery``.
        tag : int
            Names the record in its ``Delivery``.
        """
        topic, number = self._places[partition]
        with _one_line(self.bootstrap, f"send to {topic}"):
            future = self._client.send(topic, value=value, key=key, headers=list(headers), partition=number)
        self._open.append((tag, partition, future))

    @property
    def unanswered(self) -> int:
        """Records whose fate has not been handed out."""
        return len(self._open)

    def deliveries(self) -> list[Delivery]:
        """Return the records answered since the last call, in the order they were sent."""
        done: list[Delivery] = []
        while self._open and self._open[0][2].is_done:
            tag, partition, future = self._open.popleft()
            if future.exception is None:
                done.append(Delivery(tag, partition, future.value.offset, future.value.timestamp, None))
            else:
                reason = " ".join(f"{type(future.exception).__name__}: {future.exception}".split())
                done.append(Delivery(tag, partition, None, None, reason))
        return done

    def flush(self, timeout_s: float) -> list[Delivery]:
        """Wait for every open record and return its fate; what is open after that counts as failed."""
        with suppress(KafkaError):  # the records still open are named below, each with its reason
            self._client.flush(timeout_s)
        done = self.deliveries()
        for tag, partition, future in self._open:
            if future.is_done and future.exception is None:
                done.append(Delivery(tag, partition, future.value.offset, future.value.timestamp, None))
            else:
                reason = future.exception or f"no answer from the broker within {timeout_s:g} s"
                done.append(Delivery(tag, partition, None, None, str(reason)))
        self._open.clear()
        return done

    def close(self) -> None:
        """Hang up without waiting for open records (``flush`` does)."""
        self._client.close(timeout=0)


class Consumer:
    """Reads all partitions of one topic, from the beginning or from given offsets."""

    def __init__(
        self, bootstrap: str, topic: str, offsets: Offsets | None = None, trust: Trust | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        require_reachable(bootstrap, trust)
        with _one_line(bootstrap, "connect"):
            self._client = KafkaConsumer(
                bootstrap_servers=bootstrap,
                bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                # Nobody waits for a single record here: fewer, larger fetches leave the cores alone (each one
                # costs this client about 30 ms of CPU time, however few records it brings).
                fetch_min_bytes=1 << 16,
                fetch_max_wait_ms=500,
                reconnect_backoff_max_ms=1_000,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                **_security(trust),
            )
            found = self._client.partitions_for_topic(topic)
        if not found:
            self._client.close()
            raise ClusterError(f"kafka at {bootstrap}: there is no topic {topic}")
        self._partitions = [TopicPartition(topic, p) for p in sorted(found)]
        if offsets is not None and len(offsets) != len(self._partitions):
            raise ValueError(f"{len(offsets)} offsets for the {len(self._partitions)} partitions of {topic}")
        self.positions: Offsets = np.zeros(len(self._partitions), dtype=np.int64)
        with _one_line(bootstrap, f"read {topic}"):
            self._client.assign(self._partitions)
            if offsets is None:
                first = self._client.beginning_offsets(self._partitions)
                offsets = np.array([first[p] for p in self._partitions], dtype=np.int64)
            for partition, offset in zip(self._partitions, offsets.tolist(), strict=True):
                self._client.seek(partition, offset)
        self.positions[:] = offsets

    def end_offsets(self) -> Offsets:
        """Return the offset after the last record of each partition, shape (partitions,)."""
        with _one_line(self.bootstrap, f"read the end of {self.topic}"):
            ends = self._client.end_offsets(self._partitions)
        return np.array([ends[p] for p in self._partitions], dtype=np.int64)

    def poll(self, timeout_ms: int, max_records: int = 5_000) -> list[Record]:
        """Return the next records, none when none came in time; ``positions`` moves past them."""
        with _one_line(self.bootstrap, f"read {self.topic}"):
            batches = self._client.poll(timeout_ms=timeout_ms, max_records=max_records)
        records = [
            Record(
                p.partition,
                r.offset,
                r.timestamp,
                r.value if r.value is not None else b"",
                r.key,
                tuple((name, value or b"") for name, value in r.headers),
            )
            for p, batch in batches.items()
            for r in batch
        ]
        for r in records:
            self.positions[r.partition] = r.offset + 1
        return records

    def close(self) -> None:
        """Hang up."""
        self._client.close(autocommit=False)
