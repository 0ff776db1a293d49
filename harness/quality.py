"""``quality.json``: findings about a step, made while it was measured, that decide whether it can be used."""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import Frozen


class Finding(Frozen):
    """Outcome of one check made while measuring."""

    ok: bool
    detail: str = ""


class Ledger(Frozen):
    """Counts of messages due in the interval unless said otherwise.

    Attributes
    ----------
    sent : int
        Confirmed by the broker.
    unconfirmed : int
        Handed to the Kafka client, which reported an error.
    received : int
        At least one member reached a sink.
    absorbed : int
        A window holds a member, and none reached a sink.
    filtered : int
        Filters left out all that there was of it, as the workload's seed says.
    failed : int
        A spout reported it as failed, whatever else became of it.
    lost : int
        Sent, and no evidence of any other fate.
    without_output : int
        The same where the topology may leave messages out.
    duplicates : int
        Rows beyond the first (or the expected number) of one message, child and sink.
    repeated : int
        The same where the topology may give several outputs for one message.
    overlapping : int
        Messages that were reported as failed, and came out or are held by a window all the same.
    foreign : int
        Records of the output topic, of the whole step, that could not be decoded or have no message's name.
    phantom : int
        Messages received in the step that were never sent.
    earlier : int
        Messages received in the step that belong before the first one sent in it.
    children_missing, children_surplus : int
        Children without evidence and beyond the known number. Without a known number: gaps in the
        numbering of the children seen.
    copies_missing : int
        What a sink should have seen of members that came out somewhere, and did not see.
    lost_ids, phantom_ids : tuple of int
        The first few.
    problems : tuple of str
        Why the ledger does not balance; empty when it does.
    balanced : bool
        Whether every message has exactly one fate and all counts agree.
    complete : bool
        Whether it balances and nothing was lost, failed, repeated or left without a child or a copy.
    reason : str
        The problems, in one line.
    """

    sent: int
    unconfirmed: int
    received: int
    absorbed: int
    filtered: int
    failed: int
    lost: int
    without_output: int
    duplicates: int
    repeated: int
    overlapping: int
    foreign: int
    phantom: int
    earlier: int
    children_missing: int
    children_surplus: int
    copies_missing: int
    lost_ids: tuple[int, ...]
    phantom_ids: tuple[int, ...]
    problems: tuple[str, ...]
    balanced: bool
    complete: bool
    reason: str

    @property
    def counts(self) -> dict[str, int]:
        """All counts, by name."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: n for name, n in found.items() if isinstance(n, int) and not isinstance(n, bool)}


class Backlog(Frozen):
    """Messages that went in and came out in the interval, a second, each with its standard error."""

    growth_tps: float
    growth_error_tps: float
    throughput_tps: float
    throughput_error_tps: float
    saturated: bool
    """True if the backlog grew: latencies then have no mean, and the throughput is all that goes through."""

    def __str__(self) -> str:
        return (
            f"the backlog grew by {self.growth_tps:.1f} ± {self.growth_error_tps:.1f} messages/s,"
            f" {self.throughput_tps:.1f} messages/s came out"
        )


class Tracked(Frozen):
    """Fates of the messages that spouts emitted with an identifier, in whole buckets of the interval.

    The spouts' wrappers count them: emitted with an identifier, acked, failed, and in flight when the
    first bucket began and the last ended.
    """

    emitted: int
    acked: int
    failed: int
    pending_before: int
    pending: int
    unnamed: int
    """Emits without an identifier, whose fate nobody knows."""

    @property
    def balanced(self) -> bool:
        """True where each message has one fate."""
        return self.pending_before + self.emitted == self.acked + self.failed + self.pending

    def __str__(self) -> str:
        return (
            f"{self.pending_before} pending + {self.emitted} emitted ="
            f" {self.acked} acked + {self.failed} failed + {self.pending} pending"
        )


class Adaptation(Frozen):
    """Judgement of a step that changed its plan while the step was measured.

    Attributes
    ----------
    periods, applied : int
        How often a scheduler was asked, and how often another plan was applied.
    plan_as_decided : Finding
        Whether every plan came into force.
    losses_explained : Finding
        Whether what was lost or repeated was near a decision.
    """

    periods: int
    applied: int
    plan_as_decided: Finding
    losses_explained: Finding


class Quality(Frozen):
    """``quality.json``: whether the step's measurement can be used.

    A finding is None of a step that it does not apply to, and ``absent`` then has the check and the reason.
    It is also None of a run from before it was recorded.
    """

    plan_as_asked: Finding
    plan_unchanged: Finding
    steady: Finding
    generator: Finding | None
    receiver: Finding | None
    errors_reported: Finding
    ledger: Ledger | None
    tracked: Tracked | None
    absent: Mapping[str, str]
    """Checks that do not apply, and why."""
    metrics: Finding | None
    backlog: Backlog | None
    began_empty: Finding | None
    """All that came before had come out when the step began."""
    clocks: Finding | None
    """The time of day was not set in the interval."""
    stolen: Finding | None
    """The machine's host left it its CPU."""
    alone: Finding | None
    """No cluster came up beside the run in the interval."""
    adaptation: Adaptation | None
    """None of a step whose plan stays."""

    @property
    def ledger_counts(self) -> dict[str, int]:
        """The ledger's counts of messages by their fate; empty where the harness sent none."""
        return {} if self.ledger is None else self.ledger.counts

    @property
    def saturated(self) -> str:
        """Say that the step was saturated; empty where it was not."""
        return f"saturated: {self.backlog}" if self.backlog is not None and self.backlog.saturated else ""
