"""The ledger: the fate of every message that was due in the measured interval.

It states that sent = received + absorbed + filtered + failed + lost (or without output). Each term is counted
from evidence of its own, and none as the difference of the others. The evidence: the broker's confirmations,
the output topic's rows, the windows' dumps of the members they hold, the filters' draws, the spouts' reports,
and the absence of all these.

A message that was reported as failed and yet came out or is held by a window has two fates. Such messages, or
counts that disagree with the broker's own, make the ledger unbalanced, with the reason. (The spouts of a jar
may send a message again that failed: then it is received.)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import StepInvalid
from harness.quality import Ledger

Ids = npt.NDArray[np.int64]
Pairs = npt.NDArray[np.int64]
"""Shape (n, 2): (message_id, child) of members, (partition, offset) of records."""
NO_PAIRS: Pairs = np.empty((0, 2), dtype=np.int64)
EXAMPLES = 10
"""Identifiers that are named beside their count."""

_MEMBER = re.compile(r"(\d+)/(\d+)")
_TOPIC_PARTITION = r"([A-Za-z0-9._-]+)-(\d+)"
# KafkaSpoutMessageId.toString of storm-kafka-client 2.8.3, and the short form topic-partition@offset.
_SPOUT_ID = re.compile(
    rf"\{{topic-partition={_TOPIC_PARTITION}, offset=(\d+), numFails=\d+, nullTuple=(?:true|false)\}}"
    rf"|{_TOPIC_PARTITION}@(\d+)"
)


class AtLeastAtMost(NamedTuple):
    """Least and most possible number of something; both are equal where the number is known."""

    least: Ids
    most: Ids


class ExpectedOutputs(Protocol):
    """Members and copies that should come out of each message."""

    @property
    def sinks(self) -> Collection[str]:
        """The components that write to the output topic."""

    def members(self, ids: Ids) -> AtLeastAtMost:
        """Return how many members of each message come out, at any sink; none of what filters leave out."""

    def copies(self, sink: str, ids: Ids, child: Ids) -> AtLeastAtMost:
        """Return how often each member comes to a sink.

        Once for each way, and for each task that a stream to all tasks leads to. A sliding window lists each
        once.
        """


@dataclass(frozen=True)
class LedgerEvidence:
    """Evidence about a step's messages.

    Attributes
    ----------
    sent : Table
        ``harness.experiments.workload_tables.SENT``: every message handed to the Kafka client in the step.
    received : Table
        A row a member that reached a sink: message_id, child, sink, output_partition, output_offset.
    interval_ns : tuple of int
        Start and end; a message belongs to it when start <= scheduled_ns < end.
    held : ndarray of int64, shape (n, 2)
        (message_id, child) of the members that windows hold at the end.
    failed : ndarray of int64, shape (n, 2)
        (partition, offset) of the input records that a spout reported as failed.
    input_records, output_records : int
        Records appended to the two topics in the step, by the broker's offsets.
    records_read, foreign_records : int
        Output records that the receiver read, and those among them that it could not decode.
    expected : ExpectedOutputs, optional
        What should come out of each message; None where that is not known.
    free : bool
        Whether the topology may leave messages out and give several outputs for one, or outputs of its own:
        then there is no telling what was lost or repeated.
    drained : bool
        Whether everything was out when it was looked at. What was still on its way was not left out.
    retried : bool
        Whether spouts may send a message again that failed.
    foreign : str
        The first record that could not be decoded, with the reason; empty where there is none.
    """

    sent: pa.Table
    received: pa.Table
    interval_ns: tuple[int, int]
    input_records: int
    output_records: int
    records_read: int
    foreign_records: int = 0
    held: Pairs = field(default_factory=lambda: NO_PAIRS)
    failed: Pairs = field(default_factory=lambda: NO_PAIRS)
    expected: ExpectedOutputs | None = None
    free: bool = False
    drained: bool = True
    retried: bool = False
    foreign: str = ""


def settle(evidence: LedgerEvidence) -> Ledger:
    """Count every fate.

    Examples
    --------
    >>> settle(evidence).balanced  # doctest: +SKIP
    True
    """
    ids = _column(evidence.sent, "message_id")
    due = _column(evidence.sent, "scheduled_ns")
    start_ns, end_ns = evidence.interval_ns
    confirmed = evidence.sent["error"].is_null().to_numpy()
    within = (due >= start_ns) & (due < end_ns)
    sent = ids[within & confirmed]

    rows = _column(evidence.received, "message_id")
    seen = np.unique(rows)
    received = np.isin(sent, seen)
    # one message's children may be on both sides of a window: it is received as soon as one of them is out
    absorbed = np.isin(sent, evidence.held[:, 0]) & ~received
    failed = np.isin(sent, _failed_ids(evidence))
    overlapping = int((failed & (received | absorbed)).sum())
    if evidence.retried:
        failed &= ~received
    filtered = _members(evidence, sent).most == 0
    filtered &= ~(received | absorbed | failed)
    nowhere = ~(received | absorbed | filtered | failed)
    none = np.zeros_like(nowhere)
    lost, without_output = (none, nowhere) if evidence.free and evidence.drained else (nowhere, none)
    again = _duplicates(evidence, sent)
    unknown = seen[~np.isin(seen, ids)]
    first_id = int(ids.min()) if len(ids) else 0
    phantom = unknown[unknown >= first_id]
    missing, surplus = _children(evidence, sent)

    fates = {
        "received": int(received.sum()),
        "absorbed": int(absorbed.sum()),
        "filtered": int(filtered.sum()),
        "failed": int(failed.sum()),
        "lost": int(lost.sum()),
        "without_output": int(without_output.sum()),
    }
    problems = [
        *_fate_problems(len(sent), fates, 0 if evidence.retried else overlapping),
        *_count_problems(evidence, int(confirmed.sum()), int((~confirmed).sum())),
    ]
    if len(np.unique(ids)) != len(ids):
        problems.append(f"{len(ids) - len(np.unique(ids))} message identifiers were sent more than once")
    if len(phantom):
        problems.append(f"{len(phantom)} messages were received that were never sent")
    if surplus:
        problems.append(f"{surplus} children were seen beyond the number that their messages have")
    unconfirmed, duplicates = int((within & ~confirmed).sum()), 0 if evidence.free else again
    copies_missing = _copies_missing(evidence, sent[~failed])
    astray = (fates["lost"], fates["failed"], unconfirmed, duplicates, missing, copies_missing)
    return Ledger(
        sent=len(sent),
        unconfirmed=unconfirmed,
        **fates,
        duplicates=duplicates,
        repeated=again if evidence.free else 0,
        overlapping=overlapping,
        foreign=evidence.foreign_records,
        phantom=len(phantom),
        earlier=len(unknown) - len(phantom),
        children_missing=missing,
        children_surplus=surplus,
        copies_missing=copies_missing,
        lost_ids=tuple(sent[lost][:EXAMPLES].tolist()),
        phantom_ids=tuple(phantom[:EXAMPLES].tolist()),
        problems=tuple(problems),
        balanced=not problems,
        complete=not problems and not any(astray),
        reason="; ".join(problems),
    )


def _column(table: pa.Table, name: str) -> Ids:
    return np.asarray(table[name].to_numpy(), dtype=np.int64)


def _failed_ids(evidence: LedgerEvidence) -> Ids:
    """Messages whose input record a spout reported as failed."""
    sent = evidence.sent.filter(evidence.sent["error"].is_null())
    place = _pack(_column(sent, "partition"), _column(sent, "offset"))
    return _column(sent, "message_id")[np.isin(place, _pack(evidence.failed[:, 0], evidence.failed[:, 1]))]


def _pack(partition: Ids, offset: Ids) -> Ids:
    """Make one number of a place in a topic; 2**48 records a partition are enough."""
    return (partition << 48) | offset


def _member(message_id: Ids, child: Ids) -> Ids:
    """Make one number of a member's name; a message has less than 2**20 children."""
    return (message_id << 20) | child


def _duplicates(evidence: LedgerEvidence, sent: Ids) -> int:
    """Count the rows beyond those that each message, child and sink may have."""
    rows = evidence.received.filter(pa.array(np.isin(_column(evidence.received, "message_id"), sent)))
    members = rows.group_by(["sink", "message_id", "child"]).aggregate([([], "count_all")])
    beyond = 0
    for sink in members["sink"].unique().to_pylist():
        mine = members.filter(pc.equal(members["sink"], sink))
        ids, child, seen = (_column(mine, name) for name in ("message_id", "child", "count_all"))
        # of a member that is not expected at all, the first row is counted elsewhere: as a surplus child
        expected = evidence.expected
        allowed = 1 if expected is None else expected.copies(str(sink), ids, child).most.clip(min=1)
        beyond += int((seen - allowed).clip(min=0).sum())
    return beyond


def _copies_missing(evidence: LedgerEvidence, sent: Ids) -> int:
    """Count the members that came out somewhere and are missing at a sink that should have seen them.

    Of a member that a window holds, any copy may be the one inside.
    """
    if evidence.expected is None:
        return 0
    ids, child = (_column(evidence.received, name) for name in ("message_id", "child"))
    _, first, member = np.unique(_member(ids, child), return_index=True, return_inverse=True)
    ids, child = ids[first], child[first]
    held = _member(evidence.held[:, 0], evidence.held[:, 1])
    mine = np.isin(ids, sent) & ~np.isin(_member(ids, child), held)
    sinks = np.asarray(evidence.received["sink"].to_numpy())
    missing = 0
    for sink in evidence.expected.sinks:
        seen = np.bincount(member[sinks == sink], minlength=len(ids))
        least = evidence.expected.copies(sink, ids, child).least
        missing += int((least - seen)[mine].clip(min=0).sum())
    return missing


def _children(evidence: LedgerEvidence, sent: Ids) -> tuple[int, int]:
    """Count children of the messages sent without any evidence, and those beyond the known number.

    Of a message that a window holds by a name that a multiplier behind it will change, no child is missed.
    """
    ids = np.concatenate([_column(evidence.received, "message_id"), evidence.held[:, 0]])
    children = np.concatenate([_column(evidence.received, "child"), evidence.held[:, 1]])
    named = _comes_out(evidence, ids, children)
    named[: evidence.received.num_rows] = True
    mine = np.isin(ids, sent) & named
    seen = np.unique(np.stack([ids[mine], children[mine]], axis=1), axis=0)
    messages, first, count = np.unique(seen[:, 0], return_index=True, return_counts=True)
    if evidence.expected is not None:
        known = _members(evidence, sent)
        found = np.zeros(len(sent), dtype=np.int64)
        order = np.argsort(sent)
        found[order[np.searchsorted(sent, messages, sorter=order)]] = count
        whole = ~np.isin(sent, ids[~named])
        missing = int((known.least - found)[whole].clip(min=0).sum())
        return missing, int((found - known.most).clip(min=0).sum())
    if not len(messages):
        return 0, 0
    # Children are numbered from 1; number 0 is a message that nothing multiplied.
    last = seen[np.append(first[1:], len(seen)) - 1, 1]
    numbered = count - (seen[first, 1] == 0)
    return int((last - numbered).sum()), 0


def _comes_out(evidence: LedgerEvidence, ids: Ids, child: Ids) -> npt.NDArray[np.bool_]:
    """Return which members may come to a sink by the names that they have."""
    if evidence.expected is None:
        return np.ones(len(ids), dtype=np.bool_)
    found = np.zeros(len(ids), dtype=np.bool_)
    for sink in evidence.expected.sinks:
        found |= evidence.expected.copies(sink, ids, child).most > 0
    return found


def _members(evidence: LedgerEvidence, ids: Ids) -> AtLeastAtMost:
    """Return how many members of each message come out: one at least where that is not known."""
    if evidence.expected is None:
        return AtLeastAtMost(np.ones(len(ids), dtype=np.int64), np.ones(len(ids), dtype=np.int64))
    return evidence.expected.members(ids)


def _fate_problems(sent: int, fates: Mapping[str, int], overlapping: int) -> list[str]:
    problems = []
    if overlapping:
        problems.append(
            f"{overlapping} messages were reported as failed, and came out or are held by a window"
        )
    if sum(fates.values()) != sent:
        possible = {k: n for k, n in fates.items() if n or k not in ("without_output", "filtered")}
        terms = " + ".join(f"{n} {name.replace('_', ' ')}" for name, n in possible.items())
        problems.append(f"{sent} sent are not {terms}")
    return problems


def _count_problems(evidence: LedgerEvidence, confirmed: int, unconfirmed: int) -> list[str]:
    """Compare our own counts with the broker's, over the whole step."""
    problems = []
    if not confirmed <= evidence.input_records <= confirmed + unconfirmed:
        problems.append(
            f"the input topic has {evidence.input_records} records of the step, "
            f"the generator sent {confirmed} (and {unconfirmed} unconfirmed)"
        )
    if evidence.records_read != evidence.output_records:
        problems.append(
            f"the output topic has {evidence.output_records} records of the step, "
            f"the receiver read {evidence.records_read}"
        )
    if evidence.foreign_records and not evidence.free:
        first = f" (the run's first: {evidence.foreign})" if evidence.foreign else ""
        problems.append(f"{evidence.foreign_records} records of the output topic could not be decoded{first}")
    return problems


def parse_held(text: str) -> Pairs:
    """Read a window's dump, ``message/child`` separated by commas.

    Raises
    ------
    StepInvalid
        When it is anything else.

    Examples
    --------
    >>> parse_held("12/0,15/3").tolist()
    [[12, 0], [15, 3]]
    """
    if not text:
        return NO_PAIRS
    found = [_MEMBER.fullmatch(m) for m in text.split(",")]
    if not all(found):
        raise StepInvalid(f"a window's dump is not message/child,...: {text[:80]!r}")
    return np.array([[int(m[1]), int(m[2])] for m in found if m], dtype=np.int64)


def parse_failed(text: str, topics: Mapping[str, int]) -> Pairs:
    """Read spout message identifiers, separated by commas, into (partition, offset).

    Parameters
    ----------
    text : str
        As ``KafkaSpoutMessageId`` prints itself (storm-kafka-client 2.8.3), or
        ``topic-partition@offset``.
    topics : mapping of str to int
        The input topics, of one of which they must be, and where the partitions of each begin, counted over
        all of them.

    Raises
    ------
    StepInvalid
        When it is anything else.

    Examples
    --------
    >>> failed = "{topic-partition=in-3, offset=12, numFails=0, nullTuple=false},more-4@7"
    >>> parse_failed(failed, {"in": 0, "more": 16}).tolist()
    [[3, 12], [20, 7]]
    """
    places, at = [], 0
    while at < len(text):
        found = _SPOUT_ID.match(text, at)
        if found is None or text[found.end() : found.end() + 1] not in ("", ","):
            raise StepInvalid(f"not a Kafka spout's message identifier: {text[at : at + 80]!r}")
        name, partition, offset = found.group(1, 2, 3) if found[1] else found.group(4, 5, 6)
        if name not in topics:
            ours = ", ".join(map(repr, topics))
            raise StepInvalid(f"a spout reported a message of topic {name!r} as failed, not of {ours}")
        places.append([topics[name] + int(partition), int(offset)])
        at = found.end() + 1
    return np.array(places, dtype=np.int64).reshape(-1, 2)


def of_topic(text: str, topics: Collection[str]) -> bool:
    """Tell whether a message identifier is a Kafka spout's, of one of these topics.

    Examples
    --------
    >>> of_topic("in-4@7", ["in"]), of_topic("in-4@7", ["other"]), of_topic("7", ["in"])
    (True, False, False)
    """
    found = _SPOUT_ID.fullmatch(text)
    return found is not None and (found[1] or found[4]) in topics


def held_at_the_end(dumps: Iterable[Mapping[str, object]]) -> Pairs:
    """Return the members in the last dump of each task.

    Parameters
    ----------
    dumps : iterable of mapping
        With the keys component, task, bucket_end_ms and value, as the metrics receiver gives them.
    """
    last: dict[tuple[object, object], tuple[int, str]] = {}
    for dump in dumps:
        task = (dump["component"], dump["task"])
        when = int(str(dump["bucket_end_ms"]))
        if task not in last or when >= last[task][0]:
            last[task] = (when, str(dump["value"]))
    return np.concatenate([NO_PAIRS, *(parse_held(text) for _, text in last.values())])
