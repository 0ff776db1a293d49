"""A step whose plan changes while it is measured: each period somebody is asked, and the answer is applied.

A scheduler answers with a plan or with routing tables of key groups, a tuner with numbers of executors and
workers and with batch sizes.

Messages flow on meanwhile. Each period is a row of ``adaptation.parquet``, with its measurements and its
decision. Messages that were lost or came out twice are counted by the decision that restarted their workers;
the others are unexplained.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from harness.experiments.adapted_periods import (
    APPLY_MOST_S,
    AdaptedPeriod,
    AskedChange,
    NodeChange,
    PeriodDecision,
    components_of,
)
from harness.experiments.config import Step
from harness.experiments.contracts import Metrics, WorkerSeen
from harness.experiments.key_group_moves import GroupMove, KeyGroupRoutes, moved_groups
from harness.experiments.live_batches import not_in_force, reported_sizes, sizes_by_stream
from harness.experiments.measuring import Measurement, StepToMeasure
from harness.experiments.planned_rates import NO_RATES, DueRates, RatesSeen
from harness.experiments.schedule import Due
from harness.experiments.step_settings import AdaptSpec
from harness.plans import Batching, PhysicalPlan, RoutingTables, WorkerNode

LAG_S = 2.0
"""Metrics of a bucket are with the harness at most so much after its end."""
POLL_S = 0.25
LEAST_SEEN_S = 4.0
"""A plan that can be seen for less by the end of a period stays: its metrics tell too little."""


class NodesSeen(NamedTuple):
    """Worker nodes as a period finds them.

    Attributes
    ----------
    there : tuple of WorkerNode
    marked : tuple of str
        Those among them that earlier periods marked for removal.
    spare : tuple of WorkerNode
        Nodes that could be added, in their order.
    """

    there: tuple[WorkerNode, ...] = ()
    marked: tuple[str, ...] = ()
    spare: tuple[WorkerNode, ...] = ()


class PeriodSeen(NamedTuple):
    """A period as whoever decides on the next plan sees it.

    Attributes
    ----------
    step : Step
    plan : PhysicalPlan
        In force.
    rate_tps : float
        Messages a second to plan for; those that were due in the period, unless a forecast is asked.
    start_epoch_ms, end_epoch_ms : int
        The period from when the plan had settled, shifted by what metrics take to arrive.
    metrics : Table
        Rows since the step began; workers by address.
    nodes : NodesSeen
    batching : mapping of str to BatchSize
        In force, of all streams that may be batched, by ``component:stream``.
    tables : mapping of str to tuple of int
        Routing tables in force, of all components with key groups.
    rates : RatesSeen
        Messages a second that were due since the interval began, up to the decision.
    unchanged_s : float, optional
        Seconds since a change was asked for last. None where none was.
    """

    step: Step
    plan: PhysicalPlan
    rate_tps: float
    start_epoch_ms: int
    end_epoch_ms: int
    metrics: pa.Table
    nodes: NodesSeen = NodesSeen()
    batching: Batching = MappingProxyType({})
    tables: RoutingTables = MappingProxyType({})
    rates: RatesSeen = NO_RATES
    unchanged_s: float | None = None


Adapter = Callable[[PeriodSeen], PeriodDecision]
"""Decides on the next plan."""


def no_adapter(seen: PeriodSeen) -> PeriodDecision:
    """Leave the plan as it is."""
    del seen
    return PeriodDecision("stays", "nobody decides", None, {})


class AdaptingMeasurement(Measurement):
    """Measures one step, and lets its plan be changed at the end of each period.

    Parameters
    ----------
    given : StepToMeasure
        Its interval is as long as it may be.
    metrics : Metrics
        Where the wrappers' metrics arrive.
    due : callable
        Counts the messages that were due in a span.
    routes : KeyGroupRoutes
        By which key groups move.
    adapter : callable
    asked : AdaptSpec
        The step's periods and buckets of traffic.
    periods : list of AdaptedPeriod
        Gets each period.
    """

    def __init__(
        self,
        given: StepToMeasure,
        metrics: Metrics,
        due: Callable[[int, int], Due],
        routes: KeyGroupRoutes,
        adapter: Adapter,
        asked: AdaptSpec,
        periods: list[AdaptedPeriod],
    ) -> None:
        super().__init__(given, tolerant=True)
        self._measure = self._measure.whole
        self._live = metrics
        self._due = due
        self._routes = routes
        self._adapter = adapter
        self._period_s = asked.period_s
        self._bucket_s = asked.bucket_s
        self._to_settle_s = asked.settle_s
        self._shown_ns = 0
        self._next_s = asked.period_s
        self._rates: DueRates | None = None
        self._sizes = sizes_by_stream(given.experiment.topology.query_plan(), given.step.batching)
        self.periods = periods

    def _measure_until(self, start_ns: int, until_s: float, most_s: float) -> None:
        last_s = self._measure.interval.most_s // self._period_s * self._period_s
        while (due_s := self._next_s) <= min(until_s, last_s):
            super()._measure_until(start_ns, due_s, most_s)
            self._end_period(start_ns, last=due_s == last_s)
            passed_s = (time.monotonic_ns() - start_ns) / 1e9  # a change may take longer than a period
            following_s = (passed_s // self._period_s + 1) * self._period_s
            self._next_s = math.inf if due_s == last_s else min(following_s, last_s)
        super()._measure_until(start_ns, until_s, most_s)

    def _end_period(self, start_ns: int, *, last: bool) -> None:
        """Let a period be decided on; after the last one of a step nothing changes."""
        number = len(self.periods)
        begun_ns = self.periods[-1].end_ns if self.periods else start_ns
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        lag_ns = round(LAG_S * 1e9)
        seen_ns = max(begun_ns - lag_ns, self._shown_ns)
        rate_tps = self._due(begun_ns, now_ns).messages / ((now_ns - begun_ns) / 1e9)
        self._rates = self._rates or DueRates(self._due, start_ns, self._bucket_s)
        rates = self._rates.until(now_ns)
        plan, marked = self._deployment.plan(), self.periods[-1].marked if self.periods else ()
        nodes = NodesSeen(self._deployment.nodes(), marked, self._deployment.spare_nodes())
        metrics = self._live.rows(self._up_epoch_ms, now_ms)
        if now_ns - lag_ns - seen_ns < LEAST_SEEN_S * 1e9:
            decided = PeriodDecision("stays", self._words_of_a_new_plan(now_ns), None, {})
        else:
            seen = PeriodSeen(
                step=self._step,
                plan=plan,
                rate_tps=rate_tps,
                start_epoch_ms=now_ms - round((now_ns - seen_ns) / 1e6),
                end_epoch_ms=now_ms - round(LAG_S * 1e3),
                metrics=metrics,
                nodes=nodes,
                batching=self._sizes,
                tables=self._routes.tables(),
                rates=rates,
                unchanged_s=self._unchanged_s(now_ns),
            )
            decided = self._adapter(seen)
        if last and (decided.change is not None or decided.nodes != NodeChange()):
            decided = decided.unchanged("the step ends")
        period = AdaptedPeriod(
            begun_ns,
            now_ns,
            decided,
            rate_tps=rate_tps,
            configuration=components_of(plan),
            nodes=nodes.there,
            marked=_still_marked(marked, decided.nodes),
            batches=reported_sizes(metrics, self._sizes),
        )
        self.periods.append(period)
        self._change_nodes(decided.nodes, number)
        if period.decided.change is not None:
            self._apply(period, period.decided.change, number)

    def _unchanged_s(self, now_ns: int) -> float | None:
        """Return the seconds since a change was asked for last; None where none was."""
        asked_ns = max((p.asked_ns for p in self.periods), default=0)
        return (now_ns - asked_ns) / 1e9 if asked_ns else None

    def _words_of_a_new_plan(self, now_ns: int) -> str:
        in_force_ns = next(p.in_force_ns for p in reversed(self.periods) if p.in_force_ns)
        words = f"the plan has been in force for {(now_ns - in_force_ns) / 1e9:.0f} s only"
        to_settle_s = (self._shown_ns - in_force_ns) / 1e9
        return f"{words}, of which {to_settle_s:g} s are to settle" if to_settle_s else words

    def _change_nodes(self, change: NodeChange, number: int) -> None:
        """End nodes that are empty, and start others; return when Nimbus knows them."""
        if change.removed:
            self._deployment.end_nodes(change.removed)
        if change.added:
            words = f"period {number}: waiting for {', '.join(change.added)}"
            self._show("measure", self._watched.view(), 0.0, words)
            self._deployment.add_nodes(change.added)

    def _apply(self, period: AdaptedPeriod, change: AskedChange, number: int) -> None:
        """Ask for a change, and wait until it is in force or may no longer take.

        Batch sizes come first: workers that a plan starts begin with them. Only a plan restarts workers.
        """
        period.asked_ns, asked_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        moves: frozenset[GroupMove] = frozenset()
        if change.batching is not None:
            self._deployment.resize(change.batching)
            self._sizes = dict(change.batching)
        if change.tables is not None:
            moves = self._routes.move(change.tables)
        if change.placement is not None:
            self._deployment.place(change.configuration, change.placement)
        elif change.configuration != period.configuration:
            self._deployment.rebalance(change.configuration)
        limit_ns = period.asked_ns + round(APPLY_MOST_S * 1e9)
        while time.monotonic_ns() < limit_ns:
            self._deployment.check()
            plan = self._deployment.plan()
            up = self._as_asked(plan, change) and self._deployment.whole()
            if up and (not change.live or self._reported(period, plan, moves, asked_ms)):
                period.in_force_ns = self._shown_ns = time.monotonic_ns()
                if change.placement is not None or change.configuration != period.configuration:
                    self._shown_ns += round(self._to_settle_s * 1e9)  # workers restarted
                return
            self._show("measure", self._watched.view(), 0.0, f"period {number}: applying a plan")
            time.sleep(POLL_S)

    def _reported(
        self, period: AdaptedPeriod, plan: PhysicalPlan, moves: frozenset[GroupMove], asked_ms: int
    ) -> bool:
        """Return True if tasks have reported the batch sizes and key groups that were asked for."""
        rows = self._live.rows(asked_ms, time.time_ns() // 1_000_000)
        period.moved = tuple(m for m in moved_groups(rows) if m.move in moves)
        sizes = period.asked_batches
        return len(period.moved) == len(moves) and (sizes is None or not not_in_force(rows, plan, sizes))

    def _as_asked(self, plan: PhysicalPlan, change: AskedChange) -> bool:
        if change.placement is not None:
            return not change.placement.differences(plan)
        return bool(plan.executors) and plan.configuration() == self._deployment.expected(
            change.configuration
        )

    def _look_at_workers(self) -> dict[str, WorkerSeen]:
        """Return the workers now in use, whose restarts are wanted."""
        self._workers = dict(self._deployment.workers())
        return dict(self._workers)

    def _await_reports(self, by_the_end: object) -> None:
        """Wait for nobody: which workers report is the plan's."""


def _still_marked(marked: tuple[str, ...], change: NodeChange) -> tuple[str, ...]:
    gone = {*change.removed, *change.unmarked}
    return (*(name for name in marked if name not in gone), *change.marked)
