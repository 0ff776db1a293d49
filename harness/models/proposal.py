"""From one observation to the network of a proposed plan.

``prepare`` reads the source once; ``Prepared.network`` then makes the network of any plan of the same query
plan, at any rate, in well under a millisecond for tens of executors.

>>> network = network_of(source, proposed, settings, rate_tps)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from harness.models import contention, hop_times
from harness.models.answers import require_rate
from harness.models.background import ACK_MS, Activity, acker_arrivals, remote_traffic
from harness.models.demand import Demand, demands, host_stretch
from harness.models.evidence import Evidence, read
from harness.models.fan_out import FanOut, FanSums, fan_out, fan_sums
from harness.models.hop_times import HopSums, HopTimes, hop_sums
from harness.models.idling import batching, waiting
from harness.models.inputs import Arriving, Inputs, arriving, spout_inputs
from harness.models.layout import FloatArray, Layout, lay_out, require_same_query_plan, require_same_tasks
from harness.models.network import Atoms, Input, Network, Service, constant
from harness.models.plan_flows import flows
from harness.models.task_routing import Keyed, Places, keyed_routing, places, round_robin
from harness.plans import PhysicalPlan
from harness.protocols import Observation, Settings

HIDDEN_WITH_RATE = 0.5
"""Share of the hidden CPU use (brokers, generator, receiver ...) that goes with the input rate."""


@dataclass(frozen=True)
class Source:
    """What is read of an observation before anything is weighed.

    Attributes
    ----------
    evidence : Evidence
    hops : HopSums, optional
    fans : FanSums, optional
    arrivals : Arriving, optional
        None where there are no hop records.
    """

    evidence: Evidence
    hops: HopSums | None
    fans: FanSums | None
    arrivals: Arriving | None


@dataclass(frozen=True)
class Prepared:
    """What the source says, ready for any proposed plan.

    Attributes
    ----------
    source : Layout
        The source's plan.
    rate_tps : float
        Its input rate.
    keyed : mapping of Stream to array
        Routing that is known by observation only.
    inputs : Inputs
    fans : FanOut
    demand : mapping of component to Demand
    times : HopTimes
    hidden_cores : float
        In use on each host by processes other than the workers, in the source.
    polling : float
        CPU of looking, polling and sending over what the constants of ``background`` say.
    notes : tuple of str
    """

    source: Layout
    rate_tps: float
    keyed: Keyed
    inputs: Inputs
    fans: FanOut
    demand: Mapping[str, Demand]
    times: HopTimes
    hidden_cores: float
    polling: float
    notes: tuple[str, ...]

    def network(self, proposed: PhysicalPlan | Layout, settings: Settings, rate_tps: float) -> Network:
        """Return the network of a proposed plan.

        Parameters
        ----------
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
        require_rate(rate_tps, "proposed")
        if isinstance(proposed, PhysicalPlan):
            require_same_query_plan(self.source.plan, proposed)
            layout = lay_out(proposed)
            require_same_tasks(self.source, layout)
        else:
            layout = proposed
        return _Builder(self, layout, settings, rate_tps).network()


def network_of(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Network:
    """Return the network of a proposed plan; see ``Prepared.network``, to which this adds ``prepare``.

    Raises
    ------
    ModelDeclined
        With the reason, when the source or the plan cannot be used.
    """
    return prepare(source).network(proposed, settings, rate_tps)


def prepare(source: Observation) -> Prepared:
    """Read the source.

    Raises
    ------
    ModelDeclined
        When a metric is missing, negative or not a number, an executor has no observation, components form a
        cycle, or hop records contradict the plan.
    """
    found = examine(source)
    return weigh(found, np.ones(found.evidence.blocks))


def examine(source: Observation) -> Source:
    """Do the part of ``prepare`` that reads data.

    Raises
    ------
    ModelDeclined
        As ``prepare``.
    """
    require_rate(source.rate_tps, "source")
    evidence = read(source)
    bolts = waiting(source.settings, "bolt")
    rates = sum((v.sum() for v in evidence.received.values()), 0.0) / evidence.seconds
    gap_ms = 1000 * len(evidence.layout) / max(float(rates), 1e-9)
    idle_ms = np.full(len(evidence.layout), float(bolts.between_looks_ms(np.array(gap_ms))))
    return Source(
        evidence=evidence,
        hops=hop_sums(evidence, idle_ms),
        fans=fan_sums(evidence),
        arrivals=arriving(evidence, waiting(source.settings, "spout")),
    )


def weigh(source: Source, weights: FloatArray) -> Prepared:
    """Do the part of ``prepare`` that estimates, the interval's blocks weighted.

    Parameters
    ----------
    source : Source
    weights : array (blocks)
        Ones for the estimates themselves.

    Raises
    ------
    ModelDeclined
        As ``prepare``.
    """
    evidence = source.evidence
    plan = evidence.plan.query_plan
    stretched = host_stretch(evidence, weights)
    demand = demands(evidence, weights, stretched, hop_times.before_end_ms(evidence, source.hops, weights))
    inputs = spout_inputs(evidence, weights, source.arrivals)
    by_time = {c.name for c in plan.components if c.window is not None and c.window.kind == "time"}
    execute_ms = np.array(
        [demand[n].wall_ms if n in demand and n not in by_time else np.nan for n in evidence.layout.order]
    )
    idle_ms = waiting(evidence.settings, "bolt").sleep_ms
    times, notes = hop_times.hop_times(source.hops, weights, idle_ms, stretched - 1.0, execute_ms)
    prepared = Prepared(
        source=evidence.layout,
        rate_tps=evidence.rate_tps,
        keyed=keyed_routing(evidence, weights),
        inputs=inputs,
        fans=fan_out(evidence, source.fans, weights, inputs),
        demand=demand,
        times=times,
        hidden_cores=0.0,
        polling=1.0,
        notes=(*inputs.notes, *notes),
    )
    return _with_background(prepared, evidence, weights, stretched)


def _with_background(
    prepared: Prepared, evidence: Evidence, weights: FloatArray, stretched: float
) -> Prepared:
    """Fit what the source's CPU use says: the cost of polling, and what other processes use."""
    builder = _Builder(prepared, evidence.layout, evidence.settings, evidence.rate_tps)
    own = builder.demand_cores()
    expected = builder.activity().worker_cores(evidence.layout)
    at_work = np.bincount(evidence.layout.worker, weights=own + builder.send_cores(), minlength=expected.size)
    notes = prepared.notes
    polling, workers = 1.0, at_work + expected
    if evidence.worker_cores is None:
        notes = (*notes, "no metric of worker processes: what polling costs is assumed")
    else:
        known = ~np.isnan(evidence.worker_cores)
        weight = known * weights
        covered = weight.sum(axis=1) > 0
        measured = np.nan_to_num(evidence.worker_cores * weight).sum(axis=1)[covered]
        measured /= weight.sum(axis=1)[covered]
        polling = max(float((measured - at_work[covered]).sum() / expected[covered].sum()), 0.0)
        workers = at_work + polling * expected
    hosts = builder.hosts
    load = np.bincount(hosts.of_worker, weights=workers, minlength=hosts.cores.size)
    usual = float(own @ own / own.sum()) if own.sum() > 0 else 0.0
    asked = np.array([contention.others_cores(stretched, float(c)) for c in hosts.cores]) + usual**2
    hidden = float(np.maximum(asked - load, 0.0).mean())
    return replace(prepared, hidden_cores=hidden, polling=polling, notes=notes)


class _Builder:
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
        self.scale = self._scale()

    def _scale(self) -> FloatArray:
        """Factor on each executor's service: its tasks' own factors, weighted by what comes to them."""
        found = np.ones(len(self.layout))
        for name, demand in self.prepared.demand.items():
            if demand.scale.size == 1 or (demand.scale == 1.0).all():
                continue
            held, rate = self.layout.membership[name], self.flows.tasks[name]
            total = held @ rate
            alone = held @ demand.scale / held.sum(axis=1)
            weighted = held @ (rate * demand.scale)
            found[self.layout.of[name]] = np.divide(weighted, total, out=alone, where=total > 0)
        return found

    def served(self) -> FloatArray:
        """Tuples a second that bolts' executors serve, by executor of the query plan; 0 for spouts."""
        found = np.zeros(len(self.layout))
        for name, streams in self.flows.into.items():
            if streams:
                found[self.layout.of[name]] = self.layout.membership[name] @ self.flows.tasks[name]
        return found

    def entered(self) -> FloatArray:
        """Messages a second that spouts' executors emit."""
        found = np.zeros(len(self.layout))
        for name, streams in self.flows.into.items():
            if not streams:
                found[self.layout.of[name]] = self.layout.membership[name] @ self.flows.tasks[name]
        return found

    def acks(self) -> FloatArray:
        """Messages a second at ackers."""
        found = np.zeros(len(self.layout))
        found[self.layout.ackers] = acker_arrivals(self.layout, self.served(), self.entered())
        return found

    def demand_cores(self) -> FloatArray:
        """Cores that each executor's tuples need, up to their emits; spouts' and ackers' included."""
        per_tuple = np.zeros(len(self.layout))
        for name, demand in self.prepared.demand.items():
            per_tuple[self.layout.of[name]] = demand.cpu_ms.mean_ms
        for name, cpu_ms in self.prepared.inputs.emit_cpu_ms.items():
            per_tuple[self.layout.of[name]] = cpu_ms
        per_tuple[self.layout.ackers] = ACK_MS
        return (self.served() + self.entered() + self.acks()) * per_tuple * self.scale / 1000

    def send_cores(self) -> FloatArray:
        """Cores that sinks' own clients use."""
        found = np.zeros(len(self.layout))
        for name, demand in self.prepared.demand.items():
            found[self.layout.of[name]] = demand.send_cpu_ms / 1000
        return found * self.served()

    def idle_ms(self, arrivals: FloatArray) -> FloatArray:
        """Length of a sleep at each executor."""
        with np.errstate(divide="ignore"):
            gap_ms = 1000.0 / arrivals
        found = waiting(self.settings, "bolt").between_looks_ms(gap_ms)
        strategy = waiting(self.settings, "spout")
        for name, poll_ms in self.prepared.inputs.poll_ms.items():
            at = self.layout.of[name]
            round_ms = self.layout.membership[name].sum(axis=1) * poll_ms
            finite = np.minimum(gap_ms[at], 1e9)
            found[at] = strategy.between_rounds_ms(finite, round_ms)
        return found

    def activity(self) -> Activity:
        """Return what the executors do beside their work."""
        layout, prepared = self.layout, self.prepared
        served, entered = self.served(), self.entered()
        arrivals = served + entered + self.acks()
        idle_ms = self.idle_ms(arrivals)
        busy = np.zeros(len(layout))
        for name, demand in prepared.demand.items():
            busy[layout.of[name]] = demand.wall_ms
        free = np.maximum(1.0 - arrivals * busy * self.scale / 1000, 0.0)
        looks = free * 1000 / np.maximum(idle_ms, LEAST_LOOK_MS)
        polls = np.zeros(len(layout))
        for name, poll_ms in prepared.inputs.poll_ms.items():
            at = layout.of[name]
            looks[at] = 0.0
            tasks = layout.membership[name].sum(axis=1)
            round_ms = tasks * poll_ms
            empty = np.exp(-entered[at] / 1000 * round_ms)
            rounds = 1000 / (round_ms + empty * idle_ms[at])
            polls[at] = np.maximum(tasks * rounds - entered[at], 0.0)
        remote = remote_traffic(
            layout, self.flows.emitted, self.flows.routing, self.at.holder, served, entered
        )
        return Activity(arrivals, looks, polls, remote)

    def network(self) -> Network:
        """Put the network together."""
        layout, prepared = self.layout, self.prepared
        activity = self.activity()
        own, sending = self.demand_cores(), self.send_cores()
        workers = prepared.polling * activity.worker_cores(layout)
        workers += np.bincount(layout.worker, weights=sending, minlength=workers.size)
        hosts = self.hosts
        growth = self.rate_tps / prepared.rate_tps
        hidden = prepared.hidden_cores * (1 + HIDDEN_WITH_RATE * (growth - 1))
        background = hidden + np.bincount(hosts.of_worker, weights=workers, minlength=hosts.cores.size)
        host = hosts.of_worker[layout.worker]
        demand = background + np.bincount(host, weights=own, minlength=hosts.cores.size)
        stretch = contention.stretch(np.maximum(demand[host] - own**2, 0.0), hosts.cores[host])
        usual = float(own @ stretch / own.sum()) if own.sum() > 0 else 1.0
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
            idle_ms=self.idle_ms(activity.arrivals),
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
            background_cores=np.asarray(background, dtype=np.float64),
            in_turn=inputs.in_turn,
            round_robin=round_robin(layout, self.settings),
            transfer_batch=batches.transfer_batch,
            worker_cores=workers,
            stretch=stretch,
            notes=(*prepared.notes, *full),
        )

    def _service(self) -> Mapping[Input, Service]:
        found = {}
        for name, streams in self.flows.into.items():
            if not streams:
                cpu_ms = self.prepared.inputs.emit_cpu_ms.get(name, 0.0)
                found[Input(name, "", "")] = Service(constant(cpu_ms), constant(0.0))
                continue
            demand = self.prepared.demand[name]
            for s in streams:
                found[Input(name, s.source, s.stream)] = Service(demand.cpu_ms, demand.wait_ms)
        return found

    def _send(self, stretched: float) -> Mapping[str, Atoms]:
        found = {}
        for name in self.query_plan.sinks:
            demand = self.prepared.demand.get(name)
            if demand is not None:
                wait = demand.send_wait_ms
                longer = demand.send_cpu_ms * (stretched if np.isfinite(stretched) else 1.0)
                found[name] = Atoms(wait.values_ms + longer, wait.probabilities)
        return found


LEAST_LOOK_MS = 0.002
"""Time of a look itself, below which a busy-waiting thread cannot go."""
