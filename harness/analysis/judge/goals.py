"""Goals for a model, judged where a model can be told from a guess, each with an interval.

An experiment is evidence for a goal where no-change, which answers with the source's own measurement, errs by
``EVIDENCE_PCT`` or more in the median of the goal's measure. Pairs of one experiment share steps, and
experiments differ by more than pairs do. So the result that another set of experiments might have given is
learnt by resampling experiments, not pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.judge.accuracy import Goal, Pairs, figures, judged, quantile_of
from harness.analysis.judge.arithmetic import abs_error_pct, is_covered, quantile
from harness.analysis.judge.summary import EVIDENCE_PCT
from harness.models import NO_CHANGE
from harness.schemas import Measure

NULL_MODELS = (NO_CHANGE, "jackson")
"""Models that know nothing of the plan's mechanisms: a goal that one of them reaches asks for nothing."""
DRAWS = 2000
LEVEL_PCT = (2.5, 97.5)
FEWEST_EXPERIMENTS = 3
"""Fewer cannot be resampled to any purpose."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sampled:
    """A figure over experiments, with its 95 % interval; None where it cannot be had.

    Attributes
    ----------
    value, low, high : float or None
    experiments, pairs : int
        What it is of.
    """

    value: float | None
    low: float | None
    high: float | None
    experiments: int
    pairs: int


@dataclass(frozen=True)
class Judgement:
    """One goal and one model.

    Attributes
    ----------
    goal : Goal
    evident : Sampled
        Over the experiments that are evidence.
    overall : float or None
        Over all experiments.
    rival : tuple of str and float, or None
        The best other model over the evidence.
    null_models : tuple of str
        Those that reach the goal too, over the evidence: then it is no goal.
    """

    goal: Goal
    evident: Sampled
    overall: float | None
    rival: tuple[str, float] | None
    null_models: tuple[str, ...]

    @property
    def found(self) -> str:
        """Say whether the goal is reached, and whether other experiments might have said otherwise."""
        at = self.evident
        if at.value is None:
            return "nothing to judge"
        if self.null_models:
            return f"no goal: reached by {' and '.join(self.null_models)}"
        reached = at.value <= self.goal.limit
        if at.low is None or at.high is None:
            sure = f", by {at.experiments} experiment{'s' if at.experiments > 1 else ''} only"
        else:
            sure = (
                ""
                if (at.high <= self.goal.limit if reached else at.low > self.goal.limit)
                else ", not surely"
            )
        return ("reached" if reached else "missed") + sure


def evidence(rows: Pairs, goal: Goal) -> frozenset[str]:
    """Return the experiments in which a guess errs by so much that a model can be told from it.

    By the goal's own rows, and by the mean ground truth where no-change has no answer to them.
    """
    guessed = goal.of(rows[rows["model"] == NO_CHANGE])
    if judged(guessed).empty:
        truth = (rows["measure"] == Measure.GROUND_TRUTH) & (rows["statistic"] == "mean")
        guessed = rows[truth & (rows["model"] == NO_CHANGE)]
    errors = judged(guessed).groupby("experiment")["abs_error_pct"].median()
    return frozenset(str(name) for name, error in errors.items() if error >= EVIDENCE_PCT)


def judge(rows: Pairs, goal: Goal, own: str) -> Judgement:
    """Judge a model by a goal.

    Parameters
    ----------
    rows : DataFrame
        Rows of all models, as ``accuracy.gather`` puts them together.
    goal : Goal
    own : str
        The model.
    """
    evident = rows[rows["experiment"].isin(list(evidence(rows, goal)))]
    reached = {str(model): goal.reached(of) for model, of in evident.groupby("model")}
    rivals = {name: value for name, value in reached.items() if name != own and value is not None}
    best = min(rivals, key=lambda name: rivals[name], default="")
    return Judgement(
        goal=goal,
        evident=sampled(goal.of(evident[evident["model"] == own]), goal.figure),
        overall=goal.reached(rows[rows["model"] == own]),
        rival=(best, rivals[best]) if best else None,
        null_models=tuple(n for n in NULL_MODELS if n != own and rivals.get(n, math.inf) <= goal.limit),
    )


def sampled(rows: Pairs, figure: str, seed: int = 0) -> Sampled:
    """Return a figure of a model's rows, with a 95 % interval from resampling experiments.

    The percentile interval of 2,000 draws of as many experiments as there are, with replacement; all rows of
    an experiment that is drawn twice count twice.

    Parameters
    ----------
    rows : DataFrame
        Rows of one model.
    figure : str
        A field of ``accuracy.Figures`` that is a quantile of one value a row.
    seed : int
        Of the draws.
    """
    value = getattr(figures(rows), figure)
    column, share = quantile_of(rows, figure)
    known = judged(rows)["experiment"].to_frame().assign(value=column).dropna()
    by = [of.to_numpy(dtype=float) for _, of in known.groupby("experiment")["value"]]
    if len(by) < FEWEST_EXPERIMENTS:
        return Sampled(value, None, None, len(by), len(known))
    low, high = np.percentile(_drawn(by, share, seed), LEVEL_PCT)
    return Sampled(value, float(low), float(high), len(by), len(known))


def _drawn(by: Sequence[Floats], share: float, seed: int) -> Floats:
    """Return a quantile of every draw of as many experiments as there are."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(by), (DRAWS, len(by)))
    return np.array([np.quantile(np.concatenate([by[i] for i in draw]), share) for draw in chosen])


def summary(rows: Pairs, models: Sequence[str]) -> list[tuple[str, Sampled, float | None, float | None]]:
    """Return by model the mean ground truth's median error, 95th percentile and worst, over the evidence.

    Parameters
    ----------
    rows : DataFrame
    models : sequence of str
    """
    evident = _mean_latency_over_evidence(rows)
    found = []
    for model in models:
        mine = evident[evident["model"] == model]
        of = figures(mine)
        found.append((model, sampled(mine, "median_pct"), of.p95_pct, of.worst_pct))
    return found


def largest_run(rows: Pairs, model: str) -> tuple[str, int]:
    """Return the run that most of a model's judged pairs in ``summary`` are of, and how many; 0 without any.

    Parameters
    ----------
    rows : DataFrame
    model : str
    """
    evident = _mean_latency_over_evidence(rows)
    counts = judged(evident[evident["model"] == model])["run"].value_counts()
    return (str(counts.index[0]), int(counts.iloc[0])) if len(counts) else ("", 0)  # the largest is first


def _mean_latency_over_evidence(rows: Pairs) -> Pairs:
    goal = Goal("", "median_pct", 0, "%", [Measure.GROUND_TRUTH])
    return goal.of(rows[rows["experiment"].isin(list(evidence(rows, goal)))])


@dataclass(frozen=True)
class NotUsable:
    """Answers of a model for pairs whose steps could not be used.

    Attributes
    ----------
    pairs, answered : int
    median_pct, p95_pct : float or None
        Of its errors against what was measured all the same.
    coverage : float or None
        Share of its intervals that hold it.
    """

    pairs: int
    answered: int
    median_pct: float | None = None
    p95_pct: float | None = None
    coverage: float | None = None


def not_usable(rows: Pairs) -> NotUsable:
    """Sum up one model's rows of steps that failed a check, saturated ones left out."""
    mine = rows[rows["verdict"].isin(["invalid", "unsteady"]) & ~rows["full"]]
    known = mine[mine["value"].notna() & mine["actual"].notna() & (mine["actual"] != 0)]
    if known.empty:
        return NotUsable(len(mine), 0)
    value, low, actual, high = (known[k].to_numpy(dtype=float) for k in ("value", "low", "actual", "high"))
    errors = abs_error_pct(value, actual)
    ranged = np.isfinite(low) & np.isfinite(high)
    return NotUsable(
        pairs=len(mine),
        answered=len(known),
        median_pct=quantile(errors, 0.5),
        p95_pct=quantile(errors, 0.95),
        coverage=float(is_covered(low, actual, high)[ranged].mean()) if ranged.any() else None,
    )
