"""A world made from a network and its messages, played in arrays that suffice."""

from __future__ import annotations

import numpy as np

from harness.errors import ModelDeclined
from harness.models.network import Network
from harness.models.simulator import events
from harness.models.simulator.building import Parts, build
from harness.models.simulator.kinds import (
    ANCHORS,
    BATCH,
    BOX,
    BUFFER,
    COUNTERS,
    FIRING,
    FIRINGS,
    FREE_PARCEL,
    FULL,
    MESSAGE,
    MESSAGES,
    NAN,
    NEWS,
    NEWS_USED,
    NONE,
    PARCEL,
    ROOT,
    ROUND,
    SIGNAL,
    SPOUT,
    THREAD,
    UNROUTABLE,
    VISIT,
    VISITS,
    Indices,
    Records,
    Words,
    World,
)
from harness.models.simulator.loads import Loads, loads
from harness.models.simulator.messages import Messages

SPARE = 1.1
"""Arrays begin with this much more than what is expected."""
ROUNDS = 4
"""Records of rounds that a message can cause at most: its own, empty ones around it, and those skipped."""


def play(
    network: Network,
    messages: Messages,
    span_ms: tuple[float, float],
    seed: int,
) -> tuple[World, Parts]:
    """Let a network deal with messages until all have come out, or wait in windows that nothing fills.

    Parameters
    ----------
    span_ms : tuple of float
        The part of the time whose work is counted in ``busy`` and ``cpu`` of the executors.

    Raises
    ------
    ModelDeclined
        When the network lacks something, or a tuple is emitted where no routing is known.
    """
    parts = build(network)
    sizes = _sizes(loads(network), messages, parts.boxes)
    while True:
        world = _world(network, parts, messages, span_ms, seed, sizes)
        events.play(world)
        if world.counters[FULL] == UNROUTABLE:
            raise ModelDeclined("an executor emits tuples on a stream on which it has no routing")
        if not world.counters[FULL]:
            _take_acks(world)
            return _trimmed(world), parts
        sizes = {name: 2 * size for name, size in sizes.items()}


def _sizes(expected: Loads, messages: Messages, boxes: int) -> dict[str, int]:
    """Foresee how many records of each kind there will be."""
    seconds = float(messages.due_ms.max(initial=0.0)) / 1000 + 1
    firings = {c: float(rate.sum()) for c, rate in expected.firing_tps.items()}
    windows = expected.network.windows

    def members(component: str) -> float:
        """Return the members a second of a component's windows; a tuple counts in each window that has it."""
        window = windows[component]
        return (
            expected.anchors[component]
            * float(expected.task_tps[component].sum())
            * (window.length / window.slide)
            + firings[component]
        )

    layout = expected.network.layout
    told = expected.acker_tps * (layout.ackers.stop - layout.ackers.start)
    many = {
        "visits": expected.visits_per_s,
        "messages": told,
        "firings": sum(firings.values()),
        "anchors": sum(members(c) for c in firings),
    }
    sizes = {name: int(SPARE * seconds * rate) + 1000 for name, rate in many.items()}
    events = 10_000 + 4 * len(layout) + 4 * boxes
    relieved = 10_000 if expected.network.relief.parts else 1
    return {
        **sizes,
        "events": events,
        "parcels": 10_000,
        "threads": 1000,
        "news": relieved,
        "rounds": relieved,
    }


def _world(
    network: Network,
    parts: Parts,
    messages: Messages,
    span_ms: tuple[float, float],
    seed: int,
    sizes: dict[str, int],
) -> World:
    rng = np.random.default_rng([seed, 1])
    executors, tasks, hosts = parts.executors.copy(), parts.tasks.copy(), parts.hosts.copy()
    many, batched = executors.size, max(network.batch, network.transfer_batch) > 1
    # Nobody knows in which part of a sleep, an empty round, a flush interval or a slide 0 falls.
    components = parts.components[executors["component"]]
    period = np.where(executors["kind"] == SPOUT, components["poll"] * executors["tasks"], 0.0)
    executors["free"] = -rng.random(many) * (executors["idle"] + period)
    workers = rng.random(int(executors["worker"].max()) + 1) * network.flush_ms
    executors["flush"] = workers[executors["worker"]]
    tasks["phase"] = rng.random(tasks.size) * parts.components["slide"][tasks["component"]]
    roots = _roots(parts, messages, seed)
    spouts = parts.components["kind"][tasks["component"]] == SPOUT
    tasks["next"] = np.where(spouts, np.searchsorted(roots["task"], np.arange(tasks.size)), 0)
    tasks["end"] = np.where(spouts, np.searchsorted(roots["task"], np.arange(tasks.size), "right"), 0)
    pending = np.bincount(tasks["executor"], tasks["end"] - tasks["next"], many).astype(np.int64)
    room = np.where(executors["kind"] == SPOUT, ROUNDS * pending + ROUNDS + sizes["rounds"], 0)
    buffers = np.zeros(many * (many + 1) if batched else 1, dtype=BUFFER)
    buffers["head"] = buffers["tail"] = NONE
    executors["far_head"] = executors["far_tail"] = NONE
    boxes = np.zeros(max(parts.boxes, 1), dtype=BOX)
    boxes["head"] = boxes["tail"] = NONE
    turns, turn_tasks = _shuffled(parts, rng)
    room_for_threads = np.bincount(executors["host"], minlength=hosts.size) + sizes["threads"]
    hosts["end"] = np.cumsum(room_for_threads)
    hosts["first"] = hosts["end"] - room_for_threads
    counters = np.zeros(COUNTERS, dtype=np.int64)
    counters[FREE_PARCEL] = NONE
    return World(
        **{f: getattr(parts, f) for f in ("tables", "cells", "components", "inputs", "fans", "streams")},
        **{f: getattr(parts, f) for f in ("routes", "hops", "batch", "ackers")},
        executors=executors,
        tasks=tasks,
        hosts=hosts,
        turns=turns,
        turn_tasks=turn_tasks,
        threads=np.zeros(int(room_for_threads.sum()), dtype=THREAD),
        span=np.array(span_ms, dtype=np.float64),
        draws=_streams(seed, many + tasks.size + hosts.size),
        roots=roots,
        visits=np.empty(sizes["visits"], dtype=VISIT),
        messages=np.empty(sizes["messages"], dtype=MESSAGE),
        firings=np.empty(sizes["firings"], dtype=FIRING),
        anchors=np.empty(sizes["anchors"], dtype=np.int32),
        buffers=buffers,
        parcels=np.empty(sizes["parcels"] if batched else 1, dtype=PARCEL),
        boxes=boxes,
        rounds=np.empty(int(room.sum()), dtype=ROUND),
        round_first=np.concatenate([[0], np.cumsum(room)[:-1]]),
        relief=parts.relief.relief,
        watched=parts.relief.watched,
        cares=parts.relief.cares.copy(),
        heard=parts.relief.heard.copy(),
        workers=parts.relief.workers.copy(),
        shares=parts.relief.shares.copy(),
        signals=np.empty(sizes["news"], dtype=SIGNAL),
        news=np.empty(sizes["news"], dtype=NEWS),
        event_times=np.empty(sizes["events"]),
        event_numbers=np.empty(sizes["events"], dtype=np.int64),
        event_codes=np.empty(sizes["events"], dtype=np.int64),
        counters=counters,
    )


def _streams(seed: int, number: int) -> Words:
    """Return where each stream of random numbers begins."""
    return np.random.SeedSequence([seed, 2]).generate_state(number, np.uint64).astype(np.uint64)


def _shuffled(parts: Parts, rng: np.random.Generator) -> tuple[Records, Indices]:
    """Return the rounds in which executors send to tasks: each shuffled, and begun anywhere."""
    turns, tasks = parts.turns.copy(), parts.turn_tasks.copy()
    for turn in turns:
        rng.shuffle(tasks[turn["first"] : turn["first"] + turn["size"]])
        turn["at"] = rng.integers(turn["size"])
    return turns, tasks


def _roots(parts: Parts, messages: Messages, seed: int) -> Records:
    """Return the messages' records, each task's together and by time.

    A message's acker does not depend on those that are given after it: cutting off the last ones leaves
    what happened before them as it was.
    """
    identifiers, order = np.unique(parts.identifiers, return_index=True)
    task = order[np.searchsorted(identifiers, messages.task)]
    given = np.arange(task.size)
    if np.any((np.diff(task) < 0) | ((np.diff(task) == 0) & (np.diff(messages.due_ms) < 0))):
        given = np.lexsort((messages.due_ms, task))
    roots = np.zeros(task.size, dtype=ROOT)
    first, count, _ = parts.ackers
    ackers = first + np.random.default_rng([seed, 3]).integers(max(count, 1), size=roots.size)
    roots["due"], roots["task"], roots["acker"] = messages.due_ms[given], task[given], ackers[given]
    roots["given"] = given
    for name in ("entered", "first", "last", "back", "acked"):
        roots[name] = NAN
    roots["visit"] = roots["stamp"] = NONE
    return roots


def _take_acks(world: World) -> None:
    """Let spout executors take the acks from their queues: at the start of the next round.

    What a spout does with an ack influences nothing, so this can wait until the end.
    """
    for executor in np.flatnonzero(world.executors["kind"] == SPOUT):
        if world.batch[BATCH] > 1:
            _fill_far_batches(world, int(executor))
        e, first = world.executors[executor], world.round_first[executor]
        tasks = (e["first_task"], e["first_task"] + e["tasks"])
        mine = world.roots[slice(*np.searchsorted(world.roots["task"], tasks))]
        rounds = world.rounds[first : first + e["rounds"]]
        came = mine["back"]
        at = np.maximum(np.searchsorted(rounds["start"], came, side="right") - 1, 0)
        found = rounds[at]
        following = np.append(rounds["start"][1:], np.inf)[at]
        regular = found["period"] > 0
        turns = np.ceil((came - found["start"]) / np.where(regular, found["period"], 1.0))
        on_grid = np.maximum(found["start"] + turns * found["period"], came)
        taken = np.where(regular & (turns < found["count"]), on_grid, following)
        at_once = (came == found["start"]) | ((found["count"] != 1) & ~regular)
        mine["acked"] = np.where(np.isnan(came) | at_once, came, taken)


def _fill_far_batches(world: World, executor: int) -> None:
    """Let a spout's acks from other workers wait for the one behind their batch; else they stay away."""
    e, size = world.executors[executor], int(world.batch[BATCH])
    tasks = (e["first_task"], e["first_task"] + e["tasks"])
    mine = world.roots[slice(*np.searchsorted(world.roots["task"], tasks))]
    far = np.flatnonzero((mine["far"] == 1) & np.isfinite(mine["back"]))
    far = far[np.argsort(mine["back"][far], kind="stable")]
    ends = mine["back"][far[size::size]]
    whole = ends.size * size
    mine["back"][far[:whole]] = np.repeat(ends, size)
    mine["back"][far[whole:]] = NAN


def _trimmed(world: World) -> World:
    """Leave the parts of the arrays out that are not in use."""
    used = {"news": NEWS_USED, "visits": VISITS, "messages": MESSAGES, "firings": FIRINGS, "anchors": ANCHORS}
    parts = {name: getattr(world, name)[: world.counters[at]] for name, at in used.items()}
    return world._replace(**parts)
