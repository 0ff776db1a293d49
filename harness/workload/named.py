"""The records of anybody's jar: all that it has to carry from input topic to output is a message's name.

A name is text, ``message-7``. A message goes in, and an output comes out, when the broker appends the record.
Both times are by one clock, in whole milliseconds, and hold none of the time that generator and receiver
take. A single latency is a millisecond off at most, a mean is not off.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from harness.experiments.datasets.dataset import Dataset
from harness.experiments.workload_tables import RECEIVED
from harness.workload.broker_time import appended_ns, monotonic_minus_stamps_ns
from harness.workload.wire import Decoded, Foreign, NamedRecord, Outgoing, payload_of

MESSAGE, KEY, PAYLOAD = "{message}", "{key}", "{payload}"
"""Stand in a template of values for the message's name, a key that is drawn, and the payload."""
SHOWN_CHARACTERS = 40
"""So much is shown of something that is no name."""
_NAME = re.compile(rb"message-(\d{1,18})")


class NamedWire:
    """The wire format of a jar's topology (a ``Wire``): input records made, output records known by name.

    Parameters
    ----------
    header : str, optional
        The header that names a message; without it the record's key does.
    value : str
        Template of the input records' values.
    payload : str or Dataset
        What ``{payload}`` becomes: a text, or the row of a dataset that the message carries.
    keys : mapping
        Weights of the keys that ``{key}`` becomes: which one is a function of seed and message.
    sink : str
        The component that writes the output topic, as far as it is known.
    broker_ahead_ms : float
        What the broker's time of day is ahead of this machine's.

    Examples
    --------
    >>> wire = NamedWire("id", "{key}: {payload}", "text", {"A": 1.0}, seed=1, sink="out")
    >>> wire.outgoing(7)
    Outgoing(value=b'A: text', key=None, headers=(('id', b'message-7'),))
    """

    by_broker = True

    def __init__(
        self,
        header: str | None,
        value: str,
        payload: str | Dataset,
        keys: Mapping[str, float],
        seed: int,
        sink: str,
        broker_ahead_ms: float = 0.0,
    ) -> None:
        self._ahead_ms = broker_ahead_ms
        self._header = header
        self._sink = sink
        self._keys = [key.encode() for key in keys]
        self._weights = list(keys.values())
        self._seed = seed
        split = re.split("|".join(f"({re.escape(p)})" for p in (MESSAGE, KEY, PAYLOAD)), value)
        self._payload = payload
        self._parts = [part for part in split if part]

    def outgoing(self, message_id: int) -> Outgoing:
        """Return the record of a message."""
        name = b"message-%d" % message_id
        value = b"".join(self._filled(part, message_id, name) for part in self._parts)
        if self._header is None:
            return Outgoing(value, key=name)
        return Outgoing(value, headers=((self._header, name),))

    def _filled(self, part: str, message_id: int, name: bytes) -> bytes:
        if part == MESSAGE:
            return name
        if part == KEY:
            return self._key(message_id)
        return (payload_of(self._payload, message_id) if part == PAYLOAD else part).encode()

    def _key(self, message_id: int) -> bytes:
        (key,) = random.Random((self._seed << 64) + message_id).choices(self._keys, self._weights)
        return key

    def decode(self, records: Iterable[NamedRecord]) -> Decoded:
        """Turn records of the output topic that were read just now into rows, one a record.

        Returns
        -------
        Decoded
            A record without a name that the harness could have given is named among ``foreign``, and gives no
            row. Rows have no hops, as nothing is known of the ways that messages took, and no entry: that is
            known of the message.
        """
        return self.decoded(records, monotonic_minus_stamps_ns(self._ahead_ms))

    def decoded(self, records: Iterable[NamedRecord], offset_ns: int) -> Decoded:
        """Do so where the monotonic clock minus the time of day is known."""
        rows: list[tuple[object, ...]] = []
        foreign: list[Foreign] = []
        for r in records:
            name = r.key if self._header is None else _last(r.headers, self._header)
            found = _NAME.fullmatch(name) if name is not None else None
            if found is None:
                foreign.append(Foreign(r.partition, r.offset, self._why_not(name)))
                continue
            left_ns = appended_ns(r.append_ms, offset_ns)
            place = (r.partition, r.offset, r.append_ms)
            rows.append((int(found[1]), 0, None, left_ns, None, *place, self._sink, "", []))
        columns = zip(*rows, strict=True) if rows else [[] for _ in RECEIVED]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, RECEIVED, strict=True)]
        return Decoded(
            pa.Table.from_arrays(arrays, schema=RECEIVED), len(rows) + len(foreign), tuple(foreign)
        )

    def _why_not(self, name: bytes | None) -> str:
        what = "key" if self._header is None else f"header {self._header}"
        if name is None:
            return f"it has no {what}"
        shown = name.decode(errors="replace")[:SHOWN_CHARACTERS]
        return f"its {what} is {shown!r}, which names no message"


def _last(headers: Sequence[tuple[str, bytes]], wanted: str) -> bytes | None:
    return next((value for key, value in reversed(headers) if key == wanted), None)
