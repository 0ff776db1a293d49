"""A proposed plan as queues and delays: what the composite model solves and the simulator plays.

A network is made from one observation and a proposed plan by the stages routing, I/O ratios, arrivals,
service, transfer and contention (``harness.models.composite.proposal``), or from random numbers in tests. It
says what Storm 2.x does with a tuple, mechanism by mechanism, and nothing of how the answer is computed:

- A spout executor looks at its tasks in turn. A task that has a message emits it; one that has none holds
  the executor for ``poll_ms``. When no task had one it sleeps for ``idle_ms``. Acks to it wait meanwhile.
  A spout's service comes before the emit, where the ground truth begins.
- An emitted tuple goes to one task of each subscriber, drawn by ``routing``. First it takes a hop (``hops``);
  with batches it waits for its batch of ``batch`` tuples or the next periodic flush before that. On a stream
  with ``row_batches`` it waits for its batch, and they take a hop together.
- A bolt executor serves its tasks' tuples in the order of arrival. When it finds its queue empty it sleeps
  for ``idle_ms`` and looks again, so a tuple that meets an idle executor waits for the rest of a sleep.
- A tuple's service is CPU demand and waiting, drawn apart. Executors of one host share its cores: wall-clock
  time is ``stretch`` times the CPU demand, plus the waiting (``harness.models.contention`` has the
  law).
- The number of emits for a tuple of one input is drawn by ``fanout``; a window's, at its firing.
- Windows belong to tasks. A member is acked when it expires (``WindowManager``), other tuples when served.
- An acked tuple's tree is complete when its acker executor has served the last ack.
- With ``relief`` a component's helpers serve a share of its tuples, and spouts pause while queues are full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray, Layout, NodePair, Output
from harness.plans import BatchSize, Relief, Stream, Watermarks, Window


@dataclass(frozen=True)
class Atoms:
    """A distribution of times as a few values with probabilities; its mean is exact.

    Attributes
    ----------
    values_ms : array (k)
        Ascending.
    probabilities : array (k)
        They add to 1.
    """

    values_ms: FloatArray
    probabilities: FloatArray

    @property
    def mean_ms(self) -> float:
        """The first moment."""
        return float(self.values_ms @ self.probabilities)

    @property
    def second_moment_ms2(self) -> float:
        """The second moment."""
        return float(self.values_ms**2 @ self.probabilities)


def constant(value_ms: float) -> Atoms:
    """Return the distribution of one value.

    Examples
    --------
    >>> constant(2.0).second_moment_ms2
    4.0
    """
    return Atoms(np.array([value_ms]), np.ones(1))


class Input(NamedTuple):
    """Input of a component: one stream of one source; a spout's own input has no source."""

    component: str
    source: str
    stream: str


@dataclass(frozen=True)
class Service:
    """Service of one tuple: thread CPU time, and time waited without using a core.

    A sink's service ends at the ground truth's end; the rest is in ``Network.send_ms``. A bolt's service is
    before its emits as a whole: the part that comes after them, as acks do, is taken off the hops.
    """

    cpu_ms: Atoms
    wait_ms: Atoms


@dataclass(frozen=True)
class Hops:
    """Time from a tuple's emit to its place in the receiving executor's queue, by how far it goes.

    Waiting for the receiver to look is not in it, nor waiting for a batch. The transfer thread's sleep is,
    and what a busy host adds to a wake-up.

    Attributes
    ----------
    within_worker_ms, between_workers_ms, between_nodes_ms : Atoms
    between_pairs_ms : mapping of NodePair to Atoms
        Between two nodes of which more is known than that they are two.
    """

    within_worker_ms: Atoms
    between_workers_ms: Atoms
    between_nodes_ms: Atoms
    between_pairs_ms: Mapping[NodePair, Atoms] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """The mechanisms of one plan under one input rate.

    Attributes
    ----------
    layout : Layout
        The proposed plan's executors by position; ackers last.
    input_tps : mapping of spout to array (its tasks)
        Messages a second.
    input_scv : float
        Squared coefficient of variation of the time between messages of one task: 0 constant, 1 Poisson.
    in_turn : bool
        Whether messages come to a spout's tasks one after another by task identifier, as from a producer that
        fills the partitions of a topic in turn. Else each task's messages come on their own.
    poll_ms : mapping of spout to float
        How long a task without a message holds its executor.
    idle_ms : array (executors)
        Length of a sleep between two looks at an empty queue (for a spout: after a round without a message):
        the settings' sleep with the timer's slack, and the mean over sleeps and spins where it spins first.
    routing : mapping of Stream to array (source's executors, target's tasks)
        Rows add to 1, unless the grouping is ``all`` (then each entry is 1).
    round_robin : set of Stream
        Streams on which a source executor goes round its targets' tasks in a fixed, shuffled order instead of
        drawing; ``routing`` has its shares.
    fanout : mapping of Input to mapping of Output to array (k)
        Probability that one tuple of the input makes 0, 1, 2 ... tuples on the output. For a component with
        a window: one of its windows, whatever filled it (the input's ``source`` and ``stream`` are empty).
        A spout makes one tuple on each of its outputs, unless it has an entry.
    service : mapping of Input to Service
        Cost of a tuple. Of a count window's firing the cost is in the tuple that fires it.
    windows : mapping of component to Window
        Components that hold tuples in windows, each task its own.
    hops : Hops
        Transfer.
    batch, flush_ms : int, float
        ``topology.producer.batch.size`` and the flush interval; 1 and 0 when tuples are sent at once. Within
        a worker each sending executor has a batch for each receiving one. The flush is a tuple in the
        sender's own queue, so it waits for the sender's look. Tuples from other workers fill one batch for
        each receiving executor, which Storm 2.8 never flushes.
    transfer_batch : int
        ``topology.transfer.batch.size``: each executor's batch of tuples to other workers, flushed likewise.
    row_batches : mapping of Stream to BatchSize
        Streams whose tuples the rewriting layer gathers. Each sending task has a batch for each receiving
        task. It leaves with its last tuple when it is full, or so long after its first one, and its rows take
        one hop together.
    row_ms : mapping of Stream to float
        By how much a hop to another worker takes longer for each row of a batch beyond the first.
    relief : Relief
        Helping, and back-pressure as Heron has it.
    help_routing : mapping of Stream to array (helper's executors, target's tasks)
        Of each stream of a helped component: where those tuples go that its helper makes.
    queue_room : int
        Tuples in a full receive queue, of which watermarks are shares. Queues grow beyond it.
    most_pending : int
        Messages of a spout task whose trees may be open at once; 0 for any number.
    send_ms : mapping of sink to Atoms
        What a sink's own client takes after the ground truth's end and before the ack.
    acks : bool
        Whether trees are tracked.
    acker_service_ms : Atoms
        Cost of one message at an acker executor.
    host : array (workers)
        Host of each worker process, numbered from 0.
    cores : array (hosts)
        Cores that the host's workers share. A worker node with a CPU quota counts as a host of its own.
    background_cores : array (hosts)
        Cores in use by all else: polling, transfer threads, brokers, collection of garbage, workers of other
        nodes on the machine.
    quota_cores : array (hosts), optional
        Cores that executors' demand may take at most of a period of the node's CPU quota: the quota less what
        its workers use beside it. Infinite without a quota, None without any (``harness.models.quotas``).
    worker_cores : array (workers), optional
        Of these, what each worker process uses itself, so that its CPU use is this and its executors' demand.
    stretch : array (executors), optional
        Wall-clock over CPU time of a tuple's demand in this plan, at these rates; infinite where the demand
        of a host is more than its cores. Without it, ``contention.stretch`` of the host's other demand.
    notes : tuple of str
        What was assumed for want of an observation.
    """

    layout: Layout
    input_tps: Mapping[str, FloatArray]
    input_scv: float
    poll_ms: Mapping[str, float]
    idle_ms: FloatArray
    routing: Mapping[Stream, FloatArray]
    fanout: Mapping[Input, Mapping[Output, FloatArray]]
    service: Mapping[Input, Service]
    windows: Mapping[str, Window]
    hops: Hops
    batch: int
    flush_ms: float
    send_ms: Mapping[str, Atoms]
    acks: bool
    acker_service_ms: Atoms
    host: IntArray
    cores: FloatArray
    background_cores: FloatArray
    in_turn: bool = False
    round_robin: frozenset[Stream] = frozenset()
    transfer_batch: int = 1
    row_batches: Mapping[Stream, BatchSize] = field(default_factory=dict)
    row_ms: Mapping[Stream, float] = field(default_factory=dict)
    relief: Relief = field(default_factory=Relief)
    help_routing: Mapping[Stream, FloatArray] = field(default_factory=dict)
    queue_room: int = 32_768
    most_pending: int = 0
    worker_cores: FloatArray | None = None
    stretch: FloatArray | None = None
    quota_cores: FloatArray | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def batched(self) -> bool:
        """True if tuples wait for batches, Storm's own or the rewriting layer's."""
        return bool(self.row_batches) or max(self.batch, self.transfer_batch) > 1

    @property
    def by_quota(self) -> FloatArray:
        """``quota_cores`` of every host."""
        return np.full(self.cores.size, np.inf) if self.quota_cores is None else self.quota_cores

    @property
    def helpers(self) -> dict[str, str]:
        """The helper of each helped component."""
        plan = self.layout.plan.query_plan
        return {helped: plan.inputs(helped)[0].source for helped in self.relief.helping}

    @property
    def marks(self) -> dict[str, Watermarks]:
        """Marks of the components whose queues are watched, as ``Rewriter.java`` gives them."""
        found: dict[str, Watermarks] = {}
        if self.relief.backpressure is not None:
            bolts = (name for name in self.layout.order if name not in self.input_tps)
            found = dict.fromkeys(bolts, self.relief.backpressure)
        for helped, helper in self.helpers.items():
            found[helped] = self.relief.helping[helped]
            found.setdefault(helper, self.relief.helping[helped])
        return dict(sorted(found.items()))


WITHIN, BETWEEN_WORKERS, BETWEEN_NODES = range(3)
"""Kinds of hop that every network has; those of pairs of nodes come after them."""


def hop_kinds(layout: Layout, hops: Hops) -> tuple[tuple[Atoms, ...], IntArray]:
    """Return the kinds of hop of a plan, and which of them it is between any two of its workers.

    Parameters
    ----------
    layout : Layout
    hops : Hops

    Returns
    -------
    kinds : tuple of Atoms
        Within a worker, between workers, between nodes; then one for each pair of the plan's nodes that has
        its own.
    between : array (workers, workers)
        Numbers of kinds.
    """
    number = {name: i for i, name in enumerate(dict.fromkeys(node for node, _ in layout.workers))}
    node = np.array([number[name] for name, _ in layout.workers])
    between = np.where(node[:, None] == node[None, :], BETWEEN_WORKERS, BETWEEN_NODES).astype(np.int64)
    np.fill_diagonal(between, WITHIN)
    kinds = [hops.within_worker_ms, hops.between_workers_ms, hops.between_nodes_ms]
    for pair, hop_ms in hops.between_pairs_ms.items():
        if number.keys() >= set(pair):
            one, other = (np.flatnonzero(node == number[name]) for name in pair)
            between[np.ix_(one, other)] = between[np.ix_(other, one)] = len(kinds)
            kinds.append(hop_ms)
    return tuple(kinds), between
