"""DRS's model: components as M/M/c queues of a Jackson network, one server an executor.

Fu et al. 2015 (thesis 3.2.1). A component's executors share its load evenly, whatever the grouping, so that
routing and placement play no part. With arrivals at rate lambda, a mean service time 1/mu and k executors, a
tuple stays on average

    E[T] = 1/mu + C(k, lambda/mu) / (k mu - lambda)

where C is Erlang's probability of waiting. DRS's latency of a message is the time spent on it and on all
tuples made of it, one after the other:

    E[T] = sum over components of lambda_i E[T_i] / lambda_0

As DRS's authors do, this latency is compared with Storm's complete latency. The ground truth belongs to one
output and its one way through the topology. There sojourns are added along the way, and ways that meet are
weighted by the tuples that they bring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.answers import (
    STATISTICS,
    Saturated,
    answer,
    by_executor,
    declined,
    number,
    observe_for,
)
from harness.models.contract.layout import Layout, outputs
from harness.models.contract.observe import Measured, io_label
from harness.plans import PhysicalPlan, Stream, connection_label
from harness.protocols import Estimate, Observation, Prediction, Settings
from harness.schemas import Measure

NOTES = """\
DRS (Fu et al. 2015; thesis 3.2.1): an open Jackson network of M/M/c queues, a component a queue, its
executors the servers. Load is taken as even over a component's executors, also behind fields grouping. Rates
grow with the input rate; service times are the source step's means by the wall clock. Complete latency is
DRS's expected total sojourn (a message's own and that of all tuples made of it, added up); ground truth is
the sum of sojourns along an output's way. Nothing is known of windows, of Storm's own waiting, of transfer,
batches and acks; by the thesis's reading of their figures DRS's authors were 30 to 90 % low.
A component at a load of 1 or more is saturated: then there is no latency, and throughput is what is
sustainable. Declined: ack latency (DRS knows no way back) and what is over paths between executors;
percentiles are not given."""


def jackson(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
    """Predict by an M/M/c network.

    Parameters
    ----------
    source : Observation
        What was measured of the source plan.
    proposed : PhysicalPlan
        Of the same query plan.
    settings : Settings
        Not used.
    rate_tps : float
        Messages a second in the proposed step.
    """
    del settings
    try:
        measured, layout = observe_for(source, proposed, rate_tps)
        queues = stations(measured, layout, rate_tps / source.rate_tps)
    except ModelDeclined as why:
        return declined(proposed, why)
    return answer(
        proposed,
        [
            ((Measure.ROUTING,), lambda: _routing(layout)),
            ((Measure.IO_RATIO,), lambda: _io_ratios(measured, layout)),
            ((Measure.ARRIVALS,), lambda: _by_component(layout, queues, Measure.ARRIVALS)),
            ((Measure.SERVICE,), lambda: _by_component(layout, queues, Measure.SERVICE)),
            ((Measure.GROUND_TRUTH,), lambda: _ground_truth(measured, layout, queues)),
            ((Measure.COMPLETE,), lambda: _complete(queues, rate_tps)),
            ((Measure.ACK,), _no_ack_latency),
            ((), lambda: _capacity(layout, queues, rate_tps)),
        ],
    )


@dataclass(frozen=True)
class Station:
    """One component as a queue with several servers.

    Attributes
    ----------
    arrivals_tps : float
        Tuples a second, over all executors.
    service_ms : float
        Mean service time; NaN where none was timed.
    servers : int
        Executors.
    """

    arrivals_tps: float
    service_ms: float
    servers: int

    @property
    def offered(self) -> float:
        """Mean number of servers that the arrivals keep busy; 0 without any."""
        return self.arrivals_tps * self.service_ms / 1000 if self.arrivals_tps > 0 else 0.0

    @property
    def utilisation(self) -> float:
        """Load of each server."""
        return self.offered / self.servers

    @property
    def sojourn_ms(self) -> float:
        """Mean time from a tuple's arrival to the end of its service.

        Examples
        --------
        M/M/1: 1 / (mu - lambda).

        >>> Station(arrivals_tps=500.0, service_ms=1.0, servers=1).sojourn_ms
        2.0
        """
        waiting = erlang_c(self.servers, self.offered) / (self.servers - self.offered)
        return self.service_ms * (1 + waiting)


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that a tuple has to wait in M/M/c.

    Parameters
    ----------
    servers : int
    offered : float
        Arrival rate times mean service time, below the number of servers.

    Examples
    --------
    >>> round(erlang_c(3, 2.0), 6)
    0.444444
    """
    blocked = 1.0  # Erlang's loss formula, one server more at a time
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def stations(measured: Measured, proposed: Layout, scale: float) -> Mapping[str, Station]:
    """Return the bolts' queues in downstream order; ``scale`` is proposed over source input rate."""
    found = {}
    for name in _bolts(proposed):
        count = float(measured.service_count(name).sum())
        service_ms = float(measured.service_ms_buckets[name].sum()) / count if count > 0 else float("nan")
        arrivals = float((measured.arrivals(name) / measured.seconds[name]).sum()) * scale
        found[name] = Station(arrivals, service_ms, len(proposed.plan.of(name)))
    return found


def _bolts(layout: Layout) -> list[str]:
    return [name for name in layout.order if layout.plan.query_plan.inputs(name)]


def _require_queues(queues: Mapping[str, Station]) -> None:
    """Refuse a component whose service is unknown, and then one that is overloaded."""
    for name, queue in queues.items():
        if np.isnan(queue.offered):
            raise ModelDeclined(f"metric service of {name} is missing from the source step")
    over = [f"{name} (load {q.utilisation:.2f})" for name, q in queues.items() if q.utilisation >= 1]
    if over:
        raise Saturated(f"overloaded: {', '.join(over)}")


def _ground_truth(measured: Measured, layout: Layout, queues: Mapping[str, Station]) -> list[Estimate]:
    """Add sojourns along the ways from the spouts, in downstream order."""
    _require_queues(queues)
    query_plan = layout.plan.query_plan
    until_ms: dict[str, float] = dict.fromkeys(query_plan.spouts, 0.0)
    for name, queue in queues.items():
        brought = {s: float(measured.received(s).sum()) for s in query_plan.inputs(name)}
        total = sum(brought.values())
        if total > 0:
            before = sum(count * until_ms[s.source] for s, count in brought.items() if count > 0)
            until_ms[name] = before / total + queue.sojourn_ms
    sinks = {name: until_ms[name] for name in query_plan.sinks if name in until_ms and name in queues}
    weight = sum(queues[name].arrivals_tps for name in sinks)
    if not weight > 0:
        raise ModelDeclined("nothing arrived at a sink in the source step")
    mean = sum(queues[name].arrivals_tps * value for name, value in sinks.items()) / weight
    found = [
        Estimate(Measure.GROUND_TRUTH, "mean", value, name) for name, value in {"": mean, **sinks}.items()
    ]
    return [*found, _without_paths(Measure.GROUND_TRUTH)]


def _without_paths(measure: str) -> Estimate:
    """Return the gap for the thesis's statistic, which is over paths between executors."""
    why = "DRS knows components, no paths between executors"
    return Estimate(measure, STATISTICS[measure][1], None, status="declined", reason=why)


def _complete(queues: Mapping[str, Station], rate_tps: float) -> list[Estimate]:
    _require_queues(queues)
    busy = [q for q in queues.values() if q.arrivals_tps > 0]
    total = sum(q.arrivals_tps * q.sojourn_ms for q in busy) / rate_tps  # Fu et al., eq. 3
    return [Estimate(Measure.COMPLETE, "mean", total), _without_paths(Measure.COMPLETE)]


def _no_ack_latency() -> list[Estimate]:
    raise ModelDeclined("DRS ends where a message's last tuple was processed, not at the spout")


def _by_component(layout: Layout, queues: Mapping[str, Station], measure: str) -> list[Estimate]:
    """Return a measure of every executor, the same for all of a component, and of the component."""
    found = []
    for name, q in queues.items():
        values: Mapping[str, tuple[float, float]] = {
            Measure.ARRIVALS: (q.arrivals_tps / q.servers, q.arrivals_tps),
            Measure.SERVICE: (q.service_ms, q.service_ms),
            Measure.UTILISATION: (q.utilisation, q.utilisation),
        }
        own, whole = values[measure]
        executors = layout.executors[layout.of[name]]
        unknown = f"metric service of {name} is missing from the source step"
        found += by_executor(measure, executors, np.full(q.servers, own), name, whole, unknown)
    return found


def _routing(layout: Layout) -> list[Estimate]:
    shares: dict[Stream, int] = {s: len(layout.plan.of(s.target)) for s in layout.plan.query_plan.streams}
    return [
        Estimate(Measure.ROUTING, "mean", 1 / shares[s], connection_label(s, i, j))
        for s, i, j in layout.plan.connections()
    ]


def _io_ratios(measured: Measured, layout: Layout) -> list[Estimate]:
    found = []
    for name in _bolts(layout):
        received = float(measured.arrivals(name).sum())
        for output in outputs(layout.plan.query_plan, name):
            ratio = float(measured.emitted(output).sum()) / received if received > 0 else float("nan")
            for owner in [*(e.label for e in layout.executors[layout.of[name]]), name]:
                subject = io_label(owner, output.stream)
                found.append(number(Measure.IO_RATIO, subject, ratio, f"nothing arrived at {name}"))
    return found


def _capacity(layout: Layout, queues: Mapping[str, Station], rate_tps: float) -> list[Estimate]:
    """Return the load of every executor, and what the busiest component lets through."""
    found = _by_component(layout, queues, Measure.UTILISATION)
    busiest = max((q.utilisation for q in queues.values()), default=0.0)
    if busiest > 0:  # not NaN either
        sustainable = rate_tps / busiest
        found.append(Estimate(Measure.SUSTAINABLE, "mean", sustainable))
        found.append(Estimate(Measure.THROUGHPUT, "mean", min(rate_tps, sustainable)))
    return found
