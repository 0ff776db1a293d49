"""The bytes on the topics: input records made, output records decoded into columns.

This module has the records of the harness's own topologies (``OwnWire``); ``named.py`` has those of anybody's
jar. All integers are big-endian.

An output record:

    u8 version = 1
    u8 length, sink component's name in UTF-8
    u16 length, path string in UTF-8
    i64 thesis_entered_ns
    i32 number of members, then the members

A member:

    i64 message_id, i32 child, i64 entered_ns
    u16 number of hops, then the hops

A hop:

    i32 task, i64 received_ns, i64 emitted_ns
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.experiments.datasets.dataset import Dataset, row_text
from harness.experiments.workload_tables import RECEIVED
from harness.schemas import HOP
from harness.workload.broker_time import appended_ns, monotonic_minus_stamps_ns

VERSION = 1
HOP_DTYPE = np.dtype([("task", ">i4"), ("received_ns", ">i8"), ("emitted_ns", ">i8")])
_MEMBER = struct.Struct(">qiqH")
_TAIL = struct.Struct(">qi")
_HOP = struct.Struct(">iqq")

Members = npt.NDArray[np.void]


class Outgoing(NamedTuple):
    """A record for the input topic."""

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class OutputRecord(Protocol):
    """A record of the output topic, as the broker gives it."""

    @property
    def partition(self) -> int:
        """Partition of the topic."""

    @property
    def offset(self) -> int:
        """Offset within the partition."""

    @property
    def append_ms(self) -> int:
        """The broker's clock at the log append."""

    @property
    def value(self) -> bytes:
        """The bytes."""


class NamedRecord(OutputRecord, Protocol):
    """The same with all that can name a message."""

    @property
    def key(self) -> bytes | None:
        """The record's key."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers, in order."""


class Foreign(NamedTuple):
    """A record that is not one of ours, or is damaged."""

    partition: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"partition {self.partition} offset {self.offset}: {self.reason}"


class Hop(NamedTuple):
    """One component passed."""

    task: int
    received_ns: int
    emitted_ns: int


class Member(NamedTuple):
    """A message, or child of one, within an output record."""

    message_id: int
    child: int
    entered_ns: int
    hops: Sequence[Hop]


def encode(sink: str, path: str, thesis_entered_ns: int, members: Sequence[Member]) -> bytes:
    """Write an output record as the topologies' sinks do, for what stands in for one."""
    name, route = sink.encode(), path.encode()
    parts = [
        struct.pack(">BB", VERSION, len(name)),
        name,
        struct.pack(">H", len(route)),
        route,
        _TAIL.pack(thesis_entered_ns, len(members)),
    ]
    for m in members:
        parts.append(_MEMBER.pack(m.message_id, m.child, m.entered_ns, len(m.hops)))
        parts += [_HOP.pack(*h) for h in m.hops]
    return b"".join(parts)


@dataclass(frozen=True)
class Decoded:
    """Rows of ``RECEIVED``, one a member, and the records that could not be read."""

    rows: pa.Table
    records: int
    foreign: tuple[Foreign, ...]


class Wire(Protocol):
    """Form of the records that generator and receiver agree on: a value, which goes into their processes."""

    @property
    def by_broker(self) -> bool:
        """True if a message goes in and comes out when the broker appends its records.

        This machine's clock then has no other times of the message.
        """

    def outgoing(self, message_id: int) -> Outgoing:
        """Return the record of a message."""

    def decode(self, records: Iterable[NamedRecord]) -> Decoded:
        """Turn records of the output topic that were read just now into rows of ``RECEIVED``."""


class OwnWire:
    """The wire format of the harness's topologies; input values are ``{"message_id": n, "payload": text}``.

    Parameters
    ----------
    payload : str or Dataset
        What messages carry: a text, or each the row of a dataset.
    one_clock : bool
        Whether the workers' monotonic clocks are this machine's.
    broker_ahead_ms : float
        What the broker's time of day is ahead of this machine's.

    Examples
    --------
    >>> OwnWire("x").outgoing(7).value
    b'{"message_id": 7, "payload": "x"}'
    """

    def __init__(
        self, payload: str | Dataset = "", *, one_clock: bool = True, broker_ahead_ms: float = 0.0
    ) -> None:
        self.by_broker = not one_clock
        self._ahead_ms = broker_ahead_ms
        self._payload = payload
        self._tail = _tail(payload) if isinstance(payload, str) else b""

    def outgoing(self, message_id: int) -> Outgoing:
        """Return the record of a message."""
        tail = self._tail or _tail(payload_of(self._payload, message_id))
        return Outgoing(b'{"message_id": %d%b' % (message_id, tail))

    def decode(self, records: Iterable[OutputRecord]) -> Decoded:
        """Decode records of the output topic that were read just now (``decode``).

        Times of other clocks are the broker's instead, but for those of hops, and for what is between a
        record's thesis entry and its end.
        """
        decoded = decode(records)
        if not self.by_broker:
            return decoded
        return replace(decoded, rows=at_the_broker(decoded.rows, monotonic_minus_stamps_ns(self._ahead_ms)))


def _tail(payload: str) -> bytes:
    return f', "payload": {json.dumps(payload, ensure_ascii=False)}}}'.encode()


def payload_of(payload: str | Dataset, message_id: int) -> str:
    """Return the text that a message carries."""
    return payload if isinstance(payload, str) else row_text(payload.row(message_id))


def at_the_broker(rows: pa.Table, offset_ns: int) -> pa.Table:
    """Return rows of ``RECEIVED`` that left when the broker appended them, and whose entry is not known."""
    left_ns = pa.array(appended_ns(rows["append_ms"].to_numpy(), offset_ns), pa.int64())
    moved_ns = pc.subtract(left_ns, rows["left_ns"].combine_chunks())
    columns = {
        "entered_ns": pa.nulls(rows.num_rows, pa.int64()),
        "left_ns": left_ns,
        "thesis_entered_ns": pc.add(rows["thesis_entered_ns"].combine_chunks(), moved_ns),
    }
    arrays = [columns.get(name, rows[name]) for name in RECEIVED.names]
    return pa.Table.from_arrays(arrays, schema=RECEIVED)


class _Header(NamedTuple):
    record: OutputRecord
    sink: str
    path: str
    thesis_entered_ns: int
    members: int
    body: int


@dataclass
class _FieldGroup:
    """Records whose members all have the same number of hops: their members form one array."""

    headers: list[_Header] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


class _Malformed(ValueError):
    """Why a record is foreign."""


@lru_cache(maxsize=256)
def member_dtype(hops: int) -> np.dtype[np.void]:
    """Return the layout of a member with that many hops, 22 + 20 * hops bytes."""
    return np.dtype(
        [
            ("message_id", ">i8"),
            ("child", ">i4"),
            ("entered_ns", ">i8"),
            ("n_hops", ">u2"),
            ("hops", HOP_DTYPE, (hops,)),
        ]
    )


def decode(records: Iterable[OutputRecord]) -> Decoded:
    """Decode records of the output topic, member by member.

    Records of equal shape are decoded together as one array. A record that cannot be read is named
    among ``foreign`` and gives no row. All members of the other records are there, in the order of
    their records within each number of hops.

    Parameters
    ----------
    records : iterable of OutputRecord
        As read from the broker.

    Returns
    -------
    Decoded
    """
    groups: dict[int, _FieldGroup] = defaultdict(_FieldGroup)
    foreign: list[Foreign] = []
    number = 0
    for record in records:
        number += 1
        try:
            header = _header(record)
            for hops, count, body in _runs(header):
                groups[hops].headers.append(header._replace(members=count))
                groups[hops].bodies.append(body)
        except _Malformed as e:
            foreign.append(Foreign(record.partition, record.offset, str(e)))
    parts = [_columns(hops, group) for hops, group in sorted(groups.items())]
    rows = pa.Table.from_batches(parts, schema=RECEIVED)
    return Decoded(rows, number, tuple(foreign))


def _header(record: OutputRecord) -> _Header:
    value = record.value
    try:
        if value[0] != VERSION:
            raise _Malformed(f"its first byte is {value[0]}, not version {VERSION}")
        at = 2 + value[1]
        sink = value[2:at].decode()
        end = at + 2 + int.from_bytes(value[at : at + 2], "big")
        path = value[at + 2 : end].decode()
        thesis_entered_ns, members = _TAIL.unpack_from(value, end)
    except (IndexError, struct.error):
        raise _Malformed(f"its {len(value)} bytes end within the header") from None
    except UnicodeDecodeError:
        raise _Malformed("its sink or path is not UTF-8") from None
    if members < 0:
        raise _Malformed(f"it lists {members} members")
    return _Header(record, sink, path, thesis_entered_ns, members, end + _TAIL.size)


def _runs(header: _Header) -> Sequence[tuple[int, int, bytes]]:
    """Return the members as runs of equal hop number: (hops, members, bytes), all of one record or none.

    A sliding window that fires with nothing new stands for no members: its record gives no row.
    """
    value, at = header.record.value, header.body
    size = len(value) - at
    hops = int.from_bytes(value[at + 20 : at + 22], "big")
    layout = member_dtype(hops)
    alike = hops > 0 and size == header.members * layout.itemsize
    if alike and (header.members == 1 or _all_have(hops, np.frombuffer(value, layout, offset=at))):
        return [(hops, header.members, value[at:])]
    return list(_one_by_one(header))


def _all_have(hops: int, members: Members) -> bool:
    return bool((members["n_hops"] == hops).all())


def _one_by_one(header: _Header) -> Iterator[tuple[int, int, bytes]]:
    """Walk members of different hop numbers."""
    value, at = header.record.value, header.body
    for i in range(header.members):
        try:
            *_, hops = _MEMBER.unpack_from(value, at)
        except struct.error:
            raise _Malformed(f"its {len(value)} bytes end within member {i} of {header.members}") from None
        if not hops:
            raise _Malformed(f"member {i} of {header.members} has no hops")
        end = at + _MEMBER.size + hops * HOP_DTYPE.itemsize
        if end > len(value):
            raise _Malformed(f"its {len(value)} bytes end within member {i} of {header.members}")
        yield hops, 1, value[at:end]
        at = end
    if at != len(value):
        raise _Malformed(f"{len(value) - at} bytes follow its {header.members} members")


def _columns(hops: int, group: _FieldGroup) -> pa.RecordBatch:
    """Turn the members of a group into columns."""
    members: Members = np.frombuffer(b"".join(group.bodies), member_dtype(hops))
    n = len(members)
    of_record = np.repeat(np.arange(len(group.headers)), [h.members for h in group.headers])

    def native(name: str, dtype: type[np.int32 | np.int64]) -> npt.NDArray[np.int32 | np.int64]:
        return members[name].astype(dtype)

    def repeated(values: list[int], dtype: type[np.int32 | np.int64]) -> pa.Array:
        return pa.array(np.array(values, dtype=dtype)[of_record])

    flat = members["hops"].reshape(-1)
    hop_columns = [
        pa.array(flat["task"].astype(np.int32)),
        pa.array(flat["received_ns"].astype(np.int64)),
        pa.array(flat["emitted_ns"].astype(np.int64)),
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(native("message_id", np.int64)),
            pa.array(native("child", np.int32)),
            pa.array(native("entered_ns", np.int64)),
            pa.array(members["hops"]["emitted_ns"][:, -1].astype(np.int64)),
            repeated([h.thesis_entered_ns for h in group.headers], np.int64),
            repeated([h.record.partition for h in group.headers], np.int32),
            repeated([h.record.offset for h in group.headers], np.int64),
            repeated([h.record.append_ms for h in group.headers], np.int64),
            pa.array([h.sink for h in group.headers], pa.string()).take(pa.array(of_record)),
            pa.array([h.path for h in group.headers], pa.string()).take(pa.array(of_record)),
            pa.ListArray.from_arrays(
                pa.array(np.arange(n + 1, dtype=np.int32) * hops),
                pa.StructArray.from_arrays(hop_columns, fields=list(HOP)),
            ),
        ],
        schema=RECEIVED,
    )
