"""Can the experiment give what it asks for? Findings from plain numbers, before anything is started.

An *error* cannot run or would be refused by Storm; a *warning* spoils the measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Literal

from harness.experiments.precision import critical
from harness.plans import WindowKind

WINDOW_FATE = 3.0
"""Share of fate to plan with behind a count window.

A window's members leave together, but successive windows of one key make up for each other, so the
mean itself is no less certain than of as many independent messages. The interval given is wider:
its batches are shorter than the rarest key's windows. Simulated with weights 16 to 1 and with 16 keys
whose rarest is 0.1 %: 2 to 4 times the messages.
"""
PLANNED_BATCHES = 20
"""Number of batches assumed when the interval's width is foreseen."""
WINDOWS_PER_INTERVAL = 2
"""With fewer windows of the rarest task in an interval, its share of the mean depends on chance."""


@dataclass(frozen=True)
class FeasibilityFinding:
    """Something wrong with an experiment: how bad, at which key of its file, what and what to do."""

    severity: Literal["error", "warning"]
    key: str
    message: str


def windowed_cv(shares: Sequence[float]) -> float:
    """Return the coefficient of variation of the time spent in tumbling count windows.

    Parameters
    ----------
    shares : sequence of float
        Relative rates at which the windows fill (one a task of the windowed component).

    Notes
    -----
    With K windows of W tuples, filled at rates p_k lambda, a member waits between 0 and
    W / (p_k lambda), evenly. Each window then holds the same share of the mean, K W / (2 lambda), and
    the second moment is W^2 / (3 lambda^2) sum(1 / p_k); length and rate cancel.

    Examples
    --------
    >>> round(windowed_cv([1, 1, 1, 1]), 3)
    0.577
    """
    if not shares or min(shares) <= 0:
        raise ValueError("shares must be positive, and at least one")
    total = sum(shares)
    return sqrt(4 / 3 * sum(total / share for share in shares) / len(shares) ** 2 - 1)


def messages_needed(precision_pct: float, cv: float, looks: int = 1, share_fate: float = 1.0) -> int:
    """Return how many messages the mean's 95 % interval needs to be within a precision.

    Parameters
    ----------
    precision_pct : float
        Half-width asked, in percent of the mean.
    cv : float
        Coefficient of variation expected of one message's latency.
    looks : int
        Looks planned; more than one widens the interval.
    share_fate : float
        Messages that count as one independent one: 1 when they do not influence each other, a
        multiplier's mean for its children, `WINDOW_FATE` behind a window.
    """
    return ceil(share_fate * (100 * critical(PLANNED_BATCHES, looks) * cv / precision_pct) ** 2)


def check_precision(
    rate_tps: float,
    interval_s: float,
    precision_pct: float,
    cv: float,
    looks: int = 1,
    share_fate: float = 1.0,
    key: str = "measure.interval.precision_pct",
) -> list[FeasibilityFinding]:
    """Warn when the rate is too low for the precision asked in the time given.

    Parameters
    ----------
    rate_tps : float
        Messages, or window members, that reach a sink each second.
    interval_s : float
        The most time that measuring may take.
    precision_pct, cv, looks, share_fate
        As for `messages_needed`.
    key : str
        Key of the experiment's file to name.
    """
    needed = messages_needed(precision_pct, cv, looks, share_fate)
    if rate_tps * interval_s >= needed:
        return []
    reachable_pct = precision_pct * sqrt(needed / (rate_tps * interval_s))
    return [
        FeasibilityFinding(
            "warning",
            key,
            f"a mean within {precision_pct:g} % needs about {needed} messages, {needed / rate_tps:.0f} s at "
            f"{rate_tps:g} a second; in {interval_s:g} s expect {reachable_pct:.2g} %: "
            "raise the rate or the time, or ask for less",
        )
    ]


def check_window(
    kind: WindowKind,
    length: int,
    slide: int,
    max_spout_pending: int | None,
    message_timeout_s: float,
    key: str = "topology.window",
) -> list[FeasibilityFinding]:
    """Report a window that Storm's windowed bolt refuses when it starts.

    Parameters
    ----------
    kind : str
        ``count`` or ``time``.
    length, slide : int
        Tuples (count) or milliseconds (time).
    max_spout_pending : int or None
        ``topology.max.spout.pending``; None when unlimited.
    message_timeout_s : float
        ``topology.message.timeout.secs``.
    key : str
        Key of the experiment's file to name.
    """
    if kind == "count":
        if max_spout_pending is None or length + slide <= max_spout_pending:
            return []
        limit = f"max spout pending, {max_spout_pending} tuples"
    else:
        if length + slide <= 1000 * message_timeout_s:
            return []
        limit = f"the message timeout, {1000 * message_timeout_s:g} ms"
    return [
        FeasibilityFinding(
            "error",
            key,
            f"window length {length} plus slide {slide} is more than {limit}, and Storm refuses to start: "
            "shorten the window or raise the limit",
        )
    ]


def check_rarest_window(
    length: int,
    rate_into_window_tps: float,
    least_share: float,
    message_timeout_s: float,
    interval_s: float,
    key: str = "workload.rate_tps",
) -> list[FeasibilityFinding]:
    """Warn when the slowest count window outlives its tuples or the interval.

    A tuple is acked only after the window that follows its own, so it may live for two of them.

    Parameters
    ----------
    length : int
        Tuples in a window.
    rate_into_window_tps : float
        Tuples a second that reach the windowed component.
    least_share : float
        Share of them at its least busy task (a window belongs to a task; with fields grouping its
        share is that of its keys).
    message_timeout_s : float
        ``topology.message.timeout.secs``.
    interval_s : float
        The most time that measuring may take.
    key : str
        Key of the experiment's file to name.
    """
    lasts_s = length / (rate_into_window_tps * least_share)
    found = []
    if lasts_s >= message_timeout_s / 2:
        found.append(
            FeasibilityFinding(
                "warning",
                key,
                f"the slowest window takes {lasts_s:.3g} s to fill, not less than half the message timeout "
                f"({message_timeout_s:g} s): its tuples fail and are replayed; raise the rate or the timeout",
            )
        )
    if lasts_s * WINDOWS_PER_INTERVAL > interval_s:
        found.append(
            FeasibilityFinding(
                "warning",
                key,
                f"the slowest window takes {lasts_s:.3g} s to fill: fewer than {WINDOWS_PER_INTERVAL} fit "
                f"into an interval of {interval_s:g} s: raise the rate or the time",
            )
        )
    return found


def check_load_aware(
    load_aware: bool,
    grouping: str,
    tasks: int,
    executors: Mapping[str, int],
    key: str = "topology.load_aware",
) -> list[FeasibilityFinding]:
    """Warn when load-aware shuffle starves tasks of a windowed component.

    Only an executor's first task reports its load, so its other tasks get no tuples: windows begun
    there never fill, and how many windows are active changes with the executors.

    Parameters
    ----------
    load_aware : bool
        Whether load-aware messaging is on.
    grouping : str
        Grouping of the stream into the windowed component.
    tasks : int
        Its tasks.
    executors : mapping of str to int
        Its executors by step, with the steps' names for the message.
    key : str
        Key of the experiment's file to name.
    """
    starved = [step for step, count in executors.items() if count < tasks]
    if not load_aware or grouping not in ("shuffle", "local-or-shuffle") or not starved:
        return []
    return [
        FeasibilityFinding(
            "warning",
            key,
            f"load-aware {grouping} grouping starves the windows of all but one task an executor in "
            f"{', '.join(starved)} ({tasks} tasks): turn it off, or give each task an executor",
        )
    ]
