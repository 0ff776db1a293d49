"""Random physical plans: query plans without cycles, their executors spread over workers as Storm does.

Notes
-----
========================  ==========================================================================
components                2 to 8, equally likely
spouts                    1; with four components or more 2, one time in five
inputs of a bolt          1 earlier component, one time in four 2; no component's output is lost but
                          a sink's
executors of a component  1 to 16, each doubling equally likely
tasks of a component      one time in two as many as executors, else 16
workers                   1 to 8, at most one an executor, over 1 to 4 nodes, these one time in four
                          over 2 hosts; executors round-robin over workers in a random order
windows                   a bolt's one time in four, at most two; three in four by count, of 2 to 200
                          tuples, else by time, of 50 to 1000 ms; three in four tumbling, else sliding
                          by a half, a third, a fifth or a tenth
groupings                 half shuffle, else fields; ``all`` one time in twenty where there are at
                          most 3 tasks, global one in twenty where there are at most 4
========================  ==========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from harness.plans import (
    ACKER,
    Component,
    Executor,
    Grouping,
    PhysicalPlan,
    QueryPlan,
    Stream,
    Window,
    Worker,
    WorkerNode,
)

Choice = TypeVar("Choice")
TASKS = 16
COUNTS = (2, 5, 10, 20, 50, 100, 150, 200)
LENGTHS_MS = (50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class PlanLimits:
    """Limits that random plans keep to.

    Attributes
    ----------
    components, executors, workers : tuple of int
        Least and greatest number.
    windows : bool
        Whether there may be windows.
    """

    components: tuple[int, int] = (2, 8)
    executors: tuple[int, int] = (1, 16)
    workers: tuple[int, int] = (1, 8)
    windows: bool = True


def pick(rng: np.random.Generator, choices: tuple[Choice, ...]) -> Choice:
    """Return one of these, each as likely."""
    return choices[int(rng.integers(len(choices)))]


def random_plan(rng: np.random.Generator, limits: PlanLimits) -> PhysicalPlan:
    """Draw a plan."""
    query_plan, executors = _query_plan(rng, limits)
    number = int(rng.integers(limits.workers[0], limits.workers[1] + 1))
    number = min(number, sum(executors.values()))
    nodes = int(rng.integers(1, min(4, number) + 1))
    hosts = 2 if nodes > 1 and rng.random() < 0.25 else 1
    workers = [Worker(node=f"node-{1 + w % nodes}", port=6700 + w) for w in range(number)]
    worker_nodes = tuple(
        WorkerNode(
            name=f"node-{1 + n}",
            address=f"127.0.0.{2 + n}",
            host=f"host-{1 + n % hosts}",
            cores=1.0,
            slots=tuple(w.port for w in workers if w.node == f"node-{1 + n}"),
        )
        for n in range(nodes)
    )
    found: list[Executor] = []
    first = 1
    for name, count in {ACKER: number, **executors}.items():
        tasks = count if name == ACKER else query_plan.component(name).tasks
        for k in range(count):
            held = tasks // count + (k < tasks % count)
            place = workers[len(found) % number]
            found.append(Executor(component=name, first_task=first, last_task=first + held - 1, worker=place))
            first += held
    places = [found[i].worker for i in rng.permutation(len(found))]
    moved = [e.model_copy(update={"worker": p}) for e, p in zip(found, places, strict=True)]
    return PhysicalPlan(query_plan=query_plan, nodes=worker_nodes, executors=tuple(moved))


def _query_plan(rng: np.random.Generator, limits: PlanLimits) -> tuple[QueryPlan, dict[str, int]]:
    number = int(rng.integers(limits.components[0], limits.components[1] + 1))
    spouts = 2 if number >= 4 and rng.random() < 0.2 else 1
    names = [f"spout-{i + 1}" for i in range(spouts)] + [f"bolt-{i + 1}" for i in range(number - spouts)]
    components, executors, windows = [], {}, 0
    for i, name in enumerate(names):
        low, high = np.log2(limits.executors)
        executors[name] = int(np.clip(np.round(2 ** rng.uniform(low, high)), *limits.executors))
        tasks = executors[name] if rng.random() < 0.5 else max(TASKS, executors[name])
        window = None
        if limits.windows and i >= spouts and windows < 2 and rng.random() < 0.25:
            window = _window(rng)
            windows += 1
        components.append(
            Component(name=name, role="spout" if i < spouts else "other", tasks=tasks, window=window)
        )
    streams: list[Stream] = []
    for i in range(spouts, number):
        wanted = 2 if i > 1 and rng.random() < 0.25 else 1
        sources = set(rng.choice(i, size=wanted, replace=False).tolist())
        if i == spouts:
            sources = set(range(spouts))
        streams += [
            Stream(source=names[s], target=names[i], grouping=_grouping(rng, components[i].tasks))
            for s in sorted(sources)
        ]
    return QueryPlan(name="random", components=tuple(components), streams=tuple(streams)), executors


def _window(rng: np.random.Generator) -> Window:
    kind = "count" if rng.random() < 0.75 else "time"
    length = pick(rng, COUNTS if kind == "count" else LENGTHS_MS)
    parts = 1 if rng.random() < 0.75 else pick(rng, (2, 3, 5, 10))
    return Window.model_validate({"kind": kind, "length": length, "slide": max(1, length // parts)})


def _grouping(rng: np.random.Generator, tasks: int) -> Grouping:
    drawn = rng.random()
    if drawn < 0.05 and tasks <= 3:
        return "all"
    if drawn < 0.1 and tasks <= 4:
        return "global"
    return "shuffle" if drawn < 0.55 else "fields"
