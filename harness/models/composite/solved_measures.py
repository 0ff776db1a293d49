"""Measures of a solved network: every answer of the composite model, with its interval, by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.uncertainty import Calibrations
from harness.models.composite.values import Known, Others, Values, estimated
from harness.models.contract.answers import Saturated, answer
from harness.models.contract.layout import BoolArray, FloatArray, component_paths, outputs
from harness.models.contract.observe import io_label
from harness.models.delivery import delivered_share
from harness.models.network import Network
from harness.models.solver.solve import Latency, Solution
from harness.plans import Stream, connection_label
from harness.protocols import Estimate, Prediction
from harness.schemas import PERCENTILES, Measure


class Limit(NamedTuple):
    """The highest rate that does not overload a plan, and what is full first."""

    rate_tps: float
    name: str


def predicted(
    own: Solution,
    others: Sequence[Solution],
    rate_tps: float,
    calibrations: Calibrations,
    limit: Limit | None = None,
    parts: Parts | None = None,
) -> Prediction:
    """Return every measure of a solved network.

    Parameters
    ----------
    own : Solution
    others : sequence of Solution
        The same with fewer frequencies, with ``dearer`` costs, and then of the replicates; fewer than two of
        these give no intervals.
    rate_tps : float
        Messages a second.
    calibrations : mapping of (measure, statistic) to Calibration
    limit : Limit, optional
        By default what follows when all rates grow and the hosts' other work stays as it is.
    parts : Parts, optional
        Of the answer; by default all (``PARTS``).
    """
    mine = Answers(own, rate_tps, limit=limit)
    theirs = [Answers(s, rate_tps, mine) for s in others]

    def known(part: Part, answers: Answers) -> Known:
        try:
            return {v.key: v for v in part(answers)}
        except ModelDeclined:  # it would be saturated: it has no say in what the latency would be
            return {}

    def estimates(part: Part) -> list[Estimate]:
        coarse, dear, *many = [known(part, a) for a in theirs] or [{}, {}]
        return estimated(part(mine), Others(coarse, dear, many), calibrations)

    wanted = PARTS if parts is None else parts
    return answer(own.network.layout.plan, [(named, partial(estimates, part)) for named, part in wanted])


@dataclass(frozen=True)
class Answers:
    """A solution's numbers by measure."""

    solution: Solution
    rate_tps: float
    like: Answers | None = None
    """Answers for the same plan, whose names are then not made again."""
    limit: Limit | None = None

    @property
    def network(self) -> Network:
        """The network that was solved."""
        return self.solution.network

    @cached_property
    def bolts(self) -> list[str]:
        """Components with an input, downstream."""
        query_plan = self.network.layout.plan.query_plan
        return [name for name in self.network.layout.order if query_plan.inputs(name)]

    @property
    def labels(self) -> tuple[str, ...]:
        """Executors' labels by position."""
        return self.network.layout.labels

    @cached_property
    def connections(self) -> Mapping[Stream, list[str]]:
        """Labels of the connections of each stream, source by source."""
        if self.like is not None:
            return self.like.connections
        plan = self.network.layout.plan
        found: dict[Stream, list[str]] = {s: [] for s in plan.query_plan.streams}
        for stream, i, j in plan.connections():
            found[stream].append(connection_label(stream, i, j))
        return found

    @cached_property
    def full(self) -> BoolArray:
        """True for each executor whose host is asked for more cores than it has."""
        return np.asarray(self.solution.contention.host_load[self.solution.flat.executors["host"]] >= 1)

    def _by_executor(self, measure: str, values: FloatArray, weights: FloatArray | None) -> list[Values]:
        """Return a measure of all bolts' executors, and of components: their sum, or mean by weights."""
        found = []
        for name in self.bolts:
            at = self.network.layout.of[name]
            mine = values[at]
            total = float(mine.sum())
            if weights is not None:
                used = weights[at] > 0
                weight = weights[at][used]
                total = float(mine[used] @ weight / weight.sum()) if used.any() else np.nan
            unknown = f"nothing is expected to arrive at {name}, or at this executor of it"
            found.append(Values(measure, "mean", [*self.labels[at], name], np.append(mine, total), unknown))
        return found

    def routing(self) -> list[Values]:
        """Return the routing probability of every logical connection."""
        layout, found = self.network.layout, []
        for stream, rows in self.network.routing.items():
            share = rows @ layout.membership[stream.target].T
            total = share.sum(axis=1, keepdims=True)
            share = np.divide(share, total, out=np.full(share.shape, np.nan), where=total > 0)
            unknown = f"nothing is expected on {stream.label} from this executor"
            found.append(Values(Measure.ROUTING, "mean", self.connections[stream], share.ravel(), unknown))
        return found

    def io_ratios(self) -> list[Values]:
        """Return output over input of bolts' executors and components."""
        layout, found = self.network.layout, []
        rate = self.solution.service.rate
        for name in self.bolts:
            arriving = rate[layout.of[name]]
            for output in outputs(layout.plan.query_plan, name):
                emitted = self.solution.port_rate(output)
                into = np.append(arriving, arriving.sum())
                out = np.append(emitted, emitted.sum())
                ratio = np.divide(out, into, out=np.full(into.shape, np.nan), where=into > 0)
                subjects = [io_label(o, output.stream) for o in (*self.labels[layout.of[name]], name)]
                found.append(
                    Values(Measure.IO_RATIO, "mean", subjects, ratio, f"nothing is expected at {name}")
                )
        return found

    def arrivals(self) -> list[Values]:
        """Return arrival rates of bolts' executors and components."""
        return self._by_executor(Measure.ARRIVALS, self.solution.service.rate * 1000, None)

    def service(self) -> list[Values]:
        """Return service times by the wall clock of bolts' executors and components, with percentiles."""
        service = self.solution.service
        mean = np.where(service.rate > 0, np.where(self.full, np.inf, service.hold[:, 0]), np.nan)
        found = self._by_executor(Measure.SERVICE, mean, service.rate)
        if not self.full.any() and (levels := self.solution.service_percentiles(self.bolts)):
            by_level = np.array(list(levels.values())).T
            found += [
                Values(Measure.SERVICE, name, list(levels), values)
                for name, values in zip(PERCENTILES, by_level, strict=True)
            ]
        return found

    def ground_truth(self) -> list[Values]:
        """Return the ground-truth latency of all rows, by sink and, where there are several, by path."""
        found = self.solution.ground_truth()
        layout = self.network.layout
        paths = component_paths(layout.plan.query_plan)
        for path in paths if len(paths) > len(layout.plan.query_plan.sinks) else ():
            through = np.zeros(layout.ackers.start)
            for name in path:
                through[layout.of[name]] = 1.0
            try:
                found["/".join(path)] = self.solution.ground_truth(through)[""]
            except ModelDeclined:  # no row is expected to take it
                continue
        return _latencies(Measure.GROUND_TRUTH, found, self.solution.reason)

    def same_node(self) -> list[Values]:
        """Return the statistic of the thesis's protocol."""
        value, unknown = np.nan, ""
        try:
            value = self.solution.same_node_mean_ms()
        except Saturated:
            raise
        except ModelDeclined as why:
            unknown = str(why)
        named = Measure.GROUND_TRUTH, "mean_same_node", [""]
        return [Values(*named, np.array([value]), unknown, self.solution.reason)]

    def complete(self) -> list[Values]:
        """Return the mean complete latency, whole and by spout executor."""
        means = self.solution.complete_mean_ms()
        values = np.array(list(means.values()))
        plain = values.copy()
        plain[0] = values[1:].mean()
        why = self.solution.reason
        return [
            Values(Measure.COMPLETE, "mean", list(means), values, reason=why),
            Values(Measure.COMPLETE, "p90_paths", list(means), plain, reason=why),
        ]

    def ack(self) -> list[Values]:
        """Return the time from emit to ack, whole and by spout executor."""
        return _latencies(Measure.ACK, self.solution.ack(), self.solution.reason)

    def stages(self) -> list[Values]:
        """Return the mean delays of rows in each component: way and queue, and a window's hold."""
        if self.solution.overloaded:
            return []
        return [
            Values(measure, "mean", list(means), np.array(list(means.values())), reason=self.solution.reason)
            for measure, means in zip(
                (Measure.QUEUE_WAIT, Measure.RESIDENCE), self.solution.stage_means(), strict=True
            )
            if means
        ]

    def capacity(self) -> list[Values]:
        """Return loads, and what goes through."""
        solution = self.solution
        loads = np.where(self.full, np.inf, solution.loads)
        found = self._by_executor(Measure.UTILISATION, loads, np.ones(loads.size))
        if np.isfinite(solution.bottleneck.factor):
            most, name = self.limit or (
                self.rate_tps * solution.bottleneck.factor,
                solution.bottleneck_name,
            )
            why = f"bottleneck: {name}"
            found.append(Values(Measure.SUSTAINABLE, "mean", [""], np.array([most]), reason=why))
            through_tps = min(self.rate_tps, most) * delivered_share(self.network)
            found.append(Values(Measure.THROUGHPUT, "mean", [""], np.array([through_tps])))
        return found

    def cpu(self) -> list[Values]:
        """Return CPU use by worker and by node."""
        use, layout, beside = self.solution.contention, self.network.layout, self.network.worker_cores
        if beside is None:
            return []
        own = np.bincount(layout.worker, weights=use.cores, minlength=beside.size)
        cores = np.where(use.host_load[self.network.host] >= 1, np.inf, own + beside)
        by_node = np.asarray(np.bincount(layout.node, weights=cores), dtype=np.float64)
        return [
            Values(Measure.WORKER_CPU, "mean", layout.worker_labels, cores),
            Values(Measure.NODE_CPU, "mean", layout.nodes, by_node),
        ]


def _latencies(measure: str, found: Mapping[str, Latency], reason: str = "") -> list[Values]:
    subjects = list(found)
    levels = np.array([(v.mean_ms, *v.percentiles_ms) for v in found.values()])
    return [
        Values(measure, name, subjects, column, reason=reason)
        for name, column in zip(("mean", *PERCENTILES), levels.T, strict=True)
    ]


Part = Callable[[Answers], list[Values]]
Parts = Sequence[tuple[tuple[str, ...], Part]]
PARTS: Parts = (
    ((Measure.ROUTING,), Answers.routing),
    ((Measure.IO_RATIO,), Answers.io_ratios),
    ((Measure.ARRIVALS,), Answers.arrivals),
    ((Measure.SERVICE,), Answers.service),
    ((Measure.GROUND_TRUTH,), Answers.ground_truth),
    ((), Answers.same_node),
    ((Measure.COMPLETE,), Answers.complete),
    ((Measure.ACK,), Answers.ack),
    ((), Answers.stages),
    ((), Answers.capacity),
    ((), Answers.cpu),
)
"""Measures that become gaps where a part has no answer, and the part."""
CPU: Parts = (((), Answers.cpu),)
"""CPU of workers and nodes alone."""
