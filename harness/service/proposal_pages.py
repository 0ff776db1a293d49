"""Proposals of a job's tuners and schedulers: rows side by side, and experiments that measure one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.experiments.config import Experiment
from harness.experiments.loading import dump, expand_steps, load
from harness.experiments.step_settings import StepSpec
from harness.runs import Run


def original_and_proposed(run: Run, step: int, rate_tps: float | None, proposal: Mapping[str, Any]) -> str:
    """Return an experiment file that measures a step's configuration and then what was proposed for it.

    Batch sizes are those of the run: the file has them for all of its steps.

    Parameters
    ----------
    proposal : mapping
        As ``harness tune --json`` or ``schedule --json`` has it.
    """
    experiment = load(run.path / "experiment.yaml")
    asked = run.plan(step).asked
    measured = expand_steps(experiment)[step]
    now: dict[str, Any] = {
        "executors": dict(asked.executors),
        "workers": asked.workers,
        "rate_tps": measured.rate_tps and (rate_tps or measured.rate_tps),
    }
    if "tuner" in proposal:
        then = {**now, "executors": dict(proposal["executors"]), "workers": proposal["workers"]}
    else:
        then = {**now, "scheduler": proposal["scheduler"], "from": 0}
    return dump(_with_steps(experiment, now, then))


def _with_steps(experiment: Experiment, *plan: Mapping[str, Any]) -> Experiment:
    specs = tuple(StepSpec.model_validate(spec) for spec in plan)
    steps = experiment.steps.model_copy(update={"plan": specs, "order": "listed", "repeats": 1})
    return experiment.model_copy(update={"steps": steps})


def decided_notes(decisions: list[Mapping[str, Any]], upto: int) -> dict[str, list[str]]:
    """Return what was decided on each component up to a decision, a line each."""
    notes: dict[str, list[str]] = {}
    for decision in decisions[: upto + 1]:
        if decision["node"]:
            notes.setdefault(decision["node"], []).append(_short(decision))
    return notes


def _short(decision: Mapping[str, Any]) -> str:
    """Return a decision's result with its name: the first symbol of the decision's formula."""
    words = [w for w in str(decision["formula"]).split() if w not in ("min", "max")]
    result = decision["result"]
    said = f"{result:.4g}" if isinstance(result, float) else str(result)
    return f"{words[0] if words else ''} = {said}"


def rows(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row a proposal: what is proposed in words, and the mean latency that is predicted of it."""
    for proposal in result.get("proposals", []):
        yield _tuned(proposal) if "tuner" in proposal else _scheduled(proposal)


def _tuned(proposal: Mapping[str, Any]) -> dict[str, Any]:
    predicted = proposal["predicted"] or {}
    counts = " ".join(f"{name}:{count}" for name, count in proposal["executors"].items())
    batches = " ".join(f"{name}:{b['size']}" for name, b in proposal["batching"].items())
    return {
        "name": proposal["tuner"],
        "status": proposal["status"],
        "what": f"{counts} on {proposal['workers']} workers" if counts else "",
        "batches": batches,
        "mean_ms": predicted.get("mean_ms"),
        "low_ms": predicted.get("low_ms"),
        "high_ms": predicted.get("high_ms"),
        "most_tps": predicted.get("max_sustainable_tps"),
        "reason": "; ".join(filter(None, [proposal["reason"], predicted.get("reason", "")])),
        "decisions": len(proposal["decisions"]),
        "proposal": proposal,
    }


def _scheduled(proposal: Mapping[str, Any]) -> dict[str, Any]:
    means = (
        by["mean"] for by in proposal["predicted"].values() if by.get("mean", {}).get("value") is not None
    )
    mean: Mapping[str, Any] = next(means, {})
    limits = proposal["limits"]
    moved = proposal["executors_moved"]
    return {
        "name": proposal["scheduler"],
        "status": proposal["status"],
        "what": ""
        if moved is None
        else f"{moved} executors moved, {proposal['workers_restarted']} workers restarted",
        "batches": "",
        "mean_ms": mean.get("value"),
        "low_ms": mean.get("low"),
        "high_ms": mean.get("high"),
        "most_tps": limits[0]["max_rate_tps"] if limits else None,
        "reason": proposal["reason"],
        "decisions": 0,
        "proposal": proposal,
    }
