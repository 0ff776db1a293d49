"""Scores of plans by the composite model: one number to search by, and an interval of a gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from harness.models.composite.model import COARSE, Prepared
from harness.models.composite.neighbourhood import Neighbourhood
from harness.models.composite.plan.network_builder import build_network
from harness.models.composite.played import answered
from harness.models.composite.uncertainty import Z
from harness.models.contract.answers import Saturated, first_latency
from harness.models.contract.layout import lay_out
from harness.models.solver.solve import Latency, Solution
from harness.plans import PhysicalPlan, Worker
from harness.protocols import Estimate, Settings
from harness.schedulers.guided_effort import (
    Effort,
    around_effort,
    latency_effort,
    prediction_effort,
    solution_effort,
)
from harness.schedulers.placement import UnplacedExecutor
from harness.schedulers.plan_costs import executor_sets
from harness.schemas import LATENCIES, PERCENTILES

LatencyStatistic = Literal["mean", "p50", "p90", "p95", "p99"]
_DIGITS = 7
"""Digits of a score: what is smaller depends on the order in which a sum was taken."""


class GuidedScore(NamedTuple):
    """A plan's place among others: the lower, the better; a plan that is overloaded comes after all others.

    Attributes
    ----------
    saturated : bool
    value : float
        Predicted latency in ms, with the price of restarted workers; of a saturated plan, minus the share
        of the rate at which it is full.
    """

    saturated: bool
    value: float

    @property
    def text(self) -> str:
        """The score in words."""
        if self.saturated:
            return f"saturated: full at {-100 * self.value:.0f} % of the rate"
        return f"{self.value:.4g} ms"


class GainInterval(NamedTuple):
    """By how much one plan's latency is below another's, in percent, with a 90 % interval.

    Attributes
    ----------
    gain_pct, low_pct, high_pct : float
    """

    gain_pct: float
    low_pct: float
    high_pct: float


@dataclass(frozen=True)
class PlanJudge:
    """Scores plans of one topology at one rate, and counts what that costs.

    Attributes
    ----------
    prepared : Prepared
        The source, as the composite model has read it.
    settings : Settings
    rate_tps : float
        Messages a second.
    effort : Effort
        Spent by all that is solved; searches ask whether it allows more.
    statistic : {"mean", "p50", "p90", "p95", "p99"}
        Of the ground-truth latency.
    restart_pct : float
        What one restarted worker is priced at, in percent of the latency.
    latencies : sequence of str
        Measures, in the order in which estimates are of them (``Observation.latencies``).
    """

    prepared: Prepared
    settings: Settings
    rate_tps: float
    effort: Effort
    statistic: LatencyStatistic = "mean"
    restart_pct: float = 0.0
    latencies: Sequence[str] = LATENCIES

    def around(self, plan: PhysicalPlan) -> Neighbourhood:
        """Return the plans around one."""
        near = self.prepared.around(plan, self.settings, self.rate_tps)
        self.effort.spend(around_effort(near.solution))
        return near

    def solved(self, plan: PhysicalPlan) -> Solution:
        """Solve a plan; where it has to be played, then for a shorter time, as plans are only compared.

        Raises
        ------
        ModelDeclined
            When the plan does not fit.
        """
        found = self.prepared.solve(plan, self.settings, self.rate_tps)
        self.effort.spend(solution_effort(found))
        return replace(found, size=COARSE) if found.network.batched else found

    def of_plan(self, plan: PhysicalPlan, restarts: int = 0) -> GuidedScore:
        """Solve a plan and score it.

        Raises
        ------
        ModelDeclined
            When the plan does not fit, or no row comes to a sink.
        """
        return self.of_solution(self.solved(plan), restarts)

    def of_solution(self, solution: Solution, restarts: int = 0) -> GuidedScore:
        """Score a solved plan."""
        if solution.overloaded:
            return GuidedScore(True, _rounded(-solution.bottleneck.factor))
        self.effort.spend(latency_effort(solution))
        return self.of_latency(solution.ground_truth()[""], restarts)

    def of_latency(self, latency: Latency, restarts: int = 0) -> GuidedScore:
        """Score a latency that is known already."""
        price = 1 + self.restart_pct / 100 * restarts
        return GuidedScore(False, _rounded(price * statistic_ms(latency, self.statistic)))

    def estimate(self, plan: PhysicalPlan) -> Estimate | None:
        """Return the statistic of the first latency that is predicted, with its interval; None for none."""
        self.effort.spend(prediction_effort(self.solved(plan)))
        found = self.prepared.predict(plan, self.settings, self.rate_tps).estimates
        return first_latency(found, self.statistic, self.latencies)

    def gain(self, plan: PhysicalPlan, beside: PhysicalPlan) -> GainInterval | None:
        """Return by how much a plan's latency is below another's; None where one of them is saturated.

        Both plans are predicted from each replicate of the source, so what the source did not show well
        moves both alike. The interval is of the ratio. What the model gets wrong alike for both is not in it.
        """
        values = []
        for one in (plan, beside):
            layout = lay_out(one)
            sources = (self.prepared.estimates, *self.prepared.replicates)
            try:
                networks = (build_network(s, layout, self.settings, self.rate_tps) for s in sources)
                found = [answered(network, COARSE).ground_truth()[""] for network in networks]
            except Saturated:
                return None
            values.append(np.log([statistic_ms(latency, self.statistic) for latency in found]))
        ratios = values[0] - values[1]
        around = Z * float(np.std(ratios[1:], ddof=1))
        gains = [100 * (1 - float(np.exp(ratios[0] + d))) for d in (0.0, around, -around)]
        return GainInterval(*gains)


def statistic_ms(latency: Latency, statistic: LatencyStatistic) -> float:
    """Return one statistic of a latency."""
    if statistic == "mean":
        return float(latency.mean_ms)
    return float(latency.percentiles_ms[list(PERCENTILES).index(statistic)])


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


class WorkerSets:
    """Which workers restart: those whose set of executors is another than now.

    Parameters
    ----------
    executors : sequence of UnplacedExecutor
        Those that are placed.
    running : PhysicalPlan
        The plan in force.
    """

    def __init__(self, executors: Sequence[UnplacedExecutor], running: PhysicalPlan) -> None:
        labels = dict.fromkeys([e.label for e in executors] + [e.label for e in running.executors])
        self._bit = {label: 1 << i for i, label in enumerate(labels)}
        self._labels = [e.label for e in executors]
        self._before = {w: self._mask(of) for w, of in executor_sets(running).items()}

    def masks(self, slots: Sequence[Worker]) -> dict[Worker, int]:
        """Return each worker's set of executors, a bit each."""
        found: dict[Worker, int] = {}
        for label, worker in zip(self._labels, slots, strict=True):
            found[worker] = found.get(worker, 0) | self._bit[label]
        return found

    def restarted(self, masks: Mapping[Worker, int]) -> int:
        """Count the workers that start."""
        return sum(self._before.get(worker) != mask for worker, mask in masks.items())

    def restarted_after(
        self, masks: Mapping[Worker, int], restarted: int, executor: int, source: Worker, target: Worker
    ) -> int:
        """Count them when one executor has moved."""
        bit = self._bit[self._labels[executor]]
        after = {source: masks[source] & ~bit, target: masks.get(target, 0) | bit}
        for worker, mask in after.items():
            restarted += self._restarts(worker, mask) - self._restarts(worker, masks.get(worker, 0))
        return restarted

    def _restarts(self, worker: Worker, mask: int) -> bool:
        return mask != 0 and self._before.get(worker) != mask

    def _mask(self, labels: frozenset[str]) -> int:
        return sum(self._bit[label] for label in labels)
