"""Flows through a proposed plan: tuples a second by task, stream and executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.models.composite.source.fan_out import FanOut
from harness.models.composite.source.inputs import Inputs
from harness.models.composite.task_routing import Keyed, Places, task_routing
from harness.models.contract.layout import FloatArray, Layout, Output
from harness.models.network import Input
from harness.plans import Stream
from harness.protocols import Settings


@dataclass(frozen=True)
class Flows:
    """Rates of a plan, a second.

    Attributes
    ----------
    into : mapping of component to list of Stream
        What feeds it; nothing feeds a spout.
    routing : mapping of Stream to array (source's executors, target's tasks)
    tasks : mapping of component to array (tasks)
        Tuples that come to each task; of a spout, its messages.
    inputs : mapping of Stream to array (target's executors)
    emitted : mapping of Stream to array (source's executors)
    """

    into: Mapping[str, list[Stream]]
    routing: Mapping[Stream, FloatArray]
    tasks: Mapping[str, FloatArray]
    inputs: Mapping[Stream, FloatArray]
    emitted: Mapping[Stream, FloatArray]


def flows(
    layout: Layout,
    at: Places,
    settings: Settings,
    rate_tps: float,
    observed: tuple[Keyed, Inputs, FanOut],
) -> Flows:
    """Follow the input downstream.

    Parameters
    ----------
    layout : Layout
    at : Places
        Of the layout.
    settings : Settings
    rate_tps : float
        Messages a second in all.
    observed : tuple
        What the source says: routing of keyed streams, the spouts' shares, tuples made of one.
    """
    keyed, spouts, fans = observed
    into: dict[str, list[Stream]] = {n: [] for n in layout.order}
    out_of: dict[str, list[Stream]] = {n: [] for n in layout.order}
    for s in layout.plan.query_plan.streams:
        out_of[s.source].append(s)
        into[s.target].append(s)
    routing: dict[Stream, FloatArray] = {}
    tasks: dict[str, FloatArray] = {}
    inputs: dict[Stream, FloatArray] = {}
    emitted: dict[Stream, FloatArray] = {}
    arriving: dict[Stream, FloatArray] = {}
    for name in layout.order:
        streams, size = into[name], layout.tasks[name].size
        if streams:
            for s in streams:
                inputs[s] = layout.by_executor(name, arriving[s])
            tasks[name] = sum((arriving[s] for s in streams), np.zeros(size))
        else:
            share = spouts.share.get(name)
            tasks[name] = np.zeros(size) if share is None else share * rate_tps
        made: dict[str, FloatArray] = {}
        for s in out_of[name]:
            routing[s] = task_routing(layout, at, s, keyed, settings, tasks[name])
            if s.stream not in made:
                made[s.stream] = _made(layout, fans, streams, Output(name, s.stream), tasks[name], inputs)
            emitted[s] = made[s.stream]
            rows = routing[s]
            alike = rows.strides[0] == 0
            arriving[s] = made[s.stream].sum() * rows[0] if alike else made[s.stream] @ rows
    return Flows(into, routing, tasks, inputs, emitted)


def _made(
    layout: Layout,
    fans: FanOut,
    streams: list[Stream],
    output: Output,
    tasks: FloatArray,
    inputs: Mapping[Stream, FloatArray],
) -> FloatArray:
    """Return the emits a second of each executor on one output; ``streams`` feed its component."""
    name = output.component
    whole = fans.get(Input(name, "", ""))
    if not streams:
        return np.asarray(layout.by_executor(name, tasks) * (_mean(whole[output]) if whole else 1.0))
    window = layout.plan.query_plan.component(name).window
    if window is not None and whole:
        if window.kind == "count":
            fired = tasks / window.slide
        else:
            slides = 1000.0 / window.slide
            fired = slides * -np.expm1(-tasks / slides)
        return np.asarray(layout.by_executor(name, fired) * _mean(whole[output]))
    made = (inputs[s] * _mean(fans[Input(name, s.source, s.stream)][output]) for s in streams)
    return np.asarray(sum(made, np.zeros(layout.of[name].stop - layout.of[name].start)))


def _mean(probabilities: FloatArray) -> float:
    return float(probabilities @ np.arange(probabilities.size))
