"""Variability of the messages that a spout's executors take up, as their rounds let them in."""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import inlined, inner
from harness.models.solver.indices import executor_count, tasks_of
from harness.models.solver.spout_loop import SpoutLoop
from harness.models.solver.stages import Stages
from harness.models.solver.variability import (
    SCALES_MS,
    blurred,
    in_bursts,
    in_turn,
    looked_at,
    renewal,
    slept,
)


@inner
def enter(stages: Stages, loop: SpoutLoop, component: int, joint: FloatArray) -> None:
    """Fill in the arrivals of a spout's messages, when the executor comes round to their tasks.

    Over times shorter than a round the looks decide what comes, over longer ones the messages.
    """
    net, service, arrivals = stages.net, stages.service, stages.flow.arrivals
    first, executors = net.components[component].first_executor, executor_count(net, component)
    total, held = np.zeros(executors), np.zeros(executors)
    for task in tasks_of(net, component):
        total[net.tasks[task].executor] += net.tasks[task].input_tpms
        held[net.tasks[task].executor] += 1
    arrivals[first : first + executors] = 0.0
    if net.input_in_turn:
        _enter_in_turn(stages, loop, component, total, held, joint)
        return
    for i in range(executors):
        executor = first + i
        chance = total[i] * loop.round_ms[executor] / held[i] if held[i] > 0 else 1.0
        pass_ms = loop.used_ms[executor] + net.executors[executor].idle_ms
        after_sleep = total[i] * pass_ms * (1 - 1 / max(held[i], 1.0))
        for k in range(SCALES_MS.size):
            # read anew for each scale: what is taken out of the loop is rounded in another order
            poll_ms, emit_ms = net.components[component].poll_ms, service.hold[executor, 0]
            used_ms, idle_ms = loop.used_ms[executor], net.executors[executor].idle_ms
            time_ms, blur_ms = SCALES_MS[k], loop.round_ms[executor] / 3
            index = looked_at(time_ms, chance, poll_ms, emit_ms) * blur_ms / (time_ms + blur_ms)
            index += loop.in_empty[executor] * slept(time_ms, after_sleep, used_ms, idle_ms)
            arrivals[executor, k] = index if total[i] > 0 else 0.0
    for task in tasks_of(net, component):
        place, rate = net.tasks[task].executor, net.tasks[task].input_tpms
        if rate > 0:
            for k in range(SCALES_MS.size):
                own = renewal(rate * SCALES_MS[k], net.input_scv)
                arrivals[first + place, k] += (
                    rate / total[place] * blurred(own, SCALES_MS[k], loop.round_ms[first + place] / 3)
                )


@inner
def _enter_in_turn(
    stages: Stages, loop: SpoutLoop, component: int, total: FloatArray, held: FloatArray, joint: FloatArray
) -> None:
    """Fill in the same where messages come to one task after another.

    Parameters
    ----------
    total, held : array (executors)
        Messages a ms, and tasks.
    """
    net, arrivals = stages.net, stages.flow.arrivals
    first, poll_ms = net.components[component].first_executor, net.components[component].poll_ms
    everything, tasks = total.sum(), held.sum()
    scv, mean_round_ms = net.input_scv * tasks, 0.0
    for i in range(total.size):
        if not total[i] > 0:
            continue
        executor = first + i
        share = total[i] / everything
        mean_round_ms += share * loop.round_ms[executor]
        emit_ms = stages.service.hold[executor, 0]
        number = _caught_up_with(everything, held[i], poll_ms, net.executors[executor].idle_ms, emit_ms)
        # of its messages in a turn the first and the last burst are cut short, where there are others' tasks
        whole = max(1 - (number + 1) / (3 * held[i]), 0.0) if held[i] < tasks else 1.0
        for k in range(SCALES_MS.size):
            time_ms = SCALES_MS[k]
            own = in_turn(everything * time_ms, tasks, held[i] / tasks, scv)
            arrivals[executor, k] = blurred(own, time_ms, loop.round_ms[executor] / 3)
            arrivals[executor, k] += whole * in_bursts(time_ms, number, number / everything, emit_ms, scv)
            joint[k] -= share * own
    for k in range(SCALES_MS.size):
        joint[k] += renewal(everything * SCALES_MS[k], scv)
        joint[k] *= SCALES_MS[k] / (SCALES_MS[k] + mean_round_ms / 3)


@inlined
def _caught_up_with(rate: float, tasks: float, poll_ms: float, idle_ms: float, emit_ms: float) -> float:
    """Return how many messages an executor finds when it has come round to the task that is next.

    Messages come at ``rate`` to one task after another. Between two times that it catches up with them it
    passes all of its tasks in vain once, and those with a message besides. A sleep is part of that while its
    round is shorter than the time between two messages.
    """
    round_ms = tasks * poll_ms
    round_ms += idle_ms * max(1 - rate * round_ms, 0.0)
    slack = 1 - rate * emit_ms
    return min(rate * round_ms / slack, tasks) if slack > 0 else tasks
