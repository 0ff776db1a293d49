"""The harness's own model: the proposed plan as a network of queues and delays, solved stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.errors import ModelDeclined
from harness.models.analytic.solve import LEVELS, Latency, Solution, solve
from harness.models.analytic.stage_means import stage_means
from harness.models.answers import (
    LATENCIES,
    MEASURES,
    SUSTAINABLE,
    THROUGHPUT,
    UTILISATION,
    WORKER_CPU,
    answer,
    by_executor,
    gaps,
    number,
    routing_estimates,
)
from harness.models.layout import FloatArray, outputs
from harness.models.network import Network
from harness.models.observe import io_label
from harness.models.proposal import Prepared as Source
from harness.models.proposal import prepare as read_source
from harness.plans import PhysicalPlan
from harness.protocols import Estimate, Observation, Prediction, Settings

NOTES = """\
The source observation is turned into what a tuple costs and meets (CPU demand and waiting apart, hops,
sleeps,
fan-outs, keys), the proposed plan into a network of these (harness.models.proposal), and the network is
solved
(harness.models.analytic): rates along the plan; contention for cores; variability by an index that sees
bursts;
each executor a single server that sleeps when idle; windows and their acks by task; distributions carried
along the edges as characteristic functions. Nothing is cut.
Complete latency: from the acker's receipt of a message's first word to that of its tree's last ack, a maximum
over all that was made of it. The statistics of the thesis's protocol are answered by the mean over rows that
begin and end on one worker node (mean_same_node) and, since no path is listed, by the mean complete latency
itself (p90_paths).
A plan in which an executor, a spout or a host's cores would be overloaded is saturated: then there is no
latency, and throughput is what is sustainable."""

GROUND_TRUTH, COMPLETE, ACK = LATENCIES
QUEUE_WAIT, RESIDENCE = "queue_wait_ms", "window_residence_ms"
"""From the emit upstream to the receipt, and from there to the window's output: means of a component's
rows."""

NODE_CPU = "node_cpu_cores"
"""CPU time of a worker node's worker processes for each second."""


def composite(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
    """Predict a proposed plan's performance.

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

    Returns
    -------
    Prediction
        Every measure, or a named gap.
    """
    try:
        prepared = prepare(source)
    except ModelDeclined as why:
        return _declined(proposed, why)
    return prepared.predict(proposed, settings, rate_tps)


def prepare(source: Observation) -> Prepared:
    """Read a source once, for predictions of one plan after another.

    Raises
    ------
    ModelDeclined
        When the source cannot be used.
    """
    return Prepared(read_source(source))


@dataclass(frozen=True)
class Prepared:
    """A source that was read."""

    source: Source

    def solve(self, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Solution:
        """Return the proposed plan's solution, of which latencies can be asked one by one.

        Raises
        ------
        ModelDeclined
            When the plan does not fit.
        """
        return solve(self.source.network(proposed, settings, rate_tps))

    def predict(self, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
        """Return every measure of a proposed plan, or a named gap."""
        try:
            solution = self.solve(proposed, settings, rate_tps)
        except ModelDeclined as why:
            return _declined(proposed, why)
        return predicted(solution, rate_tps)


def _declined(proposed: PhysicalPlan, why: ModelDeclined) -> Prediction:
    return Prediction(tuple(gap for measure in MEASURES for gap in gaps(proposed, measure, why)))


def predicted(solution: Solution, rate_tps: float) -> Prediction:
    """Return every measure of a solved network."""
    it = _Answers(solution, rate_tps)
    return answer(
        solution.network.layout.plan,
        [
            (("routing_probability",), it.routing),
            (("io_ratio",), it.io_ratios),
            (("arrival_rate_tps",), it.arrivals),
            (("service_time_ms",), it.service),
            ((GROUND_TRUTH,), it.ground_truth),
            ((COMPLETE,), it.complete),
            ((ACK,), it.ack),
            ((), it.stages),
            ((), it.capacity),
        ],
    )


@dataclass(frozen=True)
class _Answers:
    """A solution's numbers as estimates."""

    solution: Solution
    rate_tps: float

    @property
    def network(self) -> Network:
        return self.solution.network

    @cached_property
    def bolts(self) -> list[str]:
        """Components with an input, downstream."""
        query_plan = self.network.layout.plan.query_plan
        return [name for name in self.network.layout.order if query_plan.inputs(name)]

    def _by_executor(self, measure: str, values: FloatArray, weights: FloatArray | None) -> list[Estimate]:
        """Return a measure of all bolts' executors, and of components: their sum, or mean by weights."""
        layout, found = self.network.layout, []
        for name in self.bolts:
            at = layout.of[name]
            total = float(values[at].sum())
            if weights is not None:
                weight = weights[at]
                total = float(values[at] @ weight / weight.sum()) if weight.sum() > 0 else np.nan
            unknown = f"nothing is expected to arrive at {name}"
            found += by_executor(measure, layout.executors[at], values[at], name, total, unknown)
        return found

    def routing(self) -> list[Estimate]:
        """Return the routing probability of every logical connection."""
        layout = self.network.layout
        by_stream = {}
        for stream, rows in self.network.routing.items():
            share = rows @ layout.membership[stream.target].T
            total = share.sum(axis=1, keepdims=True)
            by_stream[stream] = np.divide(share, total, out=np.full(share.shape, np.nan), where=total > 0)
        return routing_estimates(layout, by_stream)

    def io_ratios(self) -> list[Estimate]:
        """Return output over input of bolts' executors and components."""
        layout, solution, found = self.network.layout, self.solution, []
        rate = solution.service.rate
        for name in self.bolts:
            arriving = rate[layout.of[name]]
            for output in outputs(layout.plan.query_plan, name):
                emitted = solution.port_rate(output)
                ratio = np.divide(emitted, arriving, out=np.full(arriving.shape, np.nan), where=arriving > 0)
                total = emitted.sum() / arriving.sum() if arriving.sum() > 0 else np.nan
                owners = [*(e.label for e in layout.executors[layout.of[name]]), name]
                for owner, value in zip(owners, [*ratio, total], strict=True):
                    unknown = f"nothing is expected to arrive at {owner}"
                    found.append(number("io_ratio", io_label(owner, output.stream), value, unknown))
        return found

    def arrivals(self) -> list[Estimate]:
        """Return arrival rates of bolts' executors and components."""
        return self._by_executor("arrival_rate_tps", self.solution.service.rate * 1000, None)

    def service(self) -> list[Estimate]:
        """Return service times by the wall clock of bolts' executors and components, with percentiles."""
        service = self.solution.service
        mean = np.where(service.rate > 0, service.hold[:, 0], np.nan)
        found = self._by_executor("service_time_ms", np.nan_to_num(mean), service.rate)
        percentiles = self.solution.service_percentiles(self.bolts)
        for subject, values in percentiles.items():
            found += [
                Estimate("service_time_ms", name, float(value), subject)
                for name, value in zip(LEVELS, values, strict=True)
            ]
        return found

    def ground_truth(self) -> list[Estimate]:
        """Return the ground-truth latency of all rows and by sink."""
        found = _latencies(GROUND_TRUTH, self.solution.ground_truth())
        try:
            return [*found, Estimate(GROUND_TRUTH, "mean_same_node", self.solution.same_node_mean_ms())]
        except ModelDeclined as why:
            gap = Estimate(GROUND_TRUTH, "mean_same_node", None, status="declined", reason=str(why))
            return [*found, gap]

    def complete(self) -> list[Estimate]:
        """Return the mean complete latency, whole and by spout executor."""
        means = self.solution.complete_mean_ms()
        plain = [value for subject, value in means.items() if subject]
        whole = Estimate(COMPLETE, "p90_paths", float(np.mean(plain)))
        found = [Estimate(COMPLETE, "mean", value, subject) for subject, value in means.items()]
        return [*found, whole, *(Estimate(COMPLETE, "p90_paths", v, k) for k, v in means.items() if k)]

    def ack(self) -> list[Estimate]:
        """Return the time from emit to ack, whole and by spout executor."""
        return _latencies(ACK, self.solution.ack())

    def stages(self) -> list[Estimate]:
        """Return what the rows of each component meet: way and queue, and a window's hold."""
        if self.solution.overloaded:
            return []
        waits, holds = stage_means(self.solution)
        return [
            *(Estimate(QUEUE_WAIT, "mean", value, name) for name, value in waits.items()),
            *(Estimate(RESIDENCE, "mean", value, name) for name, value in holds.items()),
        ]

    def capacity(self) -> list[Estimate]:
        """Return loads, CPU use, and what goes through."""
        solution, layout = self.solution, self.network.layout
        found = self._by_executor(UTILISATION, solution.loads, np.ones(len(layout)))
        bottleneck = solution.bottleneck
        if np.isfinite(bottleneck.factor):
            most = self.rate_tps * bottleneck.factor
            found.append(
                Estimate(SUSTAINABLE, "mean", most, reason=f"bottleneck: {solution.bottleneck_name}")
            )
            found.append(Estimate(THROUGHPUT, "mean", min(self.rate_tps, most)))
        if self.network.worker_cores is not None:
            own = np.bincount(
                layout.worker, weights=solution.contention.cores, minlength=self.network.worker_cores.size
            )
            cores = own + self.network.worker_cores
            workers = layout.plan.workers
            found += [
                Estimate(WORKER_CPU, "mean", float(v), w.label) for w, v in zip(workers, cores, strict=True)
            ]
            by_node: dict[str, float] = {}
            for w, v in zip(workers, cores, strict=True):
                by_node[w.node] = by_node.get(w.node, 0.0) + float(v)
            found += [Estimate(NODE_CPU, "mean", v, node) for node, v in by_node.items()]
        return found


def _latencies(measure: str, found: dict[str, Latency]) -> list[Estimate]:
    return [
        Estimate(measure, name, float(value), subject)
        for subject, latency in found.items()
        for name, value in zip(("mean", *LEVELS), (latency.mean_ms, *latency.percentiles_ms), strict=True)
    ]
