"""All stages in order: from a network to its rates, loads, waits and latencies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.answers import Saturated
from harness.models.contract.layout import FloatArray, IntArray, Output
from harness.models.network import Input, Network
from harness.models.solver.backward import Trees, trees
from harness.models.solver.capacity import Bottleneck, bottleneck, executor_loads
from harness.models.solver.contention import Contention, contention, cores_needed
from harness.models.solver.flat import flatten
from harness.models.solver.flow import flow
from harness.models.solver.forward import moments
from harness.models.solver.forward_spectra import spectra
from harness.models.solver.groups import first_seats, group_sizes
from harness.models.solver.rates import Rates, rates
from harness.models.solver.reach import reach
from harness.models.solver.records import Flat
from harness.models.solver.replies import reply_ms, times_end
from harness.models.solver.service import ServiceMoments, service, service_levels
from harness.models.solver.spectrum import ComplexArray, grid, mean_below, quantiles
from harness.models.solver.spout_loop import SpoutLoop, spout_loop
from harness.models.solver.stage_means import stage_means
from harness.models.solver.stages import Flow, Stages
from harness.models.solver.structure import SPOUT, Structure
from harness.models.solver.trees import Back, back
from harness.models.solver.waiting import MEAN, SLEEP
from harness.schemas import PERCENTILES

_LEVELS = np.array(list(PERCENTILES.values()))
_SIZES = ((128, 512), (400, 256), (700, 128))
"""Frequencies for plans of up to so many executors; 64 for larger ones."""
_FEW = 128
"""Frequencies that do for a mean."""
_DEVIATIONS = 9.0
_LEAST_MS = 1e-6
"""Length of a span where nothing takes any time."""


class Latency(NamedTuple):
    """A distribution of latency.

    Attributes
    ----------
    mean_ms : float
    percentiles_ms : array
        At ``PERCENTILES``.
    """

    mean_ms: float
    percentiles_ms: FloatArray


@dataclass(frozen=True)
class Solution:
    """Solution of a network; waits and latencies are worked out when asked for.

    Attributes
    ----------
    network : Network
    names : Structure
    flat, rates, contention, service, loop
        What the stages found that decide what is overloaded.
    size : int, optional
        Frequencies that distributions are kept at; by default as many as plans of its size allow.
    """

    reason: ClassVar[str] = ""
    """Why latencies are not solved, as estimates give it; empty where they are."""

    network: Network
    names: Structure
    flat: Flat
    rates: Rates
    contention: Contention
    service: ServiceMoments
    loop: SpoutLoop
    size: int | None = None

    @cached_property
    def flow(self) -> Flow:
        """Variability and waits."""
        return flow(self.flat, self.rates, self.service, self.loop)

    @property
    def stages(self) -> Stages:
        """Results of earlier stages that the propagation of times needs."""
        return Stages(self.flat, self.rates, self.service, self.flow)

    @cached_property
    def loads(self) -> FloatArray:
        """Load of each executor and acker, by position."""
        return executor_loads(self.flat, self.service, self.loop.load)

    @cached_property
    def bottleneck(self) -> Bottleneck:
        """The host or executor that is full first when all rates grow together."""
        return bottleneck(self.flat, self.service, self.contention, self.loop.load, self.network.stretch)

    @cached_property
    def queue_wait_ms(self) -> FloatArray:
        """Mean wait in the queue of each executor and acker; 0 for spouts."""
        law = self.flow.law
        return np.asarray(law[:, MEAN] + law[:, SLEEP] / 2)

    @cached_property
    def overloaded(self) -> list[str]:
        """Overloaded executors, each with the growth of its backlog, and overloaded hosts, in words."""
        full = []
        for e in np.flatnonzero(self.loads >= 1):
            rate = self.service.rate[e] * 1000
            name = self.network.layout.labels[e]
            load = self.loads[e]
            full.append(f"{name} (load {load:.2f}, backlog grows by {rate * (1 - 1 / load):.3g} tuples/s)")
        for h in np.flatnonzero(self.contention.host_load >= 1):
            load = self.contention.host_load[h]
            full.append(f"the cores of {self.host_name(int(h))} (load {load:.2f})")
        return full

    def require_steady(self) -> None:
        """Refuse latencies where something is overloaded.

        Raises
        ------
        Saturated
            With what is overloaded.
        """
        if self.overloaded:
            raise Saturated(f"overloaded: {', '.join(self.overloaded)}")

    def require_acked(self) -> None:
        """Refuse latencies of acks where there are none, or something is overloaded.

        Raises
        ------
        Saturated, ModelDeclined
            With the reason.
        """
        if not self.network.acks or self.flat.first_acker == self.flat.executors.size:
            raise ModelDeclined("tuples are not acked, or the plan has no acker: no complete latency")
        self.require_steady()

    def host_name(self, number: int) -> str:
        """Return a host's name."""
        layout = self.network.layout
        executor = layout.executors[int(np.flatnonzero(self.flat.executors["host"] == number)[0])]
        return layout.plan.node_names[executor.worker.node].host

    @property
    def bottleneck_name(self) -> str:
        """Name of what is full first: an executor's label, or a host's cores."""
        found = self.bottleneck
        if found.executor >= 0:
            return self.network.layout.labels[found.executor]
        return f"cores of {self.host_name(found.host)}" if found.host >= 0 else ""

    def port_rate(self, output: Output) -> FloatArray:
        """Return the rate at which each executor of a component emits on an output, in tuples a ms."""
        first = self.flat.outputs["first_port"]
        number = self.names.outputs.index(output)
        return self.rates.port[0, first[number] : first[number + 1]]

    def service_percentiles(self, components: Iterable[str]) -> dict[str, FloatArray]:
        """Return percentiles of the service time by component, and by executor where its own differ.

        Executors whose CPU is stretched as the component's on average have the component's.
        """
        found: dict[str, FloatArray] = {}
        layout = self.network.layout
        for name in components:
            keys = [Input(name, s.source, s.stream) for s in layout.plan.query_plan.inputs(name)]
            at = layout.of[name]
            rate = self.service.rate[at]
            if not rate.sum() > 0:
                continue
            classes = [self.names.inputs.index(key) for key in keys]
            cells = self.flat.classes["first_cell"]
            share = np.array([self.rates.cell[0, cells[k] : cells[k + 1]].sum() for k in classes])
            send = self.network.send_ms.get(name)
            services = [self.network.service[key] for key in keys]
            slow = self.service.slow[at]
            each = np.round([float(rate @ slow / rate.sum()), *slow], 3)
            alike, which = np.unique(each, return_inverse=True)
            levels = service_levels(services, share, send, alike, _LEVELS)
            found |= dict(zip([name, *layout.labels[at]], levels[which], strict=True))
        return found

    @property
    def frequencies(self) -> int:
        """Number that distributions are kept at."""
        if self.size is not None:
            return self.size
        return next((size for most, size in _SIZES if self.flat.first_acker <= most), 64)

    @cached_property
    def _rows(self) -> FloatArray:
        self.require_steady()
        return moments(self.stages, np.ones(self.flat.first_acker))

    def ground_truth(self, through: FloatArray | None = None) -> dict[str, Latency]:
        """Return the ground-truth latency of all rows (key empty) and by sink.

        Parameters
        ----------
        through : array (executors), optional
            Share of the rows that is followed at each executor, to ask for some paths only.

        Raises
        ------
        Saturated
            When something is overloaded.
        ModelDeclined
            When no row comes to a sink.
        """
        at, span = self.ends if through is None else self._ends(moments(self.stages, through))
        everywhere = np.ones(self.flat.first_acker) if through is None else through
        cf = spectra(self.stages, everywhere, self.frequencies, span)
        rows = np.array([np.sum([m for _, m in at.values()], axis=0), *(m for _, m in at.values())])
        whole = np.array([cf.sum(axis=0), *(cf[c] for c, _ in at.values())]) / rows[:, :1]
        return latencies(at, whole, span, rows[:, 1] / rows[:, 0])

    def stage_means(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return means over the rows of components, in ms; as the function ``stage_means``."""
        return stage_means(self.stages, self.names.components)

    @cached_property
    def ends(self) -> tuple[dict[str, tuple[int, FloatArray]], float]:
        """Number and moments of each sink that rows come to, and the span (ms) that percentiles are read in.

        Raises
        ------
        Saturated, ModelDeclined
            As for ``ground_truth``.
        """
        return self._ends(self._rows)

    def _ends(self, found: FloatArray) -> tuple[dict[str, tuple[int, FloatArray]], float]:
        self.require_steady()
        component = self.flat.components
        first = component["first_executor"]
        at = {
            self.names.components[c]: (int(c), found[first[c] : first[c + 1]].sum(axis=0))
            for c in np.flatnonzero(component["sink"][:-1])
        }
        at = {name: (c, m) for name, (c, m) in at.items() if m[0] > 0}
        if not at:
            raise ModelDeclined("no path from a spout to a sink is expected to be taken")
        return at, max(_span(m) for _, m in at.values())

    def same_node_mean_ms(self) -> float:
        """Return the mean over rows that begin and end on one worker node, up to the mean complete latency.

        Raises
        ------
        Saturated
            When something is overloaded.
        ModelDeclined
            When there are none, or nothing is acked.
        """
        self.require_steady()
        cut_ms = self.complete_mean_ms()[""]
        layout = self.network.layout
        nodes = layout.node[layout.worker[: self.flat.first_acker]]
        component, first = self.flat.components, self.flat.components["first_executor"]
        sinks = np.zeros(self.flat.first_acker, dtype=bool)
        for c in np.flatnonzero(component["sink"][:-1]):
            sinks[first[c] : first[c + 1]] = True
        ends = sinks.copy()
        ends[self._spout_executors] = True
        found = []
        for node in np.flatnonzero(np.bincount(nodes)):
            through = np.where(ends & (nodes != node), 0.0, 1.0)
            rows = moments(self.stages, through)[sinks].sum(axis=0)
            if rows[0] > 0:
                found.append((through, rows))
        if not found:
            raise ModelDeclined("no path begins and ends on one worker node")
        span = max(_span(rows) for _, rows in found)
        size = min(self.frequencies, _FEW)
        cf = np.sum([spectra(self.stages, t, size, span).sum(axis=0) for t, _ in found], axis=0)
        value = mean_below(grid(size), span, cf / sum(rows[0] for _, rows in found), cut_ms)
        if not np.isfinite(value):
            raise ModelDeclined(f"no path within one worker node is below the cut of {cut_ms:.3g} ms")
        return value

    @cached_property
    def _spout_executors(self) -> IntArray:
        component = self.flat.components
        first = component["first_executor"]
        spouts = np.flatnonzero(component["kind"][:-1] == SPOUT)
        return np.concatenate([np.arange(first[c], first[c + 1]) for c in spouts])

    @cached_property
    def _trees(self) -> tuple[float, Trees, Back]:
        """Span, trees, and what was known on the way back from the acks."""
        self.require_acked()
        seats = first_seats(self.flat)
        sizes = group_sizes(self.flat, self.rates, seats)
        span = reach(self.stages, seats, sizes) + 4 * float(
            self.loop.empty_ms.max() + self.queue_wait_ms.max() + self._replies_ms.max()
        )
        known = back(self.stages, grid(self.frequencies), span, seats, sizes)
        return span, trees(known), known

    @cached_property
    def _complete_ms(self) -> dict[str, float]:
        _, tree, known = self._trees
        spouts = self._emitting
        way_ms = known.way.mean_ms[known.way.of[spouts]]
        return self._by_spout(spouts, tree.mean_ms[spouts] - way_ms)

    def complete_mean_ms(self) -> dict[str, float]:
        """Return the mean complete latency, whole (key empty) and by spout executor's label.

        The latency is from the acker's receipt of a message's first word to that of its last ack. Both pass
        the same queue, so only the spout's hop to the acker is taken off.

        Raises
        ------
        Saturated, ModelDeclined
            When there is none.
        """
        return self._complete_ms

    def _by_spout(self, spouts: IntArray, value: FloatArray) -> dict[str, float]:
        rate = self.service.rate[spouts]
        labels = (self.network.layout.labels[e] for e in spouts)
        found = {"": float(rate @ value / rate.sum())} if rate.sum() > 0 else {}
        return found | dict(zip(labels, (float(v) for v in value), strict=True))

    @cached_property
    def _emitting(self) -> IntArray:
        spouts = self._spout_executors
        return spouts[self.service.rate[spouts] > 0]

    @cached_property
    def _replies_ms(self) -> FloatArray:
        return reply_ms(self.stages)

    def ack(self) -> dict[str, Latency]:
        """Return the time from emit to ack at the spout, whole (key empty) and by spout executor's label.

        Raises
        ------
        Saturated, ModelDeclined
            When there is none.
        """
        span, tree, _ = self._trees
        net, spouts = self.flat, self._emitting
        cf = tree.cf[spouts]
        times_end(self.stages, self.loop, spouts, np.pi / span, cf)
        in_empty = self.loop.in_empty[spouts]
        read = in_empty * self.loop.empty_ms[spouts] / 2 + (1 - in_empty) * self.loop.used_ms[spouts] / 2
        at_acker = float(
            np.mean(self.queue_wait_ms[net.first_acker :] + self.service.hold[net.first_acker :, 0])
        )
        mean = tree.mean_ms[spouts] + at_acker + self._replies_ms[spouts] + read
        means = self._by_spout(spouts, mean)
        rate = self.service.rate[spouts]
        share = rate / rate.sum()
        whole = (share[:, None] * cf).sum(axis=0)
        levels = quantiles(grid(cf.shape[1]), span, np.vstack([whole, cf]), _LEVELS)
        labels = ["", *(self.network.layout.labels[e] for e in spouts)]
        return {name: Latency(means[name], one) for name, one in zip(labels, levels, strict=True)}


def solve(network: Network, size: int | None = None) -> Solution:
    """Solve a network.

    Parameters
    ----------
    network : Network
    size : int, optional
        Frequencies; fewer are quicker, and percentiles are then blurred.

    Raises
    ------
    ModelDeclined
        When the network is not in order.
    """
    names, net = flatten(network)
    propagated = rates(net)
    use = contention(net, cores_needed(net, propagated), network.stretch)
    times = service(net, propagated, use.stretch)
    loop = spout_loop(net, times.hold[: net.first_acker, 0])
    return Solution(network, names, net, propagated, use, times, loop, size)


def latencies(names: Iterable[str], cf: ComplexArray, span: float, means: FloatArray) -> dict[str, Latency]:
    """Return latencies, whole (key empty) and by name.

    Parameters
    ----------
    names : iterable of str
        All but the first.
    cf : array (latencies, frequencies)
        Characteristic functions.
    span : float
        Of their grid, ms.
    means : array (latencies)
    """
    levels = quantiles(grid(cf.shape[1]), span, cf, _LEVELS)
    return dict(zip(["", *names], map(Latency, means.tolist(), levels), strict=True))


def _span(moments: FloatArray) -> float:
    mean = moments[1] / moments[0]
    spread = np.sqrt(max(moments[2] / moments[0] - mean * mean, (0.01 * mean) ** 2))
    return max(float(mean + _DEVIATIONS * spread), _LEAST_MS)
