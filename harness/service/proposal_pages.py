"""Proposals of a job's tuners and schedulers: rows side by side, and experiments that measure one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from harness.experiments.config import Experiment
from harness.experiments.loading import dump, expand_steps, load
from harness.experiments.step_settings import StepSpec
from harness.plans import BatchSize
from harness.protocols import TuningDecision
from harness.runs import Run


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

    def step(self, now: Mapping[str, object]) -> dict[str, object]:
        """Return the keys of a step as proposed, given those of the step as measured."""
        return {**now, "executors": self.executors, "workers": self.workers}

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
    """The rate at which a subject of a plan is full."""

    max_rate_tps: float


class SchedulerAnswer(BaseModel):
    """A proposal of ``harness schedule --json``, as far as pages show it."""

    scheduler: str
    status: str
    reason: str
    predicted: dict[str, dict[str, PredictedValue]]
    limits: tuple[LimitOfPlan, ...]
    executors_moved: int | None
    workers_restarted: int | None

    def step(self, now: Mapping[str, object]) -> dict[str, object]:
        """Return the keys of a step as proposed, given those of the step as measured."""
        return {**now, "scheduler": self.scheduler, "from": 0}

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
            "most_tps": self.limits[0].max_rate_tps if self.limits else None,
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


def original_and_proposed(
    run: Run, step: int, rate_tps: float | None, proposal: TunerAnswer | SchedulerAnswer
) -> str:
    """Return an experiment file that measures a step's configuration and then what was proposed for it.

    Batch sizes are those of the run: the file has them for all of its steps.
    """
    experiment = load(run.path / "experiment.yaml")
    asked = run.plan(step).asked
    measured = expand_steps(experiment)[step]
    now: dict[str, object] = {
        "executors": dict(asked.executors),
        "workers": asked.workers,
        "rate_tps": measured.rate_tps and (rate_tps or measured.rate_tps),
    }
    return dump(_with_steps(experiment, now, proposal.step(now)))


def _with_steps(experiment: Experiment, *plan: Mapping[str, object]) -> Experiment:
    specs = tuple(StepSpec.model_validate(spec) for spec in plan)
    steps = experiment.steps.model_copy(update={"plan": specs, "order": "listed", "repeats": 1})
    return experiment.model_copy(update={"steps": steps})


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
