"""Scores of nights that were never measured, with known truths."""

from __future__ import annotations

import numpy as np

from harness.experiments.config import Experiment, Steps, StepSpec, Topology, Workload
from harness.regression.scores import Accuracy, Measured, RunScores, StepScore, rounded

LATENCIES_MS = np.array([10.0, 12.0, 15.0, 19.0, 24.0])
LABELS = tuple(f"spec-{i}" for i in range(5))


def night(
    run: str,
    *,
    experiment: str = "fields-to-fields",
    rate_tps: float = 50.0,
    slower: float = 1.0,
    low: float = 0.8,
    within: float = 0.01,
    steps_ms: np.ndarray = LATENCIES_MS,
    predicted_ms: np.ndarray | None = None,
    seconds: float = 10.0,
    gone: int = 0,
) -> RunScores:
    """Five steps; no-change, and a model that always says ``low`` times the baseline's truth."""
    actual = steps_ms * slower
    low_ms = np.tile(LATENCIES_MS * low, (5, 1)) if predicted_ms is None else predicted_ms
    models = {"no-change": np.tile(actual[:, None], (1, 5)), "steady": low_ms}
    return RunScores(
        experiment=experiment,
        settings=settings(experiment, rate_tps),
        run=run,
        commit="0000000",
        machine="none",
        verdict="valid",
        failed=(),
        steps=tuple(
            StepScore(
                label=label,
                unusable="",
                data={"latency.parquet": f"{run}:{ms}"},
                rows=2000,
                seconds={"rebalance_s": seconds + i / 10, "burn_in_s": 20.0 + i, "after_s": 5.0 + i / 10},
                sent=2000,
                gone=gone,
            )
            for i, (label, ms) in enumerate(zip(LABELS, actual, strict=True))
        ),
        measured=(
            Measured(
                protocol="ours",
                measure="ground_truth_latency_ms",
                statistic="mean",
                subject="",
                values=tuple(rounded(x) for x in actual),
                within=(within,) * 5,
            ),
        ),
        accuracy=tuple(accuracy(name, values, actual) for name, values in models.items()),
    )


def accuracy(model: str, predicted_ms: np.ndarray, actual_ms: np.ndarray) -> Accuracy:
    """Signed errors of predictions (source by proposed)."""
    errors = (predicted_ms / actual_ms - 1) * 100
    matrix = tuple(tuple(None if i == j else rounded(errors[i, j]) for j in range(5)) for i in range(5))
    return Accuracy(
        model=model,
        protocol="ours",
        measure="ground_truth_latency_ms",
        statistic="mean",
        subjects="one",
        errors_pct=matrix,
        noise_pct=(),
        unanswered=(),
    )


def settings(name: str, rate_tps: float) -> dict[str, object]:
    """An experiment, resolved."""
    return Experiment(
        name=name,
        topology=Topology(name="fields-to-fields", load_aware=False),
        workload=Workload(rate_tps=rate_tps),
        steps=Steps(plan=(StepSpec(executors=1), StepSpec(executors=2))),
    ).model_dump(mode="json")
