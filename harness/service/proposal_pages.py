"""Proposals of a job's tuners and schedulers: rows side by side, and experiments that measure one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import dump, expand_steps, load
from harness.experiments.step_settings import StepSpec
from harness.plans import BatchSize
from harness.protocols import TuningDecision
from harness.runs import Run, StepTuning

MOST_NAME = 60
"""So much is kept of an experiment's name where a proposal's is appended."""


class PredictedOfTuner(BaseModel):
    """The prediction beside a tuner's proposal, as far as a row shows it."""

    reason: str = ""
    mean_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    max_sustainable_tps: float | None = None


class TunerAnswer(BaseModel):
    """A proposal of ``harness tune --json``, as far as pages show it."""

    tuner: str
    status: str
    reason: str
    executors: dict[str, int]
    workers: int | None
    batching: dict[str, BatchSize]
    predicted: PredictedOfTuner | None
    decisions: tuple[TuningDecision, ...]

    @property
    def name(self) -> str:
        """The tuner's."""
        return self.tuner

    def step(self, now: Mapping[str, object]) -> tuple[Mapping[str, object], bool]:
        """Return the keys of a step as proposed, given those of the step as measured; it stands alone."""
        sized = {"batching": self.batching} if self.batching or "batching" in now else {}
        return {**now, "executors": self.executors, "workers": self.workers, **sized}, True

    def row(self) -> dict[str, object]:
        """Return the proposal in words, with its predicted mean latency."""
        predicted = self.predicted or PredictedOfTuner()
        counts = " ".join(f"{name}:{count}" for name, count in self.executors.items())
        return {
            "name": self.tuner,
            "status": self.status,
            "what": f"{counts} on {self.workers} workers" if counts else "",
            "batches": " ".join(f"{name}:{b.size}" for name, b in self.batching.items()),
            "mean_ms": predicted.mean_ms,
            "low_ms": predicted.low_ms,
            "high_ms": predicted.high_ms,
            "most_tps": predicted.max_sustainable_tps,
            "reason": "; ".join(filter(None, [self.reason, predicted.reason])),
            "decisions": len(self.decisions),
        }


class PredictedValue(BaseModel):
    """A predicted statistic with the ends of its interval."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class LimitOfPlan(BaseModel):
    """The rate at which a subject of a plan is full; None where it does not grow with the rate."""

    max_rate_tps: float | None


class SchedulerAnswer(BaseModel):
    """A proposal of ``harness schedule --json``, as far as pages show it."""

    scheduler: str
    status: str
    reason: str
    predicted: dict[str, dict[str, PredictedValue]]
    limits: tuple[LimitOfPlan, ...]
    executors_moved: int | None
    workers_restarted: int | None

    @property
    def name(self) -> str:
        """The scheduler's."""
        return self.scheduler

    def step(self, now: Mapping[str, object]) -> tuple[Mapping[str, object], bool]:
        """Return the keys of a step as proposed; it reads the first of its run: not alone."""
        return {**now, "scheduler": self.scheduler, "from": 0}, False

    def row(self) -> dict[str, object]:
        """Return the proposal in words, with its predicted mean latency."""
        means = (by.get("mean", PredictedValue()) for by in self.predicted.values())
        mean = next((m for m in means if m.value is not None), PredictedValue())
        moves = f"{self.executors_moved} executors moved, {self.workers_restarted} workers restarted"
        return {
            "name": self.scheduler,
            "status": self.status,
            "what": "" if self.executors_moved is None else moves,
            "batches": "",
            "mean_ms": mean.value,
            "low_ms": mean.low,
            "high_ms": mean.high,
            "most_tps": next(
                (full.max_rate_tps for full in self.limits if full.max_rate_tps is not None), None
            ),
            "reason": self.reason,
            "decisions": 0,
        }


class ProposalsAnswer(BaseModel):
    """The machine-readable line of ``harness tune`` or ``harness schedule``.

    Attributes
    ----------
    step : int, optional
        The measured step that the proposals are for.
    """

    step: int | None = None
    proposals: tuple[TunerAnswer | SchedulerAnswer, ...] = ()

    @property
    def decisions(self) -> dict[str, tuple[TuningDecision, ...]]:
        """Each tuner's decisions by its name."""
        return {p.tuner: p.decisions for p in self.proposals if isinstance(p, TunerAnswer)}


def tuned_step(run: Run, step: int) -> TunerAnswer | None:
    """Return the tuner's answer that a finished step was measured with; None where no tuner was asked."""
    path = run.step_path(step) / "tuning.json"
    if not path.is_file():
        return None
    return TunerAnswer.model_validate(StepTuning.model_validate_json(path.read_bytes()).proposals[0])


def measuring_files(
    run: Run, step: int, rate_tps: float | None, proposal: TunerAnswer | SchedulerAnswer
) -> tuple[str, ...]:
    """Return experiment files that measure a step's configuration and what was proposed for it.

    Returns
    -------
    tuple of str
        A file that has both, one after the other. Then, unless the proposal is made of what is measured of
        the original, one of the original and one of the proposal, to be measured at once.
    """
    experiment = load(run.path / "experiment.yaml")
    plan, measured = run.plan(step), expand_steps(experiment)[step]
    components = {c.name for c in plan.start.query_plan.components}
    now: dict[str, object] = {
        "executors": {name: count for name, count in plan.asked.executors.items() if name in components},
        "workers": plan.asked.workers,
        "rate_tps": measured.rate_tps and (rate_tps or measured.rate_tps),
    }
    if plan.batching:
        now["batching"] = plan.batching
    proposed, alone = proposal.step(now)
    both = _file(experiment, proposal.name, (now, proposed))
    if not alone:
        return (both,)
    return both, _file(experiment, "original", (now,)), _file(experiment, proposal.name, (proposed,))


def tuned_file(experiment: Experiment, tuner: str) -> str:
    """Return an experiment file that measures the first step, and then a tuner's proposal for it.

    Raises
    ------
    UsageError
        When the first step says no numbers of executors.
    """
    first = experiment.steps.plan[0]
    if first.executors is None:
        raise UsageError("steps.plan.0: it says no executors", "a tuner begins with numbers of executors")
    said = {"rate_tps": first.rate_tps, "relief": first.relief}
    now = {"executors": first.executors, "workers": first.workers, "batching": first.batching, **said}
    return _file(experiment, tuner, (now, {"tuner": tuner, "from": 0, **said}))


def _file(experiment: Experiment, name: str, plan: Sequence[Mapping[str, object]]) -> str:
    """Return the file of an experiment with other steps, which is named after what is new in it.

    Two runs of one name cannot begin in the same second.
    """
    specs = tuple(StepSpec.model_validate(spec) for spec in plan)
    steps = experiment.steps.model_copy(update={"plan": specs, "order": "listed", "repeats": 1})
    named = f"{experiment.name[:MOST_NAME]}-{re.sub('[^a-z0-9.]+', '-', name.lower())}"
    return dump(experiment.model_copy(update={"steps": steps, "name": named}))


def decided_notes(decisions: Sequence[TuningDecision], upto: int) -> dict[str, list[str]]:
    """Return what was decided on each component up to a decision, a line each."""
    notes: dict[str, list[str]] = {}
    for decision in decisions[: upto + 1]:
        if decision.node:
            notes.setdefault(decision.node, []).append(_short(decision))
    return notes


def _short(decision: TuningDecision) -> str:
    """Return a decision's result with its name: the first symbol of the decision's formula."""
    words = [w for w in decision.formula.split() if w not in ("min", "max")]
    result = decision.result
    said = f"{result:.4g}" if isinstance(result, float) else str(result)
    return f"{words[0] if words else ''} = {said}"
