"""From one observation to the network of a proposed plan.

``prepare`` reads the source once; ``Prepared.network`` then makes the network of any plan of the same query
plan, at any rate, in well under a millisecond for tens of executors.

>>> network = network_of(source, proposed, settings, rate_tps)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from harness.models import hop_times
from harness.models.answers import require_rate
from harness.models.demand import Demand, demands
from harness.models.evidence import Evidence, read
from harness.models.fan_out import FanOut, FanSums, fan_out, fan_sums
from harness.models.hop_times import HopSums, HopTimes, hop_sums
from harness.models.host_stretch import HostStretch, beyond_law, explained, host_stretch
from harness.models.idling import waiting
from harness.models.inputs import Arriving, Inputs, arriving, spout_inputs
from harness.models.layout import FloatArray, Layout, lay_out, require_same_query_plan, require_same_tasks
from harness.models.network import Network
from harness.models.plan_network import Builder
from harness.models.task_routing import Keyed, keyed_routing
from harness.plans import PhysicalPlan
from harness.protocols import Observation, Settings


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
    keyed : mapping of Stream to array
        Routing that is known by observation only.
    inputs : Inputs
    fans : FanOut
    demand : mapping of component to Demand
    times : HopTimes
    beyond : float
        Stretch of computing over what the law says of the workers' CPU use.
    polling : float
        CPU of looking, polling and sending over what the constants of ``background`` say.
    cold_ms : mapping of component to float
        CPU of a tuple that goes with how cold the source's executors were.
    notes : tuple of str
    """

    source: Layout
    keyed: Keyed
    inputs: Inputs
    fans: FanOut
    demand: Mapping[str, Demand]
    times: HopTimes
    beyond: float
    polling: float
    cold_ms: Mapping[str, float]
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
        return self.builder(proposed, settings, rate_tps).network()

    def builder(self, proposed: PhysicalPlan | Layout, settings: Settings, rate_tps: float) -> Builder:
        """Return what makes the network of a proposed plan.

        Parameters
        ----------
        proposed, settings, rate_tps
            As for ``network``.

        Raises
        ------
        ModelDeclined
            As ``network``.
        """
        require_rate(rate_tps, "proposed")
        if isinstance(proposed, PhysicalPlan):
            require_same_query_plan(self.source.plan, proposed)
            layout = lay_out(proposed)
            require_same_tasks(self.source, layout)
        else:
            layout = proposed
        return Builder(self, layout, settings, rate_tps)


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


def weigh(source: Source, weights: FloatArray, luck: float = 0.0) -> Prepared:
    """Do the part of ``prepare`` that estimates, the interval's blocks weighted.

    Parameters
    ----------
    source : Source
    weights : array (blocks)
        Ones for the estimates themselves.
    luck : float
        Of ``host_stretch``; 0 for the estimates themselves.

    Raises
    ------
    ModelDeclined
        As ``prepare``.
    """
    evidence = source.evidence
    plan = evidence.plan.query_plan
    busy = host_stretch(evidence, weights, luck)
    demand = demands(
        evidence, weights, busy.stretched, hop_times.before_end_ms(evidence, source.hops, weights)
    )
    inputs = spout_inputs(evidence, weights, source.arrivals)
    by_time = {c.name for c in plan.components if c.window is not None and c.window.kind == "time"}
    execute_ms = np.array(
        [demand[n].wall_ms if n in demand and n not in by_time else np.nan for n in evidence.layout.order]
    )
    idle_ms = waiting(evidence.settings, "bolt").sleep_ms
    network = hop_times.one_way(evidence.round_trips)
    excess = busy.stretched - 1.0
    times, notes = hop_times.hop_times(source.hops, weights, idle_ms, excess, execute_ms, network)
    if busy.beyond is not None:
        notes = (*notes, "no bolt computes for most of its time: what contention does is assumed")
    prepared = Prepared(
        source=evidence.layout,
        keyed=keyed_routing(evidence, weights),
        inputs=inputs,
        fans=fan_out(evidence, source.fans, weights, inputs),
        demand=demand,
        times=times,
        beyond=1.0,
        polling=1.0,
        cold_ms={},
        notes=(*inputs.notes, *notes),
    )
    return _with_cores(prepared, evidence, weights, busy)


def _with_cores(prepared: Prepared, evidence: Evidence, weights: FloatArray, busy: HostStretch) -> Prepared:
    """Fit what the source's CPU use says: the cost of looking, polling and sending, and of contention."""
    builder = Builder(prepared, evidence.layout, evidence.settings, evidence.rate_tps)
    own = builder.demand_cores
    expected = builder.traffic.activity.worker_cores(evidence.layout.worker)
    at_work = np.bincount(evidence.layout.worker, weights=own + builder.send_cores, minlength=expected.size)
    notes = prepared.notes
    if evidence.worker_cores is None:
        left = explained(evidence.layout, busy.stretched) - at_work.sum()
        polling = min(max(float(left / expected.sum()), 0.0), 1.0)
        notes = (*notes, "no metric of worker processes: their use is taken from how long services last")
    else:
        weight = ~np.isnan(evidence.worker_cores) * weights
        covered = weight.sum(axis=1) > 0
        measured = np.nan_to_num(evidence.worker_cores * weight).sum(axis=1)[covered]
        measured /= weight.sum(axis=1)[covered]
        polling = max(float((measured - at_work[covered]).sum() / expected[covered].sum()), 0.0)
    beyond = busy.beyond
    if beyond is None:
        usual = float(own @ builder.at_once / own.sum()) if own.sum() > 0 else 0.0
        beyond = beyond_law(evidence, busy.stretched, at_work + polling * expected, usual)
    return replace(prepared, beyond=beyond, polling=polling, cold_ms=builder.cold_ms, notes=notes)
