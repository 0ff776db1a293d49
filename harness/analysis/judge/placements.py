"""Plans with the same counts in different places: how models ranked them, and what their choice costs.

Steps with the same executors and rate, for which as many workers were asked, are one group; steps of it
with the same placement are one plan. Executors of a component are alike where all that comes to them is
dealt in turn or by chance. Plans that exchange such are one plan, too. A model ranks a group's plans from
each source step by itself. Kendall's tau counts the pairs of plans whose measured means differ by more than
their noise. The regret is how much slower, measured, the plan is that the model would pick than the best
measured one. A mean's noise has two parts: what its step's batches say, and, where any plan was measured
more than once, what such steps differ by beyond that.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.analysis.judge.predicting import observation
from harness.analysis.judge.results import WITHIN_NOISE, Results, executors
from harness.analysis.spark.inputs import RunRecord, StepRecord
from harness.errors import HarnessError
from harness.experiments.loading import load
from harness.runs import Run
from harness.schedulers.plan_costs import PlanCosts, cost_plan, like_executors, plan_shape
from harness.schemas import LATENCIES

Floats = npt.NDArray[np.float64]

DRAWS = 4000
"""Draws of the measured means, for a regret's interval."""
ENDS = (0.05, 0.95)


@dataclass(frozen=True)
class MeasuredPlan:
    """A placement and its measurements.

    Attributes
    ----------
    placed_by : str
        Schedulers that proposed it, Storm's own among them.
    steps : tuple of int
    mean_ms, noise_ms : float
        Mean latency over the steps, and one standard deviation of measuring again.
    predicted_ms : mapping of str to float
        By model, the mean over the source steps that predict it; models that do not answer are left out.
    costs : PlanCosts, optional
        By what its first step measured, beside the group's first plan; None without metrics.
    """

    placed_by: str
    steps: tuple[int, ...]
    mean_ms: float
    noise_ms: float
    predicted_ms: Mapping[str, float]
    costs: PlanCosts | None = None


@dataclass(frozen=True)
class PlanRanking:
    """Ranking of a group's plans by a model.

    Attributes
    ----------
    model : str
    sources : int
        Steps from which it predicted every plan.
    pairs : int
        Pairs of plans that differ by more than noise, over all sources.
    tau : float, optional
        Kendall's, over these; None where there are none.
    regret_pct, low_pct, high_pct : float
        Mean over the sources, and a 90 % interval by the measured noise.
    """

    model: str
    sources: int
    pairs: int
    tau: float | None
    regret_pct: float
    low_pct: float
    high_pct: float


@dataclass(frozen=True)
class PlacementGroup:
    """Plans with the same counts at the same rate.

    Attributes
    ----------
    words : str
    measure : str
        The latency that is compared.
    plans : tuple of MeasuredPlan
        By measured mean.
    rankings : tuple of PlanRanking
        By model's name.
    """

    words: str
    measure: str
    plans: tuple[MeasuredPlan, ...]
    rankings: tuple[PlanRanking, ...]


def placement_groups(data: Results) -> tuple[PlacementGroup, ...]:
    """Return the groups of a run with at least two placements that were measured."""
    measure = next((m for m in LATENCIES if len(data.measured(m))), LATENCIES[0])
    rows = data.measured(measure).set_index("step")
    by_index = {s.index: s for s in data.run.steps}

    def priced(group: PlacementGroup) -> PlacementGroup:
        plans = (replace(p, costs=_costs(data.run, by_index[p.steps[0]])) for p in group.plans)
        return replace(group, plans=tuple(plans))

    return tuple(priced(group) for group in _groups(data.run.steps, measure, rows, _means(data.frame)))


def ranked_placements(run: RunRecord, pairs: pd.DataFrame) -> tuple[PlacementGroup, ...]:
    """Return the same groups by a run's judged pairs alone; plans' costs are left out.

    Parameters
    ----------
    run : RunRecord
    pairs : DataFrame
        Rows of ``errors.parquet``.
    """
    means = _means(pairs)
    known = means[means["actual"].notna()]
    measure = next((m for m in LATENCIES if (known["measure"] == m).any()), LATENCIES[0])
    rows = known[known["measure"] == measure].drop_duplicates("proposed_step").set_index("proposed_step")
    return _groups(run.steps, measure, rows[["actual", "noise"]].rename(columns={"actual": "value"}), means)


def _groups(
    steps: Iterable[StepRecord], measure: str, rows: pd.DataFrame, means: pd.DataFrame
) -> tuple[PlacementGroup, ...]:
    """Return the groups; ``rows`` has the measured value and its noise by step."""
    groups: dict[tuple[object, ...], list[StepRecord]] = {}
    for step in (s for s in steps if not s.changes):
        counts = step.plan.start.configuration()
        key = (step.interval.rate_tps, step.asked_workers, *sorted(counts.executors.items()))
        groups.setdefault(key, []).append(step)
    pairs = means[(means["measure"] == measure) & means["value"].notna()]
    found = (_group(of, measure, rows, pairs) for of in groups.values() if len(of) > 1)
    return tuple(g for g in found if g is not None)


def _group(
    steps: Sequence[StepRecord], measure: str, rows: pd.DataFrame, pairs: pd.DataFrame
) -> PlacementGroup | None:
    """Return a group; None where fewer than two of its placements have a latency."""
    latency: dict[int, float] = rows["value"].dropna().to_dict()  # type: ignore[assignment]
    by_place: dict[Hashable, list[StepRecord]] = {}
    for step in steps:
        if step.index in latency:
            by_place.setdefault(_places(step), []).append(step)
    if len(by_place) < 2:
        return None
    again = noise_between(_means_and_noise(of, rows) for of in by_place.values())
    measured = [_measured(of, rows, pairs, again) for of in by_place.values()]
    numbers = [p.steps for p in measured]
    means = np.array([p.mean_ms for p in measured])
    noise = np.array([p.noise_ms for p in measured])
    rankings = []
    for model, of_model in pairs.groupby("model"):
        predicted = _by_source(of_model, numbers)
        if len(predicted):
            rankings.append(rank_plans(str(model), predicted, means, noise))
    workers = steps[0].asked_workers
    asked = f"{workers} worker{'s' * (workers != 1)} asked"
    words = f"{executors(steps[0])}, {asked}, {steps[0].interval.rate_tps:g}/s"
    plans = tuple(sorted(measured, key=lambda p: p.mean_ms))
    return PlacementGroup(words, measure, plans, tuple(rankings))


def _places(step: StepRecord) -> Hashable:
    """Return where a step's executors were, of like ones how many.

    The slots of a node are alike, and for Storm's own scheduler like nodes.
    """
    plan = step.plan.start
    distinct = () if step.plan.placement is None else plan.node_names
    return plan_shape(plan, distinct, like_executors(plan.query_plan))


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``errors.parquet`` on means of the whole topology, by our protocol."""
    return rows[(rows["statistic"] == "mean") & (rows["subject"] == "") & (rows["protocol"] == "ours")]


def noise_between(plans: Iterable[tuple[Floats, Floats]]) -> float:
    """Return the share of their mean by which steps of one plan differ, beyond the noise of each step.

    Workers that start anew are elsewhere in memory and compiled otherwise, and the machine has other minutes.

    Parameters
    ----------
    plans : iterable of pairs of arrays (steps)
        Measured means of a plan's steps, and one standard deviation of each by the step alone.

    Returns
    -------
    float
        One standard deviation, pooled over the plans that were measured more than once; 0 without any.

    Examples
    --------
    Two steps with means of 9 and 11 differ by 0.1 sqrt(2) of 10, of which 0.1 is the noise of the steps:

    >>> round(noise_between([(np.array([9.0, 11.0]), np.array([0.9, 1.1]))]), 3)
    0.1
    >>> noise_between([(np.array([9.0]), np.array([0.9]))])
    0.0
    """
    repeated = [(means, noise) for means, noise in plans if means.size > 1]
    if not repeated:
        return 0.0
    squares = sum(float(((means / means.mean() - 1) ** 2).sum()) for means, _ in repeated)
    within = float(np.mean(np.concatenate([(noise / means) ** 2 for means, noise in repeated])))
    beyond = squares / sum(means.size - 1 for means, _ in repeated) - within
    return math.sqrt(max(beyond, 0.0))


def _means_and_noise(steps: Sequence[StepRecord], rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return the measured means of steps, and one standard deviation of each by the step alone."""
    of = rows.loc[[s.index for s in steps]]
    return of["value"].to_numpy(dtype=np.float64), of["noise"].fillna(0.0).to_numpy(dtype=np.float64)


def _measured(
    steps: Sequence[StepRecord], rows: pd.DataFrame, pairs: pd.DataFrame, again: float
) -> MeasuredPlan:
    """Return a plan; ``again`` is ``noise_between`` of its group."""
    numbers = tuple(s.index for s in steps)
    means, own_noise = _means_and_noise(steps, rows)
    noise = np.hypot(own_noise, again * means)
    by = dict.fromkeys(s.placed_by for s in steps)
    others = pairs[pairs["proposed_step"].isin(numbers) & ~pairs["source_step"].isin(numbers)]
    return MeasuredPlan(
        placed_by=", ".join(by),
        steps=numbers,
        mean_ms=float(means.mean()),
        noise_ms=float(np.sqrt((noise**2).sum()) / noise.size),
        predicted_ms={str(m): float(v) for m, v in others.groupby("model")["value"].mean().items()},
    )


def _costs(run: RunRecord, step: StepRecord) -> PlanCosts | None:
    try:
        seen = observation(Run(run.path), load(run.path / "experiment.yaml"), step.index)
    except HarnessError:
        return None
    return cost_plan(step.plan.start, seen)


def _by_source(rows: pd.DataFrame, plans: Sequence[tuple[int, ...]]) -> Floats:
    """Return the prediction of each source for each plan: array (sources, plans), complete rows only."""
    plan_of = {step: i for i, steps in enumerate(plans) for step in steps}
    mine = rows.assign(plan=rows["proposed_step"].map(plan_of)).dropna(subset=["plan"])
    table = mine.pivot_table(index="source_step", columns="plan", values="value", aggfunc="mean")
    return table.reindex(columns=range(len(plans))).dropna().to_numpy(dtype=np.float64)


def rank_plans(model: str, predicted_ms: Floats, measured_ms: Floats, noise_ms: Floats) -> PlanRanking:
    """Judge a model's ranking.

    Parameters
    ----------
    model : str
    predicted_ms : array (sources, plans)
    measured_ms, noise_ms : array (plans)
        Means, and one standard deviation of measuring each again.

    Examples
    --------
    >>> measured, noise = np.array([10.0, 20.0, 30.0]), np.array([0.1, 0.1, 0.1])
    >>> found = rank_plans("m", np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]]), measured, noise)
    >>> found.pairs, round(found.tau, 2), found.regret_pct
    (6, 0.67, 50.0)
    """
    told_apart = [
        (a, b)
        for a, b in combinations(range(measured_ms.size), 2)
        if abs(measured_ms[a] - measured_ms[b]) > WITHIN_NOISE * float(np.hypot(noise_ms[a], noise_ms[b]))
    ]
    agree = [
        float(np.sign((row[a] - row[b]) * (measured_ms[a] - measured_ms[b])))
        for row in predicted_ms
        for a, b in told_apart
    ]
    picks = predicted_ms.argmin(axis=1)
    regret = 100 * (measured_ms[picks] / measured_ms.min() - 1)
    rng = np.random.default_rng(1)
    again = rng.normal(measured_ms, noise_ms, size=(DRAWS, measured_ms.size))
    drawn = 100 * (again[:, picks].mean(axis=1) / again.min(axis=1) - 1)
    low, high = np.quantile(drawn, ENDS)
    return PlanRanking(
        model=model,
        sources=len(predicted_ms),
        pairs=len(agree),
        tau=float(np.mean(agree)) if agree else None,
        regret_pct=float(regret.mean()),
        low_pct=float(low),
        high_pct=float(high),
    )
