"""Mechanisms of the composite model by name, each of which can be switched off to see what it is worth.

``Composite(without={"coldness"})`` is the model without one. What is estimated from the source is switched
off in the estimates, what follows from the plan in its network. Two are asked for while a plan's hosts are
worked out, the source's too (``AT_ONCE``, ``STARTS``). The solver's own approximations have no switch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from harness.errors import UsageError
from harness.models.composite.source_estimates import SourceEstimates
from harness.models.contract.layout import FloatArray
from harness.models.network import Atoms, Hops, Network, Service, constant

AT_ONCE, STARTS, ANCHORING = "at-once", "starts", "anchoring"
"""Names of those that are asked for elsewhere."""
FITTED = frozenset({AT_ONCE, STARTS})
"""Those by which the source's own CPU use is read: without one, the source is read anew."""

OfEstimates = Callable[[SourceEstimates], SourceEstimates]
OfNetwork = Callable[[Network, SourceEstimates], Network]


class Mechanism(NamedTuple):
    """One of the model's mechanisms.

    Attributes
    ----------
    says : str
        What is predicted without it.
    made_by : tuple of str
        Modules, functions and classes that are there for it alone, below ``harness.models.composite``.
    of_estimates, of_network : callable, optional
        How it is taken out of what the source says, or of a plan's network.
    """

    says: str
    made_by: tuple[str, ...] = ()
    of_estimates: OfEstimates | None = None
    of_network: OfNetwork | None = None


def require_known(names: Iterable[str]) -> frozenset[str]:
    """Return the names, if each is a mechanism's.

    Raises
    ------
    UsageError
        Naming the first that is none.

    Examples
    --------
    >>> sorted(require_known(["coldness"]))
    ['coldness']
    """
    asked = tuple(names)
    for name in asked:
        if name not in MECHANISMS:
            raise UsageError(f"composite has no mechanism {name!r}", f"use one of {', '.join(MECHANISMS)}")
    return frozenset(asked)


def without_estimates(estimates: SourceEstimates, names: frozenset[str]) -> SourceEstimates:
    """Return what a source says with mechanisms switched off; of none, itself."""
    if not names:
        return estimates
    found = replace(estimates, without=names)
    for name, mechanism in MECHANISMS.items():
        if name in names and mechanism.of_estimates is not None:
            found = mechanism.of_estimates(found)
    return found


def without_network(network: Network, estimates: SourceEstimates) -> Network:
    """Return a plan's network with the mechanisms off that are off in the estimates; of none, itself."""
    for name, mechanism in MECHANISMS.items():
        if name in estimates.without and mechanism.of_network is not None:
            network = mechanism.of_network(network, estimates)
    return network


def _mean(times: Atoms) -> Atoms:
    return constant(times.mean_ms)


def _cold(estimates: SourceEstimates) -> SourceEstimates:
    return replace(estimates, cold_ms={})


def _beyond(estimates: SourceEstimates) -> SourceEstimates:
    return replace(estimates, beyond=1.0)


def _polling(estimates: SourceEstimates) -> SourceEstimates:
    return replace(estimates, polling=1.0)


def _ahead(estimates: SourceEstimates) -> SourceEstimates:
    return replace(estimates, times=replace(estimates.times, ahead_ms=0.0))


def _round_trips(estimates: SourceEstimates) -> SourceEstimates:
    return replace(estimates, times=replace(estimates.times, network_ms={}))


def _no_client(estimates: SourceEstimates) -> SourceEstimates:
    none = constant(0.0)
    demand = {n: replace(d, send_cpu_ms=0.0, send_wait_ms=none) for n, d in estimates.demand.items()}
    return replace(estimates, demand=demand)


def _as_stretched_before(network: Network, estimates: SourceEstimates) -> Network:
    return replace(network, stretch=np.full(len(network.layout), 1.0 + estimates.times.excess))


def _woken_as_before(network: Network, estimates: SourceEstimates) -> Network:
    return replace(network, hops=estimates.times.hops(estimates.times.excess))


def _even_services(network: Network, _: SourceEstimates) -> Network:
    service = {i: Service(_mean(s.cpu_ms), _mean(s.wait_ms)) for i, s in network.service.items()}
    return replace(network, service=service, send_ms={n: _mean(a) for n, a in network.send_ms.items()})


def _even_hops(network: Network, _: SourceEstimates) -> Network:
    h = network.hops
    pairs = {pair: _mean(a) for pair, a in h.between_pairs_ms.items()}
    plain = _mean(h.within_worker_ms), _mean(h.between_workers_ms), _mean(h.between_nodes_ms)
    return replace(network, hops=Hops(*plain, pairs))


def _even_fan_out(network: Network, _: SourceEstimates) -> Network:
    fans = {i: {o: next_to_mean(p) for o, p in made.items()} for i, made in network.fanout.items()}
    return replace(network, fanout=fans)


def next_to_mean(probabilities: FloatArray) -> FloatArray:
    """Return a number's distribution as the two whole numbers next to its mean.

    Examples
    --------
    >>> next_to_mean(np.array([0.5, 0.0, 0.25, 0.25])).tolist()
    [0.0, 0.75, 0.25]
    """
    mean = float(np.arange(probabilities.size) @ probabilities)
    low = int(mean)
    found = np.zeros(low + 2)
    found[low], found[low + 1] = 1 - (mean - low), mean - low
    return found


def _at_random(network: Network, _: SourceEstimates) -> Network:
    return replace(network, input_scv=1.0, in_turn=False)


def _drawn(network: Network, _: SourceEstimates) -> Network:
    return replace(network, round_robin=frozenset())


def _wide_awake(network: Network, _: SourceEstimates) -> Network:
    layout = network.layout
    idle_ms = network.idle_ms.copy()
    for name in layout.order:
        if name not in network.input_tps:
            idle_ms[layout.of[name]] = 0.0
    idle_ms[layout.ackers] = 0.0
    return replace(network, idle_ms=idle_ms)


def _polls_at_once(network: Network, _: SourceEstimates) -> Network:
    return replace(network, poll_ms=dict.fromkeys(network.poll_ms, 0.0))


def _one_by_one(network: Network, _: SourceEstimates) -> Network:
    return replace(network, batch=1, transfer_batch=1, flush_ms=0.0)


def _rows_alone(network: Network, _: SourceEstimates) -> Network:
    return replace(network, row_batches={}, row_ms={})


MECHANISMS: Mapping[str, Mechanism] = {
    "coldness": Mechanism(
        "a tuple's CPU is the source's, however often executors begin to work",
        ("plan.coldness", "plan.network_builder:NetworkBuilder.cold_ms",
         "plan.network_builder:NetworkBuilder.colder"),
        of_estimates=_cold,
    ),
    "contention": Mechanism(
        "a tuple's CPU time takes as long by the wall clock as in the source",
        of_network=_as_stretched_before,
    ),
    AT_ONCE: Mechanism(
        "executors that work on messages that come together are in nobody's way beyond their mean use",
        ("plan.network_builder:NetworkBuilder.at_once",),
    ),
    "beyond-the-law": Mechanism(
        "what the law of contention does not explain in the source is left out",
        ("source.host_stretch:beyond_law",),
        of_estimates=_beyond,
    ),
    "wake-ups": Mechanism("hops take as long as in the source", of_network=_woken_as_before),
    "own-background": Mechanism(
        "looking, polling and sending cost what they did on the machine that the constants are of",
        of_estimates=_polling,
    ),
    STARTS: Mechanism("each tuple is a start of work", ("plan.starts",)),
    "emits-before-end": Mechanism("tuples set out when their execute ends", of_estimates=_ahead),
    "round-trips": Mechanism("the network takes no time", of_estimates=_round_trips),
    "sink-client": Mechanism("a sink's own client takes no time", of_estimates=_no_client),
    "service-shape": Mechanism("services are constant", of_network=_even_services),
    "hop-shape": Mechanism("hops are constant", of_network=_even_hops),
    "fan-out-shape": Mechanism(
        "as many tuples come of each one as on average", of_network=_even_fan_out
    ),
    "input-regularity": Mechanism("messages come at random", of_network=_at_random),
    "dealing-in-turn": Mechanism("shuffled tuples are dealt at random", of_network=_drawn),
    "sleeps": Mechanism("idle bolts and ackers never sleep", of_network=_wide_awake),
    "empty-polls": Mechanism("a poll that finds nothing takes no time", of_network=_polls_at_once),
    "storm-batches": Mechanism("Storm's own batches are of one tuple", of_network=_one_by_one),
    "row-batches": Mechanism(
        "the rewriting layer's batches are of one tuple",
        ("plan.row_batches", "source.row_costs"),
        of_network=_rows_alone,
    ),
    ANCHORING: Mechanism("without hop records, latencies are as predicted", ("anchoring",)),
}  # fmt: skip
"""All that can be switched off, by name."""
