"""On how many blocks of an interval a statistic rests: by Kish's formula, and on archived steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.judge.carriers import carriers, effective
from harness.analysis.judge.predicting import settings
from harness.analysis.judge.raw_steps import RawStep, blocks, latency_blocks, read_step
from harness.analysis.spark.inputs import read_raw
from harness.experiments.loading import load
from harness.models.contract.observe import numbers
from harness.runs import Run

RUNS = Path(__file__).parents[3] / "reports" / "runs"
GROUND_TRUTH = "ground_truth_latency_ms"


def of(step: RawStep, **measured: float) -> dict[str, float]:
    """Return the carriers of the whole topology's ground truth, by statistic."""
    run = Run(step.record.folder.parents[1])
    seen = step.observation(settings(run, load(run.path / "experiment.yaml")))
    asked = {(GROUND_TRUTH, statistic, ""): value for statistic, value in measured.items()}
    return {statistic: n for (_, statistic, _), n in carriers(step, seen, asked).items()}


def first_step(experiment: str, step: int = 0) -> RawStep:
    run = min((RUNS / experiment).iterdir())
    return read_step(read_raw(run).steps[step])


@given(
    shares=st.lists(st.floats(0.01, 100), min_size=1, max_size=40),
    empty=st.integers(0, 20),
    factor=st.floats(0.1, 10),
)
def test_blocks_without_a_share_do_not_count_and_a_unit_makes_no_difference(
    shares: list[float], empty: int, factor: float
) -> None:
    found = effective(np.array(shares))
    assert 1 - 1e-9 <= found <= len(shares) + 1e-9
    assert effective(np.array([*shares, *([0.0] * empty)]) * factor) == pytest.approx(found)
    assert effective(np.ones(len(shares))) == pytest.approx(len(shares))


def test_what_lies_in_three_blocks_is_carried_by_three() -> None:
    step = first_step("fields-to-fields")
    number = blocks(step)
    block = latency_blocks(step.latency["scheduled_ns"].to_numpy(), step.interval, number)
    far = np.isin(block, [2, 5, 9])  # Poisson arrivals: about as many messages in each
    at = step.latency.schema.get_field_index("ground_truth_ms")
    column = np.where(far, 1000.0, 1.0)
    moved = replace(step, latency=step.latency.set_column(at, step.latency.schema.field(at), [column]))
    found = of(moved, p99=1000.0, p50=1.0, mean=1.0)
    counts = np.bincount(block)[[2, 5, 9]]
    assert found["p99"] == pytest.approx(counts.sum() ** 2 / (counts**2).sum())  # Kish's formula
    assert 2.5 < found["p99"] <= 3
    assert found["p50"] > 0.8 * number  # from 1 ms on: all of them


def test_the_p99_of_acks_that_wait_for_windows_rests_on_a_handful_of_them() -> None:
    """join-split has 50 messages a second: in 50 s some 25 are beyond the p99, in windows of several each."""
    step = first_step("join-split", 4)
    run = Run(step.record.folder.parents[1])
    seen = step.observation(settings(run, load(run.path / "experiment.yaml")))
    rows = seen.metrics[seen.metrics["measurement"] == "ack_hist"]
    upper, count = numbers(rows["field"]), rows["value"].to_numpy()
    order = np.argsort(upper)
    p99_ms = float(upper[order][np.searchsorted(np.cumsum(count[order]), 0.99 * count.sum())]) / 1e6
    ack = ("ack_latency_ms", "p99", ""), ("ack_latency_ms", "mean", "")
    found = carriers(step, seen, {ack[0]: p99_ms, ack[1]: 1.0})
    assert found[ack[0]] < 8 < 20 < found[ack[1]]
