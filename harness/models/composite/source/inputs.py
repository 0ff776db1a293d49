"""Arrivals of messages at the spouts' tasks, and the polls and bursts of the spouts' executors.

Input is a partitioned topic: each spout task has its share of the messages as observed. A producer that fills
the partitions in turn, on a regular schedule, sends to neighbouring tasks one after another. An executor that
looks at its tasks in turn then finds several messages in one round: a burst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelDeclined
from harness.models.composite.idling import Waiting
from harness.models.composite.source.evidence import Evidence
from harness.models.composite.source.hop_records import spout_messages
from harness.models.contract.layout import FloatArray, Output, outputs

TIMEOUT_MS = 1.0
"""Time-out of a poll, where neither settings nor bursts say it."""
BEYOND_MS = 0.45
"""Time that an empty poll of storm-kafka-client takes beyond its time-out, in the median of the tuning set's
steps whose bursts say it. It is 0.53 ms beyond 5, 0.43 beyond 1."""
POLL_MS = TIMEOUT_MS + BEYOND_MS
EMIT_CPU_MS = 0.15
"""CPU of one emit: reading the record, making the tuple, sending it."""
IN_TURN = 0.8
"""Share of messages after which the next goes to the next task, from which they are in turn."""
_TASKS = 4
_MESSAGES = 200
_ROUNDS = 20
_LEAST_POLL_MS = 0.5
"""Half of the shortest time-out of a poll, 1 ms."""
_AT_ONCE = 0.05
"""Share of messages at once with the one before, beyond which the others come after a whole round."""
BUSY = 0.1
"""Load of a spout's executor that is assumed at most, where no hop records say what polls and emits take."""
_REGULAR = 0.3
"""Squared coefficient of variation of gaps that say how long a round is; others are the messages' own."""


@dataclass(frozen=True)
class Inputs:
    """The spouts' input.

    Attributes
    ----------
    share : mapping of spout to array (its tasks)
        Of all messages; all spouts together add to 1. Without hop records: of the rate, as counted on the
        spout's busiest stream.
    copies : mapping of Output to float
        Tuples a message on each output of a spout.
    scv : float
        Of the time between messages of one task.
    in_turn : bool
    poll_ms : mapping of spout to float
    emit_cpu_ms : mapping of spout to float
    notes : tuple of str
    """

    share: Mapping[str, FloatArray]
    copies: Mapping[Output, float]
    scv: float
    in_turn: bool
    poll_ms: Mapping[str, float]
    emit_cpu_ms: Mapping[str, float]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Arriving:
    """Schedule of the messages and polls of the spouts, from hop records; no block weighs more than another.

    Attributes
    ----------
    scv : float
    in_turn : bool
    poll_ms : mapping of spout to float
        Where it could be told.
    """

    scv: float
    in_turn: bool
    poll_ms: Mapping[str, float]


def arriving(evidence: Evidence, waiting: Waiting) -> Arriving | None:
    """Read the schedule and the spouts' polls; None without hop records.

    Parameters
    ----------
    waiting : Waiting
        Of the source's spouts.
    """
    if evidence.hops is None:
        return None
    messages = spout_messages(evidence.hops)
    if len(messages) < 3:
        return None
    gaps, turns, polls = [], [], {}
    for number, of_spout in messages.groupby("component"):
        name = evidence.layout.order[int(str(number))]
        task = of_spout["task"].to_numpy()
        tasks = evidence.layout.tasks[name].size
        turns.append(float(np.mean(np.diff(task) % tasks == 1 % tasks)))
        in_turn = turns[-1] > IN_TURN
        # In turn a task's gap is made of one gap of every task. Taken from all gaps, a message that left no
        # record (a window may hold all of it) counts for little.
        apart = [of_spout] if in_turn else [mine for _, mine in of_spout.groupby("task")]
        regular = in_turn
        for mine in apart:
            gap = np.diff(mine["scheduled_ms"].to_numpy())
            if gap.size > 1 and gap.mean() > 0:
                scv = float(gap.var() / gap.mean() ** 2)
                gaps.append((gap.size, scv / (tasks if in_turn else 1)))
                regular &= scv < _REGULAR
        waits = (of_spout["entered_ms"] - of_spout["sent_ms"]).to_numpy()
        executor = of_spout["executor"].to_numpy()
        entered = of_spout["entered_ms"].to_numpy()
        which = np.unique(executor)
        own = np.full(which.size, np.nan)
        if regular:
            held = [len(evidence.layout.executors[e].tasks) for e in which]
            own = np.array(
                [polls_between_bursts(entered, executor == e, n) for e, n in zip(which, held, strict=True)]
            )
        if not np.isfinite(own).any() and evidence.settings.poll_timeout_ms is None:
            own = np.array([_polls(evidence, waits[executor == e], e, waiting, in_turn) for e in which])
        if np.isfinite(own).any():
            polls[name] = float(np.nanmedian(own))
    sizes, scvs = (np.array(x) for x in zip(*gaps, strict=True)) if gaps else (np.ones(1), np.ones(1))
    return Arriving(float(sizes @ scvs / sizes.sum()), min(turns) > IN_TURN, polls)


def polls_between_bursts(entered_ms: FloatArray, mine: NDArray[np.bool_], tasks: int) -> float:
    """Return the length of an empty poll from the time between bursts; NaN without bursts.

    Two messages may come one after the other to neighbouring tasks of one executor. The second then comes out
    at once, or after a round of vain looks at all of the executor's tasks. Such a round takes a millisecond a
    task or more. If no message comes out at once, the messages do not wait for the executor's round.

    Parameters
    ----------
    entered_ms : array (messages)
        In the order in which they were sent.
    mine : array (messages) of bool
        Whether the executor emitted it.
    tasks : int
        Of the executor.

    Examples
    --------
    Messages every 10 ms to four tasks in turn, which are all looked at in 22 ms:

    >>> entered = np.repeat(22.0 * np.arange(300), 2) + np.tile([0.0, 0.32], 300)
    >>> round(polls_between_bursts(entered, np.ones(600, dtype=bool), 4), 2)
    5.42
    >>> polls_between_bursts(30.0 * np.arange(600), np.ones(600, dtype=bool), 4)
    nan
    """
    gap_ms = np.diff(entered_ms)[mine[1:] & mine[:-1]]
    apart = gap_ms > _LEAST_POLL_MS * tasks
    if tasks < 2 or apart.sum() < _ROUNDS or 1 - apart.mean() < _AT_ONCE:
        return np.nan
    return float(np.median(gap_ms[apart])) / tasks


def _polls(evidence: Evidence, mine: FloatArray, which: int, waiting: Waiting, in_turn: bool) -> float:
    """Return the length of an empty poll at one spout executor; NaN where it cannot be told.

    Messages wait evenly for the look at their task. In turn, the looks follow the messages: between two
    bursts all tasks are looked at in vain once. Else a round is of emits and empty looks.
    """
    tasks = len(evidence.layout.executors[which].tasks)
    if tasks < _TASKS or mine.size < _MESSAGES:
        return np.nan
    low, high = np.quantile(mine, [0.1, 0.9])
    length_ms = float(high - low) / 0.8
    per_ms = mine.size / (evidence.seconds * 1000)
    emits = per_ms * length_ms
    idle_ms = float(waiting.between_rounds_ms(np.array(1 / per_ms), np.array(tasks * POLL_MS)))
    rounds = length_ms - emits * 2 * EMIT_CPU_MS - idle_ms * np.exp(-emits)
    return float(max(rounds, 0.0)) / (tasks if in_turn else max(tasks - emits, 1.0))


def spout_inputs(evidence: Evidence, weights: FloatArray, arrivals: Arriving | None) -> Inputs:
    """Estimate the spouts' input.

    Raises
    ------
    ModelDeclined
        When a spout that others subscribe to emitted nothing.
    """
    plan = evidence.plan.query_plan
    emitted: dict[str, FloatArray] = {}
    copies: dict[Output, float] = {}
    for name in plan.spouts:
        streams = outputs(plan, name)
        if not streams:
            continue
        sums = {o: evidence.emitted[o] @ weights for o in streams}
        most = max(sums, key=lambda o: float(sums[o].sum()))
        if not sums[most].sum() > 0:
            raise ModelDeclined(f"spout {name} emitted nothing in the source step")
        emitted[name] = sums[most]
        copies |= {o: float(v.sum() / sums[most].sum()) for o, v in sums.items()}
    if not emitted:
        raise ModelDeclined("no spout of the query plan has a subscriber")
    total = sum(float(v.sum()) for v in emitted.values())
    notes = []
    polls = dict(arrivals.poll_ms) if arrivals else {}
    quicker = dict.fromkeys(emitted, 1.0)
    timeout_ms = evidence.settings.poll_timeout_ms
    unseen_ms = POLL_MS if timeout_ms is None else timeout_ms + BEYOND_MS
    if timeout_ms is None and set(polls) != set(emitted):
        notes.append(f"an empty poll of a spout task is taken to last {POLL_MS} ms")
    if arrivals is None:
        notes.append("no hop records: messages are taken to come at random")
    if evidence.hops is None:
        total = evidence.rate_tps * evidence.seconds  # of several streams a message can be on more than one
        quicker = {
            n: _quicker(evidence, n, v / evidence.seconds / 1000, unseen_ms) for n, v in emitted.items()
        }
        notes += [
            f"{n} emits so often that it is taken to do it {1 / q:.2g} times as fast"
            for n, q in quicker.items()
            if q < 1
        ]
    return Inputs(
        share={n: v / total for n, v in emitted.items()},
        copies=copies,
        scv=arrivals.scv if arrivals else 1.0,
        in_turn=arrivals.in_turn if arrivals else False,
        poll_ms={n: polls.get(n, unseen_ms * quicker[n]) for n in emitted},
        emit_cpu_ms={n: EMIT_CPU_MS * quicker[n] for n in emitted},
        notes=tuple(notes),
    )


def _quicker(evidence: Evidence, spout: str, rate_tpms: FloatArray, poll_ms: float) -> float:
    """Return the factor on polls and emits with which the source's spout is busy for ``BUSY`` at most.

    What it did, it could do: a spout that makes its own messages needs less than one that reads a topic. The
    load is that of ``analytic.spout_loop`` on a calm host.
    """
    membership = evidence.layout.membership[spout]
    tasks, total = membership.sum(axis=1), membership @ rate_tpms
    busiest = np.array([rate_tpms[mine > 0].max(initial=0.0) for mine in membership])
    load = busiest * tasks * poll_ms + total * (EMIT_CPU_MS - poll_ms)
    return float(min(1.0, BUSY / max(load.max(), 1e-12)))
