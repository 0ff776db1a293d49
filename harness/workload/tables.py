"""What generator and receiver hand over: names, types and units of every column."""

from __future__ import annotations

import pyarrow as pa

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
"""One row a member of an output record. ``record_path`` is the path string that the record's JSON
carried: the member's own, or that of the window's chosen path (thesis 5.3.1)."""
