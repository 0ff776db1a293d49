"""An experiment tried before it is measured: its first steps played, and predicted from the first of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from harness.analysis.judge.predicting import ask, observation, rate_tps, reader
from harness.app.simulated.campaign import carry_out
from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import files
from harness.machine.environment import describe
from harness.machine.servers import STORM_VERSION
from harness.models import MODELS
from harness.protocols import Prediction
from harness.runs import Run
from harness.schemas import LATENCIES, Measure
from harness.service.building import checked
from harness.service.questions import computing

MODEL = "composite"
MOST_STEPS = 4
SHORT = (
    *("cluster.kind=simulator", "measure.burn_in.least_s=3", "measure.burn_in.most_s=5"),
    *("measure.interval.least_s=10", "measure.interval.most_s=10"),
)
"""Long enough for a picture while a graph is edited; the run itself takes the file's own times."""


def try_out(text: str) -> list[dict[str, object]]:
    """Return a row a step: latency by the simulator, and the model's prediction from the first step.

    Raises
    ------
    UsageError
        When the text is no experiment, or one that the simulator does not play.
    """
    experiment = checked(text, SHORT)
    steps = experiment.steps
    few = steps.model_copy(update={"plan": steps.plan[:MOST_STEPS], "repeats": 1, "order": "listed"})
    experiment = experiment.model_copy(update={"steps": few})
    with computing, tempfile.TemporaryDirectory(prefix="harness-builder-") as folder:
        environment = describe(experiment.cluster.kind, {"storm": STORM_VERSION})
        run = Run.create(Path(folder), experiment.name, files(experiment), environment)
        carry_out(experiment, run, lambda _: None)
        if not run.finished_steps:
            raise UsageError("every step was declined", next(iter(run.declined_steps.values())).reason)
        return [_row(run, experiment, step) for step in run.finished_steps]


def _row(run: Run, experiment: Experiment, step: int) -> dict[str, object]:
    source = observation(run, experiment, run.finished_steps[0])
    there = observation(run, experiment, step)
    rate = rate_tps(experiment, source.rate_tps, there.rate_tps)
    answer = ask(reader(MODELS[MODEL], source), run.plan(step).start, there.settings, rate)
    interval = run.interval(step)
    played = np.isfinite(interval.mean_ms) and not run.quality(step).saturated
    return {
        "step": step,
        "configuration": interval.configuration,
        "played_ms": interval.mean_ms if played else None,
        "half_width_ms": interval.half_width_ms if played else None,
        "saturated": run.quality(step).saturated,
        **_predicted(answer),
        "busiest": _busiest(answer),
    }


def _predicted(answer: Prediction) -> dict[str, object]:
    of = (
        e for e in answer.estimates if e.measure == LATENCIES[0] and (e.subject, e.statistic) == ("", "mean")
    )
    mean = next(of, None)
    if mean is None or mean.value is None:
        return {"mean_ms": None, "low_ms": None, "high_ms": None, "reason": mean.reason if mean else ""}
    return {"mean_ms": mean.value, "low_ms": mean.low, "high_ms": mean.high, "reason": ""}


def _busiest(answer: Prediction) -> tuple[str, float] | None:
    """Return the executor that needs most of its time, and the share in percent."""
    loads = [
        (e.value * 100, e.subject)
        for e in answer.estimates
        if e.measure == Measure.UTILISATION and e.value is not None and "[" in e.subject
    ]
    return (max(loads)[1], max(loads)[0]) if loads else None
