"""Tables that generator and receiver hand over: names, types and units of every column."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from harness.schemas import HOP

SENT = pa.schema(
    [
        ("message_id", pa.int64()),
        ("scheduled_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("append_ms", pa.int64()),
        ("error", pa.string()),
    ]
)
"""One row a message that was handed to the Kafka client. ``offset`` and ``append_ms`` (the broker's
clock) are null where ``error`` says why the broker did not confirm it."""

RECEIVED = pa.schema(
    [
        ("message_id", pa.int64()),
        ("child", pa.int32()),
        ("entered_ns", pa.int64()),
        ("left_ns", pa.int64()),
        ("thesis_entered_ns", pa.int64()),
        ("output_partition", pa.int32()),
        ("output_offset", pa.int64()),
        ("append_ms", pa.int64()),
        ("sink", pa.string()),
        ("record_path", pa.string()),
        ("hops", pa.list_(HOP)),
    ]
)
"""One row a member of an output record. Where the wire is ``by_broker``, ``entered_ns`` is null: the message
entered when the broker appended it (``entered_ns`` below). The path string that the record's JSON carried is
``record_path``: the member's own, or that of the window's chosen path (thesis 5.3.1)."""


def entered_ns(received: pa.Table, input_append_ms: pa.Array) -> pa.Array:
    """Return when each row's message entered the topology, on the monotonic clock.

    Parameters
    ----------
    received : Table
        Rows of ``RECEIVED``.
    input_append_ms : array
        When the broker appended each row's message; null where that is not known.

    Examples
    --------
    A jar's output, appended 12 ms after its message:

    >>> row = {"left_ns": 50_000_000, "append_ms": 1012}
    >>> entered_ns(pa.Table.from_pylist([row], RECEIVED), pa.array([1000]))[0].as_py()
    38000000
    """
    passed_ms = pc.subtract(received["append_ms"].combine_chunks(), input_append_ms)
    by_broker = pc.subtract(received["left_ns"].combine_chunks(), pc.multiply(passed_ms, 1_000_000))
    return pc.coalesce(received["entered_ns"].combine_chunks(), by_broker)
