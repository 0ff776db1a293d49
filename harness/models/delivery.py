"""The share of messages that come out: filters leave some out whole.

A message comes out when one tuple or more that goes back to it arrives at a sink. For a tuple with n emits
on an output, each of which comes out with probability s at one subscriber or more, that is
``1 - (1 - s)^n``. Over the distribution of n it is ``1 - G(1 - s)``, G being its generating function (Feller,
An Introduction to Probability Theory, vol. 1, XI.1 and XII.4). Emits and outputs are taken as independent. A
window's rows go back to all of its members: of n rows one or more come out with at most the probability
``n s``.
"""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray, Output, downstream_order
from harness.models.network import Input, Network
from harness.plans import Stream

ONE = np.array([0.0, 1.0])
"""One emit for sure."""


def delivered_share(network: Network) -> float:
    """Return the probability that a message comes out at one sink or more.

    Parameters
    ----------
    network : Network
        Its ``fanout`` says how often a tuple leaves nothing; ``input_tps`` weighs the spouts.

    Returns
    -------
    float
        Between 0 and 1; 1 where nothing is left out.

    Raises
    ------
    ModelDeclined
        When components form a cycle.
    """
    plan, windows, tasks = network.layout.plan.query_plan, network.windows, network.layout.tasks
    comes_out: dict[Stream, float] = {}
    of_spout: dict[str, float] = {}

    def one_emit(output: Output) -> float:
        """Return the probability that one emit comes out; subscribers get a copy, or each of their tasks."""
        subscribed = [s for s in plan.outputs(output.component) if s.stream == output.stream]
        copies = [len(tasks[s.target]) if s.grouping == "all" else 1 for s in subscribed]
        return 1.0 - math.prod((1.0 - comes_out[s]) ** n for s, n in zip(subscribed, copies, strict=True))

    for name in reversed(downstream_order(plan)):
        emitted = {o: one_emit(o) for o in {Output(name, s.stream) for s in plan.outputs(name)}}
        for stream in plan.inputs(name):
            if not emitted:
                comes_out[stream] = 1.0
            elif name in windows:
                rows = network.fanout[Input(name, "", "")]
                comes_out[stream] = min(1.0, sum(_mean(rows[o]) * s for o, s in emitted.items()))
            else:
                made = network.fanout[Input(name, stream.source, stream.stream)]
                left_out = math.prod(_generating(made[o], 1.0 - s) for o, s in emitted.items())
                comes_out[stream] = 1.0 - left_out
        if name in network.input_tps:
            made = network.fanout.get(Input(name, "", ""), {})
            left_out = math.prod(_generating(made.get(o, ONE), 1.0 - s) for o, s in emitted.items())
            of_spout[name] = 1.0 - left_out
    rates_tps = {name: float(tasks.sum()) for name, tasks in network.input_tps.items()}
    whole_tps = sum(rates_tps.values())
    if whole_tps == 0:
        return 1.0
    return sum(of_spout[name] * rate_tps for name, rate_tps in rates_tps.items()) / whole_tps


def _mean(counts: FloatArray) -> float:
    return float(np.arange(counts.size) @ counts)


def _generating(counts: FloatArray, at: float) -> float:
    """Return G of a distribution of 0, 1, 2 ... emits."""
    return float(np.polynomial.polynomial.polyval(at, counts))
