"""Numbers by the query plan alone: components, classes, outputs and streams, for compiled code.

A *class* is one input of one component: all tuples of a stream at its target, or a spout's own messages. A
*fan* is how many tuples one tuple of a class, or one window, makes on an output.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import IntArray, Output, downstream_order, outputs
from harness.models.network import Input
from harness.models.solver.records import CLASS, COMPONENT, OUTPUT, STREAM, Records
from harness.plans import QueryPlan, Stream

SPOUT, BOLT, COUNT_WINDOW, TIME_WINDOW = range(4)
"""Kinds of component."""


class Structure(NamedTuple):
    """A query plan's names by number, and its records; those have one more than there are, for their firsts.

    Attributes
    ----------
    components, inputs, outputs, streams : tuple
        Components downstream; inputs name the classes, in their components' order, as are outputs.
    fans : tuple of (Input, Output)
        Their keys in a network; spouts' have no entry there.
    component, klass, output, stream : array of records
    subscribers : array (streams)
        Streams by output.
    """

    components: tuple[str, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    streams: tuple[Stream, ...]
    fans: tuple[tuple[Input, Output], ...]
    component: Records
    klass: Records
    output: Records
    stream: Records
    subscribers: IntArray


_KEPT: dict[int, tuple[QueryPlan, Structure]] = {}
_MANY = 16


def structure(plan: QueryPlan) -> Structure:
    """Return the structure of a query plan; of the last few it is kept.

    Raises
    ------
    ModelDeclined
        When components form a cycle.
    """
    kept = _KEPT.get(id(plan))
    if kept is not None and kept[0] is plan:
        return kept[1]
    found = _structure(plan)
    while len(_KEPT) >= _MANY:
        del _KEPT[next(iter(_KEPT))]
    _KEPT[id(plan)] = (plan, found)
    return found


def _structure(plan: QueryPlan) -> Structure:
    order = downstream_order(plan)
    at = {name: i for i, name in enumerate(order)}
    streams: list[Stream] = []
    inputs: list[Input] = []
    every_output: list[Output] = []
    fans: list[tuple[Input, Output]] = []
    component = np.zeros(len(order) + 1, dtype=COMPONENT)
    klass = np.zeros(sum(max(len(plan.inputs(name)), 1) for name in order) + 1, dtype=CLASS)
    for c, name in enumerate(order):
        window = plan.component(name).window
        arriving, own = plan.inputs(name), outputs(plan, name)
        component[c]["first_class"], component[c]["first_output"] = len(inputs), len(every_output)
        component[c]["sink"] = not own
        component[c]["kind"] = BOLT if arriving else SPOUT
        if window is not None:
            component[c]["kind"] = COUNT_WINDOW if window.kind == "count" else TIME_WINDOW
            component[c]["length"], component[c]["slide"] = window.length, window.slide
        shared = 0
        for i, key in enumerate([Input(name, s.source, s.stream) for s in arriving] or [Input(name, "", "")]):
            record = klass[len(inputs)]
            record["component"] = c
            record["stream"] = len(streams) if arriving else -1
            if window is None or i == 0:
                shared = len(fans)
                fans += [(Input(name, "", "") if window else key, o) for o in own]
            record["first_fan"] = shared
            inputs.append(key)
            streams += arriving[i : i + 1]
        every_output += own
    component[-1]["first_class"], component[-1]["first_output"] = len(inputs), len(every_output)
    number = {o: i for i, o in enumerate(every_output)}
    stream = np.zeros(len(streams) + 1, dtype=STREAM)
    for i, s in enumerate(streams):
        stream[i]["source"], stream[i]["target"] = at[s.source], at[s.target]
        stream[i]["output"] = number[Output(s.source, s.stream)]
        stream[i]["copies"] = s.grouping == "all"
    stream["klass"][:-1] = np.flatnonzero(klass["stream"][:-1] >= 0)
    by_output = [np.flatnonzero(stream["output"][:-1] == k) for k in range(len(every_output))]
    output = np.zeros(len(every_output) + 1, dtype=OUTPUT)
    output["first_subscriber"][1:] = np.cumsum([mine.size for mine in by_output])
    output["component"][:-1] = [at[o.component] for o in every_output]
    subscribers = np.concatenate(by_output) if by_output else np.zeros(0)
    return Structure(order, tuple(inputs), tuple(every_output), tuple(streams), tuple(fans), component, klass,
                     output, stream, subscribers.astype(np.int64))  # fmt: skip
