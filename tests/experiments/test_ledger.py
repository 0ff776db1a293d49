"""The ledger against messages whose fates are known because the test dealt them out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.errors import StepInvalid
from harness.experiments.ledger import (
    NO_PAIRS,
    AtLeastAtMost,
    Ledger,
    LedgerEvidence,
    held_at_the_end,
    parse_failed,
    parse_held,
    settle,
)
from harness.experiments.workload_tables import SENT

INTERVAL_NS = (1_000, 2_000)
FATES = ("received", "absorbed", "failed", "lost")


@dataclass
class World:
    """Messages with known fates, and the evidence that they would leave."""

    first_id: int = 0
    sent: list[dict[str, object]] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)
    held: list[list[int]] = field(default_factory=list)
    failed: list[list[int]] = field(default_factory=list)
    records: int = 0

    def send(self, scheduled_ns: int, error: str | None = None) -> int:
        n = self.first_id + len(self.sent)
        confirmed = error is None
        self.sent.append(
            {
                "message_id": n,
                "scheduled_ns": scheduled_ns,
                "sent_ns": scheduled_ns + 1,
                "partition": n % 16,
                "offset": n // 16 if confirmed else None,
                "append_ms": 5 if confirmed else None,
                "error": error,
            }
        )
        return n

    def receive(
        self, message_id: int, child: int = 0, sink: str = "sender", record: int | None = None
    ) -> None:
        if record is None:
            record, self.records = self.records, self.records + 1
        self.rows.append(
            {
                "message_id": message_id,
                "child": child,
                "sink": sink,
                "output_partition": 0,
                "output_offset": record,
            }
        )

    def hold(self, message_id: int, child: int = 0) -> None:
        self.held.append([message_id, child])

    def fail(self, message_id: int) -> None:
        self.failed.append([message_id % 16, message_id // 16])

    def evidence(self, **changes: object) -> LedgerEvidence:
        kinds = pa.schema(
            [
                ("message_id", pa.int64()),
                ("child", pa.int32()),
                ("sink", pa.string()),
                ("output_partition", pa.int32()),
                ("output_offset", pa.int64()),
            ]
        )
        known: dict[str, object] = {
            "sent": pa.Table.from_pylist(self.sent, schema=SENT),
            "received": pa.Table.from_pylist(self.rows, schema=kinds),
            "interval_ns": INTERVAL_NS,
            "input_records": sum(s["error"] is None for s in self.sent),
            "output_records": self.records,
            "records_read": self.records,
            "held": np.array(self.held, dtype=np.int64).reshape(-1, 2),
            "failed": np.array(self.failed, dtype=np.int64).reshape(-1, 2),
        }
        return LedgerEvidence(**{**known, **changes})  # type: ignore[arg-type]

    def settle(self, **changes: object) -> Ledger:
        return settle(self.evidence(**changes))


@dataclass(frozen=True)
class Expecting:
    """What should come out: members of each message, copies of each member at each sink."""

    of_message: dict[int, int] = field(default_factory=dict)
    of_sink: dict[str, int] = field(default_factory=lambda: {"sender": 1})
    unsure: tuple[str, ...] = ()
    names: frozenset[int] = frozenset(range(1000))

    @property
    def sinks(self) -> tuple[str, ...]:
        return tuple(self.of_sink)

    def members(self, ids: NDArray[np.int64]) -> AtLeastAtMost:
        found = np.array([self.of_message.get(i, 1) for i in ids.tolist()], dtype=np.int64)
        return AtLeastAtMost(found, found)

    def copies(self, sink: str, ids: NDArray[np.int64], child: NDArray[np.int64]) -> AtLeastAtMost:
        most = self.of_sink.get(sink, 0) * np.isin(child, list(self.names)).astype(np.int64)
        return AtLeastAtMost(0 * most if sink in self.unsure else most, most)


@dataclass(frozen=True)
class Message:
    fate: str
    within: bool
    children: int
    extra_rows: int


messages = st.builds(
    Message,
    st.sampled_from(FATES),
    st.booleans(),
    st.integers(1, 4),
    st.integers(0, 3),
)


@given(st.lists(messages, max_size=60), st.integers(0, 1000), st.randoms(use_true_random=False))
@settings(max_examples=budget(150), deadline=None)
def test_every_fate_is_seen_as_it_was_dealt(dealt: list[Message], first_id: int, random: object) -> None:
    world = World(first_id=first_id)
    expected: Counter[str] = Counter()
    duplicates = missing = 0
    for m in dealt:
        n = world.send(1_500 if m.within else 2_500)
        family = range(1, m.children + 1)
        if m.fate == "received":
            for child in family:
                world.receive(n, child)
            for _ in range(m.extra_rows):
                world.receive(n, 1)
        elif m.fate == "absorbed":
            for child in family:
                world.hold(n, child)
        elif m.fate == "failed":
            world.fail(n)
        if m.within:
            expected[m.fate] += 1
            duplicates += m.extra_rows if m.fate == "received" else 0
            missing += m.children if m.fate in ("failed", "lost") else 0
    random.shuffle(world.rows)  # type: ignore[attr-defined]
    children = {first_id + i: m.children for i, m in enumerate(dealt)}
    ledger = world.settle(expected=Expecting(children))
    assert ledger.sent == sum(m.within for m in dealt)
    assert {f: getattr(ledger, f) for f in FATES} == {f: expected[f] for f in FATES}
    assert ledger.duplicates == duplicates
    assert (ledger.children_missing, ledger.children_surplus) == (missing, 0)
    assert ledger.balanced, ledger.problems
    assert ledger.complete == (not duplicates and not expected["lost"] and not expected["failed"])


@given(st.integers(1, 80), st.data())
@settings(max_examples=budget(100), deadline=None)
def test_k_dropped_and_j_duplicated_are_exactly_k_and_j(total: int, data: st.DataObject) -> None:
    world = World()
    ids = [world.send(1_000 + i) for i in range(total)]
    dropped = data.draw(st.sets(st.sampled_from(ids)))
    duplicated = data.draw(st.lists(st.sampled_from(ids))) if len(dropped) < total else []
    duplicated = [d for d in duplicated if d not in dropped]
    for n in [*(i for i in ids if i not in dropped), *duplicated]:
        world.receive(n)
    ledger = world.settle()
    assert ledger.lost == len(dropped)
    assert set(ledger.lost_ids) <= dropped
    assert ledger.duplicates == len(duplicated)
    assert ledger.received == total - len(dropped)
    assert ledger.balanced


def test_a_failed_message_that_came_out_or_is_held_is_flagged() -> None:
    world = World()
    for _ in range(3):
        world.send(1_500)
    world.hold(0)
    world.fail(0)
    world.receive(1)
    world.receive(2)
    world.fail(2)
    ledger = world.settle()
    counted = (ledger.received, ledger.absorbed, ledger.failed, ledger.lost, ledger.overlapping)
    assert counted == (2, 1, 2, 0, 2)
    assert not ledger.balanced
    assert ledger.problems == (
        "2 messages were reported as failed, and came out or are held by a window",
        "3 sent are not 2 received + 1 absorbed + 2 failed + 0 lost",
    )


def test_a_message_with_children_received_and_held_is_received() -> None:
    world = World()
    n = world.send(1_500)
    world.receive(n, 1)
    world.hold(n, 2)
    ledger = world.settle(expected=Expecting({n: 2}))
    assert (ledger.received, ledger.absorbed, ledger.children_missing) == (1, 0, 0)
    assert ledger.complete


def test_phantoms_unbalance_and_earlier_messages_do_not() -> None:
    world = World(first_id=100)
    world.receive(world.send(1_500))
    world.receive(99)  # of the step before
    ledger = world.settle()
    assert (ledger.earlier, ledger.phantom, ledger.balanced) == (1, 0, True)
    world.receive(101)
    ledger = world.settle()
    assert (ledger.phantom, ledger.phantom_ids) == (1, (101,))
    assert ledger.problems == ("1 messages were received that were never sent",)


def test_counts_that_disagree_with_the_broker_unbalance() -> None:
    world = World()
    world.receive(world.send(1_500))
    assert world.settle().balanced
    assert "input topic has 2 records" in world.settle(input_records=2).problems[0]
    assert "output topic has 3 records" in world.settle(output_records=3).problems[0]
    assert "1 records of the output topic" in world.settle(foreign_records=1).problems[0]


def test_an_unconfirmed_message_is_not_sent_and_may_have_been_appended() -> None:
    world = World()
    world.receive(world.send(1_500))
    world.send(1_600, error="KafkaTimeoutError")
    ledger = world.settle()
    assert (ledger.sent, ledger.unconfirmed, ledger.lost) == (1, 1, 0)
    assert ledger.balanced
    assert not ledger.complete
    assert world.settle(input_records=2).balanced
    assert not world.settle(input_records=3).balanced


def test_gaps_in_the_numbering_of_children_are_missing_children() -> None:
    world = World()
    a, b, c = (world.send(1_500) for _ in range(3))
    for child in (0, 1, 2, 4):  # 3 is missing; child 0 went another way (join and split)
        world.receive(a, child)
    world.receive(b, 0)
    world.receive(c, 2)  # 1 is missing
    assert world.settle().children_missing == 2
    assert world.settle(expected=Expecting({a: 4, b: 1, c: 1})).children_surplus == 0
    ledger = world.settle(expected=Expecting({a: 3, b: 1, c: 1}))
    assert ledger.children_surplus == 1
    assert not ledger.balanced


def test_a_member_may_appear_as_often_as_all_groupings_copy_it() -> None:
    world = World()
    n = world.send(1_500)
    for _ in range(3):
        world.receive(n)
    assert world.settle().duplicates == 2
    assert world.settle(expected=Expecting(of_sink={"sender": 3})).duplicates == 0
    world.receive(n, record=0)
    assert world.settle(expected=Expecting(of_sink={"sender": 3})).duplicates == 1


def test_a_copy_that_a_sink_did_not_see_is_missing_unless_a_window_holds_the_member() -> None:
    """Two ways to one sink and one to the other: three rows a message. The second message lacks one of two
    at the first sink, the third one of one at the other, and a window holds it."""
    world = World()
    a, b, c = (world.send(1_500) for _ in range(3))
    for n, sinks in ((a, "out out end"), (b, "out end"), (c, "out out")):
        for sink in sinks.split():
            world.receive(n, sink=sink)
    world.hold(c)
    ways = {"out": 2, "end": 1}
    ledger = world.settle(expected=Expecting(of_sink=ways))
    assert (ledger.copies_missing, ledger.duplicates, ledger.complete) == (1, 0, False)
    assert ledger.balanced, ledger.problems
    assert world.settle(expected=Expecting(of_sink=ways, unsure=("out",))).complete
    world.receive(b, sink="out")
    assert world.settle(expected=Expecting(of_sink=ways)).complete


def test_what_filters_leave_out_is_a_fate_of_its_own() -> None:
    """Of three messages no member should come out: one does not, one does, one was reported as failed."""
    world = World()
    left_out, came_out, failed = (world.send(1_500) for _ in range(3))
    world.receive(came_out)
    world.fail(failed)
    expected = Expecting({left_out: 0, came_out: 0, failed: 0})
    ledger = world.settle(expected=expected)
    assert (ledger.filtered, ledger.received, ledger.failed, ledger.lost) == (1, 1, 1, 0)
    assert ledger.children_surplus == 1
    assert ledger.problems == ("1 children were seen beyond the number that their messages have",)
    assert world.settle().lost == 1


def test_a_member_that_a_window_holds_by_an_earlier_name_is_not_missed() -> None:
    """Behind the window a multiplier would make children 1 and 2; of the other message one is missing."""
    world = World()
    inside, out = world.send(1_500), world.send(1_500)
    world.hold(inside)
    world.receive(out, 1)
    ledger = world.settle(expected=Expecting({inside: 2, out: 2}, names=frozenset({1, 2})))
    assert (ledger.absorbed, ledger.received, ledger.children_missing) == (1, 1, 1)
    assert ledger.balanced


def test_one_member_at_two_sinks_is_no_duplicate() -> None:
    world = World()
    n = world.send(1_500)
    world.receive(n, sink="sender-1")
    world.receive(n, sink="sender-2")
    assert world.settle().duplicates == 0


def test_nothing_sent_nothing_received() -> None:
    ledger = World().settle()
    assert ledger.balanced
    assert ledger.sent == 0


def test_the_interval_is_half_open() -> None:
    world = World()
    for scheduled in (999, 1_000, 1_999, 2_000):
        world.receive(world.send(scheduled))
    assert world.settle().sent == 2


def test_json() -> None:
    world = World()
    world.receive(world.send(1_500))
    read = json.loads(world.settle().model_dump_json())
    assert read["sent"] == read["received"] == 1
    assert read["balanced"] is True
    assert read["problems"] == []


# ---- what the cluster says in text ----

pairs = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**31 - 1)), max_size=20)


@given(pairs)
def test_held_members_are_read_back(members: list[tuple[int, int]]) -> None:
    text = ",".join(f"{m}/{c}" for m, c in members)
    assert parse_held(text).tolist() == [list(m) for m in members]


topic_names = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)


@given(topic_names, pairs, st.booleans())
def test_failed_identifiers_are_read_back(topic: str, places: list[tuple[int, int]], short: bool) -> None:
    # The long form is the string template in KafkaSpoutMessageId.class of storm-kafka-client 2.8.3.
    template = (
        "{t}-{p}@{o}" if short else "{{topic-partition={t}-{p}, offset={o}, numFails=0, nullTuple=false}}"
    )
    text = ",".join(template.format(t=topic, p=p, o=o) for o, p in places)
    assert parse_failed(text, {topic: 16}).tolist() == [[16 + p, o] for o, p in places]


@pytest.mark.parametrize("text", ["12", "1/2,", "a/1", "1/2;3/4", "-1/0"])
def test_a_wrong_dump_is_an_error(text: str) -> None:
    with pytest.raises(StepInvalid, match="message/child"):
        parse_held(text)


def test_wrong_failed_identifiers_are_errors() -> None:
    with pytest.raises(StepInvalid, match="not a Kafka spout's"):
        parse_failed("in-3@x", {"in": 0})
    with pytest.raises(StepInvalid, match="not a Kafka spout's"):
        parse_failed("in-3@7x", {"in": 0})
    with pytest.raises(StepInvalid, match="topic 'other'"):
        parse_failed("other-3@7", {"in": 0})
    assert parse_failed("", {"in": 0}).tolist() == NO_PAIRS.tolist()


def test_the_last_dump_of_each_task_counts() -> None:
    def dump(task: int, when: int, value: str) -> dict[str, object]:
        return {"component": "window", "task": task, "bucket_end_ms": when, "value": value}

    dumps = [dump(1, 20, "5/0"), dump(1, 10, "1/0,2/0"), dump(2, 10, "3/0"), dump(2, 30, "")]
    assert held_at_the_end(dumps).tolist() == [[5, 0]]
    assert held_at_the_end([]).tolist() == []


def test_a_topology_that_is_free_to_drop_and_repeat_is_counted_and_not_blamed() -> None:
    """Three messages: one comes out twice, one once, one not; beside them a record with no name."""
    world = World()
    for message_id in range(3):
        world.send(INTERVAL_NS[0] + message_id)
    for message_id in (0, 0, 1):
        world.receive(message_id)
    ledger = world.settle(free=True, foreign_records=1)
    assert ledger.balanced
    assert ledger.complete
    assert (ledger.received, ledger.without_output, ledger.repeated, ledger.foreign) == (2, 1, 1, 1)
    assert ledger.lost == ledger.duplicates == 0
    early = world.settle(free=True, drained=False, foreign_records=1)  # it may still be on its way
    assert (early.lost, early.without_output) == (1, 0)
    blamed = world.settle(foreign_records=1, foreign="partition 0 offset 3: it has no key")
    assert (blamed.lost, blamed.duplicates, blamed.without_output, blamed.repeated) == (1, 1, 0, 0)
    assert blamed.problems == (
        "1 records of the output topic could not be decoded"
        " (the run's first: partition 0 offset 3: it has no key)",
    )


def test_a_message_that_failed_and_was_sent_again_is_received() -> None:
    world = World()
    for message_id in range(2):
        world.send(INTERVAL_NS[0] + message_id)
        world.fail(message_id)
    world.receive(0)
    ledger = world.settle(retried=True)
    assert ledger.balanced
    assert (ledger.received, ledger.failed, ledger.lost, ledger.overlapping) == (1, 1, 0, 1)
    assert not world.settle().balanced
