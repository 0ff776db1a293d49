"""The thesis's model of a proposed plan (chapter 4), as printed but for its printing errors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract import routing as routes
from harness.models.contract.answers import (
    Saturated,
    answer,
    by_executor,
    declined,
    number,
    observe_for,
    routing_estimates,
)
from harness.models.contract.io_ratios import Coefficients, executor_coefficients
from harness.models.contract.layout import FloatArray, Layout, outputs
from harness.models.contract.observe import Measured, io_label
from harness.models.contract.service import executor_service_ms
from harness.models.thesis.arrivals import ArrivalFlows, propagate, spout_emission
from harness.models.thesis.disruptor_batches import batches, queue_settings
from harness.models.thesis.executor_queue import mean_sojourn_ms
from harness.models.thesis.network_delay import network_ms
from harness.models.thesis.path_latency import (
    Delays,
    ground_truth_ms,
    longest_complete_ms,
    percentile_complete_ms,
    same_node_ground_truth_ms,
)
from harness.models.thesis.windows import task_arrivals, window_delay_ms
from harness.plans import PhysicalPlan, Stream
from harness.protocols import Estimate, Observation, Prediction, Settings
from harness.schemas import LATENCIES, Measure

NOTES = """\
Chapter 4 of the thesis (Storm-Tracer) with its printing errors mended: eq. 4.24, 4.33, 4.35 with 4.36 (the
wait at a send queue is conditioned on a tuple being there), B.1, and the path weights of 5.7.2 (products).
Its queues are the LMAX Disruptor queues of Storm 1.2. Storm 2.x replaced them with JCTools queues, which by
default batch nothing and never flush, so a cluster has no settings for them: Storm 1.2.2's defaults (batches
of 100, a flush every 1 ms) are used unless topology.disruptor.batch.size and
topology.disruptor.batch.timeout.millis are given. What Storm 2.x does instead, above all the sleeps of its
waiting strategies, is not in the model.
The executor's queue is the thesis's simulated process (B.3). Its mean is computed rather than simulated
wherever full batches play no part, and else simulated from a fixed seed.
Shuffled streams are shared equally among executors (eq. 4.3), whatever load-aware messaging does.
Spout tasks emit in the proposed plan what they emitted in the source plan, scaled with the input rate; the
thesis is given the proposed step's measured emission. Windows are kept by task. Network latency between
nodes is half of the median round trip where it was measured (provisioned hosts), else 0 within a host. Every
processed tuple sends one ack; the acker's own delay falls out of the complete latency.
Complete latency: the statistic mean is 4.13.5's (longest path from each spout executor on each stream),
p90_paths is 5.7.2's (90th percentile over a spout executor's paths).
Ground truth: the statistic mean is over all paths, mean_same_node over those that begin and end on one worker
node. A path weighs its spout executor's share of messages times its global routing probabilities; a component
that multiplies tuples does not make its paths weigh more.
Declined: time windows and sliding windows (4.13.1), plans over several hosts whose round trips were
not measured, ack latency at the spout (the thesis's measure stops at the acker)."""


def storm_tracer(
    source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float
) -> Prediction:
    """Predict a proposed plan's performance by the thesis's chapter 4.

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
        measured, layout = observe_for(source, proposed, rate_tps)
        stages = ThesisStages(measured, layout, settings, rate_tps / source.rate_tps)
    except ModelDeclined as why:
        return declined(proposed, why)
    return answer(
        proposed,
        [
            ((Measure.ROUTING,), lambda: routing_estimates(stages.proposed, stages.routing)),
            ((Measure.IO_RATIO,), stages.io_estimates),
            ((Measure.ARRIVALS,), stages.arrival_estimates),
            ((Measure.SERVICE,), stages.service_estimates),
            ((Measure.GROUND_TRUTH,), stages.ground_truth_estimates),
            ((Measure.COMPLETE,), stages.complete_estimates),
            ((Measure.ACK,), _no_ack_latency),
        ],
    )


def _no_ack_latency() -> list[Estimate]:
    raise ModelDeclined(
        "the thesis models the complete latency at the acker, not the ack's way back to the spout"
    )


class ThesisStages:
    """The stages of chapter 4 for one pair of plans, each computed when first asked for."""

    def __init__(self, measured: Measured, proposed: Layout, settings: Settings, scale: float) -> None:
        self.measured = measured
        self.proposed = proposed
        self.settings = settings
        self.scale = scale
        self.query_plan = proposed.plan.query_plan
        self.bolts = [name for name in proposed.order if self.query_plan.inputs(name)]

    @cached_property
    def routing(self) -> Mapping[Stream, FloatArray]:
        """Stream routing probabilities (4.5)."""
        streams = self.query_plan.streams
        return {s: routes.stream_probabilities(self.measured, self.proposed, s) for s in streams}

    @cached_property
    def coefficients(self) -> Coefficients:
        """I/O coefficients (4.7)."""
        return executor_coefficients(self.measured, self.proposed)

    @cached_property
    def flows(self) -> ArrivalFlows:
        """Rates (4.8)."""
        return propagate(
            self.proposed,
            spout_emission(self.measured, self.proposed, self.scale),
            self.routing,
            {s: routes.copies(self.measured, s) for s in self.query_plan.streams},
            self.coefficients,
        )

    @cached_property
    def service_ms(self) -> Mapping[str, FloatArray]:
        """Service times of the bolts' executors (4.10)."""
        return {name: executor_service_ms(self.measured, self.proposed, name) for name in self.bolts}

    @cached_property
    def delays(self) -> Delays:
        """Delays of all elements of the proposed plan (4.2, 4.11 to 4.13)."""
        self._refuse_overload()
        layout = self.proposed
        rate = self._rates_with_acks() / 1000  # tuples per ms
        queue = queue_settings(self.settings.storm)
        sent = batches(rate, layout.worker, queue)
        inside = np.zeros(len(layout))
        for name in self.bolts:
            for i, service_ms in enumerate(self.service_ms[name], start=layout.of[name].start):
                if (arriving := float(rate[:, i].sum())) > 0:
                    size = float(sent.list_size[i])
                    inside[i] = mean_sojourn_ms(
                        arriving / size, size, service_ms, queue.limit, queue.flush_ms
                    )
            component = self.query_plan.component(name)
            if component.window is not None:
                at_tasks = task_arrivals(self.flows, self.measured, name, self.settings.storm)
                inside[layout.of[name]] += window_delay_ms(component, at_tasks, self.service_ms[name])
        here, there = layout.worker[:, None], layout.worker[None, :]
        network = network_ms(layout.plan, self.measured.round_trips)
        hop = np.where(here == there, 0.0, sent.worker_send_ms[here] + network[here, there])
        return Delays(
            layout, inside, sent.executor_send_ms, hop, self._global_routing(), self._emission_shares()
        )

    def _refuse_overload(self) -> None:
        """Compare arrival and service rates (4.8.1)."""
        overloaded = []
        for name in self.bolts:
            arrivals = self.flows.arrivals(name)
            service_ms = self.service_ms[name]
            executors = self.proposed.executors[self.proposed.of[name]]
            for e, rate, service in zip(executors, arrivals, service_ms, strict=True):
                if rate > 0 and np.isnan(service):
                    raise ModelDeclined(f"no service time for {e.label}: its tasks idled in the source step")
                if rate * service / 1000 >= 1:
                    overloaded.append(f"{e.label} (load {rate * service / 1000:.2f})")
        if overloaded:
            raise Saturated(f"overloaded: {', '.join(overloaded)}")

    def _rates_with_acks(self) -> FloatArray:
        """Tuples a second between all executors, acks included (4.12.2)."""
        layout = self.proposed
        rate = np.zeros((len(layout), len(layout)))
        for stream, connections in self.flows.connections.items():
            rate[layout.of[stream.source], layout.of[stream.target]] += connections
        ackers = layout.ackers
        number = ackers.stop - ackers.start
        if number:
            for name in layout.order:
                at = layout.of[name]
                if self.query_plan.inputs(name):
                    rate[at, ackers] = self.flows.arrivals(name)[:, None] / number
                else:
                    rate[at, ackers] = self._emission(name)[:, None] / number  # ack_init
                    rate[ackers, at] = self._emission(name)[None, :] / number
        return rate

    def _emission(self, spout: str) -> FloatArray:
        emitted = [self.flows.outputs[o] for o in outputs(self.query_plan, spout)]
        size = self.proposed.membership[spout].shape[0]
        return np.sum(emitted, axis=0) if emitted else np.zeros(size)

    def _emission_shares(self) -> FloatArray:
        share = np.zeros(len(self.proposed))
        for name in self.query_plan.spouts:
            share[self.proposed.of[name]] = self._emission(name)
        return np.asarray(np.nan_to_num(routes.proportions(share)))

    def _global_routing(self) -> FloatArray:
        """Global routing probabilities without acks (eq. 4.7)."""
        layout = self.proposed
        found = np.zeros((len(layout), len(layout)))
        for name in layout.order:
            streams = self.query_plan.outputs(name)
            if not streams:
                continue
            sent = {s: self.flows.connections[s].sum(axis=1) for s in streams}
            for stream, p in routes.global_probabilities({s: self.routing[s] for s in streams}, sent).items():
                found[layout.of[name], layout.of[stream.target]] += np.nan_to_num(p)
        return found

    def io_estimates(self) -> list[Estimate]:
        """Return output over input of executors and components; for several inputs the coefficients too."""
        found = []
        for output, coefficients in self.coefficients.items():
            executors = self.proposed.executors[self.proposed.of[output.component]]
            arrivals, emitted = self.flows.arrivals(output.component), self.flows.outputs[output]
            ratio = np.divide(emitted, arrivals, out=np.full(arrivals.shape, np.nan), where=arrivals > 0)
            total = emitted.sum() / arrivals.sum() if arrivals.sum() > 0 else np.nan
            owners = [*(e.label for e in executors), output.component]
            for owner, value in zip(owners, [*ratio, total], strict=True):
                subject = io_label(owner, output.stream)
                found.append(
                    number(Measure.IO_RATIO, subject, value, f"nothing is expected to arrive at {owner}")
                )
            for stream, by_input in coefficients.items() if len(coefficients) > 1 else ():
                found += [
                    Estimate(
                        "io_coefficient",
                        "mean",
                        float(value),
                        f"{io_label(e.label, output.stream)}<-{stream.source}:{stream.stream}",
                    )
                    for e, value in zip(executors, by_input, strict=True)
                ]
        return found

    def arrival_estimates(self) -> list[Estimate]:
        """Return the arrival rate of every bolt executor, and of components as a whole."""
        found = []
        for name in self.bolts:
            rate = self.flows.arrivals(name)
            executors = self.proposed.executors[self.proposed.of[name]]
            found += by_executor(Measure.ARRIVALS, executors, rate, name, float(rate.sum()), "")
        return found

    def service_estimates(self) -> list[Estimate]:
        """Return the service time of every bolt executor, and of components weighted by arrivals."""
        found = []
        for name in self.bolts:
            service_ms, rate = self.service_ms[name], self.flows.arrivals(name)
            executors = self.proposed.executors[self.proposed.of[name]]
            mean = float(np.nan_to_num(service_ms) @ rate / rate.sum()) if rate.sum() > 0 else np.nan
            unknown = "its tasks were idle in the source step"
            found += by_executor(Measure.SERVICE, executors, service_ms, name, mean, unknown)
        return found

    def ground_truth_estimates(self) -> list[Estimate]:
        """Return the mean over all paths, also by sink, and over those that end on their first node."""
        measure = LATENCIES[0]
        found = [Estimate(measure, "mean", v, k) for k, v in ground_truth_ms(self.delays).items()]
        try:
            return [*found, Estimate(measure, "mean_same_node", same_node_ground_truth_ms(self.delays))]
        except ModelDeclined as why:
            return [*found, Estimate(measure, "mean_same_node", None, status="declined", reason=str(why))]

    def complete_estimates(self) -> list[Estimate]:
        """Return the longest paths' mean and the paths' 90th percentile, whole and by spout executor."""
        measure = LATENCIES[1]
        longest, p90 = longest_complete_ms(self.delays), percentile_complete_ms(self.delays, 0.9)
        return [Estimate(measure, "mean", v, k) for k, v in longest.items()] + [
            Estimate(measure, "p90_paths", v, k) for k, v in p90.items()
        ]
