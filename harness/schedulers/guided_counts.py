"""Numbers of executors and workers within a budget, by the composite model.

For the least latency, the best of all counts a step away is taken, from the counts at hand, while that best
is better by enough.

For a target, numbers of workers are tried from one upwards. With each, executors are added from one a bolt:
to the fullest bolt while something is overloaded, then to the bolt that lowers the latency most. The first
counts whose interval keeps the target are thinned out again.

Executors are dealt as Storm deals them meanwhile, and placed better where a target is near.

The judge counts what is solved. Where its effort ends, what has been found is the answer. Each number of
workers has an equal part of the effort that those before it left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.errors import SchedulerDeclined
from harness.plans import PhysicalPlan, QueryPlan, TopologyConfiguration
from harness.protocols import Estimate
from harness.schedulers.guided_scoring import GuidedScore, PlanJudge

LEAST_GROWTH = 1e-3
"""Relative gain below which an executor more is not worth a look."""
NEAR_TARGET = 1.25
"""A plan up to so far above the target may come below it by another placement."""


class SchedulingBudget(NamedTuple):
    """The most that a plan may use.

    Attributes
    ----------
    executors : int
        Of the query plan's components together, spouts included.
    workers : int
    """

    executors: int
    workers: int


class CountedPlan(NamedTuple):
    """Counts, a plan with these, and what it is worth.

    Attributes
    ----------
    configuration : TopologyConfiguration
    plan : PhysicalPlan
    score : GuidedScore
    estimate : Estimate, optional
        With its interval; None where it was not asked for.
    """

    configuration: TopologyConfiguration
    plan: PhysicalPlan
    score: GuidedScore
    estimate: Estimate | None = None

    def keeps(self, target_ms: float) -> bool:
        """Return whether the upper end of the interval is within a target."""
        e = self.estimate
        return e is not None and e.high is not None and e.high <= target_ms


PlaceCounts = Callable[[TopologyConfiguration], PhysicalPlan]
"""A quick placement of counts."""
Improve = Callable[[CountedPlan], CountedPlan]
"""The same counts, placed better."""


@dataclass
class BudgetSearch:
    """A search over counts.

    Attributes
    ----------
    judge : PlanJudge
    query_plan : QueryPlan
    start : TopologyConfiguration
        The counts at hand; spouts and Storm's own components keep theirs.
    budget : SchedulingBudget
    gain_pct : float
        What an executor or worker more has to lower the latency by.
    place : callable
    """

    judge: PlanJudge
    query_plan: QueryPlan
    start: TopologyConfiguration
    budget: SchedulingBudget
    gain_pct: float
    place: PlaceCounts
    seen: dict[tuple[object, ...], CountedPlan] = field(default_factory=dict, init=False)

    def least_latency(self) -> CountedPlan:
        """Return the counts with the least latency.

        Raises
        ------
        SchedulerDeclined
            When the budget is less than an executor for each component.
        """
        best = self._counted(self._within(self.start))
        while True:
            steps = [
                (self._counted(after), self._more(after, best.configuration))
                for after in self._steps(best.configuration)
                if self.judge.effort.allows()
            ]
            better = [s for s, more in steps if self._is_better(s.score, best.score, more)]
            if not better:
                return best
            best = min(better, key=lambda s: (s.score, self._size(s.configuration)))

    def keeping(self, target_ms: float, improve: Improve) -> CountedPlan:
        """Return the fewest workers, then executors, that keep a target; else what comes closest.

        Raises
        ------
        SchedulerDeclined
            As ``least_latency``.
        """
        closest: CountedPlan | None = None
        for workers in range(1, self.budget.workers + 1):
            if closest is not None and not self.judge.effort.allows():
                break
            place: Improve = _as_dealt
            with self.judge.effort.share(self.budget.workers + 1 - workers):
                found = self._grown(self._fewest(workers), target_ms)
                if not found.keeps(target_ms) and _is_near(found, target_ms) and self.judge.effort.allows():
                    found, place = self._estimated(improve(found)), improve
            if found.keeps(target_ms):
                return self._thinned(found, target_ms, place)
            if closest is None or found.score < closest.score:
                closest = found
        if closest is None:
            raise SchedulerDeclined("a budget of no workers")
        return self._estimated(closest)

    def _grown(self, found: CountedPlan, target_ms: float) -> CountedPlan:
        """Add executors until the target is kept, the budget is used, or it does not help."""
        while True:
            if not found.score.saturated and found.score.value <= target_ms:
                found = self._estimated(found)
                if found.keeps(target_ms):
                    return found
            if self._room(found.configuration) <= 0 or not self.judge.effort.allows():
                return found
            following = self._relieved(found) if found.score.saturated else self._grown_by_one(found)
            if following is None:
                return found
            found = following

    def _relieved(self, found: CountedPlan) -> CountedPlan | None:
        """Return the counts with more of the bolt whose executor is fullest; None where it cannot be.

        It gets as many executors as its load is, so a high rate takes few steps; at least one more.
        """
        solution = self.judge.solved(found.plan)
        of = solution.network.layout.of
        fullest = max(self._bolts, key=lambda name: float(solution.loads[of[name]].max()))
        count, load = found.configuration.executors[fullest], float(solution.loads[of[fullest]].sum())
        most = min(self._tasks[fullest], count + self._room(found.configuration))
        if float(solution.loads[of[fullest]].max()) < 1 or count >= most:
            return None
        needed = math.ceil(load) if math.isfinite(load) else 0
        return self._counted(_with(found.configuration, {fullest: min(max(needed, count + 1), most)}))

    def _grown_by_one(self, found: CountedPlan) -> CountedPlan | None:
        counts = found.configuration.executors
        grown = [
            self._counted(_with(found.configuration, {name: counts[name] + 1}))
            for name in self._bolts
            if counts[name] < self._tasks[name] and self.judge.effort.allows()
        ]
        best = min(grown, key=lambda g: g.score, default=None)
        if best is None or best.score.saturated:
            return None
        return best if best.score.value < found.score.value * (1 - LEAST_GROWTH) else None

    def _thinned(self, found: CountedPlan, target_ms: float, place: Improve) -> CountedPlan:
        """Take executors off while the target is kept by plans that are placed likewise."""
        while (fewer := self._one_fewer(found, target_ms, place)) is not None:
            found = fewer
        return found

    def _one_fewer(self, found: CountedPlan, target_ms: float, place: Improve) -> CountedPlan | None:
        """Return counts with one executor fewer that keep the target; None where none do."""
        counts = found.configuration.executors
        fewer = [
            self._counted(_with(found.configuration, {name: counts[name] - 1}))
            for name in self._bolts
            if counts[name] > 1 and self.judge.effort.allows()
        ]
        for one in sorted(fewer, key=lambda f: f.score):
            if _is_near(one, target_ms) and self.judge.effort.allows():
                placed = self._estimated(place(one))
                if placed.keeps(target_ms):
                    return placed
        return None

    def _estimated(self, found: CountedPlan) -> CountedPlan:
        if found.estimate is not None:
            return found
        return found._replace(estimate=self.judge.estimate(found.plan))

    def _counted(self, configuration: TopologyConfiguration) -> CountedPlan:
        key = (configuration.workers, *sorted(configuration.executors.items()))
        if key not in self.seen:
            plan = self.place(configuration)
            self.seen[key] = CountedPlan(configuration, plan, self.judge.of_plan(plan))
        return self.seen[key]

    def _fewest(self, workers: int) -> CountedPlan:
        fewest = _with(self.start, dict.fromkeys(self._bolts, 1))
        return self._counted(self._within(fewest).model_copy(update={"workers": workers}))

    def _within(self, configuration: TopologyConfiguration) -> TopologyConfiguration:
        """Take executors off, the bolt with the most first, and workers, until the budget holds."""
        found = dict(configuration.executors)
        while sum(found[name] for name in self._tasks) > self.budget.executors:
            most = max(self._bolts, key=lambda n: found[n], default="")
            if not most or found[most] == 1:
                raise SchedulerDeclined(
                    f"a budget of {self.budget.executors} executors is less than one for each component"
                )
            found[most] -= 1
        workers = min(configuration.workers, self.budget.workers)
        return TopologyConfiguration(executors=found, workers=workers)

    def _steps(self, configuration: TopologyConfiguration) -> Iterator[TopologyConfiguration]:
        """Yield counts with an executor more or fewer or moved, or with other workers.

        A worker fewer may help only once a node is left, so one, half and twice as many are tried, too.
        """
        counts = configuration.executors
        room = self._room(configuration) > 0
        for gaining in self._bolts:
            if counts[gaining] == self._tasks[gaining]:
                continue
            if room:
                yield _with(configuration, {gaining: counts[gaining] + 1})
            for losing in self._bolts:
                if losing != gaining and counts[losing] > 1:
                    changed = {gaining: counts[gaining] + 1, losing: counts[losing] - 1}
                    yield _with(configuration, changed)
        for losing in self._bolts:
            if counts[losing] > 1:
                yield _with(configuration, {losing: counts[losing] - 1})
        now = configuration.workers
        for workers in sorted({1, now // 2, now - 1, now + 1, 2 * now} - {now}):
            if 1 <= workers <= self.budget.workers:
                yield configuration.model_copy(update={"workers": workers})

    def _is_better(self, after: GuidedScore, before: GuidedScore, more: int) -> bool:
        if after.saturated or before.saturated:
            return after < before
        return after.value < before.value * (1 - LEAST_GROWTH - max(more, -1) * self.gain_pct / 100)

    def _size(self, configuration: TopologyConfiguration) -> int:
        return self._executors(configuration) + configuration.workers

    def _more(self, after: TopologyConfiguration, before: TopologyConfiguration) -> int:
        return self._size(after) - self._size(before)

    def _room(self, configuration: TopologyConfiguration) -> int:
        return self.budget.executors - self._executors(configuration)

    def _executors(self, configuration: TopologyConfiguration) -> int:
        return sum(configuration.executors[name] for name in self._tasks)

    @property
    def _tasks(self) -> Mapping[str, int]:
        return {c.name: c.tasks for c in self.query_plan.components}

    @property
    def _bolts(self) -> list[str]:
        return [c.name for c in self.query_plan.components if self.query_plan.inputs(c.name)]


def _as_dealt(found: CountedPlan) -> CountedPlan:
    return found


def _is_near(found: CountedPlan, target_ms: float) -> bool:
    return not found.score.saturated and found.score.value <= NEAR_TARGET * target_ms


def _with(configuration: TopologyConfiguration, executors: Mapping[str, int]) -> TopologyConfiguration:
    return configuration.model_copy(update={"executors": {**configuration.executors, **executors}})
