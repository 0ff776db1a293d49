"""A new night against the baseline's nights of the same experiment: one p-value a hypothesis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from harness.regression.chance import (
    SMALLEST_SD,
    Floats,
    Nights,
    Pairs,
    between_nights,
    error_nulls,
    largest_p,
    measured_nulls,
    median_error_nulls,
    noise_nulls,
    pooled,
)
from harness.regression.outcomes import Family, Limits, Outcome
from harness.regression.scores import Accuracy, Measured, RunScores

FEWEST_STEPS = 3
"""A step's overhead is compared by a t-test over the steps, which needs so many."""
NAMED = 6
"""Pairs or steps named in a line."""
GROUND_TRUTH_MEAN = ("ours", "ground_truth_latency_ms", "mean", "")
NOISE_UNKNOWN = "its noise is unknown (read from a histogram), so chance cannot be told from change"

MeasuredKey = tuple[str, str, str, str]


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

    def usable(self) -> Floats:
        """Return by step whether it can be used in all nights."""
        return np.array(
            [not any(r.steps[r.labels.index(x)].unusable for r in self.all) for x in self.labels], dtype=float
        )

    def outcome(self, family: Family, name: str, **fields: Any) -> Outcome:
        """Return an outcome of this group."""
        run = ", ".join(r.run for r in self.now)
        return Outcome(self.base[0].experiment, run, family, name, fields.pop("found", "untested"), **fields)


def compare_nights(group: Group, limits: Limits) -> Iterator[Outcome]:
    """Yield every hypothesis about new nights, decided by p-values that are yet to be corrected."""
    yield from _measured(group, limits)
    yield from _accuracy(group, limits)
    yield from _quality(group, limits)
    yield from _speed(group, limits)


def spread(group: Group, key: MeasuredKey) -> tuple[Nights, Floats] | None:
    """Return how well a statistic was measured, and in which steps; None where its noise is unknown."""
    found = [_values(r, key, group.labels) for r in group.all]
    if any(f is None for f in found):
        return None
    values = np.stack([f[0] for f in found if f is not None])
    within = np.stack([f[1] for f in found if f is not None])
    split = len(group.base)
    # Only a baseline knows how far what comes without batches repeats.
    within[split:] = np.where(np.isfinite(within[split:]), within[split:], within[:split].mean(axis=0))
    known = np.isfinite(values).all(axis=0) & (values > 0).all(axis=0) & np.isfinite(within).all(axis=0)
    known &= group.usable() > 0
    if not known.any():
        return None
    between, dof = between_nights(list(np.log(values[:split, known])), list(within[:split, known]))
    whole = np.where(known, within, 0.0)
    return Nights(list(whole[:split]), list(whole[split:]), between, dof), known.astype(float)


def _values(run: RunScores, key: MeasuredKey, labels: Sequence[str]) -> tuple[Floats, Floats] | None:
    for m in run.measured:
        if (m.protocol, m.measure, m.statistic, m.subject) == key:
            at = [run.labels.index(x) for x in labels]
            return _array([m.values[i] for i in at]), _array([m.within[i] for i in at])
    return None


def _array(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def _key(of: Measured) -> MeasuredKey:
    return of.protocol, of.measure, of.statistic, of.subject


def _measured(group: Group, limits: Limits) -> Iterator[Outcome]:
    for of in group.base[0].measured:
        found = spread(group, _key(of))
        if found is None:
            yield group.outcome("measured", of.name, detail=NOISE_UNKNOWN)
            continue
        nights, known = found
        at = np.flatnonzero(known)
        values = np.stack([v[0][at] for r in group.all if (v := _values(r, _key(of), group.labels))])
        split = len(group.base)
        before, after = values[:split].mean(axis=0), values[split:].mean(axis=0)
        change = np.log(values[split:]).mean(axis=0) - np.log(values[:split]).mean(axis=0)
        p = largest_p(
            lambda n, nights=nights, at=at: (null[:, at] for null in measured_nulls(nights, n)),  # type: ignore[misc]
            change,
            np.log1p(limits.mean_points / 100),
            np.log1p(limits.pair_points / 100),
            two_sided=True,
        )
        moved = [
            i for i in np.argsort(-np.abs(change)) if abs(change[i]) > np.log1p(limits.pair_points / 100)
        ]
        steps = ", ".join(
            f"step {group.labels[at[i]]} {before[i]:.4g} -> {after[i]:.4g}" for i in moved[:NAMED]
        )
        yield group.outcome(
            "measured",
            of.name,
            before=float(before.mean()),
            now=float(after.mean()),
            unit=of.measure.rsplit("_", 1)[-1],
            p=p,
            detail=steps,
        )


def _accuracy(group: Group, limits: Limits) -> Iterator[Outcome]:
    for of in group.base[0].accuracy:
        others = [next((a for a in r.accuracy if a.key == of.key), None) for r in group.all]
        scored = [a for a in others if a is not None]
        if len(scored) < len(others):
            yield group.outcome("accuracy", of.name, detail="not predicted in every night")
            continue
        yield _errors(group, of, scored, limits)
        yield from _answers(group, of, scored)


def _errors(group: Group, of: Accuracy, scored: Sequence[Accuracy], limits: Limits) -> Outcome:
    def stacked(name: str) -> Floats:
        found = zip(group.all, scored, strict=True)
        return np.stack([_by_label(r, getattr(a, name), group.labels) for r, a in found])

    split = len(group.base)
    matrices = stacked("errors_pct")
    known = np.isfinite(matrices).all(axis=0)
    noise: Floats | None = None
    louder = 1.0
    if of.subjects == "one":
        found = spread(group, (of.protocol, of.measure, of.statistic, ""))
        if found is None:
            return group.outcome("accuracy", of.name, detail=NOISE_UNKNOWN)
        nights, steps = found
        known &= (steps[:, None] > 0) & (steps[None, :] > 0)
        louder = max(1.0, _rms(nights.now) / max(_rms(nights.base), SMALLEST_SD))
    else:
        noise = stacked("noise_pct")
        known &= np.isfinite(noise).all(axis=0)
        zeros = np.zeros(len(group.labels))
        nights = Nights([zeros] * split, [zeros] * len(group.now))
    source, proposed = np.nonzero(known)
    if not len(source):
        return group.outcome("accuracy", of.name, detail="no pair was judged in every night")
    moves = [
        _by_label(r, a.moved_pct, group.labels)
        for r, a in zip(group.base, scored, strict=False)
        if a.moved_pct
    ]
    errors = matrices[:, source, proposed]
    before, after = np.abs(errors[:split]).mean(axis=0), np.abs(errors[split:]).mean(axis=0)
    pairs = Pairs(
        source,
        proposed,
        errors[:split].mean(axis=0),
        moved_pct=_moved(moves, source, proposed, louder),
        noise_pct=None if noise is None else noise[:, source, proposed].mean(axis=0),
    )
    grown = after - before
    return group.outcome(
        "accuracy",
        of.name,
        before=float(np.median(before)),
        now=float(np.median(after)),
        unit="% median error",
        p=largest_p(
            partial(error_nulls if noise is None else median_error_nulls, nights, pairs),
            grown,
            limits.mean_points,
            limits.pair_points,
        ),
        detail=name_pairs(grown, source, proposed, group.labels, limits.pair_points),
    )


def _rms(within: Sequence[Floats]) -> float:
    return float(np.sqrt(np.mean(np.stack(list(within)) ** 2)))


def _moved(moves: Sequence[Floats], source: Any, proposed: Any, louder: float) -> Floats | None:
    """Return how far predictions move by themselves, from the baseline's nights that know it."""
    if not moves:
        return None
    squares = np.nanmean(np.stack(list(moves))[:, source, proposed] ** 2, axis=0)
    known = np.isfinite(squares)
    if not known.any():
        return None
    return pooled(np.sqrt(np.where(known, squares, squares[known].mean()))) * louder


def name_pairs(
    grown: Floats, source: Any, proposed: Any, labels: Sequence[str], points: float, most: int = NAMED
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
    return np.array([_array([matrix[i][j] for j in at]) for i in at])


def _answers(group: Group, of: Accuracy, scored: Sequence[Accuracy]) -> Iterator[Outcome]:
    """Yield a finding where a model no longer answers for pairs that it always answered for."""
    split = len(group.base)
    by_night = [
        {(r.labels[i], r.labels[j]) for i, j in a.unanswered} for r, a in zip(group.all, scored, strict=True)
    ]
    before = {pair for night in by_night[:split] for pair in night}
    lost = sorted({pair for night in by_night[split:] for pair in night} - before)
    if lost:
        pairs = ", ".join(f"{i}->{j}" for i, j in lost[:NAMED])
        yield group.outcome(
            "accuracy", of.name, found="worse", detail=f"no longer answers for {len(lost)} pairs: {pairs}"
        )


def _quality(group: Group, limits: Limits) -> Iterator[Outcome]:
    name = "noise of the mean ground truth within the interval"
    found = spread(group, GROUND_TRUTH_MEAN)
    if found is None or not all((w > 0).any() for w in found[0].now):
        yield group.outcome("quality", name, detail="no step has enough samples")
    else:
        nights, known = found
        at = np.flatnonzero(known)
        before, after = (np.stack(list(side))[:, at] for side in (nights.base, nights.now))
        margin = float(np.log(limits.noise_factor))
        with np.errstate(divide="ignore"):
            grown = np.log(after).mean(axis=0) - np.log(before).mean(axis=0)
        if np.isfinite(grown).all():
            p = largest_p(lambda n: (x[:, at] for x in noise_nulls(nights, n)), grown, margin, 2 * margin)
            yield group.outcome(
                "quality", name, before=float(before.mean() * 100), now=float(after.mean() * 100), p=p
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
        yield group.outcome(
            "quality",
            "messages lost, failed or duplicated",
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
            _array([r.steps[r.labels.index(x)].seconds.get(name) for x in group.labels]) for r in group.all
        ]
        yield _times(group, words, "s a step", times, limits.seconds_factor)
    for model in sorted(group.base[0].predict_ms):
        words = f"one prediction by {model}"
        if not all(model in r.predict_ms for r in group.all):
            continue
        if len({r.scored_on for r in group.all}) > 1:
            yield group.outcome("speed", words, detail="timed on other machines")
            continue
        times = [_array([r.predict_ms[model][r.labels.index(x)] for x in group.labels]) for r in group.all]
        yield _times(group, words, "ms", times, limits.cpu_factor)


def _times(group: Group, name: str, unit: str, times: Sequence[Floats], factor: float) -> Outcome:
    stacked = np.stack(times)
    known = np.isfinite(stacked).all(axis=0) & (stacked > 0).all(axis=0)
    if known.sum() < FEWEST_STEPS:
        return group.outcome("speed", name, detail=f"fewer than {FEWEST_STEPS} steps")
    split = len(group.base)
    logs = np.log(stacked[:, known])
    grown = logs[split:].mean(axis=0) - logs[:split].mean(axis=0)
    if np.ptp(grown) == 0:
        p = 1.0 if grown[0] <= np.log(factor) else 0.0
    else:
        p = float(stats.ttest_1samp(grown, np.log(factor), alternative="greater").pvalue)
    return group.outcome(
        "speed",
        name,
        before=float(stacked[:split][:, known].mean()),
        now=float(stacked[split:][:, known].mean()),
        unit=unit,
        p=p,
    )
