"""Executors with the lowest predicted latency within a budget: a search over the composite model.

From DS2's counts, local search: of all plans with one executor more or fewer, or one moved from a component
to another, the one with the lowest latency is taken, until none is better. A plan that the model calls
saturated is worse than every other; of two of them the one that sustains a higher rate is better. Plans are
placed as Storm's default scheduler places them. Batch sizes are not searched, since the model knows none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from harness.errors import ModelDeclined
from harness.models.composite.model import Prepared, composite
from harness.models.solver.solve import LEVELS
from harness.plans import Frozen, PhysicalPlan, Positive, TopologyConfiguration
from harness.protocols import Observation, Scalar, TuningDecision, TuningProposal
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


class ModelGuidedTuner(Frozen):
    """Executors with the lowest predicted latency within a budget.

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
        An executor more has to lower the latency by so much. Of two plans that differ less, measurements
        cannot tell the better one either.
    """

    most_executors: Positive | None = None
    most_predictions: Positive = 400
    statistic: Statistic = "mean"
    least_gain_pct: Annotated[float, Field(ge=0, lt=100)] = 2.0

    def propose(self, source: Observation, rate_tps: float) -> TuningProposal:
        """Search from DS2's counts."""
        try:
            start = scale(StepReading().nodes(source, rate_tps)).executors
            now = {name: len(source.plan.of(name)) for name in start}
            bolts = [name for name in start if source.plan.query_plan.inputs(name)]
            most = self.most_executors or max(sum(now.values()), sum(start.values()) + len(bolts))
            search = CountSearch(self, composite.prepare(source), source, rate_tps, most)
            return search.run(start, now)
        except ModelDeclined as why:
            return TuningProposal(tuner="model-guided", status="declined", reason=str(why))


@dataclass
class CountSearch:
    """A search over executors by component."""

    tuner: ModelGuidedTuner
    model: Prepared
    source: Observation
    rate_tps: float
    most_executors: int
    place: Placement = deal_evenly
    scores: dict[tuple[tuple[str, int], ...], PlanScore] = field(default_factory=dict)
    decisions: list[TuningDecision] = field(default_factory=list)

    @property
    def workers(self) -> int:
        """Worker processes of every plan: the measured step's."""
        return len(self.source.plan.workers)

    def run(self, start: Counts, now: Counts) -> TuningProposal:
        """Return the best counts that local search finds."""
        counts: Counts | None = self._within_budget(start)
        if counts is None:
            reason = f"a budget of {self.most_executors} executors is less than one for each component"
            return TuningProposal(tuner="model-guided", status="declined", reason=reason)
        score = self.score(counts)
        self._note("", "start at DS2's counts", _named(start), score.text, _starting(counts, start))
        if sum(now.values()) <= self.most_executors and self._better(self.score(now), score, 0):
            counts, score = dict(now), self.score(now)
            self._note("", "start at the measured step's counts", _named(now), score.text, "They are better.")
        while step := self._best_step(counts, score):
            name, following, after = step
            values = {**_named(following), "before": score.text, "executors": sum(following.values())}
            self._note(
                name,
                STEP_RULE.format(self.tuner.statistic),
                values,
                after.text,
                _gain(score, after),
            )
            counts, score = following, after
        why = "No plan one step away is better by enough."
        if len(self.scores) >= self.tuner.most_predictions:
            why = f"{self.tuner.most_predictions} plans are predicted: the search ends."
        self._note("", "end of the search", {**_named(counts), "plans": len(self.scores)}, score.text, why)
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
            executors=counts,
            workers=self.workers,
            batching=self.source.settings.batching,
            decisions=tuple(self.decisions),
        )

    def score(self, counts: Counts) -> PlanScore:
        """Return the model's opinion of a plan with these executors; each plan is asked for once."""
        key = tuple(sorted(counts.items()))
        if key not in self.scores:
            self.scores[key] = self._predict(counts)
        return self.scores[key]

    def _predict(self, counts: Counts) -> PlanScore:
        configuration = TopologyConfiguration(executors=counts, workers=self.workers)
        plan = self.place(self.source.plan, configuration)
        solution = self.model.solve(plan, self.source.settings, self.rate_tps)
        if solution.overloaded:
            return PlanScore(True, -self._sustained_tps(plan))
        latency = solution.ground_truth()[""]
        if self.tuner.statistic == "mean":
            return PlanScore(False, float(latency.mean_ms))
        return PlanScore(False, float(latency.percentiles_ms[list(LEVELS).index(self.tuner.statistic)]))

    def _sustained_tps(self, plan: PhysicalPlan) -> float:
        """Return the highest rate at which a plan is not overloaded, to 1 % of the rate asked for."""
        least, most = 0.0, self.rate_tps
        while most - least > CLOSE * self.rate_tps:
            middle = (least + most) / 2
            if self.model.solve(plan, self.source.settings, middle).overloaded:
                most = middle
            else:
                least = middle
        return least

    def _best_step(self, counts: Counts, score: PlanScore) -> tuple[str, Counts, PlanScore] | None:
        """Return the best plan one step away, if it is better by enough, and the component that changed."""
        best: tuple[str, Counts, PlanScore] | None = None
        for name, following in self._steps(counts):
            known = tuple(sorted(following.items())) in self.scores
            if not known and len(self.scores) >= self.tuner.most_predictions:
                break
            after = self.score(following)
            more = sum(following.values()) - sum(counts.values())
            if self._better(after, score, more) and (best is None or after < best[2]):
                best = name, following, after
        return best

    def _better(self, after: PlanScore, before: PlanScore, more: int) -> bool:
        """Return True for a plan that is better by enough; one with fewer executors may be as much worse."""
        if after.saturated or before.saturated:
            return after < before
        return after.value < before.value * float(1 - more * Fraction(str(self.tuner.least_gain_pct)) / 100)

    def _steps(self, counts: Counts) -> Iterator[tuple[str, Counts]]:
        """Yield plans with an executor more, fewer, or moved; spouts keep theirs."""
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


def _named(counts: Counts) -> dict[str, Scalar]:
    return {f"executors of {name}": number for name, number in counts.items()}


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
