"""Runs against a baseline: archived ones by replay, new ones as nights; one decision over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.analysis.judge.scores import RunScores
from harness.errors import UsageError
from harness.regression.nights import Group, compare_nights, sees_pct
from harness.regression.outcomes import Limits, Outcome, Regression, corrected
from harness.regression.replay import changed_data, compare_replay

MOST_EDITS = 3
"""Edits of a run that are named."""
NOISY_FACTOR = 2.0
"""A night whose noise is above the usual by this factor is noisy."""


def regress(
    baseline: Sequence[RunScores],
    now: Sequence[RunScores],
    limits: Limits | None = None,
    where: str | Path = "the baseline",
    required: bool = True,
    edited: bool = True,
) -> Regression:
    """Compare runs with a baseline.

    A new night that is invalid is named and set aside, since its measurements say nothing of the code. Where
    all new nights are invalid, the answer is: not enough data.

    Parameters
    ----------
    baseline, now : sequences of RunScores
    limits : Limits, optional
    where : path
        The baseline's file, for messages.
    required : bool
        Whether a baseline of other experiments is a mistake, rather than not enough data.
    edited : bool
        Whether runs whose files were changed after they were measured may pass; they are named in any case.

    Raises
    ------
    UsageError
        When the baseline holds none of the runs' experiments, and has to.
    """
    limits = limits or Limits()
    outcomes: list[Outcome] = []
    gaps: list[str] = []
    notes: list[str] = []
    aside: list[str] = []
    new: dict[str, list[RunScores]] = {}
    compared = 0
    for run in now:
        named = f"{run.experiment} {run.run}"
        if run.edited and not edited:
            outcomes.append(_edited(run))
        notes += [f"{named}: edited: {line}" for line in run.edited[:MOST_EDITS]]
        same_name = [b for b in baseline if b.experiment == run.experiment]
        mine = [b for b in same_name if not b.same_experiment(run)]
        if run.verdict == "invalid" and not any(b.run == run.run for b in mine):
            aside += noisy(run, mine)
            continue
        if not mine:
            gaps.append(f"{named}: {_no_baseline(run, same_name, where)}")
            continue
        compared += 1
        notes += noisy(run, mine)
        notes += [f"{named}: {m} has no baseline yet" for m in _new_models(run, mine)]
        own = next((b for b in mine if b.run == run.run), None)
        changed = changed_data(own, run) if own else []
        if own is not None and not changed:
            outcomes += compare_replay(own, run, limits)
            continue
        outcomes += changed
        new.setdefault(run.experiment, []).append(run)
    (notes if compared else gaps).extend(aside)
    if required and now and not compared and not aside:
        raise UsageError(f"{where}: a baseline of other experiments", gaps[0])
    groups = [
        Group([b for b in baseline if b.experiment == experiment and not b.same_experiment(runs[0])], runs)
        for experiment, runs in new.items()
    ]
    for group in groups:
        found = list(compare_nights(group, limits))
        outcomes += found
        gaps += _gaps(group, found)
    tested = sum(o.p is not None for o in outcomes)
    for group in groups:
        seen = sees_pct(group, limits, tested)
        named = f"{group.now[0].experiment} {', '.join(r.run for r in group.now)}"
        if seen is None:
            gaps.append(f"{named}: how far its latencies repeat is not known")
        elif seen > limits.see_pct:
            gaps.append(f"{named}: a step's mean latency could move by {seen:.0f} % without being found")
        else:
            notes.append(
                f"{named}: finds a step's mean latency moved by {seen:.0f} % (4 times in 5), and more"
            )
    notes += _changed(outcomes)
    return Regression(corrected(outcomes, limits.alpha), tuple(gaps), tuple(notes), limits)


def _edited(run: RunScores) -> Outcome:
    """Return the finding that a run is not what was measured."""
    what = "files were changed after they were measured"
    return Outcome(run.experiment, run.run, "data", what, "worse", detail=run.edited[0])


def _gaps(group: Group, found: Sequence[Outcome]) -> list[str]:
    """Say where a night could not be compared, or not wholly."""
    experiment, runs = group.now[0].experiment, group.now
    if not any(o.family == "accuracy" and (o.p is not None or o.found == "worse") for o in found):
        details = [o.detail for o in found if o.family == "accuracy"]
        why = "; ".join([*runs[0].failed[:2], *details[:1]]) or "no model was asked"
        return [f"{experiment} {', '.join(r.run for r in runs)}: accuracy cannot be compared: {why}"]
    bad = [r for r in runs if r.verdict != "valid"]
    return [f"{r.experiment} {r.run}: {r.verdict}, so only a part could be compared" for r in bad]


def _changed(outcomes: Sequence[Outcome]) -> list[str]:
    """Say that errors of the same data changed without getting worse by more than the limits."""
    found = [o for o in outcomes if o.family == "accuracy" and o.p is None and o.found == "same" and o.detail]
    if not found:
        return []
    first = found[0]
    return [
        f"{len(found)} kinds of errors are not the baseline's, none of them worse by more than the limits:"
        f" {first.experiment} {first.run}: {first.name}: {first.detail}" + (" ..." if len(found) > 1 else "")
    ]


def _no_baseline(run: RunScores, same_name: Sequence[RunScores], where: str | Path) -> str:
    if same_name:
        key = same_name[-1].same_experiment(run)
        return f"{where} holds another version of this experiment: {key} differs"
    return f"{where} has no run of this experiment"


def _new_models(run: RunScores, baseline: Sequence[RunScores]) -> list[str]:
    known = {a.model for b in baseline for a in b.accuracy}
    return sorted({a.model for a in run.accuracy} - known)


def noisy(run: RunScores, usual: Sequence[RunScores]) -> list[str]:
    """Return why a night is noisy: a check that did not pass, or noise above what is usual; else nothing."""
    named = f"{run.experiment} {run.run}: noisy: "
    found = [named + f"{run.verdict}: {failed}" for failed in run.failed]
    seen, before = noise_pct(run), [x for b in usual if b.run != run.run and (x := noise_pct(b)) is not None]
    if seen is not None and before:
        median = sorted(before)[len(before) // 2]
        if seen > NOISY_FACTOR * median:
            found.append(
                named
                + f"ground truth repeats within {seen:.2g} % from batch to batch, usually {median:.2g} %"
            )
    return found


def noise_pct(run: RunScores) -> float | None:
    """Return the mean over steps of the mean ground truth's error within the interval, in percent."""
    known = [s.noise_pct for s in run.steps if s.noise_pct is not None]
    return sum(known) / len(known) if known else None
