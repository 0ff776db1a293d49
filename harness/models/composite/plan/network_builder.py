"""The network of one proposed plan, built from the source's estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from harness.models import contention
from harness.models.composite.atoms import scaled
from harness.models.composite.background import ACK_MS
from harness.models.composite.idling import batching
from harness.models.composite.mechanisms import AT_ONCE, without_network
from harness.models.composite.plan.coldness import cold_ms
from harness.models.composite.plan.traffic import Traffic
from harness.models.composite.source.hop_times import usual_way
from harness.models.composite.source.host_stretch import HIDDEN_CORES
from harness.models.composite.source_estimates import SourceEstimates
from harness.models.composite.task_routing import round_robin
from harness.models.contract.answers import require_rate
from harness.models.contract.layout import (
    FloatArray,
    Layout,
    lay_out,
    require_same_query_plan,
    require_same_tasks,
)
from harness.models.network import Atoms, Input, Network, Service, constant
from harness.models.quotas import quota_stretch
from harness.plans import PhysicalPlan
from harness.protocols import Settings

LEAST_OF_CPU = 0.25
"""Share of a component's CPU time in the source that is left at least when its executors stay warm."""


class HostLoads(NamedTuple):
    """Cores that a plan's executors and workers ask their hosts for.

    Attributes
    ----------
    own : array (executors)
        Cores that each executor's tuples need, up to their emits.
    workers : array (workers)
        Cores that each worker process uses beside these.
    background, demand : array (hosts)
        Cores that all but executors' tuples use, and all together.
    stretch : array (executors)
        Wall-clock over CPU time of a tuple's demand.
    usual : float
        Its mean over executors, weighted by ``own``; not finite where a host is overloaded.
    under_quota : array (hosts)
        Cores that the host's own workers ask for, executors' tuples included: what its quota is for.
    """

    own: FloatArray
    workers: FloatArray
    background: FloatArray
    demand: FloatArray
    stretch: FloatArray
    usual: float
    under_quota: FloatArray

    def left_by_quota(self, hosts: contention.Hosts) -> FloatArray:
        """Return the cores that each host's quota leaves executors' tuples; infinite without one."""
        need = self.demand - self.background
        return hosts.quota - (self.under_quota - need)

    def own_load(self, hosts: contention.Hosts) -> FloatArray:
        """Return the tuples' load: needed cores over the cores that all else leaves to tuples, by host."""
        free = np.minimum(hosts.cores - self.background, self.left_by_quota(hosts))
        need = self.demand - self.background
        return np.divide(need, free, out=np.where(need > 0, np.inf, 0.0), where=free > 0)


class NetworkBuilder:
    """One proposed plan under construction.

    Parameters
    ----------
    prepared, layout, settings, rate_tps
        As for ``build_network``.
    """

    def __init__(
        self, prepared: SourceEstimates, layout: Layout, settings: Settings, rate_tps: float
    ) -> None:
        self.traffic = Traffic(prepared, layout, settings, rate_tps)
        self.hosts = contention.hosts(layout)
        self.layout = layout
        self.remote = self.traffic.remote

    @property
    def prepared(self) -> SourceEstimates:
        """Estimates from the source."""
        return self.traffic.prepared

    def moved(self, position: int, worker: int) -> NetworkBuilder:
        """Return the plan with one executor in another of its workers.

        Of it only ``loads``, ``colder`` and ``send`` may be asked: its layout's plan is still the old one.
        What comes to executors stays as it is: of groupings that ask where they are (``task_routing``) it is
        not true.

        Parameters
        ----------
        position, worker : int
            Numbers; the worker is not the executor's own.
        """
        other = NetworkBuilder.__new__(NetworkBuilder)
        other.traffic, other.hosts = self.traffic, self.hosts
        number = self.layout.worker.copy()
        number[position] = worker
        other.layout = replace(self.layout, worker=number)  # whose plan is still the old one
        other.remote = self.traffic.remote_of_moved(position, worker)
        return other

    @cached_property
    def demand_cores(self) -> FloatArray:
        """Cores that each executor's tuples need, up to their emits; spouts' and ackers' included."""
        per_tuple = np.zeros(len(self.layout))
        for name, demand in self.prepared.demand.items():
            per_tuple[self.layout.of[name]] = self._cpu_ms(name, self.colder[name] * demand.cpu_ms.mean_ms)
        for name, cpu_ms in self.prepared.inputs.emit_cpu_ms.items():
            per_tuple[self.layout.of[name]] = self._cpu_ms(name, cpu_ms)
        per_tuple[self.layout.ackers] = ACK_MS
        return self.traffic.arrivals * per_tuple / 1000

    def _cpu_ms(self, name: str, as_before_ms: float) -> float:
        """Return CPU of a component's tuple: each message that batches save, or saved, is n of it."""
        rows = self.prepared.rows
        more = self.traffic.saved.get(name, 0.0) - rows.saved.get(name, 0.0)
        return max(as_before_ms - more * rows.n_ms, LEAST_OF_CPU * as_before_ms) if more else as_before_ms

    @cached_property
    def cold_ms(self) -> Mapping[str, float]:
        """CPU of a tuple that goes with how cold its executors are, by component with an input."""
        worker = self.layout.worker
        of_worker = np.bincount(worker, weights=self.traffic.arrivals).astype(np.float64)[worker]
        found = {}
        for name, demand in self.prepared.demand.items():
            at = self.layout.of[name]
            found[name] = cold_ms(
                demand.total_cpu_ms, self.traffic.starts[at], self.traffic.served[at], of_worker[at]
            )
        return found

    @cached_property
    def colder(self) -> Mapping[str, float]:
        """Factor on the CPU of a component's tuples: its executors may be colder or warmer than they were."""
        found = {}
        for name, demand in self.prepared.demand.items():
            here_ms, own_ms = self.cold_ms[name], demand.total_cpu_ms
            more_ms = here_ms - self.prepared.cold_ms.get(name, here_ms)
            found[name] = max(1.0 + more_ms / own_ms, LEAST_OF_CPU) if own_ms > 0 else 1.0
        return found

    @cached_property
    def send_cores(self) -> FloatArray:
        """Cores that sinks' own clients use."""
        found = np.zeros(len(self.layout))
        for name, demand in self.prepared.demand.items():
            found[self.layout.of[name]] = self.colder[name] * demand.send_cpu_ms / 1000
        return found * self.traffic.served

    @cached_property
    def at_once(self) -> FloatArray:
        """Other executors of its host at work, on messages that come together, whenever each one is."""
        if AT_ONCE in self.prepared.without:
            return np.zeros(len(self.layout))
        work_ms = (self.demand_cores + self.send_cores) * 1000 / self.traffic.rate_tps
        found = float(self.traffic.starts[self.traffic.entered > 0].sum())
        together = max(self.traffic.rate_tps / found, 1.0) if found > 0 else 1.0
        machine = self.hosts.machine[self.hosts.of_worker]
        return contention.at_once(work_ms, machine[self.layout.worker], together)

    @cached_property
    def loads(self) -> HostLoads:
        """Cores that the plan asks its hosts for."""
        layout, prepared = self.layout, self.prepared
        own, sending = self.demand_cores, self.send_cores
        workers = prepared.polling * self.traffic.activity.worker_cores(layout.worker, self.remote)
        workers += np.bincount(layout.worker, weights=sending, minlength=workers.size)
        hosts = self.hosts
        of_workers = hosts.added(workers)
        host = hosts.of_worker[layout.worker]
        of_tuples: FloatArray = np.bincount(host, weights=own, minlength=hosts.cores.size).astype(np.float64)
        under_quota = of_workers + of_tuples
        background = HIDDEN_CORES + of_workers + hosts.of_others(under_quota)
        demand = background + of_tuples
        stretch = contention.stretch(np.maximum(demand[host] - own**2, 0.0), hosts.cores[host], self.at_once)
        if np.isfinite(hosts.quota).any():
            arrivals = self.traffic.arrivals
            served_tps = np.bincount(host, arrivals, hosts.cores.size).astype(np.float64)
            tuples, rate_tps = (of_tuples, served_tps), self.traffic.rate_tps
            stretch = stretch * quota_stretch(under_quota, tuples, hosts.quota, rate_tps)[host]
        stretch = np.maximum(prepared.beyond * stretch, 1.0)
        usual = float(own[own > 0] @ stretch[own > 0] / own.sum()) if own.sum() > 0 else 1.0
        return HostLoads(own, workers, background, demand, stretch, usual, under_quota)

    def network(self) -> Network:
        """Put the network together."""
        layout, prepared, traffic = self.layout, self.prepared, self.traffic
        hosts, loads = self.hosts, self.loads
        full = tuple(
            f"host {h}: {d:.2f} cores are asked for, {c:g} are there"
            for h, (d, c) in enumerate(zip(loads.demand, hosts.cores, strict=True))
            if d >= c
        ) + tuple(
            f"host {h}: {d:.2f} cores are asked for, its quota is {c:g}"
            for h, (d, c) in enumerate(zip(loads.under_quota, hosts.quota, strict=True))
            if d >= c
        )
        batches = batching(traffic.settings)
        inputs = prepared.inputs
        network = Network(
            layout=layout,
            input_tps={n: traffic.flows.tasks[n] for n in traffic.query_plan.spouts},
            input_scv=inputs.scv,
            poll_ms={n: inputs.poll_ms.get(n, 0.0) for n in traffic.query_plan.spouts},
            idle_ms=traffic.idle_ms,
            routing=traffic.flows.routing,
            fanout=prepared.fans,
            service=self._service(),
            windows={c.name: c.window for c in traffic.query_plan.components if c.window is not None},
            hops=prepared.times.hops(loads.usual - 1.0),
            batch=batches.batch,
            flush_ms=batches.flush_ms,
            send_ms=self.send(loads.usual),
            acks=layout.ackers.stop > layout.ackers.start,
            acker_service_ms=constant(ACK_MS * traffic.acks_of_one),
            host=hosts.of_worker,
            cores=hosts.cores,
            background_cores=loads.background,
            quota_cores=loads.left_by_quota(hosts),
            in_turn=inputs.in_turn,
            round_robin=round_robin(layout, traffic.settings),
            transfer_batch=batches.transfer_batch,
            row_batches=traffic.batches,
            row_ms={s: prepared.rows.row_ms(s) for s in traffic.batches},
            worker_cores=loads.workers,
            stretch=loads.stretch,
            notes=(*prepared.notes, *full, *self._unprobed()),
        )
        return without_network(network, prepared)

    def _unprobed(self) -> tuple[str, ...]:
        """Say between which of the plan's nodes no round trip was measured, where others' were."""
        probed = self.prepared.times.network_ms
        nodes = sorted({node for node, _ in self.layout.workers})
        return tuple(
            f"no round trip between {one} and {other} was measured: {usual_way(probed).mean_ms:.3g} ms one"
            " way are assumed, the median of the known ones"
            for one, other in combinations(nodes, 2)
            if probed and (one, other) not in probed
        )

    def _service(self) -> Mapping[Input, Service]:
        found = {}
        for name, streams in self.traffic.flows.into.items():
            if not streams:
                cpu_ms = self._cpu_ms(name, self.prepared.inputs.emit_cpu_ms.get(name, 0.0))
                found[Input(name, "", "")] = Service(constant(cpu_ms), constant(0.0))
                continue
            demand = self.prepared.demand[name]
            cpu = scaled(demand.cpu_ms, self._cpu_ms(name, self.colder[name] * demand.cpu_ms.mean_ms))
            for s in streams:
                found[Input(name, s.source, s.stream)] = Service(cpu, demand.wait_ms)
        return found

    def send(self, stretched: float) -> Mapping[str, Atoms]:
        """Return what sinks' own clients take, where CPU time is stretched so much."""
        found = {}
        for name in self.traffic.query_plan.sinks:
            demand = self.prepared.demand.get(name)
            if demand is not None:
                wait = demand.send_wait_ms
                longer = (
                    self.colder[name] * demand.send_cpu_ms * (stretched if np.isfinite(stretched) else 1.0)
                )
                found[name] = Atoms(wait.values_ms + longer, wait.probabilities)
        return found


def build_network(
    estimates: SourceEstimates, proposed: PhysicalPlan | Layout, settings: Settings, rate_tps: float
) -> Network:
    """Return the network of a proposed plan.

    Parameters
    ----------
    estimates : SourceEstimates
    proposed : PhysicalPlan or Layout
        A layout of a plan of the same query plan saves laying it out.
    settings : Settings
        The proposed step's.
    rate_tps : float
        Messages a second in all.

    Raises
    ------
    ModelDeclined
        When the plan does not fit the source's query plan, the rate is not positive, or a setting is
        unknown or unreadable.
    """
    return network_builder(estimates, proposed, settings, rate_tps).network()


def network_builder(
    estimates: SourceEstimates, proposed: PhysicalPlan | Layout, settings: Settings, rate_tps: float
) -> NetworkBuilder:
    """Return the builder of a proposed plan's network; parameters and exceptions are ``build_network``'s."""
    require_rate(rate_tps, "proposed")
    if isinstance(proposed, PhysicalPlan):
        require_same_query_plan(estimates.source.plan, proposed)
        layout = lay_out(proposed)
        require_same_tasks(estimates.source, layout)
    else:
        layout = proposed
    return NetworkBuilder(estimates, layout, settings, rate_tps)
