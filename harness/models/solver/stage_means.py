"""Mean delays of rows in each component: the parts of which the ground truth's mean is the sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled
from harness.models.solver.forward import mean_output
from harness.models.solver.indices import (
    hop_between,
    port_at,
    receiver_at,
    receivers_of,
    sender_at,
    senders_of,
    share_at,
    tasks_of,
)
from harness.models.solver.rates import ROWS, TUPLES
from harness.models.solver.stages import Stages
from harness.models.solver.structure import COUNT_WINDOW, SPOUT
from harness.models.solver.waiting import MEAN, SLEEP


def stage_means(stages: Stages, names: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return means over the rows of components, in ms.

    Parameters
    ----------
    stages : Stages
        What the stages of a network found.
    names : sequence of str
        Of its components, in their order.

    Returns
    -------
    waits : dict
        From the emit upstream to the start of service: hop and queue. Bolts that rows come to.
    holds : dict
        From a member's arrival in its window to the window's output. Components with windows.
    """
    net = stages.net
    components = net.components.size - 1
    waits, holds, rows = np.zeros(components), np.zeros(components), np.zeros(components)
    _add(stages, waits, holds, rows)
    bolts = [c for c in range(components) if net.components["kind"][c] != SPOUT and rows[c] > 0]
    windows = [c for c in bolts if net.components["kind"][c] >= COUNT_WINDOW]
    return (
        {names[c]: float(waits[c] / rows[c]) for c in bolts},
        {names[c]: float(holds[c] / rows[c]) for c in windows},
    )


@compiled
def _add(stages: Stages, waits: FloatArray, holds: FloatArray, rows: FloatArray) -> None:
    net, rates, law = stages.net, stages.rates, stages.flow.law
    for stream in range(net.streams.size - 1):
        target = net.streams[stream].target
        for i in senders_of(net, stream):
            port, sender = port_at(net, stream, i), sender_at(net, stream, i)
            for j in receivers_of(net, stream):
                receiver, probability = receiver_at(net, stream, j), share_at(net, stream, i, j)
                kind = hop_between(net, sender, receiver)
                wait = stages.service.hop[kind, 0] + law[receiver, MEAN] + law[receiver, SLEEP] / 2
                waits[target] += rates.port[ROWS, port] * probability * wait
                rows[target] += rates.port[ROWS, port] * probability
    for component in range(net.components.size - 1):
        if net.components[component].kind >= COUNT_WINDOW:
            for task in tasks_of(net, component):
                if rates.task[TUPLES, task] > 0:
                    holds[component] += rates.task[ROWS, task] * mean_output(stages, component, task)
