"""Mean delays of rows in each component: the parts of which the ground truth's mean is the sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled
from harness.models.solver.forward import Stages, mean_output
from harness.models.solver.holding import batched, hold_mean
from harness.models.solver.rates import ROWS, TUPLES
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
        From the emit upstream to the start of service: batch, hop and queue. Bolts that rows come to.
    holds : dict
        From a member's arrival in its window to the window's output. Components with windows.
    """
    f = stages.f
    components = f.component.size - 1
    waits, holds, rows = np.zeros(components), np.zeros(components), np.zeros(components)
    _add(stages, waits, holds, rows)
    bolts = [c for c in range(components) if f.component["kind"][c] != SPOUT and rows[c] > 0]
    windows = [c for c in bolts if f.component["kind"][c] >= COUNT_WINDOW]
    return (
        {names[c]: float(waits[c] / rows[c]) for c in bolts},
        {names[c]: float(holds[c] / rows[c]) for c in windows},
    )


@compiled
def _add(g: Stages, waits: FloatArray, holds: FloatArray, rows: FloatArray) -> None:
    f, r = g.f, g.r
    for s in range(f.stream.size - 1):
        stream = f.stream[s]
        source, target = f.component[stream.source], f.component[stream.target]
        targets = f.component[stream.target + 1].first_executor - target.first_executor
        for i in range(f.component[stream.source + 1].first_executor - source.first_executor):
            port = f.output[stream.output].first_port + i
            for j in range(targets):
                e = target.first_executor + j
                p = f.share[stream.first_share + i * stream.share_step + j]
                kind = f.kind_between[f.executor[source.first_executor + i].worker, f.executor[e].worker]
                wait = g.s.hop[kind, 0] + g.w.law[e, MEAN] + g.w.law[e, SLEEP] / 2
                if batched(f):
                    at = stream.first_link + i * targets + j
                    wait += hold_mean(f, g.w.holds, source.first_executor + i, e, at)
                waits[stream.target] += r.port[ROWS, port] * p * wait
                rows[stream.target] += r.port[ROWS, port] * p
    for c in range(f.component.size - 1):
        if f.component[c].kind >= COUNT_WINDOW:
            for t in range(f.component[c].first_task, f.component[c + 1].first_task):
                if r.task[TUPLES, t] > 0:
                    holds[c] += r.task[ROWS, t] * mean_output(g, c, t)
