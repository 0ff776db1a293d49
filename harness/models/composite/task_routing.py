"""Routing of tuples to tasks, for every grouping as Storm 2.8.3 does it.

Tasks are fixed and executors only share them out, so a proposed plan regroups the observed shares of tasks.

- fields: by key. The observed shares of the target's tasks are kept. Where these depend on the sending task
  (its own input is keyed), each task keeps its own shares as far as they differ by more than chance.
- partial-key, direct, custom: as observed, likewise.
- shuffle without load-aware messaging (``ShuffleGrouping``): round-robin over a shuffled order of all tasks.
- shuffle with it (``LoadAwareShuffleGrouping``): see ``load_aware``.
- local-or-shuffle: either kind of shuffle among the tasks in the sender's worker, if there are any.
- none: any task, drawn evenly.
- all: every task.
- global: the task with the lowest identifier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.idling import DEFAULTS, number
from harness.models.composite.source.evidence import Evidence
from harness.models.contract.layout import BoolArray, FloatArray, IntArray, Layout, Output
from harness.models.contract.routing import KEYED, keyed_input
from harness.plans import QueryPlan, Stream
from harness.protocols import Settings

LOAD_AWARE_OFF = "topology.disable.loadaware.messaging"


Keyed = Mapping[Stream, FloatArray]
"""For each stream an array (source's tasks, or 1 where all route alike; target's tasks); rows add to 1."""


def keyed_routing(evidence: Evidence, weights: FloatArray) -> Keyed:
    """Return the routing of the streams whose grouping is known by observation only.

    Raises
    ------
    ModelDeclined
        When a custom grouping sends a tuple to several tasks.
    """
    plan = evidence.plan.query_plan
    found = {}
    for stream in plan.streams:
        if stream.grouping not in KEYED:
            continue
        whole = evidence.transferred[stream]
        sent = whole @ (weights if whole.shape[2] > 1 else np.ones(1))
        emitted = float(evidence.emitted[Output(stream.source, stream.stream)].sum())
        copies = float(whole.sum()) / emitted if emitted > 0 else 1.0
        if abs(copies - 1) > 0.05:
            raise ModelDeclined(
                f"the {stream.grouping} grouping of {stream.label} sends {copies:.2f} tuples for one emit"
            )
        found[stream] = _keyed(sent, keyed_input(plan, stream.source))
    return found


def _keyed(sent: FloatArray, depends: bool) -> FloatArray:
    by_task = sent.sum(axis=1)
    total = sent.sum(axis=0)
    if not total.sum() > 0:
        return np.full((1, sent.shape[1]), 1 / sent.shape[1])
    common = total / total.sum()
    if not depends:
        return np.asarray(common[None, :])
    kept = beyond_chance(sent)
    own = np.divide(
        sent, by_task[:, None], out=np.tile(common, (by_task.size, 1)), where=by_task[:, None] > 0
    )
    return np.asarray(kept * own + (1 - kept) * common if kept > 0 else common[None, :])


def beyond_chance(counts: FloatArray) -> float:
    """Return the share of the rows' differences that chance does not explain: 1 - degrees of freedom / chi2.

    Examples
    --------
    >>> beyond_chance(np.array([[50.0, 50.0], [52.0, 48.0]]))
    0.0
    >>> round(beyond_chance(np.array([[1000.0, 0.0], [0.0, 1000.0]])), 4)
    0.9995
    """
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    expected = np.outer(rows, columns) / counts.sum()
    used = expected > 0
    square = float((((counts - expected)[used]) ** 2 / expected[used]).sum())
    freedom = max((rows > 0).sum() - 1, 0) * max((columns > 0).sum() - 1, 0)
    return max(0.0, 1.0 - float(freedom) / square) if square > 0 else 0.0


def is_load_aware(settings: Settings) -> bool:
    """Return whether load-aware messaging is on; Storm's own default is that it is.

    Raises
    ------
    ModelDeclined
        When the setting is no truth value.
    """
    off = settings.storm.get(LOAD_AWARE_OFF, DEFAULTS[LOAD_AWARE_OFF])
    if not isinstance(off, bool):
        raise ModelDeclined(f"Storm setting {LOAD_AWARE_OFF} is {off!r}, neither true nor false")
    return not off


@dataclass(frozen=True)
class Places:
    """Where tasks are in a plan.

    Attributes
    ----------
    worker, node : array (executors)
    holder : mapping of component to array (tasks)
        Position of the task's executor among the component's.
    """

    worker: IntArray
    node: IntArray
    holder: Mapping[str, IntArray]


def places(layout: Layout) -> Places:
    """Return where a layout's tasks are.

    Raises
    ------
    ModelDeclined
        When an executor is on a worker node that the plan does not describe.
    """
    names = {n.name: i for i, n in enumerate(layout.plan.nodes)}
    for node, port in layout.workers:
        if node not in names:
            raise ModelDeclined(f"the plan does not describe the worker node of {node}:{port}")
    node_of = np.array([names[node] for node, _ in layout.workers])
    return Places(layout.worker, node_of[layout.worker], layout.holder)


def task_routing(
    layout: Layout, at: Places, stream: Stream, keyed: Keyed, settings: Settings, rate: FloatArray
) -> FloatArray:
    """Return the probability that a tuple of each source executor goes to each target task.

    Parameters
    ----------
    layout : Layout
        The proposed plan.
    at : Places
    stream : Stream
    keyed : mapping of Stream to array
        Observed routing.
    settings : Settings
    rate : array (source's tasks)
        Tuples a second that come to each source task in the proposed plan.

    Returns
    -------
    array (source's executors, target's tasks)
        Rows add to 1; with all-grouping every entry is 1. Not to be written to.
    """
    sources = layout.of[stream.source]
    executors, tasks = sources.stop - sources.start, layout.tasks[stream.target].size
    match stream.grouping:
        case "shuffle":
            if not is_load_aware(settings):
                return _alike(np.full(tasks, 1 / tasks), executors)
            everyone = np.ones((executors, tasks), dtype=bool)
            return shuffled(layout, at, stream, everyone, settings)
        case "local-or-shuffle":
            here = at.worker[layout.of[stream.target]][at.holder[stream.target]]
            near = at.worker[sources, None] == here[None, :]
            return shuffled(layout, at, stream, near | ~near.any(axis=1, keepdims=True), settings)
        case "none" | "all" | "global":
            row = {"none": np.full(tasks, 1 / tasks), "all": np.ones(tasks), "global": np.eye(1, tasks)[0]}
            return _alike(row[stream.grouping], executors)
        case _:
            return _regrouped(layout, stream, keyed[stream], rate)


def _alike(row: FloatArray, executors: int) -> FloatArray:
    """Return the routing of executors that all have one row, which is kept once and not to be written to."""
    return np.broadcast_to(row, (executors, row.size))


def _regrouped(layout: Layout, stream: Stream, shares: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the observed routing for executors that hold other tasks together."""
    membership = layout.membership[stream.source]
    if shares.shape[0] == 1:
        return _alike(shares[0], membership.shape[0])
    weight = membership * rate
    silent = ~(weight.sum(axis=1) > 0)  # nothing is expected of it: any of its tasks alike
    weight[silent] = membership[silent]
    return np.asarray((weight / weight.sum(axis=1, keepdims=True)) @ shares)


def shuffled(
    layout: Layout, at: Places, stream: Stream, candidates: FloatArray, settings: Settings
) -> FloatArray:
    """Return a shuffle's routing among the candidates (source's executors, target's tasks)."""
    chosen = np.asarray(candidates, dtype=bool)
    if is_load_aware(settings):
        chosen = load_aware(
            layout, at, stream, chosen, number(settings, "topology.localityaware.higher.bound")
        )
    return np.asarray(chosen / chosen.sum(axis=1, keepdims=True))


def load_aware(
    layout: Layout, at: Places, stream: Stream, candidates: FloatArray, bound: float
) -> FloatArray:
    """Return the tasks that ``LoadAwareShuffleGrouping`` settles on while queues are far from full.

    The grouping starts with the candidates in the sender's worker, or the next wider scope that has any
    (worker node, then everywhere). It widens the scope while the candidates' mean load is above the bound.

    A task's load is its executor's queue, next to nothing. But only an executor's first task is reported, and
    the grouping takes the load of the others to be 1. So with k tasks an executor the mean is (k - 1) / k:
    beyond five (bound 0.8) the scope widens to everything.

    Within the scope only first tasks have the least load, and soon get everything; their order is shuffled.
    Where the scope has no first task, all its loads are 1 and its tasks are alike.
    """
    rows = np.asarray(candidates, dtype=bool)
    sources, targets = layout.of[stream.source], layout.of[stream.target]
    holder = at.holder[stream.target]
    first = np.diff(holder, prepend=-1) > 0
    worker, node = at.worker[targets][holder], at.node[targets][holder]
    found = np.empty_like(rows)
    settled: dict[tuple[int, bytes], BoolArray] = {}
    for i in range(rows.shape[0]):
        mine, own = int(at.worker[sources][i]), int(at.node[sources][i])
        key = (mine, rows[i].tobytes())
        if key not in settled:
            scopes = [rows[i] & (worker == mine), rows[i] & (node == own), rows[i]]
            scope = scopes[-1]
            for scope in scopes:
                if scope.any() and 1 - first[scope].mean() <= bound:
                    break
            reported = scope & first
            settled[key] = reported if reported.any() else scope
        found[i] = settled[key]
    return found


def asks_where_executors_are(query_plan: QueryPlan, settings: Settings) -> bool:
    """Return whether some stream's routing depends on which workers executors are in."""
    groupings = {s.grouping for s in query_plan.streams}
    return "local-or-shuffle" in groupings or ("shuffle" in groupings and is_load_aware(settings))


def round_robin(layout: Layout, settings: Settings) -> frozenset[Stream]:
    """Return the streams whose senders go round the target's tasks."""
    if is_load_aware(settings):
        return frozenset()
    streams = layout.plan.query_plan.streams
    return frozenset(s for s in streams if s.grouping in ("shuffle", "local-or-shuffle"))
