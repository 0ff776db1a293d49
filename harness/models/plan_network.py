"""The network of one proposed plan, from what a source says (``proposal``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from harness.models import contention
from harness.models.atoms import scaled
from harness.models.background import ACK_MS, LOOK_MS, Activity, acker_arrivals, remote_traffic
from harness.models.coldness import cold_ms
from harness.models.host_stretch import HIDDEN_CORES
from harness.models.idling import batching, waiting
from harness.models.layout import FloatArray, Layout
from harness.models.network import Atoms, Input, Network, Service, constant
from harness.models.plan_flows import flows
from harness.models.starts import starts
from harness.models.task_routing import Places, places, round_robin
from harness.protocols import Settings

if TYPE_CHECKING:
    from harness.models.proposal import Prepared

LEAST_OF_CPU = 0.25
"""Of a component's CPU time in the source, what is left at least when its executors stay warm."""


class Builder:
    """One proposed plan under construction."""

    def __init__(self, prepared: Prepared, layout: Layout, settings: Settings, rate_tps: float) -> None:
        self.prepared = prepared
        self.layout = layout
        self.settings = settings
        self.rate_tps = rate_tps
        self.query_plan = layout.plan.query_plan
        self.at: Places = places(layout)
        self.hosts = contention.hosts(layout)
        observed = (prepared.keyed, prepared.inputs, prepared.fans)
        self.flows = flows(layout, self.at, settings, rate_tps, observed)
        self.held = {n: layout.by_executor(n, np.ones(tasks.size)) for n, tasks in layout.tasks.items()}
        self.scale = self._scale()

    def _scale(self) -> FloatArray:
        """Factor on each executor's service: its tasks' own factors, weighted by what comes to them."""
        found = np.ones(len(self.layout))
        for name, demand in self.prepared.demand.items():
            if demand.scale.size == 1 or (demand.scale == 1.0).all():
                continue
            rate, add = self.flows.tasks[name], self.layout.by_executor
            total = add(name, rate)
            alone = add(name, demand.scale) / self.held[name]
            weighted = add(name, rate * demand.scale)
            found[self.layout.of[name]] = np.divide(weighted, total, out=alone, where=total > 0)
        return found

    @cached_property
    def served(self) -> FloatArray:
        """Tuples a second that bolts' executors serve, by executor of the query plan; 0 for spouts."""
        found = np.zeros(len(self.layout))
        for name, streams in self.flows.into.items():
            if streams:
                found[self.layout.of[name]] = self.layout.by_executor(name, self.flows.tasks[name])
        return found

    @cached_property
    def entered(self) -> FloatArray:
        """Messages a second that spouts' executors emit."""
        found = np.zeros(len(self.layout))
        for name, streams in self.flows.into.items():
            if not streams:
                found[self.layout.of[name]] = self.layout.by_executor(name, self.flows.tasks[name])
        return found

    @cached_property
    def acks(self) -> FloatArray:
        """Messages a second at ackers."""
        found = np.zeros(len(self.layout))
        found[self.layout.ackers] = acker_arrivals(self.layout, self.served, self.entered)
        return found

    @cached_property
    def arrivals(self) -> FloatArray:
        """Tuples and messages a second that come to each executor."""
        return self.served + self.entered + self.acks

    def demand_cores(self) -> FloatArray:
        """Cores that each executor's tuples need, up to their emits; spouts' and ackers' included."""
        per_tuple = np.zeros(len(self.layout))
        for name, demand in self.prepared.demand.items():
            per_tuple[self.layout.of[name]] = self.colder[name] * demand.cpu_ms.mean_ms
        for name, cpu_ms in self.prepared.inputs.emit_cpu_ms.items():
            per_tuple[self.layout.of[name]] = cpu_ms
        per_tuple[self.layout.ackers] = ACK_MS
        return self.arrivals * per_tuple * self.scale / 1000

    @cached_property
    def cold_ms(self) -> Mapping[str, float]:
        """CPU of a tuple that goes with how cold its executors are, by component with an input."""
        worker = self.layout.worker
        of_worker = np.bincount(worker, weights=self.arrivals).astype(np.float64)[worker]
        found = {}
        for name, demand in self.prepared.demand.items():
            at = self.layout.of[name]
            found[name] = cold_ms(demand.total_cpu_ms, self.starts[at], self.served[at], of_worker[at])
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

    def send_cores(self) -> FloatArray:
        """Cores that sinks' own clients use."""
        found = np.zeros(len(self.layout))
        for name, demand in self.prepared.demand.items():
            found[self.layout.of[name]] = self.colder[name] * demand.send_cpu_ms / 1000
        return found * self.served

    @cached_property
    def idle_ms(self) -> FloatArray:
        """Length of a sleep at each executor."""
        with np.errstate(divide="ignore"):
            gap_ms = 1000.0 / self.arrivals
        found = waiting(self.settings, "bolt").between_looks_ms(gap_ms)
        strategy = waiting(self.settings, "spout")
        for name, poll_ms in self.prepared.inputs.poll_ms.items():
            at = self.layout.of[name]
            round_ms = self.held[name] * poll_ms
            finite = np.minimum(gap_ms[at], 1e9)
            found[at] = strategy.between_rounds_ms(finite, round_ms)
        return found

    @cached_property
    def wall_ms(self) -> FloatArray:
        """Time of a bolt's tuple by the wall clock, as it was in the source."""
        found = np.zeros(len(self.layout))
        for name, demand in self.prepared.demand.items():
            found[self.layout.of[name]] = demand.wall_ms
        return found * self.scale

    @cached_property
    def round_ms(self) -> FloatArray:
        """Time from one look of a spout's executor at a task to the next one at it; 0 for all others."""
        found = np.zeros(len(self.layout))
        for name, poll_ms in self.prepared.inputs.poll_ms.items():
            at = self.layout.of[name]
            polled_ms = self.held[name] * poll_ms
            empty = np.exp(-self.entered[at] / 1000 * polled_ms)
            found[at] = polled_ms + empty * self.idle_ms[at]
        return found

    @cached_property
    def starts(self) -> FloatArray:
        """How often in a second each executor begins to work; 0 for ackers."""
        batches = batching(self.settings)
        return starts(self.layout, self.flows, batches, self.round_ms, self.idle_ms, self.wall_ms)

    def activity(self) -> Activity:
        """Return what the executors do beside their work."""
        layout, entered = self.layout, self.entered
        free = np.maximum(1.0 - self.arrivals * self.wall_ms / 1000, 0.0)
        looks = free * 1000 / np.maximum(self.idle_ms, LOOK_MS)
        polls, consumers = (np.zeros(len(layout)) for _ in range(2))
        for name in self.prepared.inputs.poll_ms:
            at = layout.of[name]
            looks[at] = 0.0
            consumers[at] = 1.0
            polls[at] = np.maximum(self.held[name] * 1000 / self.round_ms[at] - entered[at], 0.0)
        sends = np.zeros(len(layout))
        for name in self.query_plan.sinks:
            sends[layout.of[name]] = self.starts[layout.of[name]]
        remote = remote_traffic(
            layout, self.flows.emitted, self.flows.routing, self.at.holder, self.served, entered
        )
        return Activity(looks, polls, consumers, np.where(entered > 0, self.starts, 0.0), sends, remote)

    @cached_property
    def at_once(self) -> FloatArray:
        """Other executors of its host at work, on messages that come together, whenever each one is."""
        work_ms = (self.demand_cores() + self.send_cores()) * 1000 / self.rate_tps
        found = float(self.starts[self.entered > 0].sum())
        together = max(self.rate_tps / found, 1.0) if found > 0 else 1.0
        return contention.at_once(work_ms, self.hosts.of_worker[self.layout.worker], together)

    def network(self) -> Network:
        """Put the network together."""
        layout, prepared = self.layout, self.prepared
        activity = self.activity()
        own, sending = self.demand_cores(), self.send_cores()
        workers = prepared.polling * activity.worker_cores(layout)
        workers += np.bincount(layout.worker, weights=sending, minlength=workers.size)
        hosts = self.hosts
        of_workers = np.bincount(hosts.of_worker, weights=workers, minlength=hosts.cores.size)
        background = HIDDEN_CORES * hosts.shared + of_workers
        host = hosts.of_worker[layout.worker]
        demand = background + np.bincount(host, weights=own, minlength=hosts.cores.size)
        stretch = contention.stretch(np.maximum(demand[host] - own**2, 0.0), hosts.cores[host], self.at_once)
        stretch = np.maximum(prepared.beyond * stretch, 1.0)
        usual = float(own[own > 0] @ stretch[own > 0] / own.sum()) if own.sum() > 0 else 1.0
        full = tuple(
            f"host {h}: {d:.2f} cores are asked for, {c:g} are there"
            for h, (d, c) in enumerate(zip(demand, hosts.cores, strict=True))
            if d >= c
        )
        batches = batching(self.settings)
        inputs = prepared.inputs
        return Network(
            layout=layout,
            input_tps={n: self.flows.tasks[n] for n in self.query_plan.spouts},
            input_scv=inputs.scv,
            poll_ms={n: inputs.poll_ms.get(n, 0.0) for n in self.query_plan.spouts},
            idle_ms=self.idle_ms,
            routing=self.flows.routing,
            fanout=prepared.fans,
            service=self._service(),
            service_scale=self.scale,
            windows={c.name: c.window for c in self.query_plan.components if c.window is not None},
            hops=prepared.times.hops(usual - 1.0),
            batch=batches.batch,
            flush_ms=batches.flush_ms,
            send_ms=self._send(usual),
            acks=layout.ackers.stop > layout.ackers.start,
            acker_service_ms=constant(ACK_MS),
            host=hosts.of_worker,
            cores=hosts.cores,
            background_cores=background,
            in_turn=inputs.in_turn,
            round_robin=round_robin(layout, self.settings),
            transfer_batch=batches.transfer_batch,
            worker_cores=workers,
            stretch=stretch,
            notes=(*prepared.notes, *full, *self._unprobed()),
        )

    def _unprobed(self) -> tuple[str, ...]:
        """Say between which of the plan's nodes no round trip was measured, where others' were."""
        probed = self.prepared.times.network_ms
        nodes = sorted({node for node, _ in self.layout.workers})
        return tuple(
            f"no round trip between {one} and {other} was measured: the network is assumed to take no time"
            for one, other in combinations(nodes, 2)
            if probed and (one, other) not in probed
        )

    def _service(self) -> Mapping[Input, Service]:
        found = {}
        for name, streams in self.flows.into.items():
            if not streams:
                cpu_ms = self.prepared.inputs.emit_cpu_ms.get(name, 0.0)
                found[Input(name, "", "")] = Service(constant(cpu_ms), constant(0.0))
                continue
            demand = self.prepared.demand[name]
            cpu = scaled(demand.cpu_ms, self.colder[name] * demand.cpu_ms.mean_ms)
            for s in streams:
                found[Input(name, s.source, s.stream)] = Service(cpu, demand.wait_ms)
        return found

    def _send(self, stretched: float) -> Mapping[str, Atoms]:
        found = {}
        for name in self.query_plan.sinks:
            demand = self.prepared.demand.get(name)
            if demand is not None:
                wait = demand.send_wait_ms
                longer = (
                    self.colder[name] * demand.send_cpu_ms * (stretched if np.isfinite(stretched) else 1.0)
                )
                found[name] = Atoms(wait.values_ms + longer, wait.probabilities)
        return found
