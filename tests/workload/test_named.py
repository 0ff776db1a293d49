"""Records of anybody's jar: a name goes in and is found again, and what has none is told."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.experiments.workload_tables import RECEIVED
from harness.workload.named import NamedWire
from harness.workload.wire import Outgoing


class Read(NamedTuple):
    partition: int
    offset: int
    append_ms: int
    value: bytes = b""
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def wire(header: str | None = "id", value: str = "{payload}", sink: str = "out") -> NamedWire:
    return NamedWire(header, value, "text", {"A": 3.0, "B": 1.0}, seed=1, sink=sink)


def back(sent: Outgoing, append_ms: int = 2_000) -> Read:
    """Return what a topology gives that carries all but the value."""
    return Read(3, 17, append_ms, b"else", sent.key, sent.headers)


whole = st.integers(0, 10**18 - 1)


@given(whole, st.sampled_from(["id", None]))
def test_an_output_says_which_message_it_is(message_id: int, header: str | None) -> None:
    of = wire(header)
    found = of.decoded([back(of.outgoing(message_id))], offset_ns=-1_000_000_000)
    assert found.rows.schema == RECEIVED
    assert found.rows.to_pylist() == [
        {
            "message_id": message_id,
            "child": 0,
            "entered_ns": None,
            "left_ns": 1_000_500_000,  # 2000 ms on the broker's clock, to the middle of its millisecond
            "thesis_entered_ns": None,
            "output_partition": 3,
            "output_offset": 17,
            "append_ms": 2_000,
            "sink": "out",
            "record_path": "",
            "hops": [],
        }
    ]
    assert (found.records, found.foreign) == (1, ())


def test_the_template_is_filled_in() -> None:
    of = wire(value='{"id": "{message}", "word": "{key}", "text": "{payload}{other}"}')
    (value, _, _) = of.outgoing(7)
    assert value in {
        b'{"id": "message-7", "word": "%b", "text": "text{other}"}' % key for key in (b"A", b"B")
    }


def test_a_key_is_drawn_by_the_weights_and_a_function_of_seed_and_message() -> None:
    """3 to 1: of 4000 draws 3000 with a standard deviation of 27."""
    one, other = wire(value="{key}"), pickle.loads(pickle.dumps(wire(value="{key}")))
    drawn = [one.outgoing(i).value for i in range(4000)]
    assert drawn == [other.outgoing(i).value for i in reversed(range(4000))][::-1]
    assert Counter(drawn)[b"A"] == pytest.approx(3000, abs=6 * 27)


@pytest.mark.parametrize(
    ("header", "record", "reason"),
    [
        ("id", Read(1, 2, 3, key=b"message-7"), "it has no header id"),
        (None, Read(1, 2, 3, headers=(("id", b"message-7"),)), "it has no key"),
        ("id", Read(1, 2, 3, headers=(("id", b"7"),)), "its header id is '7', which names no message"),
        (None, Read(1, 2, 3, key=b"a message-7"), "its key is 'a message-7', which names no message"),
        (
            None,
            Read(1, 2, 3, key=b"message-" + b"9" * 19),
            "its key is 'message-9999999999999999999', which names",
        ),
        (None, Read(1, 2, 3, key=b"\xff"), "its key is '\N{REPLACEMENT CHARACTER}', which names no message"),
    ],
)
def test_a_record_without_a_name_gives_no_row_and_a_reason(
    header: str | None, record: Read, reason: str
) -> None:
    found = wire(header).decoded([record], 0)
    assert found.rows.num_rows == 0
    assert found.records == 1
    ((partition, offset, said),) = found.foreign
    assert (partition, offset) == (1, 2)
    assert said.startswith(reason)


def test_of_headers_of_one_name_the_last_counts_as_for_kafka() -> None:
    found = wire().decoded(
        [Read(0, 0, 0, headers=(("id", b"message-1"), ("id", b"message-3"), ("x", b"message-5")))], 0
    )
    assert found.rows["message_id"].to_pylist() == [3]
