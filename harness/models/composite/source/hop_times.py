"""Times of hops, from the hop records of tuples that found their receiver idle.

The hop of such a tuple has independent parts, one after another. On the way to another worker come the rest
of the transfer thread's sleep (even over ``TRANSFER_SLEEP_MS``) and the network. Then comes the rest of the
receiver's own sleep (even over the settings' sleep). The rest of the measured time is the hop's own, taken as
lognormal with the mean and the variance that are left; docs/model.md has a section on hops.

Between nodes whose round trips were measured, the network's part is not the hop's own. Half of a round trip
of that pair (thesis 4.11) is taken off the times measured between them, and put on any hop between them.
Between nodes of which no round trip is known, the median of the known ones is assumed.

A busy host delays every wake-up. The delay grows with the square of the time that contention adds to a unit
of CPU time (``WAKE_MS``). So a hop is moved from the source's contention to the proposed plan's by the
difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.models.composite.atoms import even, lognormal, merged, scaled, shifted, sum_of
from harness.models.composite.idling import TRANSFER_SLEEP_MS
from harness.models.composite.source.evidence import Evidence
from harness.models.composite.source.hop_records import HopRecords, grouped
from harness.models.contract.layout import BoolArray, FloatArray, IntArray, NodePair, node_pair
from harness.models.contract.observe import RoundTrips
from harness.models.network import (
    BETWEEN_NODES,
    BETWEEN_WORKERS,
    WITHIN,
    Atoms,
    Hops,
    constant,
)
from harness.plans import batched_streams

WAKE_MS = np.array([0.12, 0.3, 0.3])
"""Milliseconds that contention adds to a hop of each kind for a squared excess of 1 (docs/model.md)."""
ALONE_MS = np.array([0.02, 0.37, 0.37])
"""Time that a hop takes beyond its sleeps without contention, where the source shows none of its kind."""
ALONE_SCV = np.array([10.0, 4.0, 4.0])
"""Squared coefficient of variation that goes with it."""
_SLEEP = even(TRANSFER_SLEEP_MS)
"""The rest of the transfer thread's sleep, which every hop to another worker begins with."""
ENOUGH = 100
"""Rows of a kind that an estimate is made from."""
_SCV_LEAST, _SCV_MOST = 0.05, 30.0


@dataclass(frozen=True)
class HopSums:
    """Legs whose receiver was idle, added up.

    Attributes
    ----------
    number, total_ms, total_ms2 : array (kinds, blocks)
        Of edge times, less what the network takes of them where it was measured: its mean from each, its
        variance from each square.
    ahead_rows, ahead_ms : array (components, blocks)
        How far a component's emits come before the end of its execute: rows, and the sum over them of the
        time from reception to emit (of a window: of its last member).
    end_visits, end_ms : array (components, blocks)
        The same of sinks up to the ground truth's end, each tuple once; 0 for others.
    """

    number: FloatArray
    total_ms: FloatArray
    total_ms2: FloatArray
    ahead_rows: FloatArray
    ahead_ms: FloatArray
    end_visits: FloatArray
    end_ms: FloatArray


def kinds(worker: IntArray, node: IntArray, one_host: bool) -> IntArray:
    """Return the kind of hop between executors (executors, executors).

    On one host nodes pass tuples over its loopback like workers, so those two kinds are one there.
    """
    apart = np.where(worker[:, None] == worker[None, :], WITHIN, BETWEEN_WORKERS)
    if one_host:
        return apart
    return np.asarray(np.where(node[:, None] == node[None, :], apart, BETWEEN_NODES))


def one_way(round_trips: RoundTrips) -> dict[NodePair, Atoms]:
    """Return the distribution of half a round trip between nodes (thesis 4.11); its mean is exact.

    Examples
    --------
    >>> one_way({("node-1", "node-2"): np.array([0.2, 0.6])})["node-1", "node-2"].values_ms
    array([0.1, 0.3])
    """
    return {pair: merged(ms / 2, np.ones(ms.size)) for pair, ms in round_trips.items()}


def usual_way(ways: Mapping[NodePair, Atoms]) -> Atoms:
    """Return what the network is taken to need between nodes of which no round trip is known.

    The median of the known pairs' means, with the shape of the pair that has it, or of the one below it. No
    time at all where no pair is known.

    Examples
    --------
    >>> round_trips_ms = {("a", "b"): [2.0], ("a", "c"): [4.0], ("b", "c"): [20.0]}
    >>> usual_way(one_way({pair: np.array(ms) for pair, ms in round_trips_ms.items()})).mean_ms
    2.0
    """
    if not ways:
        return constant(0.0)
    known = sorted(ways.values(), key=lambda way: way.mean_ms)
    return scaled(known[(len(known) - 1) // 2], float(np.median([way.mean_ms for way in known])))


def hop_sums(evidence: Evidence, idle_ms: FloatArray) -> HopSums | None:
    """Add up the legs whose receiver was idle; None without hop records.

    A receiver was idle when the tuple was sent more than one and a half sleeps, and 1 ms, after its last
    tuple was done. By then the receiver has gone from looking to sleeping, and its phase is any. Where tuples
    travel in batches of the rewriting layer, legs are left out: waiting for the batch is in them.

    Parameters
    ----------
    idle_ms : array (executors)
        Length of a sleep at each executor of the source.
    """
    records = evidence.hops
    if records is None:
        return None
    layout = evidence.layout
    legs = records.legs
    done_ms = _done_ms(evidence, records, legs)
    visit = records.visits(legs)
    order = np.argsort(visit, kind="stable")
    starts = np.flatnonzero(np.diff(visit[order], prepend=-1))
    first = order[starts]  # one leg of every visit, by executor and time
    executor, end = records.executor[legs][first], np.maximum.reduceat(done_ms[order], starts)
    before = np.full(first.size, -np.inf)
    same = np.flatnonzero(executor[1:] == executor[:-1]) + 1
    before[same] = end[same - 1]
    sent_ms = records.emitted_ms[legs - 1]
    quiet_ms = sent_ms - before[visit]
    idle = quiet_ms > 1.5 * idle_ms[records.executor[legs]] + 1.0
    idle &= before[visit] > -np.inf
    idle &= ~_batched(evidence, records, legs)
    edge = records.received_ms[legs] - sent_ms
    names = {n.name: i for i, n in enumerate(layout.plan.nodes)}
    node = np.array([names[e.worker.node] for e in layout.executors])
    one_host = len({n.host for n in layout.plan.nodes}) == 1
    kind = kinds(layout.worker, node, one_host)[records.executor[legs - 1], records.executor[legs]]
    block = records.block[records.row[legs]]
    shape = (3, evidence.blocks)
    flat = (kind * evidence.blocks + block)[idle]

    def sums(weights: FloatArray) -> FloatArray:
        return np.asarray(
            np.bincount(flat, weights=weights, minlength=shape[0] * shape[1]).reshape(shape), dtype=np.float64
        )

    network_ms, network_ms2 = _network(evidence, records, legs[idle])
    chosen = edge[idle] - network_ms
    rows, ahead = _ahead(evidence, records, legs, block)
    ends = _ends(evidence, records, legs[first], block[first])
    return HopSums(
        sums(np.ones(chosen.size)), sums(chosen), sums(chosen**2 - network_ms2), rows, ahead, *ends
    )


def _batched(evidence: Evidence, records: HopRecords, legs: IntArray) -> BoolArray:
    """Return which legs may have waited for a batch."""
    number = {name: i for i, name in enumerate(evidence.layout.order)}
    found = np.zeros((len(number), len(number)), dtype=np.bool_)
    for stream in batched_streams(evidence.plan.query_plan, evidence.settings.batching):
        found[number[stream.source], number[stream.target]] = True
    return np.asarray(found[records.component[legs - 1], records.component[legs]])


def _network(evidence: Evidence, records: HopRecords, legs: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the network's part of legs, in ms; 0 where no round trip was measured."""
    nodes = [node for node, _ in evidence.layout.workers]
    found = np.zeros((2, len(nodes), len(nodes)))
    for pair, ms in one_way(evidence.round_trips).items():
        for i, j in np.argwhere([[node_pair(a, b) == pair for b in nodes] for a in nodes]):
            found[:, i, j] = ms.mean_ms, ms.second_moment_ms2 - ms.mean_ms**2
    worker = evidence.layout.worker
    here, there = worker[records.executor[legs - 1]], worker[records.executor[legs]]
    mean, variance = found[:, here, there]
    return mean, variance


def _done_ms(evidence: Evidence, records: HopRecords, legs: IntArray) -> FloatArray:
    """Return when the receiver was done with each leg's tuple: emit, or where it joins a window, receipt."""
    plan = evidence.plan.query_plan
    done = records.emitted_ms[legs].copy()
    for number, name in enumerate(evidence.layout.order):
        if plan.component(name).window is not None:
            mine = records.component[legs] == number
            done[mine] = records.received_ms[legs][mine]
    return done


def _ahead(
    evidence: Evidence, records: HopRecords, legs: IntArray, block: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return rows and milliseconds from reception to emit of the components that are sent on from."""
    layout, plan = evidence.layout, evidence.plan.query_plan
    rows = np.zeros((len(layout.order), evidence.blocks))
    ahead = np.zeros_like(rows)
    here = legs - 1  # the hop that each leg comes from
    for number, name in enumerate(layout.order):
        mine = np.flatnonzero(records.component[here] == number)
        if not mine.size:
            continue
        spent = records.emitted_ms[here[mine]] - records.received_ms[here[mine]]
        window = plan.component(name).window
        if window is not None:
            order, starts = grouped([records.task[here[mine]], records.emitted_ms[here[mine]]])
            last = np.minimum.reduceat(spent[order], starts)
            size = np.diff(np.append(starts, order.size))
            spent[order] = np.repeat(last, size)
            if (
                window.kind == "count"
            ):  # of a window at the interval's ends the last member is not in the rows
                mine = mine[order][np.repeat(size >= window.slide, size)]
                spent = spent[order][np.repeat(size >= window.slide, size)]
        rows[number] = np.bincount(block[mine], minlength=evidence.blocks)
        ahead[number] = np.bincount(block[mine], weights=spent, minlength=evidence.blocks)
    return rows, ahead


def _ends(
    evidence: Evidence, records: HopRecords, visits: IntArray, block: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return visits and milliseconds from reception to the ground truth's end at sinks."""
    shape = (len(evidence.layout.order), evidence.blocks)
    sinks = [name in evidence.plan.query_plan.sinks for name in evidence.layout.order]
    last = np.array(sinks)[records.component[visits]]
    at = visits[last]
    flat = records.component[at] * evidence.blocks + block[last]
    spent_ms = records.emitted_ms[at] - records.received_ms[at]
    found = [
        np.bincount(flat, weights=w, minlength=shape[0] * shape[1]) for w in (np.ones(at.size), spent_ms)
    ]
    visited, spent = (np.asarray(f.reshape(shape), dtype=np.float64) for f in found)
    return visited, spent


@dataclass(frozen=True)
class HopTimes:
    """Times of hops beyond their sleeps, by kind, in the source.

    Attributes
    ----------
    mean_ms, scv : array (kinds)
    ahead_ms : float
        How much earlier a tuple sets out than at the end of its execute, on average over hops.
    excess : float
        What contention adds to a unit of CPU time in the source.
    network_ms : mapping of NodePair to Atoms
        What the network takes between nodes on top, where round trips were measured.
    """

    mean_ms: FloatArray
    scv: FloatArray
    ahead_ms: float
    excess: float
    network_ms: Mapping[NodePair, Atoms] = field(default_factory=dict)

    def hops(self, excess: float) -> Hops:
        """Return the hops of a plan whose contention adds that much to a unit of CPU time."""
        more = WAKE_MS * (squared(excess) - squared(self.excess))
        mean_ms, scv = np.maximum(self.mean_ms + more, 0.0).tolist(), self.scv.tolist()
        own = [lognormal(*both) for both in zip(mean_ms, scv, strict=True)]
        within, workers, nodes = own[WITHIN], *(sum_of(_SLEEP, o) for o in own[BETWEEN_WORKERS:])
        pairs = {pair: sum_of(nodes, way) for pair, way in self.network_ms.items()}
        if self.network_ms:
            nodes = sum_of(nodes, usual_way(self.network_ms))
        return Hops(
            within_worker_ms=shifted(within, -self.ahead_ms),
            between_workers_ms=shifted(workers, -self.ahead_ms),
            between_nodes_ms=shifted(nodes, -self.ahead_ms),
            between_pairs_ms={pair: shifted(whole, -self.ahead_ms) for pair, whole in pairs.items()},
        )


_MOST_EXCESS = 3.0
"""Beyond, the host is all but saturated and the square says too much."""


def squared(excess: float) -> float:
    """Return the factor on delays of wake-ups, where contention adds ``excess`` to a unit of CPU time."""
    return min(excess, _MOST_EXCESS) ** 2


def hop_times(
    sums: HopSums | None,
    weights: FloatArray,
    idle_ms: float,
    excess: float,
    execute_ms: FloatArray,
    network_ms: Mapping[NodePair, Atoms] | None = None,
) -> tuple[HopTimes, tuple[str, ...]]:
    """Estimate what hops take beyond their sleeps.

    Parameters
    ----------
    sums : HopSums, optional
    weights : array (blocks)
    idle_ms : float
        A bolt's sleep in the source.
    excess : float
        What contention adds to a unit of CPU time in the source.
    execute_ms : array (components)
        Mean execute by the wall clock; NaN for those whose emits do not end it (spouts, time windows).
    network_ms : mapping of NodePair to Atoms, optional
        What the network takes between nodes, where round trips were measured.

    Returns
    -------
    times : HopTimes
    notes : tuple of str
        The kinds that were assumed.
    """
    mean = ALONE_MS + WAKE_MS * min(excess, _MOST_EXCESS) ** 2
    scv = ALONE_SCV.copy()
    network_ms = network_ms or {}
    if sums is None:
        return HopTimes(mean, scv, 0.0, excess, network_ms), ("no hop records: what hops take is assumed",)
    ahead = _mean_ahead(sums, weights, execute_ms)
    notes = []
    for kind in range(3):
        number = float(sums.number[kind] @ weights)
        if number < ENOUGH:
            continue
        edge = float(sums.total_ms[kind] @ weights) / number
        variance = float(sums.total_ms2[kind] @ weights) / number - edge**2
        sleeps = [idle_ms] if kind == WITHIN else [idle_ms, TRANSFER_SLEEP_MS]
        own = edge - sum(sleeps) / 2
        mean[kind] = max(own, 0.0)
        left = variance - sum(s * s for s in sleeps) / 12
        scv[kind] = np.clip(left / own**2 if own > 0 else 0.0, _SCV_LEAST, _SCV_MOST)
    seen = [float(n @ weights) >= ENOUGH for n in sums.number]
    if seen[BETWEEN_WORKERS] != seen[BETWEEN_NODES]:  # the best that is known of the one is the other
        known, other = (1, 2) if seen[1] else (2, 1)
        mean[other], scv[other] = mean[known], scv[known]
        seen[other] = True
    for kind, name in enumerate(("within a worker", "between workers")):
        if not seen[kind]:
            notes.append(f"no tuple that met an idle receiver went {name}: what such hops take is assumed")
    return HopTimes(mean, scv, ahead, excess, network_ms), tuple(notes)


def _mean_ahead(sums: HopSums, weights: FloatArray, execute_ms: FloatArray) -> float:
    """Return how much of an execute comes after its emits, averaged over the hops of all rows."""
    rows = sums.ahead_rows @ weights
    spent = np.divide(sums.ahead_ms @ weights, rows, out=np.zeros(rows.size), where=rows > 0)
    after = np.where(np.isnan(execute_ms), 0.0, execute_ms - spent)
    return float(rows @ after / rows.sum()) if rows.sum() > 0 else 0.0


def before_end_ms(evidence: Evidence, sums: HopSums | None, weights: FloatArray) -> dict[str, float]:
    """Return the sinks' mean time from reception to the ground truth's end, where hop records say it."""
    if sums is None:
        return {}
    visits, spent_ms = sums.end_visits @ weights, sums.end_ms @ weights
    return {
        name: float(spent_ms[i] / visits[i]) for i, name in enumerate(evidence.layout.order) if visits[i] > 0
    }
