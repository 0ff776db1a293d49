"""The same raw data scored again: nothing is left to chance, so any change is the code's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from harness.analysis.judge.scores import Accuracy, RunScores
from harness.regression.chance import Floats
from harness.regression.nights import GROUND_TRUTH_MEAN, NAMED, Group, name_pairs
from harness.regression.outcomes import Limits, Outcome

SAME = 1e-6
"""Relative: what the same samples give again may differ by the order of sums, and by nothing else."""
SAME_POINTS = 1e-2
"""The same of errors, in percentage points: a baseline keeps hundredths."""


def changed_data(baseline: RunScores, now: RunScores) -> list[Outcome]:
    """Return a finding for every step's file of an archived run whose contents are not the baseline's."""
    group = Group([baseline], [now])
    found = []
    if baseline.labels != now.labels:
        detail = f"steps {', '.join(baseline.labels)} became {', '.join(now.labels)}"
        return [Outcome(*group.named, "data", "the archived steps", found="worse", detail=detail)]
    for i, (old, new) in enumerate(zip(baseline.steps, now.steps, strict=True)):
        for file in sorted(set(old.data) | set(new.data)):
            if old.data.get(file) != new.data.get(file):
                moved = _mean_ms(baseline, i), _mean_ms(now, i)
                rows = f"rows {old.rows} -> {new.rows}" if old.rows != new.rows else f"{old.rows} rows"
                found.append(
                    Outcome(
                        *group.named,
                        "data",
                        f"step {i} ({old.label}) {file}",
                        found="worse",
                        before=moved[0],
                        now=moved[1],
                        unit="ms mean ground truth",
                        detail=f"not the contents that the baseline was made from; {rows}",
                    )
                )
    return found


def _mean_ms(run: RunScores, step: int) -> float | None:
    for m in run.measured:
        if m.key == GROUND_TRUTH_MEAN:
            return m.values[step]
    return None


def compare_replay(baseline: RunScores, now: RunScores, limits: Limits) -> Iterator[Outcome]:
    """Yield every kind of error, measured value and verdict of the same data, scored then and now."""
    group = Group([baseline], [now])
    lost = [f for f in now.failed if f not in baseline.failed]
    yield Outcome(
        *group.named,
        "quality",
        f"verdict {baseline.verdict} -> {now.verdict}",
        found="worse" if now.verdict != baseline.verdict and lost else "same",
        detail="; ".join(lost[:NAMED]) if now.verdict != baseline.verdict else "",
    )
    theirs = {m.key: m for m in now.measured}
    for old in baseline.measured:
        new = theirs.get(old.key)
        before, after = _floats(old.values), _floats(new.values if new else [None] * len(old.values))
        gone = np.isfinite(before) & ~np.isfinite(after)
        with np.errstate(invalid="ignore"):
            moved = np.flatnonzero(gone | (np.abs(after - before) > SAME * np.abs(before)))
        yield Outcome(
            *group.named,
            "measured",
            old.name,
            found="worse" if len(moved) else "same",
            before=_mean(before),
            now=_mean(after),
            unit=old.measure.rsplit("_", 1)[-1],
            detail=", ".join(f"step {i} {before[i]:.4g} -> {after[i]:.4g}" for i in moved[:NAMED]),
        )
    accuracies = {a.key: a for a in now.accuracy}
    for kind in baseline.accuracy:
        if kind.model not in now.models:
            yield Outcome(*group.named, "accuracy", kind.name, detail="the model was not asked")
        else:
            yield _errors(group, kind, accuracies.get(kind.key), limits)


def _errors(group: Group, old: Accuracy, new: Accuracy | None, limits: Limits) -> Outcome:
    """Compare errors pair by pair; without new ones nothing is answered any more."""
    before = np.abs(np.array([_floats(row) for row in old.errors_pct]))
    after = (
        np.abs(np.array([_floats(row) for row in new.errors_pct])) if new else np.full_like(before, np.nan)
    )
    labels = [str(i) for i in range(len(before))]
    both = np.isfinite(before) & np.isfinite(after)
    source, proposed = np.nonzero(both)
    grown = (after - before)[both]
    lost = sorted(
        {
            *(set(new.unanswered if new else ()) - set(old.unanswered)),
            *_places(np.isfinite(before) & ~np.isfinite(after)),
        }
    )
    grew = len(grown) > 0 and (grown.mean() > limits.mean_points or grown.max() > limits.pair_points)
    says = []
    if grew:
        says.append(name_pairs(grown, source, proposed, labels, min(limits.mean_points, grown.max() / 2)))
    elif len(changed := np.flatnonzero(np.abs(grown) > SAME_POINTS)):
        says.append(f"changed in {len(changed)} pairs, by {grown.min():+.2g} to {grown.max():+.2g} points")
    if lost:
        named = ", ".join(f"{i}->{j}" for i, j in lost[:NAMED])
        says.append(f"no longer answers for {len(lost)} pairs: {named}")
    return Outcome(
        *group.named,
        "accuracy",
        old.name,
        found="worse" if grew or lost else "same",
        before=_mean(before[both]),
        now=_mean(after[both]),
        unit="% mean error",
        detail="; ".join(says),
    )


def _places(of: npt.NDArray[np.bool_]) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in zip(*np.nonzero(of), strict=True)}


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def _mean(values: Floats) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None
