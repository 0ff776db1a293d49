"""The simulator as a model: the network that the composite model solves, played instead.

Not among the defaults: ``harness predict RUN --model harness.models.composite.simulated:simulator``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.proposal import network_of
from harness.models.contract.answers import (
    STATISTICS,
    Saturated,
    answer,
    by_executor,
    declined,
    number,
    routing_estimates,
)
from harness.models.contract.layout import FloatArray, outputs
from harness.models.contract.observe import io_label
from harness.models.delivery import delivered_share
from harness.models.simulator.loads import Loads, loads
from harness.models.simulator.simulation import SimulatedRun, simulate
from harness.plans import PhysicalPlan
from harness.protocols import Estimate, Observation, Prediction, Settings
from harness.schemas import PERCENTILES, Measure

NOTES = """\
The composite model's network of the proposed plan (harness.models.composite.proposal), played by discrete
events from a fixed seed instead of solved: what remains between the two is the solution's
approximation, what remains to the measurement is the network's. Its own noise is about a percent of a mean.
Complete latency is at the acker, ack latency at the spout. The thesis's statistic over paths is not given."""

SEED = 1
VISITS = 300_000
"""Services that a simulation aims at."""
LEAST_S, MOST_S = 20.0, 1200.0
"""Shortest and longest interval simulated."""
WINDOWS = 20
"""So many of the slowest windows are in an interval, if the longest allows."""
NOT_ACKED_ALONE = "tuples are acked by whole batches of the rewriting layer, which no model of acks has"


def simulator(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
    """Predict a proposed plan's performance by playing it.

    Parameters
    ----------
    source : Observation
        What was measured of the source plan.
    proposed : PhysicalPlan
        Of the same query plan.
    settings : Settings
        Of the proposed step.
    rate_tps : float
        Messages a second in the proposed step.
    """
    try:
        network = network_of(source, proposed, settings, rate_tps)
        expected = loads(network)
        require_capacity(expected)
        run = play_long_enough(expected)
    except ModelDeclined as why:
        return declined(proposed, why)
    it = _PlayedAnswers(run, expected, rate_tps)
    return answer(
        proposed,
        [
            ((Measure.ROUTING,), it.routing),
            ((Measure.IO_RATIO,), it.io_ratios),
            ((Measure.ARRIVALS,), it.arrivals),
            ((Measure.SERVICE,), it.service),
            ((Measure.GROUND_TRUTH,), it.ground_truth),
            ((Measure.COMPLETE,), it.complete),
            ((Measure.ACK,), it.ack),
            ((), it.capacity),
        ],
    )


simulator.notes = NOTES  # type: ignore[attr-defined]  # what the report shows of it


def require_capacity(expected: Loads) -> None:
    """Refuse a network that is overloaded.

    Raises
    ------
    Saturated
        Naming executors, or the host.
    """
    over = np.flatnonzero(expected.utilisation >= 1)
    if over.size:
        names = [
            f"{expected.network.layout.executors[i].label} (load {expected.utilisation[i]:.2f})" for i in over
        ]
        raise Saturated(f"overloaded: {', '.join(names[:5])}")
    if (expected.host_load >= 1).any():
        raise Saturated(f"a host's cores are overloaded (load {expected.host_load.max():.2f})")


def play_long_enough(expected: Loads, visits: int = VISITS) -> SimulatedRun:
    """Play a network for as long as its answers need: for so many services, and windows."""
    interval_s, warm_up_s = _long_enough_s(expected, visits)
    return simulate(expected.network, interval_s, warm_up_s, SEED)


def services_played(expected: Loads, visits: int = VISITS) -> float:
    """Return the services that ``play_long_enough`` is expected to play, those of acks too."""
    return _services_tps(expected) * sum(_long_enough_s(expected, visits))


def _services_tps(expected: Loads) -> float:
    layout = expected.network.layout
    told = expected.acker_tps * (layout.ackers.stop - layout.ackers.start)
    return expected.visits_per_s + told


def _long_enough_s(expected: Loads, visits: int) -> tuple[float, float]:
    """Return the interval, and the warm-up before it."""
    slowest_s = expected.slowest_window_s()
    wanted_s = max(visits / _services_tps(expected), WINDOWS * slowest_s, LEAST_S)
    return min(wanted_s, MOST_S), max(2.0, 2 * slowest_s + expected.slowest_batches_s)


def same_node_ms(run: SimulatedRun) -> FloatArray:
    """Return the ground truth of the interval's rows that begin and end on one worker node."""
    steps, first = run.paths.visits, run.paths.first
    node = run.world.executors["node"][run.world.tasks["executor"][run.visits["task"]]]
    mine = node[steps[first[:-1]]] == node[steps[first[1:] - 1]]
    mine &= run.in_interval[run.all_latencies.message]
    return np.asarray(run.all_latencies.ground_truth_ms[mine])


def by_spout(run: SimulatedRun, values: FloatArray) -> dict[str, FloatArray]:
    """Return values of the interval's messages, whole (key empty) and by spout executor's label.

    Parameters
    ----------
    values : array (messages)
        NaN of messages whose trees are open: these have none yet.

    Raises
    ------
    ModelDeclined
        When there is no value, or tuples are acked by batches.
    """
    if run.network.row_batches:
        raise ModelDeclined(NOT_ACKED_ALONE)
    known = ~np.isnan(values)
    if not known.any():
        raise ModelDeclined("no message's tree was complete in the simulated time")
    owner = run.world.tasks["executor"][run.messages["task"][run.in_interval]]
    labels = run.network.layout.labels
    each = {labels[e]: values[known & (owner == e)] for e in np.unique(owner[known])}
    return {"": values[known], **each}


@dataclass(frozen=True)
class _PlayedAnswers:
    """A run's numbers as estimates."""

    run: SimulatedRun
    expected: Loads
    rate_tps: float

    @property
    def bolts(self) -> list[str]:
        plan = self.run.network.layout.plan.query_plan
        return [name for name in self.run.network.layout.order if plan.inputs(name)]

    def routing(self) -> list[Estimate]:
        layout = self.run.network.layout
        shares = {}
        for stream, rows in self.run.network.routing.items():
            total = rows.sum(axis=1, keepdims=True)
            shares[stream] = rows @ layout.membership[stream.target].T / np.where(total > 0, total, np.nan)
        return routing_estimates(layout, shares)

    def io_ratios(self) -> list[Estimate]:
        layout, found = self.run.network.layout, []
        for name in self.bolts:
            received = layout.membership[name] @ self.expected.task_tps[name]
            for output in outputs(layout.plan.query_plan, name):
                emitted = self.expected.emitted_tps[output]
                both = zip(
                    [*(e.label for e in layout.executors[layout.of[name]]), name],
                    np.append(emitted, emitted.sum()),
                    np.append(received, received.sum()),
                    strict=True,
                )
                for owner, made, got in both:
                    ratio = float(made / got) if got > 0 else float("nan")
                    why = f"nothing is expected to arrive at {owner}"
                    found.append(number(Measure.IO_RATIO, io_label(owner, output.stream), ratio, why))
        return found

    def arrivals(self) -> list[Estimate]:
        seconds = (self.run.interval_ms[1] - self.run.interval_ms[0]) / 1000
        return self._by_executor(Measure.ARRIVALS, self.run.use.served / seconds, "", total=True)

    def service(self) -> list[Estimate]:
        why = "no tuple of its came in the simulated time"
        return self._by_executor(Measure.SERVICE, self.run.use.service_ms, why)

    def _by_executor(
        self, measure: str, values: FloatArray, unknown: str, *, total: bool = False
    ) -> list[Estimate]:
        layout, served, found = self.run.network.layout, self.run.use.served, []
        for name in self.bolts:
            mine = layout.of[name]
            weights = served[mine].sum()
            mean = float(np.nan_to_num(values[mine]) @ served[mine] / weights) if weights else float("nan")
            whole = float(values[mine].sum()) if total else mean
            found += by_executor(measure, layout.executors[mine], values[mine], name, whole, unknown)
        return found

    def ground_truth(self) -> list[Estimate]:
        latencies = self.run.latencies
        values = latencies.ground_truth_ms
        if not values.size:
            raise ModelDeclined("nothing reached a sink in the simulated time")
        found = _statistics(Measure.GROUND_TRUTH, "", values)
        for sink in np.unique(latencies.sink):
            found += _statistics(
                Measure.GROUND_TRUTH, self.run.network.layout.order[sink], values[latencies.sink == sink]
            )
        return [*found, self._same_node()]

    def _same_node(self) -> Estimate:
        """Return the mean over rows that begin and end on one worker node."""
        measure, statistic = Measure.GROUND_TRUTH, STATISTICS[Measure.GROUND_TRUTH][1]
        values_ms = same_node_ms(self.run)
        if not values_ms.size:
            why = "no path begins and ends on one worker node"
            return Estimate(measure, statistic, None, status="declined", reason=why)
        return Estimate(measure, statistic, float(values_ms.mean()))

    def complete(self) -> list[Estimate]:
        why = "the simulator follows messages, not paths between executors"
        gap = Estimate(Measure.COMPLETE, STATISTICS[Measure.COMPLETE][1], None, status="declined", reason=why)
        return [*self._by_spout(Measure.COMPLETE, self.run.complete_latency_ms), gap]

    def ack(self) -> list[Estimate]:
        return self._by_spout(Measure.ACK, self.run.ack_latency_ms)

    def _by_spout(self, measure: str, values: FloatArray) -> list[Estimate]:
        found: list[Estimate] = []
        for label, latencies in by_spout(self.run, values).items():
            found += _statistics(measure, label, latencies)
        return found

    def capacity(self) -> list[Estimate]:
        through_tps = self.rate_tps * delivered_share(self.run.network)
        found = [Estimate(Measure.THROUGHPUT, "mean", through_tps)]
        return found + self._by_executor(Measure.UTILISATION, self.run.use.utilisation, "")


def _statistics(measure: str, subject: str, values: FloatArray) -> list[Estimate]:
    quantiles = np.quantile(values, list(PERCENTILES.values()))
    return [Estimate(measure, "mean", float(values.mean()), subject)] + [
        Estimate(measure, name, float(value), subject)
        for name, value in zip(PERCENTILES, quantiles, strict=True)
    ]
