"""Executors and batches with the lowest predicted latency within a budget: a search over the composite model.

From DS2's counts, local search. A step is one executor more or fewer, or moved from a component to another.
Where none is better, it is the next size or flush of a component's batches, or the next size of all. Rows
that come in one batch fill the next one, so one component's smaller size alone may gain nothing. Of all such
plans the one with the lowest latency is taken, until none is better. A plan that the model calls saturated is
worse than every other; of two of them the one that sustains a higher rate is better. Plans are placed as
Storm's default scheduler places them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from harness.errors import ModelDeclined
from harness.models.composite.model import Composite, Prepared
from harness.models.contract.message_costs import SHIPPED_TIMES, MessageTimes
from harness.plans import (
    Batching,
    BatchSize,
    Frozen,
    PhysicalPlan,
    Positive,
    TopologyConfiguration,
    batched_streams,
)
from harness.protocols import Observation, Scalar, Settings, TuningDecision, TuningProposal
from harness.schedulers.guided_scoring import statistic_ms
from harness.tuning.ds2 import scale
from harness.tuning.measured import StepReading
from harness.tuning.placement import Placement, deal_evenly

Counts = Mapping[str, int]
Statistic = Literal["mean", "p50", "p90", "p95", "p99"]
STEP_RULE = "best of all plans one step away: least {} latency, of saturated plans the highest rate"
CLOSE = 0.01
"""Share of the input rate to which the rate is known that a saturated plan sustains."""


class PlanScore(NamedTuple):
    """A plan's place among others: the lower, the better."""

    saturated: bool
    value: float
    """Predicted latency in ms; of a saturated plan, minus the messages a second that it sustains."""

    @property
    def text(self) -> str:
        """The score in words."""
        if self.saturated:
            return f"saturated: sustains {-self.value:.4g} messages/s"
        return f"{self.value:.3g} ms"


class PlanCandidate(NamedTuple):
    """A plan that is looked at.

    Attributes
    ----------
    counts : tuple of (str, int)
        Executors by component, sorted.
    batches : tuple of (str, BatchSize)
        Batches by component or ``component:stream``, sorted.
    """

    counts: tuple[tuple[str, int], ...]
    batches: tuple[tuple[str, BatchSize], ...] = ()

    @classmethod
    def of(cls, counts: Counts, batching: Batching) -> PlanCandidate:
        """Return executors and batches as one."""
        return cls(tuple(sorted(counts.items())), tuple(sorted(batching.items(), key=lambda item: item[0])))

    @property
    def executors(self) -> dict[str, int]:
        """Executors by component."""
        return dict(self.counts)

    @property
    def batching(self) -> dict[str, BatchSize]:
        """Batches by component or stream."""
        return dict(self.batches)

    @property
    def effort(self) -> int:
        """Number of things that a gain has to pay for: executors, and components with batches."""
        return sum(number for _, number in self.counts) + sum(rule.size > 1 for _, rule in self.batches)

    @property
    def values(self) -> dict[str, Scalar]:
        """Executors and batches as a record has them."""
        sizes = {f"batches of {name}": f"{b.size}, {b.flush_ms} ms" for name, b in self.batches}
        return {**{f"executors of {name}": number for name, number in self.counts}, **sizes}


class ModelGuidedTuner(Frozen):
    """Executors and batches with the lowest predicted latency within a budget.

    Attributes
    ----------
    most_executors : int, optional
        The budget: executors of all components together, spouts included. By default as many as the measured
        step has or, where that is more, as DS2 proposes and one more for each bolt.
    most_predictions : int
        The search ends after so many plans.
    statistic : {"mean", "p50", "p90", "p95", "p99"}
        Statistic of the ground-truth latency that is lowered.
    least_gain_pct : float
        An executor more has to lower the latency by so much, and so do batches where there were none. Of two
        plans that differ less, measurements cannot tell the better one either.
    batch_sizes, flush_ms : tuple of int
        Sizes and flushes of batches that are looked at, ascending; one size searches none.
    message : MessageTimes
        n and s; by default the shipped ones.
    """

    most_executors: Positive | None = None
    most_predictions: Positive = 400
    statistic: Statistic = "mean"
    least_gain_pct: Annotated[float, Field(ge=0, lt=100)] = 2.0
    batch_sizes: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1, 2, 5, 10, 20, 50, 100)
    flush_ms: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1, 2, 5, 10, 20, 50)
    message: MessageTimes = SHIPPED_TIMES

    def propose(self, source: Observation, rate_tps: float) -> TuningProposal:
        """Search from DS2's counts."""
        try:
            start = scale(StepReading().nodes(source, rate_tps)).executors
            now = {name: len(source.plan.of(name)) for name in start}
            bolts = [name for name in start if source.plan.query_plan.inputs(name)]
            most = self.most_executors or max(sum(now.values()), sum(start.values()) + len(bolts))
            prepared = Composite(message=self.message).prepare(source)
            return PlanSearch(self, prepared, source, rate_tps, most).run(start, now)
        except ModelDeclined as why:
            return TuningProposal(tuner="model-guided", status="declined", reason=str(why))


@dataclass
class PlanSearch:
    """A search over executors and batches by component."""

    tuner: ModelGuidedTuner
    model: Prepared
    source: Observation
    rate_tps: float
    most_executors: int
    place: Placement = deal_evenly
    scores: dict[PlanCandidate, PlanScore] = field(default_factory=dict)
    decisions: list[TuningDecision] = field(default_factory=list)

    @property
    def workers(self) -> int:
        """Worker processes of every plan: the measured step's."""
        return len(self.source.plan.workers)

    def run(self, start: Counts, now: Counts) -> TuningProposal:
        """Return the best plan that local search finds."""
        counts, own = self._within_budget(start), self.source.settings.batching
        if counts is None:
            reason = f"a budget of {self.most_executors} executors is less than one for each component"
            return TuningProposal(tuner="model-guided", status="declined", reason=reason)
        plan = PlanCandidate.of(counts, own)
        score = self.score(plan)
        values = PlanCandidate.of(start, own).values
        self._note("", "start at DS2's counts", values, score.text, _starting(counts, start))
        measured = PlanCandidate.of(now, own)
        if sum(now.values()) <= self.most_executors and self._better(self.score(measured), score, 0):
            plan, score = measured, self.score(measured)
            self._note("", "start at the measured step's counts", plan.values, score.text, "They are better.")
        while step := self._best_step(plan, score):
            name, following, after = step
            executors = sum(number for _, number in following.counts)
            values = {**following.values, "before": score.text, "executors": executors}
            rule = STEP_RULE.format(self.tuner.statistic)
            self._note(name, rule, values, after.text, _gain(score, after))
            plan, score = following, after
        why = "No plan one step away is better by enough."
        if len(self.scores) >= self.tuner.most_predictions:
            why = f"{self.tuner.most_predictions} plans are predicted: the search ends."
        self._note("", "end of the search", {**plan.values, "plans": len(self.scores)}, score.text, why)
        if score.saturated:
            return TuningProposal(
                tuner="model-guided",
                status="declined",
                reason=f"no plan of at most {self.most_executors} executors that was looked at sustains"
                f" {self.rate_tps:g} messages/s; the best is {score.text}",
                decisions=tuple(self.decisions),
            )
        return TuningProposal(
            tuner="model-guided",
            reason=f"best of {len(self.scores)} plans of at most {self.most_executors} executors",
            executors={name: plan.executors[name] for name in now},
            workers=self.workers,
            batching=plan.batching,
            decisions=tuple(self.decisions),
        )

    def score(self, plan: PlanCandidate) -> PlanScore:
        """Return the model's opinion of a plan; each is asked for once."""
        if plan not in self.scores:
            self.scores[plan] = self._predict(plan)
        return self.scores[plan]

    def _predict(self, candidate: PlanCandidate) -> PlanScore:
        configuration = TopologyConfiguration(executors=candidate.executors, workers=self.workers)
        plan = self.place(self.source.plan, configuration)
        settings = replace(self.source.settings, batching=candidate.batching)
        solution = self.model.solve(plan, settings, self.rate_tps)
        if solution.overloaded:
            return PlanScore(True, -self._sustained_tps(plan, settings))
        return PlanScore(False, statistic_ms(solution.ground_truth()[""], self.tuner.statistic))

    def _sustained_tps(self, plan: PhysicalPlan, settings: Settings) -> float:
        """Return the highest rate at which a plan is not overloaded, to 1 % of the rate asked for."""
        least, most = 0.0, self.rate_tps
        while most - least > CLOSE * self.rate_tps:
            middle = (least + most) / 2
            if self.model.solve(plan, settings, middle).overloaded:
                most = middle
            else:
                least = middle
        return least

    def _best_step(
        self, plan: PlanCandidate, score: PlanScore
    ) -> tuple[str, PlanCandidate, PlanScore] | None:
        """Return the best plan one step away, if it is better by enough, and the component that changed."""
        counts = ((n, PlanCandidate.of(c, plan.batching)) for n, c in self._counts_near(plan.executors))
        batches = ((n, PlanCandidate.of(plan.executors, b)) for n, b in self._batches_near(plan.batching))
        return self._best_of(counts, plan, score) or self._best_of(batches, plan, score)

    def _best_of(
        self, steps: Iterator[tuple[str, PlanCandidate]], plan: PlanCandidate, score: PlanScore
    ) -> tuple[str, PlanCandidate, PlanScore] | None:
        best: tuple[str, PlanCandidate, PlanScore] | None = None
        for name, following in steps:
            if following not in self.scores and len(self.scores) >= self.tuner.most_predictions:
                break
            after = self.score(following)
            more = following.effort - plan.effort
            if self._better(after, score, more) and (best is None or after < best[2]):
                best = name, following, after
        return best

    def _better(self, after: PlanScore, before: PlanScore, more: int) -> bool:
        """Return True for a plan that is better by enough; one with fewer executors may be as much worse."""
        if after.saturated or before.saturated:
            return after < before
        return after.value < before.value * float(1 - more * Fraction(str(self.tuner.least_gain_pct)) / 100)

    def _counts_near(self, counts: Counts) -> Iterator[tuple[str, Counts]]:
        """Yield executors with one more, fewer, or moved; spouts keep theirs."""
        plan = self.source.plan.query_plan
        bolts = [c for c in plan.components if plan.inputs(c.name)]
        room = sum(counts.values()) < self.most_executors
        for gaining in bolts:
            if counts[gaining.name] == gaining.tasks:
                continue
            grown = {**counts, gaining.name: counts[gaining.name] + 1}
            if room:
                yield gaining.name, grown
            for losing in bolts:
                if losing is not gaining and counts[losing.name] > 1:
                    yield gaining.name, {**grown, losing.name: counts[losing.name] - 1}
        for losing in bolts:
            if counts[losing.name] > 1:
                yield losing.name, {**counts, losing.name: counts[losing.name] - 1}

    def _batches_near(self, batching: Batching) -> Iterator[tuple[str, Batching]]:
        """Yield batches with the next size or flush of one component or stream, or the next size of all."""
        sizes, flushes = self.tuner.batch_sizes, self.tuner.flush_ms
        if len(sizes) < 2:
            return
        plan = self.source.plan.query_plan
        senders = [c.name for c in plan.components if plan.outputs(c.name)]
        for name in dict.fromkeys([*senders, *batching]):
            rule = batching.get(name, BatchSize(size=1))
            others = {key: value for key, value in batching.items() if key != name}
            for size in _beside(sizes, rule.size):
                changed = BatchSize(size=size, flush_ms=rule.flush_ms)
                yield name, {**others, name: changed} if size > 1 else others
            if rule.size > 1 and batched_streams(plan, {name: rule}):
                for flush_ms in _beside(flushes, rule.flush_ms):
                    yield name, {**others, name: BatchSize(size=rule.size, flush_ms=flush_ms)}
        for larger in (False, True) if len(batching) > 1 else ():
            every = {n: self._next(rule, larger=larger) for n, rule in batching.items()}
            yield ", ".join(batching), {n: rule for n, rule in every.items() if rule.size > 1}

    def _next(self, rule: BatchSize, *, larger: bool) -> BatchSize:
        """Return batches of the next size on the ladder; those at its end stay."""
        sizes = self.tuner.batch_sizes
        lower, higher = (s for s in sizes if s < rule.size), (s for s in sizes if s > rule.size)
        size = min(higher, default=rule.size) if larger else max(lower, default=rule.size)
        return BatchSize(size=size, flush_ms=rule.flush_ms)

    def _within_budget(self, counts: Counts) -> dict[str, int] | None:
        """Take executors off, the bolt with the most first, until the budget holds; None where it cannot."""
        found = dict(counts)
        bolts = [n for n in found if self.source.plan.query_plan.inputs(n)]
        while sum(found.values()) > self.most_executors:
            most = max(bolts, key=lambda n: found[n], default=None)
            if most is None or found[most] == 1:
                return None
            found[most] -= 1
        return found

    def _note(self, node: str, formula: str, values: Mapping[str, Scalar], result: Scalar, why: str) -> None:
        self.decisions.append(
            TuningDecision(node=node, formula=formula, values=values, result=result, why=why)
        )


def _beside(ladder: Sequence[int], now: int) -> list[int]:
    """Return the next lower and higher numbers of a ladder.

    Examples
    --------
    >>> _beside((1, 2, 5, 10), 2), _beside((1, 2, 5, 10), 7), _beside((1, 2), 1)
    ([1, 5], [5, 10], [2])
    """
    lower = max((n for n in ladder if n < now), default=None)
    higher = min((n for n in ladder if n > now), default=None)
    return [n for n in (lower, higher) if n is not None]


def _starting(counts: Counts, start: Counts) -> str:
    return (
        "DS2's counts are within the budget."
        if counts == dict(start)
        else (f"Taken off to hold the budget: {sum(start.values()) - sum(counts.values())} executors.")
    )


def _gain(before: PlanScore, after: PlanScore) -> str:
    if before.saturated:
        return "More of the rate goes through." if after.saturated else "The plan is no longer saturated."
    change_pct = 100 * (after.value / before.value - 1)
    return f"The latency changes by {change_pct:+.1f} %."
