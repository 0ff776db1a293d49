"""The wire format: what is written is read back, and what is damaged is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.experiments.datasets.airline_delays import AirlineDelays
from harness.experiments.datasets.dataset import row_text
from harness.experiments.workload_tables import RECEIVED
from harness.workload.named import NamedWire
from harness.workload.wire import Hop, Member, OwnWire, at_the_broker, decode, encode

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Read:
    partition: int
    offset: int
    append_ms: int
    value: bytes


hops = st.lists(st.builds(Hop, int32, int64, int64), min_size=1, max_size=5)


@st.composite
def record_parts(draw: st.DrawFn) -> tuple[str, str, int, list[Member]]:
    alike = draw(st.booleans())
    n_hops = draw(st.integers(1, 5))
    own = st.lists(st.builds(Hop, int32, int64, int64), min_size=n_hops, max_size=n_hops) if alike else hops
    members = draw(st.lists(st.builds(Member, int64, int32, int64, own), max_size=6))
    return draw(st.text(max_size=20)), draw(st.text(max_size=40)), draw(int64), members


def rows(reads: Sequence[tuple[Read, tuple[str, str, int, list[Member]]]]) -> list[dict[str, object]]:
    """What decoding must give, written down member by member."""
    return [
        {
            "message_id": m.message_id,
            "child": m.child,
            "entered_ns": m.entered_ns,
            "left_ns": m.hops[-1].emitted_ns,
            "thesis_entered_ns": thesis,
            "output_partition": read.partition,
            "output_offset": read.offset,
            "append_ms": read.append_ms,
            "sink": sink,
            "record_path": path,
            "hops": [h._asdict() for h in m.hops],
        }
        for read, (sink, path, thesis, members) in reads
        for m in members
    ]


@given(st.lists(record_parts(), max_size=6))
@settings(max_examples=budget(150), deadline=None)
def test_decoding_gives_back_every_member(parts: list[tuple[str, str, int, list[Member]]]) -> None:
    reads = [Read(i % 3, i, 1000 + i, encode(*p)) for i, p in enumerate(parts)]
    decoded = decode(reads)
    assert decoded.rows.schema == RECEIVED
    assert decoded.records == len(parts)
    assert decoded.foreign == ()
    expected = rows(list(zip(reads, parts, strict=True)))
    expected.sort(key=lambda r: len(r["hops"]))  # type: ignore[arg-type]  # groups of equal hop number
    assert decoded.rows.to_pylist() == expected


@given(record_parts(), st.data())
@settings(max_examples=budget(150), deadline=None)
def test_a_truncated_or_lengthened_record_is_named_and_gives_no_row(
    parts: tuple[str, str, int, list[Member]], data: st.DataObject
) -> None:
    whole = encode(*parts)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for damaged in (cut, whole + b"\0"):
        good = Read(0, 7, 5, whole)
        decoded = decode([good, Read(3, 8, 5, damaged), good])
        assert decoded.records == 3
        assert [(f.partition, f.offset) for f in decoded.foreign] == [(3, 8)]
        assert str(decoded.foreign[0]).startswith("partition 3 offset 8: ")
        assert decoded.rows.num_rows == 2 * len(parts[3])


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_foreign_bytes_never_raise(value: bytes) -> None:
    decoded = decode([Read(0, 0, 0, value)])
    assert decoded.records == 1
    assert bool(decoded.foreign) != bool(decoded.rows.num_rows)


def test_reasons() -> None:
    hop = [Hop(1, 2, 3)]

    def reason(value: bytes) -> str:
        return decode([Read(0, 0, 0, value)]).foreign[0].reason

    assert reason(b"") == "its 0 bytes end within the header"
    assert reason(b'{"message_id": 1}') == "its first byte is 123, not version 1"
    assert reason(encode("s", "p", 0, [Member(1, 0, 0, [])])) == "member 0 of 1 has no hops"
    assert reason(encode("s", "p", 0, [Member(1, 0, 0, hop)]) + b"xy") == "2 bytes follow its 1 members"
    assert reason(b"\x01\x01\xff\x00\x00" + bytes(12)) == "its sink or path is not UTF-8"


def test_the_layout_byte_by_byte() -> None:
    # Written out by hand from the format's description.
    value = bytes.fromhex(
        "01" "02" "7331" "0003" "613a31"  # version, sink "s1", path "a:1"
        "0000000000000005" "00000001"  # thesis_entered_ns 5, one member
        "0000000000000007" "00000002" "0000000000000003" "0001"  # message 7, child 2, entered 3, one hop
        "00000009" "0000000000000003" "000000000000000a"  # task 9, received 3, emitted 10
    )  # fmt: skip
    assert encode("s1", "a:1", 5, [Member(7, 2, 3, [Hop(9, 3, 10)])]) == value
    (row,) = decode([Read(4, 11, 99, value)]).rows.to_pylist()
    assert (row["message_id"], row["child"], row["entered_ns"], row["left_ns"]) == (7, 2, 3, 10)


@given(st.integers(0, 2**63 - 1), st.text())
def test_input_values_are_json(message_id: int, payload: str) -> None:
    value = OwnWire(payload.encode("utf-8", "ignore").decode()).outgoing(message_id).value
    assert json.loads(value) == {
        "message_id": message_id,
        "payload": payload.encode("utf-8", "ignore").decode(),
    }


def test_a_message_carries_its_row_of_a_dataset() -> None:
    flights = AirlineDelays(1, 100.0)
    made = [json.loads(OwnWire(flights).outgoing(n).value) for n in (5, 6)]
    assert made == [{"message_id": n, "payload": row_text(flights.row(n))} for n in (5, 6)]
    assert made[0]["payload"].startswith("tail=N")
    named = NamedWire("id", "<{payload}>", flights, {"A": 1.0}, seed=1, sink="out").outgoing(6)
    assert named.value.decode() == f"<{made[1]['payload']}>"


@given(st.lists(st.tuples(record_parts(), st.integers(0, 2**40)), max_size=4), st.integers(-(2**50), 2**50))
def test_what_left_by_the_brokers_clock_entered_at_a_time_that_is_not_known(
    parts: list[tuple[tuple[str, str, int, list[Member]], int]], offset_ns: int
) -> None:
    """All else is as it was read; the thesis's latency, a difference of two of the host's times, too."""
    read = [Read(0, n, append_ms, encode(*part)) for n, (part, append_ms) in enumerate(parts)]
    before = decode(read).rows
    after = at_the_broker(before, offset_ns)
    moved = {"entered_ns", "left_ns", "thesis_entered_ns"}
    assert after.drop_columns(list(moved)) == before.drop_columns(list(moved))
    assert after["entered_ns"].null_count == after.num_rows
    for old, new in zip(before.to_pylist(), after.to_pylist(), strict=True):
        assert (
            new["left_ns"] == old["append_ms"] * 1_000_000 + 500_000 + offset_ns
        )  # its millisecond's middle
        latencies = [row["left_ns"] - row["thesis_entered_ns"] for row in (old, new)]
        assert latencies[0] % 2**64 == latencies[1] % 2**64  # of any 64 bits


def test_no_records_no_rows() -> None:
    assert decode([]).rows == pa.Table.from_batches([], schema=RECEIVED)
