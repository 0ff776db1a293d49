"""A new night against the baseline's nights of the same experiment: one p-value a hypothesis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from harness.analysis.judge.scores import FEWEST_BLOCKS, Accuracy, MeasuredValues, RunScores
from harness.regression.chance import Chance, Floats, between_nights
from harness.regression.outcomes import Limits, Outcome
from harness.schemas import Measure

FEWEST_STEPS = 3
"""Times and noise are compared over the steps, which needs so many."""
Indices = Sequence[int] | npt.NDArray[np.intp]
NAMED = 6
"""Pairs or steps named in a line."""
GROUND_TRUTH_MEAN = ("ours", Measure.GROUND_TRUTH, "mean", "")
NOT_LEARNT = "the baseline does not know how far it repeats (harness regress --update learns it)"


@dataclass(frozen=True)
class Group:
    """Nights of one experiment, the baseline's and now's, and the steps that all of them have."""

    base: Sequence[RunScores]
    now: Sequence[RunScores]

    @property
    def all(self) -> list[RunScores]:
        """The baseline's nights, then now's."""
        return [*self.base, *self.now]

    @property
    def labels(self) -> list[str]:
        """Labels of the steps that every night has."""
        return [x for x in self.base[0].labels if all(x in r.labels for r in self.all)]

    def usable(self) -> npt.NDArray[np.bool_]:
        """Return by step whether it can be used in all nights."""
        bad = [any(r.steps[r.labels.index(x)].unusable for r in self.all) for x in self.labels]
        return ~np.array(bad, dtype=bool)

    @property
    def blocks(self) -> int:
        """Blocks of the shortest interval of the baseline."""
        return min((r.steps[r.labels.index(x)].blocks for r in self.base for x in self.labels), default=0)

    def carriers(self, key: tuple[str, str, str, str]) -> Floats:
        """Return by step how many blocks of the baseline's intervals a measured statistic rests on."""
        found = self.measured(key, self.base, "carriers")
        whole = np.full(len(self.labels), float(self.blocks))
        return whole if found is None else np.fmin(whole, found.min(axis=0))

    @property
    def louder(self) -> float:
        """By how much now's intervals are noisier than the baseline's; at least 1."""
        squares = self.noise() ** 2
        split = len(self.base)
        before, after = (x[np.isfinite(x)] for x in (squares[:split], squares[split:]))
        if not len(after) or not before.sum() > 0:
            return 1.0
        return max(1.0, math.sqrt(after.mean() / before.mean()))

    def noise(self) -> Floats:
        """Return the standard error of the mean ground truth in percent, by night and step."""
        return np.array(
            [_floats([r.steps[r.labels.index(x)].noise_pct for x in self.labels]) for r in self.all]
        )

    def chance(self, within: float, between: float, blocks: float) -> Chance:
        """Return how far a difference between now and the baseline moves by chance."""
        return Chance(within, between, len(self.base), len(self.now), blocks, self.louder)

    def measured(self, key: tuple[str, str, str, str], side: Sequence[RunScores], what: str) -> Floats | None:
        """Return values or their relative errors by night and step; None where a night has none."""
        found = [next((m for m in r.measured if m.key == key), None) for r in side]
        if any(m is None or not getattr(m, what) for m in found):
            return None
        rows = [(r, getattr(m, what)) for r, m in zip(side, found, strict=True)]
        return np.array([_floats([of[r.labels.index(x)] for x in self.labels]) for r, of in rows])

    def between(self, key: tuple[str, str, str, str], limits: Limits) -> float:
        """Return the relative spread between nights of a measured statistic."""
        prior = limits.between_pct / 100
        values, within = (self.measured(key, self.base, what) for what in ("values", "within"))
        if values is None or within is None:
            return prior
        error = np.sqrt(np.mean(within**2, axis=0))
        known = np.isfinite(error) & (values > 0).all(axis=0) & self.usable()
        return between_nights(list(np.log(values[:, known])), error[known], prior) if known.any() else prior

    @property
    def named(self) -> tuple[str, str]:
        """Experiment and runs, as outcomes of this group name them."""
        return self.base[0].experiment, ", ".join(r.run for r in self.now)


def compare_nights(group: Group, limits: Limits) -> Iterator[Outcome]:
    """Yield every hypothesis about new nights, decided by p-values that are yet to be corrected."""
    yield from (_measured(group, of, limits) for of in group.base[0].measured)
    for of in group.base[0].accuracy:
        yield from _accuracy(group, of, limits)
    yield from _quality(group, limits)
    yield from _speed(group, limits)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def _measured(group: Group, of: MeasuredValues, limits: Limits) -> Outcome:
    """Compare a measured statistic; the step that moved most counts, as one of as many as there are."""
    before, after = (group.measured(of.key, side, "values") for side in (group.base, group.now))
    within = group.measured(of.key, group.base, "within")
    if before is None or after is None:
        return Outcome(*group.named, "measured", of.name, detail="not measured in every night")
    if within is None or group.blocks < FEWEST_BLOCKS:
        return Outcome(*group.named, "measured", of.name, detail=NOT_LEARNT)
    error = np.sqrt(np.mean(within**2, axis=0))
    values = np.concatenate([before, after])
    at = np.flatnonzero(np.isfinite(error) & (values > 0).all(axis=0) & group.usable())
    if not len(at):
        return Outcome(*group.named, "measured", of.name, detail="no step can be used in every night")
    carriers = group.carriers(of.key)
    if not (carriers[at] >= FEWEST_BLOCKS).any():
        return Outcome(*group.named, "measured", of.name, detail=_too_few(carriers[at]))
    at = at[carriers[at] >= FEWEST_BLOCKS]
    change = np.abs(np.log(after[:, at]).mean(axis=0) - np.log(before[:, at]).mean(axis=0))
    margin = math.log1p(limits.step_pct / 100)
    between = group.between(of.key, limits)
    # Either direction, so twice; and any of the steps, so as often as there are steps.
    p = [
        min(1.0, 2 * len(at) * group.chance(e, between, n).p(c - margin))
        for e, c, n in zip(error[at], change, carriers[at], strict=True)
    ]
    moved = [i for i in np.argsort(p, kind="stable") if p[i] <= limits.alpha]
    shown = ((group.labels[at[i]], before[:, at[i]].mean(), after[:, at[i]].mean()) for i in moved[:NAMED])
    return Outcome(
        *group.named,
        "measured",
        of.name,
        before=float(before[:, at].mean()),
        now=float(after[:, at].mean()),
        unit=of.measure.rsplit("_", 1)[-1],
        p=min(p),
        detail=", ".join(f"step {label} {old:.4g} -> {new:.4g}" for label, old, new in shown),
    )


def _accuracy(group: Group, of: Accuracy, limits: Limits) -> Iterator[Outcome]:
    """Compare a model's mean absolute error over the pairs, which moves with the steps that they share."""
    others = [next((a for a in r.accuracy if a.key == of.key), None) for r in group.all]
    asked = all(of.model in r.models for r in group.all)
    scored = [a for a in others if a is not None]
    if group.usable().sum() < 2:
        yield Outcome(*group.named, "accuracy", of.name, detail="no pair of steps can be used in every night")
        return
    if len(scored) < len(others):
        if asked and others[: len(group.base)].count(None) == 0:
            yield Outcome(
                *group.named, "accuracy", of.name, found="worse", detail="the model no longer predicts this"
            )
        else:
            yield Outcome(*group.named, "accuracy", of.name, detail="not predicted in every night")
        return
    split = len(group.base)
    errors = np.stack(
        [_by_label(r, a.errors_pct, group.labels) for r, a in zip(group.all, scored, strict=True)]
    )
    source, proposed = np.nonzero(np.isfinite(errors).all(axis=0))
    carriers = group.carriers((of.protocol, of.measure, of.statistic, ""))
    fewest = np.minimum(carriers[source], carriers[proposed])
    carried = fewest >= FEWEST_BLOCKS
    source, proposed = source[carried], proposed[carried]
    learnt = [(a.grown_points, a.spread_points) for a in scored[:split] if a.spread_points is not None]
    if not len(carried):
        yield Outcome(*group.named, "accuracy", of.name, detail="no pair was judged in every night")
    elif not len(source):
        yield Outcome(*group.named, "accuracy", of.name, detail=_too_few(carriers))
    elif not learnt or group.blocks < FEWEST_BLOCKS:
        yield Outcome(*group.named, "accuracy", of.name, detail=NOT_LEARNT)
    else:
        signed = errors[:, source, proposed]
        before, after = np.abs(signed[:split]).mean(axis=0), np.abs(signed[split:]).mean(axis=0)
        grown, spread = np.sqrt(np.mean(np.square(_pairs(learnt)), axis=0))
        between = group.between((of.protocol, of.measure, of.statistic, ""), limits)
        # At most: all steps move together, no prediction follows, and all errors have one sign.
        level = np.abs(1 + signed[:split] / 100) if of.subjects == "one" else 1 + before / 100
        blocks = float(fewest[carried].min())
        chance = group.chance(float(spread), 100 * between * float(level.mean()), blocks)
        yield Outcome(
            *group.named,
            "accuracy",
            of.name,
            before=float(before.mean()),
            now=float(after.mean()),
            unit="% mean error",
            p=chance.p(float((after - before).mean()) - limits.mean_points - max(0.0, float(grown))),
            detail=name_pairs(after - before, source, proposed, group.labels, limits.pair_points),
        )
    yield from _answers(group, of, scored)


def _too_few(carriers: Floats) -> str:
    most = math.floor(10 * carriers.max()) / 10  # never rounded up to what is needed
    return f"not enough data: it rests on {most:g} blocks of an interval at most, {FEWEST_BLOCKS} are needed"


def _pairs(learnt: Sequence[tuple[float | None, float | None]]) -> Floats:
    """Return growth (where it is one) and spread by night of the baseline."""
    return np.array([(max(0.0, grown or 0.0), spread) for grown, spread in learnt], dtype=float)


def name_pairs(
    grown: Floats, source: Indices, proposed: Indices, labels: Sequence[str], points: float, most: int = NAMED
) -> str:
    """Return the pairs whose error grew by more than some points, worst first, in words.

    Examples
    --------
    >>> name_pairs(np.array([1.0, 30.0]), [0, 0], [1, 2], ["a", "b", "c"], 5.0)
    'pairs a->c +30'
    """
    at = [i for i in np.argsort(-grown, kind="stable") if grown[i] > points]
    named = ", ".join(f"{labels[source[i]]}->{labels[proposed[i]]} {grown[i]:+.3g}" for i in at[:most])
    more = f" and {len(at) - most} more" if len(at) > most else ""
    return f"pairs {named}{more}" if at else ""


def _by_label(run: RunScores, matrix: Sequence[Sequence[float | None]], labels: Sequence[str]) -> Floats:
    at = [run.labels.index(x) for x in labels]
    return np.array([_floats([matrix[i][j] for j in at]) for i in at])


def _answers(group: Group, of: Accuracy, scored: Sequence[Accuracy]) -> Iterator[Outcome]:
    """Compare in how many source steps a model no longer answers for a pair that it answered for.

    A model may find a host full in one night and not in another that differs by chance. A source step's
    answers go together; those of the baseline's resampled nights say how often they are missing (Fisher).
    """
    split = len(group.base)
    by_night = [
        {(r.labels[i], r.labels[j]) for i, j in a.unanswered} for r, a in zip(group.all, scored, strict=True)
    ]
    before = {pair for night in by_night[:split] for pair in night}
    lost = [night - before for night in by_night[split:]]
    learnt = [a.silent for a in scored[:split] if a.silent is not None]
    if not learnt:
        yield Outcome(*group.named, "answers", of.name, detail=NOT_LEARNT)
        return
    now = sum(len({source for source, _ in night}) for night in lost)
    asked = sum(_sources(a) for a in scored[split:])
    usual, nights = (sum(n) for n in zip(*learnt, strict=True))
    table = np.array([[now, asked - now], [usual, nights - usual]])
    pairs = sorted(set().union(*lost))
    named = ", ".join(f"{i}->{j}" for i, j in pairs[:NAMED])
    yield Outcome(
        *group.named,
        "answers",
        of.name,
        before=100 * usual / max(nights, 1),
        now=100 * now / max(asked, 1),
        unit="% of source steps without some",
        p=float(stats.fisher_exact(table, alternative="greater").pvalue),
        detail=f"no longer answers for {len(pairs)} pairs: {named}" if pairs else "",
    )


def _sources(of: Accuracy) -> int:
    """Return for how many source steps something was, or should have been, answered."""
    known = np.isfinite(np.array([_floats(row) for row in of.errors_pct]))
    return len({*np.nonzero(known)[0].tolist(), *(i for i, _ in of.unanswered)})


def _quality(group: Group, limits: Limits) -> Iterator[Outcome]:
    split = len(group.base)
    name = "noise of the mean ground truth within the interval"
    noise = group.noise()
    known = np.isfinite(noise).all(axis=0) & (noise > 0).all(axis=0) & group.usable()
    steps = int(known.sum())
    if steps < FEWEST_STEPS or group.blocks < FEWEST_BLOCKS:
        few = f"fewer than {FEWEST_STEPS} steps, or than {FEWEST_BLOCKS} blocks in one"
        yield Outcome(*group.named, "quality", name, detail=few)
    else:
        logs = np.log(noise[:, known])
        grown = float(logs[split:].mean() - logs[:split].mean())
        # The log of a standard error from n batches has a standard deviation of 1 / sqrt(2 (n - 1)).
        sd = math.sqrt((1 / split + 1 / len(group.now)) / (2 * (group.blocks - 1) * steps))
        yield Outcome(
            *group.named,
            "quality",
            name,
            before=float(np.exp(logs[:split]).mean()),
            now=float(np.exp(logs[split:]).mean()),
            p=float(stats.norm.sf((grown - math.log(limits.noise_factor)) / sd)),
        )
    sent, gone = (
        [sum(getattr(s, k) for r in side for s in r.steps) for side in (group.base, group.now)]
        for k in ("sent", "gone")
    )
    if min(sent) > 0:
        p = 1.0
        if gone[1]:
            test = stats.poisson_means_test(gone[1], sent[1], gone[0], sent[0], alternative="greater")
            p = float(test.pvalue)
        yield Outcome(
            *group.named,
            "quality",
            "messages lost, failed, repeated or incomplete",
            before=gone[0] / sent[0] * 100,
            now=gone[1] / sent[1] * 100,
            p=p,
        )


def _speed(group: Group, limits: Limits) -> Iterator[Outcome]:
    for name, words in (
        ("rebalance_s", "rebalance until every executor is up"),
        ("burn_in_s", "burn-in"),
        ("after_s", "after the interval"),
    ):
        times = [
            _floats([r.steps[r.labels.index(x)].seconds.get(name) for x in group.labels]) for r in group.all
        ]
        yield _times(group, words, "s a step", times, limits.seconds_factor)
    for model in sorted(group.base[0].predict_ms):
        words = f"one prediction by {model}"
        if not all(model in r.predict_ms for r in group.all):
            continue
        if len({r.scored_on for r in group.all}) > 1:
            yield Outcome(*group.named, "speed", words, detail="timed on other machines")
            continue
        times = [_floats([r.predict_ms[model][r.labels.index(x)] for x in group.labels]) for r in group.all]
        yield _times(group, words, "ms", times, limits.cpu_factor)


def _times(group: Group, name: str, unit: str, times: Sequence[Floats], factor: float) -> Outcome:
    """Compare times by a t-test over the steps."""
    stacked = np.stack(times)
    known = np.isfinite(stacked).all(axis=0) & (stacked > 0).all(axis=0)
    if known.sum() < FEWEST_STEPS:
        return Outcome(*group.named, "speed", name, detail=f"fewer than {FEWEST_STEPS} steps")
    split = len(group.base)
    logs = np.log(stacked[:, known])
    grown = logs[split:].mean(axis=0) - logs[:split].mean(axis=0)
    if np.ptp(grown) == 0:
        p = 1.0 if grown[0] <= np.log(factor) else 0.0
    else:
        p = float(stats.ttest_1samp(grown, np.log(factor), alternative="greater").pvalue)
    return Outcome(
        *group.named,
        "speed",
        name,
        before=float(stacked[:split][:, known].mean()),
        now=float(stacked[split:][:, known].mean()),
        unit=unit,
        p=p,
    )


def sees_pct(group: Group, limits: Limits, hypotheses: int) -> float | None:
    """Return by how much any step's mean ground truth has to move to be found with a probability of 0.8.

    None where it cannot be said.
    """
    within = group.measured(GROUND_TRUTH_MEAN, group.base, "within")
    if within is None or group.blocks < FEWEST_BLOCKS:
        return None
    error, carriers = np.sqrt(np.mean(within**2, axis=0)), group.carriers(GROUND_TRUTH_MEAN)
    at = group.usable() & np.isfinite(error) & (carriers >= FEWEST_BLOCKS)
    if not at.any():
        return None
    between = group.between(GROUND_TRUTH_MEAN, limits)
    chance = group.chance(float(error[at].max()), between, float(carriers[at].min()))
    seen = chance.seen(limits.alpha / max(1, hypotheses) / (2 * int(at.sum())))
    return 100 * math.expm1(seen + math.log1p(limits.step_pct / 100))
