"""Arrivals at a proposed plan's executors, and their activity beside these, wherever their workers are.

The executors' places have a say here by the routing only (``task_routing``). Their further effects
(contention, coldness, hops) are made by ``network_builder``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from harness.models.composite.background import LOOK_MS, Activity, acker_arrivals, exchanged, remote_traffic
from harness.models.composite.idling import batching, waiting
from harness.models.composite.mechanisms import STARTS
from harness.models.composite.plan.flows import flows
from harness.models.composite.plan.row_batches import Messages, messages
from harness.models.composite.plan.starts import starts
from harness.models.composite.source_estimates import SourceEstimates
from harness.models.composite.task_routing import Places, places
from harness.models.contract.layout import FloatArray, IntArray, Layout
from harness.plans import BatchSize, Stream, batched_streams
from harness.protocols import Settings

Exchanges = tuple[
    Layout,
    Mapping[Stream, FloatArray],
    Mapping[Stream, FloatArray],
    Mapping[str, IntArray],
    FloatArray,
    FloatArray,
]


class Traffic:
    """The traffic of one proposed plan."""

    def __init__(
        self, prepared: SourceEstimates, layout: Layout, settings: Settings, rate_tps: float
    ) -> None:
        self.prepared = prepared
        self.layout = layout
        self.settings = settings
        self.rate_tps = rate_tps
        self.query_plan = layout.plan.query_plan
        self.at: Places = places(layout)
        observed = (prepared.keyed, prepared.inputs, prepared.fans)
        self.flows = flows(layout, self.at, settings, rate_tps, observed)
        self.held = {n: layout.by_executor(n, np.ones(tasks.size)) for n, tasks in layout.tasks.items()}

    @cached_property
    def served(self) -> FloatArray:
        """Tuples a second that bolts' executors serve, by executor of the query plan; 0 for spouts."""
        found = np.zeros(len(self.layout))
        for name, streams in self.flows.into.items():
            if streams:
                found[self.layout.of[name]] = self.layout.by_executor(name, self.flows.tasks[name])
        return found

    @cached_property
    def entered(self) -> FloatArray:
        """Messages a second that spouts' executors emit."""
        found = np.zeros(len(self.layout))
        for name, streams in self.flows.into.items():
            if not streams:
                found[self.layout.of[name]] = self.layout.by_executor(name, self.flows.tasks[name])
        return found

    @cached_property
    def batches(self) -> Mapping[Stream, BatchSize]:
        """Streams whose tuples travel in batches of the rewriting layer."""
        return batched_streams(self.query_plan, self.settings.batching)

    @cached_property
    def messages(self) -> Messages:
        """Batches of the rewriting layer a second."""
        return messages(self.layout, self.flows, self.batches)

    @cached_property
    def told(self) -> tuple[FloatArray, FloatArray]:
        """Messages a second of which ackers hear: got by bolts, and sent by spouts; a batch is one."""
        if not self.messages:
            return self.served, self.entered
        got, sent = np.zeros(len(self.layout)), np.zeros(len(self.layout))
        for name, streams in self.flows.into.items():
            at = self.layout.of[name]
            for s in streams:
                come = self.messages.get(s)
                got[at] += (
                    self.flows.inputs[s] if come is None else self.layout.by_executor(name, come.sum(axis=0))
                )
            if not streams:
                out = self.query_plan.outputs(name)
                batched = [self.messages[s].sum(axis=1) for s in out if s in self.messages]
                plain = self.entered[at] if len(batched) < len(out) or not out else np.zeros(got[at].size)
                sent[at] = np.sum([plain, *batched], axis=0)
        return got, sent

    @cached_property
    def acks(self) -> FloatArray:
        """Messages a second at ackers."""
        found = np.zeros(len(self.layout))
        found[self.layout.ackers] = acker_arrivals(self.layout, *self.told)
        return found

    @property
    def acks_of_one(self) -> float:
        """Messages at ackers over what they would be if every tuple was acked by itself."""
        if not self.messages:
            return 1.0
        told, alone = sum(v.sum() for v in self.told), self.served.sum() + self.entered.sum()
        return float(told / alone) if alone > 0 else 1.0

    @cached_property
    def arrivals(self) -> FloatArray:
        """Tuples and messages a second that come to each executor."""
        return self.served + self.entered + self.acks

    @cached_property
    def idle_ms(self) -> FloatArray:
        """Length of a sleep at each executor."""
        with np.errstate(divide="ignore"):
            gap_ms = 1000.0 / self.arrivals
        found = waiting(self.settings, "bolt").between_looks_ms(gap_ms)
        strategy = waiting(self.settings, "spout")
        for name, poll_ms in self.prepared.inputs.poll_ms.items():
            at = self.layout.of[name]
            round_ms = self.held[name] * poll_ms
            finite = np.minimum(gap_ms[at], 1e9)
            found[at] = strategy.between_rounds_ms(finite, round_ms)
        return found

    @cached_property
    def wall_ms(self) -> FloatArray:
        """Time of a bolt's tuple by the wall clock, as it was in the source."""
        found = np.zeros(len(self.layout))
        for name, demand in self.prepared.demand.items():
            found[self.layout.of[name]] = demand.wall_ms
        return found

    @cached_property
    def round_ms(self) -> FloatArray:
        """Time from one look of a spout's executor at a task to the next one at it; 0 for all others."""
        found = np.zeros(len(self.layout))
        for name, poll_ms in self.prepared.inputs.poll_ms.items():
            at = self.layout.of[name]
            polled_ms = self.held[name] * poll_ms
            empty = np.exp(-self.entered[at] / 1000 * polled_ms)
            found[at] = polled_ms + empty * self.idle_ms[at]
        return found

    @cached_property
    def starts(self) -> FloatArray:
        """Times a second that each executor begins to work; 0 for ackers."""
        if STARTS in self.prepared.without:
            return self.served + self.entered
        batches = batching(self.settings)
        return starts(
            self.layout, self.flows, batches, self.round_ms, self.idle_ms, self.wall_ms, self.messages
        )

    @property
    def _exchanges(self) -> Exchanges:
        emitted, routing = self.flows.emitted, self.flows.routing
        if self.messages:
            sums = {s: m.sum(axis=1) for s, m in self.messages.items()}
            emitted = {**emitted, **sums}
            rows = {
                s: np.divide(m, sums[s][:, None], out=np.zeros(m.shape), where=sums[s][:, None] > 0)
                for s, m in self.messages.items()
            }
            routing = {**routing, **rows}
        return self.layout, emitted, routing, self.at.holder, *self.told

    @cached_property
    def remote(self) -> FloatArray:
        """Messages and acks a second that cross workers, at each worker."""
        return remote_traffic(*self._exchanges)

    def remote_of_moved(self, position: int, worker: int) -> FloatArray:
        """Return the same with one executor in another worker: what it exchanges is remote for others."""
        with_each = exchanged(*self._exchanges, position)
        found, here, total = self.remote.copy(), self.layout.worker[position], with_each.sum()
        found[here] -= total - 2 * with_each[here]
        found[worker] += total - 2 * with_each[worker]
        return found

    @cached_property
    def saved(self) -> Mapping[str, float]:
        """Messages to other workers that batches save for each tuple of a component, where they save any."""
        found: dict[str, float] = {}
        for stream, batches in self.messages.items():
            here = self.layout.worker[self.layout.of[stream.source]]
            there = self.layout.worker[self.layout.of[stream.target]][self.at.holder[stream.target]]
            far = here[:, None] != there
            tuples = self.flows.emitted[stream][:, None] * np.nan_to_num(self.flows.routing[stream])
            taken = self.flows.tasks[stream.source].sum()
            if taken > 0:
                less = float((tuples - batches)[far].sum() / taken)
                found[stream.source] = found.get(stream.source, 0.0) + less
        return found

    @cached_property
    def activity(self) -> Activity:
        """Activity of the executors beside their work."""
        layout, entered = self.layout, self.entered
        free = np.maximum(1.0 - self.arrivals * self.wall_ms / 1000, 0.0)
        looks = free * 1000 / np.maximum(self.idle_ms, LOOK_MS)
        polls, consumers = (np.zeros(len(layout)) for _ in range(2))
        for name in self.prepared.inputs.poll_ms:
            at = layout.of[name]
            looks[at] = 0.0
            consumers[at] = 1.0
            polls[at] = np.maximum(self.held[name] * 1000 / self.round_ms[at] - entered[at], 0.0)
        sends = np.zeros(len(layout))
        for name in self.query_plan.sinks:
            sends[layout.of[name]] = self.starts[layout.of[name]]
        return Activity(looks, polls, consumers, np.where(entered > 0, self.starts, 0.0), sends, self.remote)
