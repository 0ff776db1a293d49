"""``quality.json``: findings about a step, made while it was measured, that decide whether it can be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.plans import Frozen


class Finding(Frozen):
    """Outcome of one check made while measuring."""

    ok: bool
    detail: str = ""


class Backlog(Frozen):
    """Messages that went in and came out in the interval, a second, each with its standard error."""

    growth_tps: float
    growth_error_tps: float
    throughput_tps: float
    throughput_error_tps: float
    saturated: bool
    """Whether the backlog grew: latencies then have no mean, and the throughput is all that goes through."""

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
    """``quality.json``: whether the step's measurement can be used."""

    plan_as_asked: Finding
    plan_unchanged: Finding
    steady: Finding
    generator: Finding | None = None
    receiver: Finding | None = None
    errors_reported: Finding
    ledger: Mapping[str, Any] | None = None
    tracked: Tracked | None = None
    absent: Mapping[str, str] = {}
    """Checks that do not apply, and why."""
    metrics: Finding | None = None
    backlog: Backlog | None = None
    """These two are None in runs that were measured before they were kept."""
    began_empty: Finding | None = None
    """Whether all that came before had come out when the step began; None as above, and of simulated runs."""
    clocks: Finding | None = None
    """Whether the time of day was not set in the interval; None as above."""
    stolen: Finding | None = None
    """Whether the machine's host left it its CPU; None as above."""
    alone: Finding | None = None
    """Whether no cluster came up beside the run in the interval; None as above."""
    adaptation: Adaptation | None = None
    """None of a step whose plan stays."""

    @property
    def ledger_counts(self) -> dict[str, int]:
        """The ledger's counts of messages by their fate; empty where the harness sent none."""
        ledger = self.ledger or {}
        return {name: n for name, n in ledger.items() if isinstance(n, int) and not isinstance(n, bool)}

    @property
    def saturated(self) -> str:
        """Say that the step was saturated; empty where it was not."""
        return f"saturated: {self.backlog}" if self.backlog is not None and self.backlog.saturated else ""
