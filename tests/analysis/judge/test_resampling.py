"""Resampled nights: the blocks of an archived interval, each whole, drawn with replacement."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from altered_runs import ALL_IN_ONE

from harness.analysis.judge.raw_steps import RawStep, blocks, read_step
from harness.analysis.judge.resampling import ID_STEP, redrawn
from harness.analysis.spark.inputs import read_raw


@pytest.fixture(scope="module")
def step() -> RawStep:
    return read_step(read_raw(ALL_IN_ONE).steps[1])


@pytest.fixture(scope="module")
def night(step: RawStep) -> RawStep:
    return redrawn(step, seed=3)


def test_the_interval_has_a_block_for_every_two_seconds(step: RawStep) -> None:
    at = step.interval
    assert blocks(step) == pytest.approx((at.end_ns - at.start_ns) / 2e9, abs=1)


def test_every_latency_is_one_that_was_measured_and_is_scheduled_in_the_interval(
    step: RawStep, night: RawStep
) -> None:
    def values(of: RawStep) -> list[float]:
        return of.latency["ground_truth_ms"].unique().to_pylist()

    assert set(values(night)) < set(values(step))  # drawn with replacement: some blocks are not there
    assert len(values(night)) > 0.4 * len(values(step))  # 63 % are expected
    scheduled = night.latency["scheduled_ns"].to_numpy()
    assert scheduled.min() >= step.interval.start_ns - 1
    assert scheduled.max() <= step.interval.end_ns


def test_messages_stay_distinct_and_their_hops_move_with_them(step: RawStep, night: RawStep) -> None:
    for of in (step, night):
        table = of.latency
        ids = list(zip(table["message_id"].to_pylist(), table["child"].to_pylist(), strict=True))
        assert len(set(ids)) == len(ids)
    assert offsets(night) <= offsets(step)
    took = night.latency["left_ns"].to_numpy() - night.latency["entered_ns"].to_numpy()
    assert np.allclose(took / 1e6, night.latency["ground_truth_ms"].to_numpy(), atol=1e-6)


def offsets(of: RawStep) -> set[tuple[int, int, int, int]]:
    """Each row's first and last hop against its schedule, by the message that it was."""
    table = of.latency
    rows = zip(
        table["message_id"].to_pylist(),
        table["child"].to_pylist(),
        table["scheduled_ns"].to_pylist(),
        table["hops"].to_pylist(),
        strict=True,
    )
    return {
        (m % ID_STEP, child, hops[0]["received_ns"] - at, hops[-1]["emitted_ns"] - at)
        for m, child, at, hops in rows
    }


def counts(table: pa.Table, measurement: str) -> Mapping[int, float]:
    mine = pc.and_(
        pc.equal(table["measurement"].cast(pa.string()), measurement),
        pc.equal(table["field"].cast(pa.string()), "count"),
    )
    rows = table.filter(mine).group_by("task").aggregate([("value", "sum")])
    return dict(zip(rows["task"].to_pylist(), rows["value_sum"].to_pylist(), strict=True))


def test_metrics_outside_the_interval_stay_and_inside_they_are_drawn(step: RawStep, night: RawStep) -> None:
    before = step.metrics.num_rows - step.inside.num_rows
    assert night.metrics.num_rows - night.inside.num_rows == before
    old, new = (counts(of.inside, "received") for of in (step, night))
    assert set(old) == set(new)
    assert sum(new.values()) == pytest.approx(sum(old.values()), rel=0.1)
    assert new != old


def test_a_seed_gives_one_night(step: RawStep, night: RawStep) -> None:
    assert redrawn(step, 3).latency.equals(night.latency)
    assert redrawn(step, 3).metrics.equals(night.metrics)
    assert not redrawn(step, 4).latency.equals(night.latency)


def test_complete_latency_moves_with_the_ack_latency(step: RawStep, night: RawStep) -> None:
    """The sums of one spout executor's acks, before and after, by hand."""
    label = next(iter(step.interval.complete_latency_ms))
    executor = next(e for e in step.record.plan.start.executors if e.label == label)

    def mean(of: RawStep) -> float:
        table = of.inside.filter(pc.is_in(of.inside["task"], pa.array(executor.tasks, pa.int32())))
        ack = pc.equal(table["measurement"].cast(pa.string()), "ack")
        field = table["field"].cast(pa.string())
        total, count = (
            pc.sum(table.filter(pc.and_(ack, pc.equal(field, name)))["value"]).as_py()
            for name in ("sum_ns", "count")
        )
        return float(total / count)

    old, new = (of.interval.complete_latency_ms[label].mean_ms for of in (step, night))
    assert old is not None
    assert new == pytest.approx(old * mean(night) / mean(step))
    assert new != old
