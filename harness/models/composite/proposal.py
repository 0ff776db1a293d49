"""From one observation to the network of a proposed plan.

``prepare`` reads the source once; ``build_network`` then makes the network of any plan of the same query
plan, at any rate, in well under a millisecond for tens of executors.

>>> network = network_of(source, proposed, settings, rate_tps)  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from harness.models.composite.idling import waiting
from harness.models.composite.plan.network_builder import NetworkBuilder, build_network
from harness.models.composite.source import hop_times
from harness.models.composite.source.demand import demands
from harness.models.composite.source.evidence import Evidence, read
from harness.models.composite.source.fan_out import FanSums, fan_out, fan_sums
from harness.models.composite.source.hop_times import HopSums, hop_sums
from harness.models.composite.source.host_stretch import HostStretch, beyond_law, explained, host_stretch
from harness.models.composite.source.inputs import Arriving, arriving, spout_inputs
from harness.models.composite.source.row_costs import RowCosts
from harness.models.composite.source_estimates import SourceEstimates
from harness.models.composite.task_routing import keyed_routing
from harness.models.contract.answers import require_rate
from harness.models.contract.layout import FloatArray
from harness.models.contract.message_costs import SHIPPED_TIMES, MessageTimes
from harness.models.network import Network
from harness.plans import PhysicalPlan
from harness.protocols import Observation, Settings


@dataclass(frozen=True)
class Source:
    """Readings of an observation before anything is weighed.

    Attributes
    ----------
    evidence : Evidence
    hops : HopSums, optional
    fans : FanSums, optional
    arrivals : Arriving, optional
        None where there are no hop records.
    message : MessageTimes
        What a message between workers costs.
    """

    evidence: Evidence
    hops: HopSums | None
    fans: FanSums | None
    arrivals: Arriving | None
    message: MessageTimes = SHIPPED_TIMES


def network_of(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Network:
    """Return the network of a proposed plan; see ``build_network``, to which this adds ``prepare``.

    Raises
    ------
    ModelDeclined
        With the reason, when the source or the plan cannot be used.
    """
    return build_network(prepare(source), proposed, settings, rate_tps)


def prepare(source: Observation) -> SourceEstimates:
    """Read the source.

    Raises
    ------
    ModelDeclined
        When a metric is missing, negative or not a number, an executor has no observation, components form a
        cycle, or hop records contradict the plan.
    """
    found = examine(source)
    return weigh(found, np.ones(found.evidence.blocks))


def examine(source: Observation, message: MessageTimes = SHIPPED_TIMES) -> Source:
    """Do the part of ``prepare`` that reads data.

    Parameters
    ----------
    source : Observation
    message : MessageTimes
        What a message between workers costs; by default what is shipped.

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
        message=message,
    )


def weigh(
    source: Source, weights: FloatArray, luck: float = 0.0, without: frozenset[str] = frozenset()
) -> SourceEstimates:
    """Do the part of ``prepare`` that estimates, the interval's blocks weighted.

    Parameters
    ----------
    source : Source
    weights : array (blocks)
        Ones for the estimates themselves.
    luck : float
        Of ``host_stretch``; 0 for the estimates themselves.
    without : frozenset of str
        Mechanisms that the source's CPU use is read without (``mechanisms.FITTED``).

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
    prepared = SourceEstimates(
        source=evidence.layout,
        keyed=keyed_routing(evidence, weights),
        inputs=inputs,
        fans=fan_out(evidence, source.fans, weights, inputs),
        demand=demand,
        times=times,
        beyond=1.0,
        polling=1.0,
        cold_ms={},
        rows=RowCosts(source.message, evidence.tuple_bytes),
        notes=(*inputs.notes, *notes),
        without=without,
    )
    return _with_cores(prepared, evidence, weights, busy)


def _with_cores(
    prepared: SourceEstimates, evidence: Evidence, weights: FloatArray, busy: HostStretch
) -> SourceEstimates:
    """Fit what the source's CPU use says: the cost of looking, polling and sending, and of contention."""
    builder = NetworkBuilder(prepared, evidence.layout, evidence.settings, evidence.rate_tps)
    if saved := builder.traffic.saved:  # in what tuples cost in the source already
        prepared = replace(prepared, rows=replace(prepared.rows, saved=saved))
        builder = NetworkBuilder(prepared, evidence.layout, evidence.settings, evidence.rate_tps)
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
