"""Plans that differ from one by the place of a single executor, each answered in a fraction of a prediction.

A plan is solved once, and the parts that are linear in small changes are kept (``solver.neighbours``). A
move's effect on the moved executor (its hops, its wait, its service) is then answered exactly. Effects on all
others are answered to first order: contention on the hosts, coldness, hops that a busy host delays, sinks'
clients. Loads, contention and coldness of the moved plan are found as for any plan (``network_builder``).

>>> near = prepared.around(plan, settings, rate_tps)  # doctest: +SKIP
>>> near.moved(plan.of("bolt-a")[0], plan.workers[2])[""].mean_ms  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.plan.network_builder import NetworkBuilder, build_network
from harness.models.composite.played import answered
from harness.models.composite.source.hop_times import squared
from harness.models.composite.task_routing import asks_where_executors_are
from harness.models.contract.layout import FloatArray, Layout, moved
from harness.models.network import Atoms
from harness.models.solver.neighbours import Neighbours, neighbours
from harness.models.solver.solve import Latency, Solution
from harness.plans import Executor, Worker

MOST_SLOWER = 0.05
"""Relative change of how long any other executor's CPU time takes, up to which a move is small."""
MOST_SHIFT = 0.25
"""The same as time, over the time that percentiles are told apart by (a span's share of a frequency)."""
MOST_LOAD = 0.9
"""Load of an executor or host up to which a move is small."""
MOST_CHANGE = 0.05
"""Relative change of a mean latency up to which a move is small."""
_STEP = 0.05
"""Change of the hosts' usual stretch, and relative one of a sink's own client, that slopes are taken from."""


class Neighbourhood:
    """One plan, and those with one of its executors in another worker process.

    Parameters
    ----------
    builder : NetworkBuilder
        Of the plan.

    Raises
    ------
    ModelDeclined
        When the plan's network is not in order.

    Notes
    -----
    A move is answered by a full solution, which takes as long as any, where what it changes is not small or
    not known to first order:

    - the executor was alone in its worker, or the worker is not in use;
    - a grouping asks where executors are (local-or-shuffle, load-aware shuffle), so that routing changes;
    - tuples wait for batches;
    - any other executor's CPU time takes ``MOST_SLOWER`` longer or shorter, or its services by more than
      percentiles can be told apart by (``MOST_SHIFT``), which they then see as a jump;
    - an executor or host is loaded more than ``MOST_LOAD``, before or after the move, or so busy before it
      that hops take no longer (``hop_times.squared``);
    - a mean latency changes by more than ``MOST_CHANGE``.
    """

    def __init__(self, builder: NetworkBuilder) -> None:
        self.builder = builder
        self.solution: Solution = answered(builder.network())

    @property
    def layout(self) -> Layout:
        """The plan's."""
        return self.builder.layout

    def prepare(self) -> None:
        """Do now what the first move would have to wait for.

        Raises
        ------
        ModelDeclined
            When no row comes to a sink.
        """
        _ = self._linear

    def moved(self, executor: int | Executor, worker: Worker) -> dict[str, Latency]:
        """Return the ground-truth latency with one executor in another worker process.

        Parameters
        ----------
        executor : int or Executor
            Its position in the layout, or itself.
        worker : Worker
            Of one of the plan's worker nodes.

        Returns
        -------
        dict of str to Latency
            As ``Solution.ground_truth``: whole (key empty) and by sink.

        Raises
        ------
        Saturated
            When something would be overloaded.
        ModelDeclined
            When the plan has no such executor, worker node or slot, or no row comes to a sink.
        """
        position = self._position(executor)
        self._require(worker)
        place = (worker.node, worker.port)
        number = self.layout.workers.index(place) if place in self.layout.workers else -1
        if number == self.layout.worker[position]:
            return {name: Latency(v.mean_ms, v.percentiles_ms.copy()) for name, v in self._own.items()}
        found = self.quick(position, number) if number >= 0 else None
        return self.solve(position, worker).ground_truth() if found is None else found

    def solve(self, executor: int | Executor, worker: Worker) -> Solution:
        """Return the moved plan's full solution, of which all other measures can be asked.

        Parameters
        ----------
        executor, worker
            As for ``moved``.

        Raises
        ------
        ModelDeclined
            As ``moved``.
        """
        self._require(worker)
        traffic = self.builder.traffic
        layout = moved(self.layout, self._position(executor), worker)
        return answered(build_network(traffic.prepared, layout, traffic.settings, traffic.rate_tps))

    def quick(self, position: int, worker: int) -> dict[str, Latency] | None:
        """Return a move's answer to first order, or None where it would not hold.

        Parameters
        ----------
        position, worker : int
            Numbers of the executor and of a worker in use.
        """
        if self._linear is None or np.count_nonzero(self.layout.worker == self.layout.worker[position]) == 1:
            return None
        own, builder = self.solution, self.builder.moved(position, worker)
        loads = builder.loads
        if not np.isfinite(loads.usual) or (loads.own_load(self.builder.hosts) > MOST_LOAD).any():
            return None
        slow = loads.stretch.copy()
        for name, factor in builder.colder.items():
            slow[self.layout.of[name]] *= factor / self.builder.colder[name]
        change = np.abs(slow / own.service.slow - 1)
        change[position] = 0.0
        shift_ms = (change * own.service.hold[:, 0]).max()
        if change.max() > MOST_SLOWER or shift_ms > MOST_SHIFT * self._linear.point_ms:
            return None
        if self._linear.loads(slow).max() > MOST_LOAD:
            return None
        found = self._linear.latencies(position, worker, slow, self._shares(builder))
        small = all(abs(v.mean_ms / self._own[name].mean_ms - 1) <= MOST_CHANGE for name, v in found.items())
        return found if small else None

    @cached_property
    def _own(self) -> dict[str, Latency]:
        return self.solution.ground_truth()

    @cached_property
    def _linear(self) -> Neighbours | None:
        """Linear parts of the solution around the plan; None where no move is small."""
        traffic, own = self.builder.traffic, self.solution
        if asks_where_executors_are(traffic.query_plan, traffic.settings) or own.network.batched:
            return None
        if own.overloaded or own.loads.max() > MOST_LOAD:
            return None
        loads, hosts = self.builder.loads, self.builder.hosts
        if (loads.own_load(hosts) > MOST_LOAD).any() or not self._hop_step > 0:
            return None
        hops = self.builder.prepared.times.hops(loads.usual - 1.0 + _STEP)
        changed = [replace(own.network, hops=hops)]
        for name in self._clients:
            send = own.network.send_ms[name]
            longer = Atoms(send.values_ms + self._client_step(name), send.probabilities)
            changed.append(replace(own.network, send_ms={**own.network.send_ms, name: longer}))
        return neighbours(own, changed)

    @cached_property
    def _clients(self) -> list[str]:
        """Sinks whose own clients take CPU time."""
        demand, sinks = self.builder.prepared.demand, self.builder.traffic.query_plan.sinks
        return [name for name in sinks if name in demand and demand[name].send_cpu_ms > 0]

    def _client_step(self, name: str) -> float:
        return _STEP * self.builder.prepared.demand[name].send_cpu_ms

    @property
    def _hop_step(self) -> float:
        """Step of the factor on delays of wake-ups; 0 on hosts so busy that the delays grow no more."""
        own = self.builder.loads.usual
        return squared(own - 1.0 + _STEP) - squared(own - 1.0)

    def _shares(self, builder: NetworkBuilder) -> FloatArray:
        """Return how much of each changed network there is in a moved plan."""
        usual, own = builder.loads.usual, self.builder.loads.usual
        found = [(squared(usual - 1.0) - squared(own - 1.0)) / self._hop_step]
        send = builder.send(usual) if self._clients else {}
        for name in self._clients:
            longer_ms = send[name].mean_ms - self.solution.network.send_ms[name].mean_ms
            found.append(longer_ms / self._client_step(name))
        return np.array(found)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {label: position for position, label in enumerate(self.layout.labels)}

    def _position(self, executor: int | Executor) -> int:
        if isinstance(executor, Executor):
            if executor.label not in self._positions:
                raise ModelDeclined(f"the plan has no executor {executor.label}")
            return self._positions[executor.label]
        if not 0 <= executor < len(self.layout):
            raise ModelDeclined(f"the plan has no executor at position {executor}: it has {len(self.layout)}")
        return executor

    def _require(self, worker: Worker) -> None:
        node = self.layout.plan.node_names.get(worker.node)
        if node is None:
            raise ModelDeclined(f"the plan has no worker node {worker.node}")
        if worker.port not in node.slots and (worker.node, worker.port) not in self.layout.workers:
            raise ModelDeclined(f"worker node {worker.node} has no slot {worker.port}")
