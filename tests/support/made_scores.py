"""Scores of nights that were never measured, with known truths."""

from __future__ import annotations

import numpy as np

from harness.analysis.judge.scores import Accuracy, MeasuredValues, RunScores, StepScore, rounded
from harness.experiments.config import Experiment
from harness.experiments.step_settings import Steps, StepSpec
from harness.experiments.workload_settings import Workload
from harness.topologies.test_topology import Topology

LATENCIES_MS = np.array([10.0, 12.0, 15.0, 19.0, 24.0])
LABELS = tuple(f"spec-{i}" for i in range(5))
BLOCKS = 20
OTHERS = ~np.eye(5, dtype=bool)


def night(
    run: str,
    *,
    experiment: str = "fields-to-fields",
    rate_tps: float = 50.0,
    slower: float = 1.0,
    low: float = 0.8,
    within: float | np.ndarray = 0.01,
    steps_ms: np.ndarray = LATENCIES_MS,
    predicted_ms: np.ndarray | None = None,
    seconds: float = 10.0,
    gone: int = 0,
) -> RunScores:
    """Five steps; no-change, and a model that always says ``low`` times the baseline's truth.

    ``within`` is the relative error of every step, or of each.
    """
    error = np.broadcast_to(within, 5)
    actual = steps_ms * slower
    steady = np.tile(LATENCIES_MS * low, (5, 1)) if predicted_ms is None else predicted_ms
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
                blocks=BLOCKS,
                noise_pct=100 * float(error[i]),
                seconds={"rebalance_s": seconds + i / 10, "burn_in_s": 20.0 + i, "after_s": 5.0 + i / 10},
                sent=2000,
                gone=gone,
            )
            for i, (label, ms) in enumerate(zip(LABELS, actual, strict=True))
        ),
        measured=(
            MeasuredValues(
                protocol="ours",
                measure="ground_truth_latency_ms",
                statistic="mean",
                subject="",
                values=tuple(rounded(x) for x in actual),
                within=tuple(float(x) for x in error),
            ),
        ),
        accuracy=(
            accuracy("no-change", np.tile(actual[:, None], (1, 5)), actual, error, follows=True),
            accuracy("steady", steady, actual, error, follows=False),
        ),
        models=("no-change", "steady"),
    )


def accuracy(
    model: str, predicted_ms: np.ndarray, actual_ms: np.ndarray, within: np.ndarray, follows: bool
) -> Accuracy:
    """Signed errors of predictions (source by proposed), and how far their mean size moves by chance.

    ``follows`` says whether predictions move with what was measured of their source.
    """
    moves = np.exp(within * np.random.default_rng(7).standard_normal((400, 5)))
    predicted = predicted_ms * (moves[:, :, None] if follows else 1.0)
    sizes = np.abs(predicted / (actual_ms * moves)[:, None, :] - 1)[:, OTHERS].mean(axis=1) * 100
    errors = (predicted_ms / actual_ms - 1) * 100
    return Accuracy(
        model=model,
        protocol="ours",
        measure="ground_truth_latency_ms",
        statistic="mean",
        subjects="one",
        errors_pct=tuple(
            tuple(rounded(errors[i, j]) if i != j else None for j in range(5)) for i in range(5)
        ),
        unanswered=(),
        grown_points=rounded(sizes.mean() - np.abs(errors[OTHERS]).mean()),
        spread_points=rounded(sizes.std()),
        silent=(0, 100),
    )


def settings(name: str, rate_tps: float) -> dict[str, object]:
    """An experiment, resolved."""
    return Experiment(
        name=name,
        topology=Topology(name="fields-to-fields", load_aware=False),
        workload=Workload(rate_tps=rate_tps),
        steps=Steps(plan=(StepSpec(executors=1), StepSpec(executors=2))),
    ).model_dump(mode="json")
