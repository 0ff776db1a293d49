"""Placements with the lowest latency that the composite model predicts, within a budget where one is given.

The starts are other schedulers' plans and the plan in force; ``guided_search`` improves on the best of them.
The plan in force stays unless the gain is larger than two margins: the uncertainty that the source leaves,
and the difference between two measurements of one configuration. With a budget, ``guided_counts`` chooses
the counts first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple, get_args

from pydantic import Field, field_validator

from harness.errors import MeasurementsNeeded, ModelDeclined, SchedulerDeclined
from harness.models.composite.model import composite
from harness.plans import (
    Frozen,
    PhysicalPlan,
    Positive,
    PositiveFloat,
    QueryPlan,
    TopologyConfiguration,
    WorkerNode,
)
from harness.protocols import Observation, Proposal, Scheduler
from harness.schedulers.aniello_offline import AnielloOfflineScheduler
from harness.schedulers.aniello_online import AnielloOnlineScheduler
from harness.schedulers.even import EvenScheduler
from harness.schedulers.guided_counts import BudgetSearch, CountedPlan, SchedulingBudget
from harness.schedulers.guided_effort import Effort, most_effort
from harness.schedulers.guided_scoring import GuidedScore, LatencyStatistic, PlanJudge, WorkerSets
from harness.schedulers.guided_search import PlacementSearch, Seated
from harness.schedulers.loads import overload_notes
from harness.schedulers.placement import unplaced_executors
from harness.schedulers.plan_costs import distinct_nodes, plan_shape
from harness.schedulers.traffic import task_traffic
from harness.schedulers.traffic_cut import TrafficCutScheduler

STARTS: Mapping[str, Scheduler] = {
    "even": EvenScheduler(),
    "aniello-offline": AnielloOfflineScheduler(),
    "aniello-online": AnielloOnlineScheduler(),
    "traffic-cut": TrafficCutScheduler(),
}
"""Schedulers whose plans the search starts from: those that answer at once and keep to the asked workers."""
IN_FORCE = "the plan in force"
MOST_IMPROVED = 2
"""Starts that are improved, the best ones first."""
Pct = Annotated[float, Field(ge=0, lt=100)]


class ModelGuidedScheduler(Frozen):
    """The lowest predicted latency, or the fewest workers and executors that keep a target.

    Attributes
    ----------
    objective : str or mapping
        A statistic of the ground-truth latency to be lowered (mean, p50, p90, p95, p99); or a target as
        ``{"p95_ms": 200}``: the fewest workers, then executors, whose 90 % interval ends below it.
    rate_tps : float, optional
        Messages a second to place for. None: the source's.
    max_executors, max_workers : int, optional
        The budget: executors of the query plan's components together, and workers. Without one the counts
        stay as asked; with a target alone it is every task and every free slot.
    restart_pct : float
        Price of a restarted worker, in percent of the latency.
    least_gain_pct : float
        The plan in force stays unless the latency falls by more than this: two measurements of one
        configuration differ by as much (README.md, noise-floor).
    executor_gain_pct : float
        What an executor or worker more has to bring, without a target.
    most_effort : int, optional
        Bound of the search, in moves of one executor (0.3 ms of CPU time each); what is solved counts by its
        size (``guided_effort``). By default in proportion to the executors, for 2 s up to 60.
    """

    objective: LatencyStatistic | Mapping[str, PositiveFloat] = "mean"
    rate_tps: PositiveFloat | None = None
    max_executors: Positive | None = None
    max_workers: Positive | None = None
    restart_pct: Pct = 0.1
    least_gain_pct: Pct = 3.7
    executor_gain_pct: Pct = 2.0
    most_effort: Positive | None = None

    @field_validator("objective")
    @classmethod
    def _one_target(cls, value: object) -> object:
        if isinstance(value, Mapping):
            known = [f"{name}_ms" for name in get_args(LatencyStatistic)]
            if len(value) != 1 or not value.keys() <= set(known):
                raise ValueError(f"a target has one key of {', '.join(known)}")
        return value

    @property
    def statistic(self) -> LatencyStatistic:
        """Statistic of the latency that is lowered, or kept to a target."""
        if isinstance(self.objective, str):
            return self.objective
        (key,) = self.objective
        statistic: LatencyStatistic = key.removesuffix("_ms")  # type: ignore[assignment]  # validated
        return statistic

    @property
    def target_ms(self) -> float | None:
        """The target; None where the latency is to be lowered."""
        return None if isinstance(self.objective, str) else next(iter(self.objective.values()))

    def within(
        self, rate_tps: float, max_executors: int | None, max_workers: int | None
    ) -> ModelGuidedScheduler:
        """Return the same scheduler for a rate and a budget; its own parameters go before them."""
        given = {"rate_tps": rate_tps, "max_executors": max_executors, "max_workers": max_workers}
        own = {key: value for key in given if (value := getattr(self, key)) is not None}
        return self.model_copy(update=given | own)

    @property
    def chooses_counts(self) -> bool:
        """True if numbers of executors and workers are chosen, too."""
        return self.target_ms is not None or self.max_executors is not None or self.max_workers is not None

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Search placements from the source's measurements.

        Raises
        ------
        SchedulerDeclined
            Without a source, or where the model declines it.
        """
        if source is None:
            raise MeasurementsNeeded("needs the measurements of a running step: give a source")
        unplaced_executors(query_plan, configuration, source)
        try:
            budget = self._budget(query_plan, configuration, nodes)
            own = sum(configuration.executors.values()) - _asked_executors(query_plan, configuration)
            judge = PlanJudge(
                prepared=composite.prepare(source),
                settings=source.settings,
                rate_tps=self.rate_tps or source.rate_tps,
                effort=Effort(self.most_effort or most_effort(budget.executors + own)),
                statistic=self.statistic,
                restart_pct=self.restart_pct,
                latencies=source.latencies,
            )
            inner = tuple(sorted(nodes, key=lambda n: n.name))
            guided = _GuidedPlacing(self, judge, query_plan, configuration, budget, inner, source)
            plan, notes = guided.answer()
        except ModelDeclined as why:
            raise SchedulerDeclined(f"the composite model declined: {why}") from why
        plan = plan.model_copy(update={"nodes": nodes})
        return Proposal(plan, notes + overload_notes(plan, source))

    def _budget(
        self, query_plan: QueryPlan, configuration: TopologyConfiguration, nodes: tuple[WorkerNode, ...]
    ) -> SchedulingBudget:
        """Return the budget, with defaults for what is not asked."""
        free, tasks = sum(len(n.slots) for n in nodes), sum(c.tasks for c in query_plan.components)
        now = _asked_executors(query_plan, configuration)
        open_ended = self.target_ms is not None
        executors = self.max_executors or (tasks if open_ended else now)
        workers = self.max_workers or (free if open_ended else configuration.workers)
        return SchedulingBudget(executors, min(workers, free))


class _StartingPlan(NamedTuple):
    name: str
    seated: Seated


@dataclass
class _GuidedPlacing:
    """One question under work."""

    asked: ModelGuidedScheduler
    judge: PlanJudge
    query_plan: QueryPlan
    configuration: TopologyConfiguration
    budget: SchedulingBudget
    nodes: tuple[WorkerNode, ...]
    source: Observation

    def answer(self) -> tuple[PhysicalPlan, tuple[str, ...]]:
        """Return the plan with the notes to it."""
        plan, notes = self._found()
        effort = self.judge.effort
        if not effort.ended:
            return plan, notes
        return plan, (
            *notes,
            f"the search ended at its bound (most_effort: {effort.most}): a better plan may exist",
        )

    def _found(self) -> tuple[PhysicalPlan, tuple[str, ...]]:
        target_ms = self.asked.target_ms
        if not self.asked.chooses_counts:
            return self._placed(self.configuration)
        search = BudgetSearch(
            self.judge,
            self.query_plan,
            self.configuration,
            self.budget,
            self.asked.executor_gain_pct,
            self._dealt,
        )
        if target_ms is None:
            with self.judge.effort.share(2):
                found = search.least_latency()
            plan, notes = self._placed(found.configuration)
            return plan, (self._counts_note(found.configuration), *notes)
        found = search.keeping(target_ms, self._improved)
        return self._kept(self._in_force_if_it_keeps(found, target_ms), target_ms)

    def _in_force_if_it_keeps(self, found: CountedPlan, target_ms: float) -> CountedPlan:
        """Return the plan in force where it has the counts that were found and keeps the target, too.

        Another placement would restart workers, and spare none and no executor.
        """
        running = self.source.plan
        asked = found.configuration
        if not found.keeps(target_ms) or not self._runs(asked):
            return found
        in_force = CountedPlan(asked, running, self.judge.of_plan(running), self.judge.estimate(running))
        return in_force if in_force.keeps(target_ms) else found

    def _placed(self, configuration: TopologyConfiguration) -> tuple[PhysicalPlan, tuple[str, ...]]:
        """Place given counts: the plan in force where nothing is better by enough."""
        search = self._search(configuration)
        starts, notes = self._starts(search, configuration)
        best = self._best(search, starts)
        name, start = starts[0]
        notes = (*notes, self._runner_up(starts, best, search))
        running = next((s.seated for s in starts if s.name == IN_FORCE), None)
        plan = search.plan(best.slots)
        if running is not None and running.slots != best.slots and (why := self._stays(running, best, plan)):
            return self.source.plan, (*notes, why)
        return plan, (*notes, f"from {name} at {start.score.text} to {best.score.text}")

    def _stays(self, running: Seated, best: Seated, plan: PhysicalPlan) -> str:
        """Return why the plan in force stays; empty where it does not."""
        if best.score.saturated or running.score.saturated:
            return "" if best.score < running.score else f"{IN_FORCE} stays: no plan sustains more"
        gain = self.judge.gain(plan, self.source.plan)
        if gain is None:
            return ""
        least = self.asked.least_gain_pct
        if gain.gain_pct > least and gain.low_pct > 0:
            return ""
        return (
            f"{IN_FORCE} stays: the best found is {gain.gain_pct:.1f} % ({gain.low_pct:.1f} to"
            f" {gain.high_pct:.1f} %) better, and a gain counts from {least:g} % and with its whole interval"
        )

    def _kept(self, found: CountedPlan, target_ms: float) -> tuple[PhysicalPlan, tuple[str, ...]]:
        """Say how a target is kept, or how far off the best plan is."""
        what = f"{self.asked.statistic} of {target_ms:g} ms at {self.judge.rate_tps:g} messages/s"
        counts = self._counts_note(found.configuration)
        if found.keeps(target_ms):
            e = found.estimate
            assert e is not None
            assert e.value is not None
            assert e.high is not None
            margin_pct = 100 * (1 - e.high / target_ms)
            return found.plan, (
                f"keeps a {what}: {e.value:.4g} ms, at most {e.high:.4g} ({margin_pct:.0f} % to spare)",
                counts,
            )
        budget = self.budget
        nothing = (
            f"no plan of at most {budget.executors} executors on {budget.workers} workers keeps a {what}"
        )
        e = found.estimate
        if e is None or e.value is None:
            return found.plan, (f"{nothing}: the best that was found is {found.score.text}", counts)
        end = e.value if e.high is None else e.high
        off = 100 * (end / target_ms - 1)
        return found.plan, (
            f"{nothing}: the best that was found has {e.value:.4g} ms, at most {end:.4g} ({off:.0f} % over)",
            counts,
        )

    def _counts_note(self, configuration: TopologyConfiguration) -> str:
        counts = " ".join(f"{c.name}:{configuration.executors[c.name]}" for c in self.query_plan.components)
        return f"{counts} on {configuration.workers} workers"

    def _dealt(self, configuration: TopologyConfiguration) -> PhysicalPlan:
        return EvenScheduler().propose(self.query_plan, configuration, self.nodes, self.source).plan

    def _improved(self, found: CountedPlan) -> CountedPlan:
        search = self._search(found.configuration)
        best = self._best(search, self._starts(search, found.configuration)[0])
        return CountedPlan(found.configuration, search.plan(best.slots), best.score)

    def _search(self, configuration: TopologyConfiguration) -> PlacementSearch:
        executors = unplaced_executors(self.query_plan, configuration, self.source)
        traffic_tps = task_traffic(self.source).between_executors(executors)
        sets = WorkerSets(executors, self.source.plan)
        return PlacementSearch(
            self.judge,
            self.query_plan,
            self.nodes,
            executors,
            sets,
            traffic_tps,
        )

    def _best(self, search: PlacementSearch, starts: list[_StartingPlan]) -> Seated:
        return min((search.improve(s.seated) for s in starts[:MOST_IMPROVED]), key=lambda s: s.score)

    def _starts(
        self, search: PlacementSearch, configuration: TopologyConfiguration
    ) -> tuple[list[_StartingPlan], tuple[str, ...]]:
        """Return other schedulers' plans that differ, best first, and the notes of Storm's own.

        Raises
        ------
        SchedulerDeclined
            When Storm's own has no plan.
        """
        storms = STARTS["even"].propose(self.query_plan, configuration, self.nodes, self.source)
        notes = tuple(n for n in storms.notes if "workers are asked for" in n)
        plans = {}
        if self._runs(configuration):
            plans[IN_FORCE] = self.source.plan
        plans["even"] = storms.plan
        for name, scheduler in STARTS.items():
            if name not in plans:
                try:
                    proposal = scheduler.propose(self.query_plan, configuration, self.nodes, self.source)
                except SchedulerDeclined:
                    continue
                plans[name] = proposal.plan
        differing: dict[Hashable, tuple[str, PhysicalPlan]] = {}
        for name, plan in plans.items():
            differing.setdefault(plan_shape(plan, self._distinct), (name, plan))
        starts = []
        for name, plan in differing.values():
            by_label = {e.label: e.worker for e in plan.executors}
            starts.append(_StartingPlan(name, search.seated([by_label[e.label] for e in search.executors])))
        return sorted(starts, key=lambda s: s.seated.score), notes

    @cached_property
    def _distinct(self) -> frozenset[str]:
        """Nodes that are like no other, for a link that a plan does not know."""
        return distinct_nodes(self.judge.prepared, self.nodes)

    def _runs(self, configuration: TopologyConfiguration) -> bool:
        """Return whether the plan in force is an answer to what is asked."""
        running = self.source.plan
        asked = unplaced_executors(self.query_plan, configuration, self.source)
        slots = {(n.name, port) for n in self.nodes for port in n.slots}
        return (
            {e.label for e in running.executors} == {e.label for e in asked}
            and len(running.workers) <= configuration.workers
            and all((w.node, w.port) in slots for w in running.workers)
        )

    def _runner_up(self, starts: list[_StartingPlan], best: Seated, search: PlacementSearch) -> str:
        name, second = next(((n, s) for n, s in starts if s.slots != best.slots), starts[0])
        more = _more(second.score, best.score)
        return f"{search.looked_at} placements looked at; the runner-up is {name}: {second.score.text}{more}"


def _asked_executors(query_plan: QueryPlan, configuration: TopologyConfiguration) -> int:
    """Count executors without Storm's own."""
    return sum(configuration.executors[c.name] for c in query_plan.components)


def _more(score: GuidedScore, best: GuidedScore) -> str:
    if score.saturated or best.saturated:
        return ""
    return f", {100 * (score.value / best.value - 1):+.1f} %"
