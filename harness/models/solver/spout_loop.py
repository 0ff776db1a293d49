"""The round that a spout executor makes: one look at each of its tasks, and a sleep when none had a message.

The round decides how long an ack waits (acks are read once a round) and blurs the times at which messages
enter. Take k tasks with rates l_t, an empty look of p, an emit of c and a sleep of d. Rounds take in the mean
C = (k p + d P0) / (1 - L (c - p)), L the sum of rates, since in C each task emits l_t C messages. P0, the
share of rounds without a message, follows from a round being empty when nothing came in the round before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled, inner
from harness.models.solver.indices import executor_count, tasks_of
from harness.models.solver.records import Flat
from harness.models.solver.structure import SPOUT

_ROUNDS = 100


class SpoutLoop(NamedTuple):
    """Rounds of each spout executor; entries of others are 0.

    Attributes
    ----------
    round_ms : array (executors)
        Mean.
    empty_ms, used_ms : array (executors)
        Of rounds without and with a message.
    in_empty : array (executors)
        Share of time in rounds without a message.
    load : array (executors)
        Of the busiest task: rate over the highest rate at which the executor can emit.
    """

    round_ms: FloatArray
    empty_ms: FloatArray
    used_ms: FloatArray
    in_empty: FloatArray
    load: FloatArray


def spout_loop(net: Flat, emit_ms: FloatArray) -> SpoutLoop:
    """Return the spout executors' rounds.

    Parameters
    ----------
    emit_ms : array (executors)
        Time that one emit takes, for spout executors.
    """
    found = np.zeros((5, net.first_acker))
    _loops(net, emit_ms, found)
    return SpoutLoop(*found)


@compiled
def _loops(net: Flat, emit_ms: FloatArray, found: FloatArray) -> None:
    for component in range(net.components.size - 1):
        if net.components[component].kind != SPOUT:
            continue
        tasks, poll = tasks_of(net, component), net.components[component].poll_ms
        end, emit, before = tasks.start, 0.0, 0.0
        known = net.tasks[end:end]["input_tpms"]
        for i in range(executor_count(net, component)):
            executor, begin = net.components[component].first_executor + i, end
            while end < tasks.stop and net.tasks[end].executor == i:
                end += 1
            rate = net.tasks[begin:end]["input_tpms"]
            idle = net.executors[executor].idle_ms
            if i > 0 and emit_ms[executor] == emit and idle == before and np.array_equal(rate, known):
                found[:, executor] = found[:, executor - 1]  # as many tasks with the same rates
                continue
            known, emit, before = rate, emit_ms[executor], idle
            others = len(tasks) - rate.size if net.input_in_turn else -1
            found[:, executor] = _loop(rate, poll, emit, idle, net.input_scv, others)


@inner
def _loop(rate: FloatArray, poll: float, emit: float, idle: float, scv: float, others: int) -> FloatArray:
    tasks, total = rate.size, rate.sum()
    load = rate.max() * tasks * poll + total * (emit - poll) if tasks else 0.0
    slack = 1 - total * (emit - poll)
    empty = tasks * poll + idle
    if tasks == 0 or load >= 1 or slack <= 0:
        return np.array([0.0, 0.0, 0.0, 0.0, load])
    mean, used, none = empty, empty, 0.5
    for _ in range(_ROUNDS):
        after_empty = _nothing_in(rate, empty, scv, others)
        after_used = _nothing_in(rate, used, scv, others)
        new = after_used / max(1 - after_empty + after_used, 1e-12)
        change = abs(new - none)
        none = 0.5 * (none + new)
        mean = (tasks * poll + idle * none) / slack
        # what is emitted in a round with a message
        many = total * mean / max(1 - none, 1e-12)
        used = max((tasks - many) * poll + many * emit, emit)
        if change < 1e-9:
            break
    share = min(none * empty / mean, 1.0) if mean > 0 else 0.0
    used = (mean - none * empty) / (1 - none) if none < 1 - 1e-9 else empty
    return np.array([mean, empty, max(used, 0.0), share, load])


@inner
def _nothing_in(rate: FloatArray, length: float, scv: float, others: int) -> float:
    """Return the probability that no task's message comes within a time.

    Messages of a task are evenly spaced, at random or between. These tasks' messages may come in turn between
    those of ``others`` tasks of other executors; -1 where each task's messages come on their own.
    """
    even, at_random = 1.0, math.exp(-rate.sum() * length)
    if others >= 0 and rate.sum() > 0:
        gap = rate.size / rate.sum() / (rate.size + others)
        within, between = max(gap - length, 0.0), max((others + 1) * gap - length, 0.0)
        even = ((rate.size - 1) * within + between) / gap / (rate.size + others)
    else:
        for of_task in rate:
            even *= max(0.0, 1 - of_task * length)
    weight = min(scv, 1.0)
    return weight * at_random + (1 - weight) * even
