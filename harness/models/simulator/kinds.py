"""The records that compiled code works on: one array of records for each kind of thing.

Times are milliseconds since the start of the simulation. ``NONE`` stands for no record, ``NAN`` for a time
that has not come.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Records: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float64]
Words: TypeAlias = NDArray[np.uint64]
Counters: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]

NONE = -1
NAN = float("nan")
INF = float("inf")

SPOUT, BOLT, COUNT_WINDOW, TIME_WINDOW, ACKER = range(5)
"""Kinds of component."""
VISITS, MESSAGES, FIRINGS, ANCHORS, PARCELS, FREE_PARCEL = range(6)
"""Counters: records in use, and the first parcel that is in use no longer."""
EVENTS, EVENT_NUMBER, ALIVE, FULL = range(6, 10)
SIGNALS, NEWS_USED = range(10, 12)
"""More of them: events pending and made so far, what keeps the run going, whether an array is full; signals
and news in use."""
COUNTERS = 12
UNROUTABLE = 2
"""Instead of 1 in the counter ``FULL``: an executor emitted where it has no routing probabilities."""
NEXT, BEGIN, AFTER_CPU, SERVED, HELD = range(5)
"""Actions of an executor when its time comes."""
PAUSED, LIMITED = range(5, 7)
"""Why a spout executor stands still: for full queues, or for its limit of pending messages."""
WAKE, DONE, VISIT_ARRIVES, MESSAGE_ARRIVES, TICK, BOX_DUE, ACK_ARRIVES = range(7)
"""Kinds of event. Their subjects: executor, executor, visit, message, task, box, root."""
CORE, OTHER_WORK, NEW_PERIOD, LOOK, SIGNAL_ARRIVES = range(7, 12)
"""More of them, which happen only as long as something else does: host, host, host, worker, signal."""
BATCH, FLUSH_MS, TRANSFER_BATCH = range(3)
"""Places in ``World.batch``."""
LOOKS, PAUSES, MOST_PENDING = range(3)
"""Places in ``World.relief``: whether queues are looked at, whether spouts pause for them, and the most
pending messages of each of a spout executor's tasks; 0 for any number."""
EASY, HELPED, PRESSED = range(3)
"""Ways to deal with a component's queues: nothing, helpers serve all, ordinary back-pressure."""
STATE, RATIO, REQUESTS, REACHED, PAUSE = range(5)
"""Kinds of news: of a watched component (three), of an executor, of a worker."""

TABLE = np.dtype([("first", "i4"), ("size", "i4")])
CELL = np.dtype([("value", "f8"), ("other", "f8"), ("threshold", "u8")])
"""A cell of Walker's alias method: below the threshold (of 32 bits) the value, else the other."""

COMPONENT = np.dtype(
    [
        *((n, "f8") for n in ("length", "slide", "poll")),
        *((n, "i4") for n in ("kind", "sink", "first_executor", "executors", "first_task", "tasks")),
        *((n, "i4") for n in ("fan", "fans", "input", "send")),
    ]
)
"""A component.

- ``fan``, ``fans``: place in ``fans`` of a spout's message or a window
- ``input``: a spout's own, or ``NONE``
- ``send``: table of what a sink's client takes
"""

INPUT = np.dtype([(n, "i4") for n in ("cpu", "wait", "fan", "fans")])
"""Tables of a tuple's service, and what it makes."""

FAN = np.dtype([(n, "i4") for n in ("table", "stream", "streams", "pad")])
"""Table of the number of tuples on an output, and where in ``streams`` those are that it feeds."""

STREAM = np.dtype(
    [
        *((n, "i4") for n in ("target", "input", "route", "in_turn", "size", "box", "help", "pad")),
        ("stay", "f8"),
        ("row", "f8"),
    ]
)
"""A stream.

- ``route``: first of the source's rows in ``routes``; ``NONE`` where every task gets a copy. Rows are tables
  of tasks or, ``in_turn``, rounds; ``NONE`` where nothing is known of the executor's tuples
- ``size``: rows of a batch, 1 for none
- ``stay``: how long a batch waits
- ``box``: where its own begin in ``boxes``
- ``row``: how much longer a hop to another worker takes for each row but the first
- ``help``: where in ``watched`` the target is whose tuples the source may serve itself, or ``NONE``
"""

TURN = np.dtype([(n, "i4") for n in ("first", "size", "at", "pad")])
"""Tasks that an executor sends to in turn: where in ``turn_tasks``, and which is next."""

EXECUTOR = np.dtype(
    [
        *((n, "f8") for n in ("idle", "stretch", "flush", "free", "wait", "busy", "cpu", "cpu_now")),
        *(("wake", "f8"), ("flushes", "i8")),
        *((n, "i4") for n in ("component", "kind", "row", "worker", "node", "host", "shared")),
        *((n, "i4") for n in ("first_task", "tasks", "head", "tail", "item", "then", "asleep")),
        *((n, "i4") for n in ("look", "emitted", "rounds", "parcels", "far_head", "far_tail", "far")),
        *((n, "i4") for n in ("queued", "over", "help", "help_end", "whole")),
        *((n, "i4") for n in ("signal", "signal_end", "under_way", "pad")),
        ("parked", "f8"),
    ]
)
"""An executor.

- ``stretch``: of its CPU time; 1 where cores are played
- ``shared``: 1 where cores are played
- ``flush``: phase of its worker's flushes
- ``flushes``: how many of them it has taken from its queue
- ``free``: end of its last work; its sleeps are counted from there
- ``wake``: when it will look
- ``head``, ``tail``: its queue
- ``item``: in service
- ``wait``, ``cpu_now``: those of the item
- ``then``: what follows
- ``asleep``: 1, or 2 when something has come
- ``look``: the task that a spout looks at
- ``emitted``: whether this round has
- ``rounds``: of its records of rounds, those in use
- ``parcels``: items in its batches
- ``far_head``, ``far_tail``, ``far``: the batch of what comes to it from other workers
- ``queued``: items in its queue
- ``over``: 1 while that is over its mark
- ``help``, ``help_end``: the helping queue
- ``whole``: the tuple that what it serves there was made from
- ``signal``, ``signal_end``: signals in its queue
- ``under_way``: a spout's messages that are not acked
- ``parked``: since when it stands still
"""

TASK = np.dtype(
    [
        *(("phase", "f8"), ("tick", "i8")),
        *((n, "i4") for n in ("executor", "component", "next", "end")),
        *((n, "i4") for n in ("head", "fresh", "tail", "held", "since_firing", "since_scan", "armed", "pad")),
    ]
)
"""A task.

- ``next`` to ``end``: the messages that a spout task has yet to emit
- ``head``: oldest tuple in the window
- ``fresh``: oldest that no window has had
- ``held``: tuples from ``head`` on
- ``tick``: of a time window's clock, which begins at ``phase``
- ``armed``: 1 while the window is not empty, so the tick matters
"""

ROOT = np.dtype(
    [
        *((n, "f8") for n in ("due", "entered", "first", "last", "back", "acked")),
        *((n, "i4") for n in ("task", "acker", "visit", "open", "sent", "handled", "stamp", "given")),
        *(("far", "i4"), ("pad", "i4")),
    ]
)
"""A message.

- ``given``: which of those that the world was made of
- ``first``, ``last``: at its acker
- ``back``: the ack reaches its spout's queue, ``far`` from another worker
- ``acked``: the ack is taken from it
- ``open``: tuples of its tree that are not acked
- ``sent``, ``handled``: messages to its acker
- ``stamp``: the last window that counted it
"""

VISIT = np.dtype(
    [
        *((n, "f8") for n in ("queued", "received", "served", "emitted", "cpu", "expired")),
        *((n, "i4") for n in ("task", "parent", "root", "link")),
        *((n, "i2") for n in ("input", "ordinal", "far", "pad")),
    ]
)
"""A tuple at one task. A message at its spout is a visit whose ``input`` is ``NONE``.

- ``link``: what follows in the queue; then, in a window, the member that came next
- ``emitted``: what it made; of a window's member, by the first window that has it
- ``parent``: the visit that made it, ``~firing`` for a window's output
- ``root``: its message, or ``~firing``
- ``ordinal``: which of the tuples that its parent made on the output, from 1
- ``far``: it came from another worker
"""

MESSAGE = np.dtype(
    [
        *((n, "f8") for n in ("queued", "received", "served")),
        *((n, "i4") for n in ("root", "acker", "link", "far")),
    ]
)
"""To an acker."""

FIRING = np.dtype([("time", "f8"), *((n, "i4") for n in ("task", "first", "fresh", "anchors", "end", "pad"))])
"""A window's output.

- ``first``, ``fresh``: members that it is the first to have, by ``link``
- ``anchors`` to ``end``: the messages that its members come from, each once
"""

BUFFER = np.dtype([(n, "i4") for n in ("head", "tail", "count", "pad")])
"""A batch of parcels."""

BOX = np.dtype([("due", "f8"), ("row", "f8"), *((n, "i4") for n in ("head", "tail", "count", "sender"))])
"""A batch of rows of one sending task for one receiving task.

- ``head``, ``tail``: visits, by ``link``
- ``due``: when it leaves if it is not full before
- ``row``: as the stream's
"""

PARCEL = np.dtype([("hop", "f8"), *((n, "i4") for n in ("item", "target", "link", "pad"))])
"""An item on its way to an executor, in a batch; ``hop`` is what it takes from there."""

HOST = np.dtype(
    [
        *((n, "f8") for n in ("cores", "other", "progress", "updated", "due", "quota", "left")),
        *((n, "i4") for n in ("first", "end", "threads", "own", "used_up", "pad")),
    ]
)
"""A host.

- ``other``: cores that all but the executors ask for
- ``progress``: CPU time of a thread that runs all the time
- ``threads``: those in need of a core, from ``first`` on
- ``own``: those of them that are executors'
- ``quota``: CPU time that executors may have in a period, infinite without a quota
- ``left``: of it, what they may still have in this one
- ``used_up``: 1 once the quota is used up, 2 when that is what is ``due``
"""

THREAD = np.dtype([("end", "f8"), ("executor", "i4"), ("pad", "i4")])
"""A thread in need of a core, by the host's progress at which it is done; ``NONE``: other work."""

ROUND = np.dtype([("start", "f8"), ("period", "f8"), ("count", "i8")])
"""Rounds of a spout executor, ``count`` of them, ``period`` apart; without a period one after the other
until the next record."""


WATCHED = np.dtype(
    [
        *((n, "f8") for n in ("high", "low", "delta")),
        *((n, "i4") for n in ("component", "helper", "input", "first_share")),
    ]
)
"""A component whose queues are looked at.

- ``high``, ``low``: its marks, in tuples
- ``helper``: where in ``watched`` its helper is, or ``NONE``
- ``input``: of a tuple that the helper serves
- ``first_share``: where in ``shares`` those of the helper's tasks begin
"""

CARE = np.dtype(
    [
        *(("ratio", "f8"), ("reached", "i8"), ("said_reached", "i8"), ("requests", "i8")),
        *((n, "i4") for n in ("here", "state", "said", "in_force", "times", "pad")),
    ]
)
"""One worker's part in a watched component.

- ``ratio``: the share that helpers serve outside of Leron back-pressure
- ``requests``: how often help was asked for
- ``reached``: how often queues of this worker came to the high mark
- ``times``: of that, at this look
- ``here``: it has such queues
- ``state``: what is done about them
- ``said``, ``said_reached``: what other workers were told
- ``in_force``: what is so in all workers, as far as is known
"""

HEARD = np.dtype([("number", "i8"), ("reached", "i8"), ("at", "f8"), ("state", "i4"), ("pad", "i4")])
"""The last signal that a worker has heard from another one of a watched component."""

WORKER = np.dtype([("said", "f8"), ("number", "i8"), ("paused", "i4"), ("speaker", "i4")])
"""A worker.

- ``said``: when it last repeated what it says
- ``number``: of its last signal
- ``speaker``: the executor that sends its signals, or ``NONE``
"""

SIGNAL = np.dtype(
    [
        *(("number", "i8"), ("reached", "i8")),
        *((n, "i4") for n in ("origin", "watched", "state", "target", "after", "link")),
    ]
)
"""To an executor; ``after``: the last tuple in its queue when it came."""

NEWS = np.dtype([("time", "f8"), ("value", "f8"), *((n, "i4") for n in ("kind", "worker", "subject", "pad"))])
"""A change of something that is reported."""


class Emitter(NamedTuple):
    """An executor that sends, and whose random numbers it takes: its own, or those of a window's thread.

    Attributes
    ----------
    executor : int
    draws : int
        Place in ``World.draws``.
    """

    executor: int
    draws: int


class World(NamedTuple):
    """A network in flat arrays, and all that happens in it.

    Attributes
    ----------
    tables, cells : TABLE, CELL
        Distributions.
    components, inputs, fans, streams, routes : COMPONENT, INPUT, FAN, STREAM, int32
        The query plan; components in the order of the layout, ackers last.
    turns, turn_tasks : TURN, int32
        Of streams whose tuples go to tasks in turn.
    executors, tasks, hosts, threads : EXECUTOR, TASK, HOST, THREAD
        Executors by position in the layout, tasks by component. Each host's threads have their own part.
    hops : int32 (workers, workers)
        Tables, by the worker that sends and the one that receives.
    batch : float64 (3)
        Tuples in a batch, flush interval, tuples in a batch to other workers.
    ackers : int64 (3)
        Position of the first, their number (0 without acks), table of their service.
    span : float64 (2)
        The part of the time in which work is counted.
    draws : uint64 (executors + tasks + hosts)
        Streams of random numbers: of executors, of the threads of time windows, of hosts' other work.
    buffers, parcels : BUFFER (executors x (executors + 1)), PARCEL
        Batches by sender and target, the last target being other workers; when tuples are not sent at once.
    boxes : BOX
        Batches of rows, by stream, sending and receiving task.
    rounds, round_first : ROUND, int64 (executors)
        Rounds of spout executors, each executor's own part.
    relief : int64 (3)
        Whether queues are looked at, whether spouts pause, most pending messages.
    watched, cares : WATCHED, CARE (workers x watched)
        Components whose queues are looked at, and each worker's part in them.
    heard : HEARD (workers x watched x workers)
        By the worker that heard, the component, and the worker that spoke.
    workers, signals, news : WORKER, SIGNAL, NEWS
    shares : float64
        Of each helper's task, what is due of the share that it serves.
    event_times, event_numbers, event_codes
        The heap: by time, then in the order in which they were made.
    """

    tables: Records
    cells: Records
    components: Records
    inputs: Records
    fans: Records
    streams: Records
    routes: Indices
    turns: Records
    turn_tasks: Indices
    executors: Records
    tasks: Records
    hosts: Records
    threads: Records
    hops: Indices
    batch: Floats
    ackers: Counters
    span: Floats
    draws: Words
    roots: Records
    visits: Records
    messages: Records
    firings: Records
    anchors: Indices
    buffers: Records
    parcels: Records
    boxes: Records
    rounds: Records
    round_first: Counters
    relief: Counters
    watched: Records
    cares: Records
    heard: Records
    workers: Records
    signals: Records
    news: Records
    shares: Floats
    event_times: Floats
    event_numbers: Counters
    event_codes: Counters
    counters: Counters
