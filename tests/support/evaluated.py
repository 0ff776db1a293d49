"""Runs of an evaluation set with pairs that a test makes, for figures that can be worked out by hand."""

from __future__ import annotations

import pyarrow as pa

from harness.analysis.judge.evaluation import Evaluated, Split
from harness.schemas import ERRORS

GROUND_TRUTH = "ground_truth_latency_ms"
SPLIT = Split(tuning=("one",), development=("two", "three"), reporting=())


def row(
    model: str, source: int, proposed: int, value: float | None, actual: float = 10.0, **other: object
) -> dict[str, object]:
    judged = value is not None
    error = None if value is None else (value - actual) / actual
    """One row of errors.parquet."""
    made: dict[str, object] = {
        "model": model,
        "source_step": source,
        "proposed_step": proposed,
        "measure": GROUND_TRUTH,
        "subject": "",
        "statistic": "mean",
        "value": value,
        "low": None,
        "high": None,
        "status": "ok" if judged else "declined",
        "reason": "" if judged else "no",
        "protocol": "ours",
        "actual": actual,
        "noise": 0.5,
        "relative_error": error,
        "abs_error_pct": None if error is None else 100 * abs(error),
        "q_error": None if value is None else max(value / actual, actual / value),
        "error_over_noise": None if value is None else abs(value - actual) / 0.5,
        "covered": None,
        "verdict": "judged" if judged else "not-predicted",
    }
    return made | other


def run(
    experiment: str,
    rows: list[dict[str, object]],
    saturated: tuple[int, ...] = (),
    day: int = 1,
    rate_tps: float = 100,
    machine: str = "2 x CPU",
) -> Evaluated:
    """A run of an experiment whose sets ``SPLIT`` has."""
    frame = pa.Table.from_pylist(rows, schema=ERRORS).to_pandas()
    return Evaluated(
        name=f"{experiment}/202601{day:02d}T000000Z",
        experiment=experiment,
        part=SPLIT.part(experiment),
        verdict="valid",
        machine=machine,
        configurations={step: f"{step}@{rate_tps:g}" for step in range(3)},
        commit="abc",
        saturated=frozenset(saturated),
        stolen_pct=2.5,
        busy_pct={0: 50.0, 1: 85.0},
        pairs=frame,
    )
