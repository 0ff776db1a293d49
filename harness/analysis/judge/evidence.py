"""Checks of what was recorded beside a step's samples: that it is there, agrees, and was left as it was."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.judge.samples import Outcome, Samples
from harness.analysis.spark.inputs import RunRecord, StepRecord
from harness.experiments.measure_settings import StealLimits
from harness.experiments.provenance import changed_keys
from harness.quality import Finding

ONE_EXPERIMENT, AGREEMENT, SEAL = "one-experiment", "agreement", "seal"
EDITED = (ONE_EXPERIMENT, AGREEMENT, SEAL)
"""Checks that fail when somebody changed a run's files after it was measured."""
MOST_NAMED = 3


def agreement(_: StepRecord, samples: Samples) -> Outcome:
    """Say whether the step's files agree with each other and with the experiment."""
    found = samples.agreement
    if found.drawn_anew:
        return "valid", "does not apply: drawn anew from another night"
    return ("invalid", _few(found.disagreements)) if found.disagreements else ("valid", "")


def seal(step: StepRecord, samples: Samples) -> Outcome:
    """Say whether every file of the step is as the campaign wrote it."""
    found = samples.agreement
    if found.drawn_anew:
        return "valid", "does not apply: drawn anew from another night"
    if found.broken is None:
        return ("invalid", "seal.json is missing") if step.sealing else ("valid", "not sealed")
    return ("invalid", _few(found.broken)) if found.broken else ("valid", "")


def one_experiment(run: RunRecord) -> Outcome:
    """Say whether every step was measured with one machine and code, and the experiment as it is now."""
    known = [(s.index, s.provenance) for s in run.steps if s.provenance is not None]
    if not known:
        return "valid", "not recorded"
    if missing := sorted({s.index for s in run.steps} - {index for index, _ in known}):
        return "unknown", f"what step {missing[0]} was measured with is not recorded"
    first, of_first = known[0]
    for index, other in known[1:]:
        if found := of_first.differences(other):
            return "invalid", f"step {index} was measured with another than step {first}: {found[0]}"
    if changed := changed_keys(of_first.experiment, run.digests):
        return "invalid", f"experiment.yaml was changed after the steps were measured: {_few(changed)}"
    return "valid", ""


def _few(found: Sequence[str]) -> str:
    more = f"; and {rest} more" if (rest := len(found) - MOST_NAMED) > 0 else ""
    return "; ".join(found[:MOST_NAMED]) + more


def began_empty(step: StepRecord, _: Samples) -> Outcome:
    """Say whether all that came before had come out when the step began."""
    return _recorded(step, "began_empty", step.quality.began_empty)


def alone(step: StepRecord, _: Samples) -> Outcome:
    """Say whether no cluster came up beside the run."""
    return _recorded(step, "alone", step.quality.alone)


def clocks(step: StepRecord, _: Samples) -> Outcome:
    """Say whether the time of day was not set in the interval."""
    return _recorded(step, "clocks", step.quality.clocks)


def stolen(step: StepRecord, _: Samples) -> Outcome:
    """Say whether the machine's host left it its CPU; runs from before there was a limit are held to it."""
    found, steal_pct = step.quality.stolen, step.interval.machine_steal_pct
    if found is None and steal_pct is not None and "stolen" not in step.recorded:
        found = StealLimits().finding(steal_pct)
    return _recorded(step, "stolen", found)


def _recorded(step: StepRecord, name: str, found: Finding | None) -> Outcome:
    """Return a finding; unknown where the run keeps such findings and this one is not there."""
    if found is None:
        return ("unknown" if name in step.recorded else "valid"), "not recorded"
    return ("valid" if found.ok else "invalid"), found.detail
