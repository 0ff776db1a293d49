"""The way of an emitted tuple into its receiver's queue: route, batch, hop; and the way of acks.

Batches are those of ``JCQueue`` and ``WorkerTransfer`` of storm-client 2.8.3. An executor has one for every
executor of its worker, and one for all other workers. A batch goes when it is full and another tuple comes
for it (``tryPublish``), or when the executor takes a flush from its own queue. Tuples from other workers fill
a batch for each receiving executor, which goes in the first way and is never flushed: ``events.far_batch``.
"""

from __future__ import annotations

import math

from harness.models.simulator.compiled import apart, inlined, inner
from harness.models.simulator.draws import draw
from harness.models.simulator.heap import push
from harness.models.simulator.helping import helps, keep
from harness.models.simulator.indices import anchors_of, streams_of
from harness.models.simulator.kinds import (
    ACK_ARRIVES,
    ACKER,
    BATCH,
    BOX_DUE,
    FLUSH_MS,
    FREE_PARCEL,
    FULL,
    INF,
    MESSAGE_ARRIVES,
    MESSAGES,
    MOST_PENDING,
    NAN,
    NONE,
    PARCELS,
    SPOUT,
    TRANSFER_BATCH,
    UNROUTABLE,
    VISIT_ARRIVES,
    VISITS,
    Emitter,
    World,
)


@inlined
def look(free: float, time: float, idle: float) -> float:
    """Return when an executor that has been idle since ``free`` looks at its queue next after ``time``."""
    if time <= free:
        return free
    if idle <= 0.0:
        return time
    return max(time, free + math.ceil((time - free) / idle) * idle)


@inlined
def place(world: World, target: int, item: int, time: float, far: int) -> None:
    """Let an item come to an executor at a time: a visit, a message to an acker, a spout's ack."""
    if world.executors[target]["kind"] == SPOUT:
        world.roots[item]["back"] = time
        world.roots[item]["far"] = far
        if world.relief[MOST_PENDING] > 0:
            push(world, time, ACK_ARRIVES, item)
        return
    if world.executors[target]["kind"] == ACKER:
        world.messages[item]["queued"] = time
        world.messages[item]["far"] = far
        kind = MESSAGE_ARRIVES
    else:
        world.visits[item]["queued"] = time
        world.visits[item]["far"] = far
        kind = VISIT_ARRIVES
    push(world, time, kind, item)


@inlined
def batched(world: World) -> bool:
    """Return True if tuples wait for batches."""
    return bool(world.batch[BATCH] > 1.0 or world.batch[TRANSFER_BATCH] > 1.0)


@inlined
def next_flush(world: World, executor: int) -> float:
    """Return when the first flush comes to an executor's queue that it has not taken."""
    own = world.executors[executor]
    if world.batch[FLUSH_MS] <= 0.0:
        return INF
    return float(own["flush"] + own["flushes"] * world.batch[FLUSH_MS])


@inlined
def take_flushes(world: World, executor: int, until: float) -> None:
    """Count the flushes that came until a time as taken."""
    own = world.executors[executor]
    if world.batch[FLUSH_MS] > 0.0:
        number = math.floor((until - own["flush"]) / world.batch[FLUSH_MS]) + 1
        own["flushes"] = max(own["flushes"], number)


@inner
def release(world: World, sender: int, column: int, time: float) -> None:
    """Send off one of an executor's batches."""
    many = world.executors.size
    box = world.buffers[sender * (many + 1) + column]
    world.executors[sender]["parcels"] -= box["count"]
    parcel = box["head"]
    box["head"] = NONE
    box["tail"] = NONE
    box["count"] = 0
    while parcel != NONE:
        one = world.parcels[parcel]
        after = one["link"]
        place(world, int(one["target"]), int(one["item"]), time + one["hop"], 1 if column == many else 0)
        one["link"] = world.counters[FREE_PARCEL]
        world.counters[FREE_PARCEL] = parcel
        parcel = after


@inner
def flush(world: World, sender: int, time: float) -> None:
    """Send off all of an executor's batches."""
    for column in range(world.executors.size + 1):
        if world.buffers[sender * (world.executors.size + 1) + column]["count"] > 0:
            release(world, sender, column, time)


@inner
def collect(world: World, sender: int, target: int, item: int, time: float, hop: float) -> None:
    """Put an item into its batch; a full one goes first."""
    many = world.executors.size
    far = world.executors[sender]["worker"] != world.executors[target]["worker"]
    size = world.batch[TRANSFER_BATCH] if far else world.batch[BATCH]
    if size <= 1.0:
        place(world, target, item, time + hop, 1 if far else 0)
        return
    parcel = world.counters[FREE_PARCEL]
    if parcel != NONE:
        world.counters[FREE_PARCEL] = world.parcels[parcel]["link"]
    else:
        parcel = world.counters[PARCELS]
        if parcel >= world.parcels.size:
            world.counters[FULL] = 1
            return
        world.counters[PARCELS] = parcel + 1
    one = world.parcels[parcel]
    one["hop"] = hop
    one["item"] = item
    one["target"] = target
    one["link"] = NONE
    column = many if far else target
    box = world.buffers[sender * (many + 1) + column]
    if box["count"] >= size:
        release(world, sender, column, time)
    if box["tail"] == NONE:
        box["head"] = parcel
    else:
        world.parcels[box["tail"]]["link"] = parcel
    box["tail"] = parcel
    box["count"] += 1
    world.executors[sender]["parcels"] += 1


@inlined
def dispatch(world: World, sender: Emitter, target: int, item: int, time: float) -> None:
    """Send an item from one executor to another: in its batch, then over its hop."""
    here, there = world.executors[sender.executor], world.executors[target]
    table = world.hops[here["worker"], there["worker"]]
    hop = draw(world.tables, world.cells, table, world.draws, sender.draws)
    if batched(world):
        collect(world, sender.executor, target, item, time, hop)
    else:
        place(world, target, item, time + hop, 0)


@inlined
def new_visit(world: World, task: int, kind: int, parent: int, root: int, ordinal: int) -> int:
    """Make a tuple for a task, ``kind`` being the input that it is there; return it, or ``NONE``: no room."""
    item = world.counters[VISITS]
    if item >= world.visits.size:
        world.counters[FULL] = 1
        return NONE
    world.counters[VISITS] = item + 1
    visit = world.visits[item]
    visit["queued"] = INF
    visit["received"] = NAN
    visit["served"] = NAN
    visit["emitted"] = NAN
    visit["expired"] = NAN
    visit["cpu"] = NAN
    visit["task"] = task
    visit["input"] = kind
    visit["ordinal"] = ordinal
    visit["parent"] = parent
    visit["root"] = root
    return int(item)


@inlined
def count_open(world: World, root: int, change: int) -> None:
    """Count a tuple that is not yet acked, or no longer, in the trees that it belongs to."""
    if root >= 0:
        world.roots[root]["open"] += change
    else:
        for i in anchors_of(world, ~root):
            world.roots[world.anchors[i]]["open"] += change


@inlined
def next_in_turn(world: World, number: int) -> int:
    """Return the next task of an executor's round."""
    turn = world.turns[number]
    task = world.turn_tasks[turn["first"] + turn["at"]]
    turn["at"] += 1
    if turn["at"] == turn["size"]:
        turn["at"] = 0
    return int(task)


@inlined
def task_of(world: World, parent: int) -> int:
    """Return the task that emits: of a visit, or of a window's firing (``~firing``)."""
    if parent >= 0:
        return int(world.visits[parent]["task"])
    return int(world.firings[~parent]["task"])


@inner
def leave(world: World, draws: int, box: int, time: float) -> None:
    """Let a batch of rows go; they take one hop together.

    Parameters
    ----------
    draws
        Whose draws.
    """
    batch = world.boxes[box]
    row = batch["head"]
    target = int(world.tasks[world.visits[row]["task"]]["executor"])
    here, there = world.executors[batch["sender"]]["worker"], world.executors[target]["worker"]
    arrival = time + draw(world.tables, world.cells, world.hops[here, there], world.draws, draws)
    if here != there:
        arrival += batch["row"] * (batch["count"] - 1)
    batch["head"] = NONE
    batch["tail"] = NONE
    batch["count"] = 0
    while row != NONE:
        after = world.visits[row]["link"]
        place(world, target, row, arrival, 0)
        row = after


@inner
def gather_row(world: World, sender: Emitter, stream: int, task: int, item: int, time: float) -> None:
    """Put a tuple into its batch of rows, which leaves when it is full."""
    to, receiver = world.streams[stream], int(world.visits[item]["task"])
    source = world.components[world.executors[sender.executor]["component"]]
    target = world.components[to["target"]]
    at = (task - source["first_task"]) * target["tasks"] + receiver - target["first_task"]
    box = int(to["box"] + at)
    batch = world.boxes[box]
    world.visits[item]["link"] = NONE
    if batch["count"] == 0:
        batch["head"] = item
        batch["sender"] = sender.executor
        batch["due"] = time + to["stay"]
        batch["row"] = to["row"]
        push(world, batch["due"], BOX_DUE, box)
    else:
        world.visits[batch["tail"]]["link"] = item
    batch["tail"] = item
    batch["count"] += 1
    if batch["count"] == to["size"]:
        leave(world, sender.draws, box, time)


@inlined
def send(world: World, sender: Emitter, stream: int, parent: int, item: int, time: float) -> None:
    """Send a tuple that was emitted on a stream: by itself, or into its batch of rows."""
    if world.streams[stream]["size"] > 1:
        gather_row(world, sender, stream, task_of(world, parent), item, time)
    else:
        target = int(world.tasks[world.visits[item]["task"]]["executor"])
        dispatch(world, sender, target, item, time)


@inlined
def receivers(world: World, sender: Emitter, stream: int) -> tuple[int, int]:
    """Choose the tasks that get a tuple on a stream, from one to before another; ``NONE`` without routing."""
    to = world.streams[stream]
    if to["route"] == NONE:
        first = int(world.components[to["target"]]["first_task"])
        return first, int(first + world.components[to["target"]]["tasks"])
    row = world.routes[to["route"] + world.executors[sender.executor]["row"]]
    if row == NONE:
        world.counters[FULL] = UNROUTABLE
        return NONE, NONE
    if to["in_turn"] == 1:
        first = next_in_turn(world, int(row))
    else:
        first = int(draw(world.tables, world.cells, row, world.draws, sender.draws))
    return first, first + 1


@apart
def keeps(
    world: World, executor: int, stream: int, parent: int, root: int, ordinal: int, time: float
) -> bool:
    """Return whether a tuple to a helped component is served by its sender, which keeps it then.

    Nobody counts it as open: the tuple that it was made from is acked when this one is served.
    """
    watched, task = int(world.streams[stream]["help"]), task_of(world, parent)
    if not helps(world, executor, watched, task):
        return False
    item = new_visit(world, task, int(world.watched[watched]["input"]), parent, root, ordinal)
    if item != NONE:
        keep(world, executor, item, time)
    return True


@inlined
def emit(world: World, sender: Emitter, fan: int, fans: int, parent: int, root: int, time: float) -> None:
    """Emit what one tuple, message or window makes: on each output a drawn number, to each subscriber."""
    for output in range(fan, fan + fans):
        made = world.fans[output]
        number = int(draw(world.tables, world.cells, made["table"], world.draws, sender.draws))
        for ordinal in range(1, number + 1):
            for stream in streams_of(world, output):
                to = world.streams[stream]
                if to["help"] != NONE and keeps(world, sender.executor, stream, parent, root, ordinal, time):
                    continue
                first, end = receivers(world, sender, stream)
                if first == NONE:
                    return
                for task in range(first, end):
                    item = new_visit(world, task, int(to["input"]), parent, root, ordinal)
                    if item == NONE:
                        return
                    if world.ackers[1] > 0:
                        count_open(world, root, 1)
                    send(world, sender, stream, parent, item, time)


@inlined
def tell_acker(world: World, sender: Emitter, root: int, time: float) -> None:
    """Send the acker of a message something about its tree."""
    item = world.counters[MESSAGES]
    if item >= world.messages.size:
        world.counters[FULL] = 1
        return
    world.counters[MESSAGES] = item + 1
    message = world.messages[item]
    message["root"] = root
    message["acker"] = world.roots[root]["acker"]
    message["queued"] = INF
    message["received"] = NAN
    message["served"] = NAN
    world.roots[root]["sent"] += 1
    dispatch(world, sender, int(message["acker"]), int(item), time)


@inlined
def ack(world: World, sender: Emitter, visit: int, time: float) -> None:
    """Ack a tuple: one message to the acker of each message that it comes from."""
    root = world.visits[visit]["root"]
    count_open(world, int(root), -1)
    first, end = 0, 1
    if root < 0:
        first, end = world.firings[~root]["anchors"], world.firings[~root]["end"]
    for i in range(first, end):
        tell_acker(world, sender, int(root if root >= 0 else world.anchors[i]), time)
