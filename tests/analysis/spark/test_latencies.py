"""Means and the thesis's protocol: against a plain pandas computation on the same files."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.judge.raw_steps import read_step, samples
from harness.analysis.spark import latencies
from harness.analysis.spark.distribution import BATCHES, histogram
from harness.analysis.spark.inputs import RunRecord, StepRecord, read_raw, read_run
from harness.analysis.spark.timeline import timeline
from harness.protocols import Settings
from harness.runs import CompleteLatency
from harness.schemas import Measure


def rows_of(s: StepRecord) -> pd.DataFrame:
    frame = pq.read_table(s.folder / "latency.parquet").to_pandas()
    return frame[frame["in_interval"]]


def node_of(s: StepRecord, hop: str) -> str:
    return s.plan.start.by_task[int(hop.rsplit(":", 1)[1])].worker.node


def by_key(found: list[latencies.Actual]) -> dict[tuple[Any, ...], latencies.Actual]:
    keys = [(a.step, a.protocol, a.measure, a.subject, a.statistic) for a in found]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, found, strict=True))


def test_mean_and_its_batch_error_equal_pandas(spark: SparkSession, run: RunRecord) -> None:
    found = by_key(list(latencies.ground_truth(spark, run, histogram(spark, run))))
    for s in run.steps:
        rows = rows_of(s)
        ns = rows["left_ns"] - rows["entered_ns"]
        actual = found[s.index, "ours", Measure.GROUND_TRUTH, "", "mean"]
        assert actual.value == int(ns.sum()) / len(ns) / 1e6
        assert actual.n == len(ns)
        width = (s.interval.end_ns - s.interval.start_ns) / BATCHES
        batches = ns.groupby(((rows["scheduled_ns"] - s.interval.start_ns) // width).astype(int))
        means, counts = batches.mean().to_numpy() / 1e6, batches.size().to_numpy()
        spread = counts / counts.mean() * (means - actual.value)
        assert actual.within == pytest.approx(
            np.sqrt((spread**2).sum() / (BATCHES * (BATCHES - 1))), rel=1e-9
        )


def test_thesis_protocol_keeps_paths_within_a_node_below_the_complete_latency(
    spark: SparkSession, run: RunRecord
) -> None:
    found = {a.step: a for a in latencies.thesis_ground_truth(spark, run)}
    for s in run.steps:
        rows = rows_of(s)
        ends = rows["path"].astype(str).str.split("/")
        same = ends.map(lambda hops, s=s: node_of(s, hops[0]) == node_of(s, hops[-1]))
        cut = latencies.complete_mean_ms(s)
        kept = rows[same & (rows["ground_truth_ms"] <= cut)]
        assert found[s.index].n == len(kept)
        if len(kept):
            assert found[s.index].value == pytest.approx(kept["ground_truth_ms"].mean(), rel=1e-12)
        else:
            assert found[s.index].value is None
    assert found[0].value is None, "one executor a component: no path is within one node here (5.7.3)"
    assert found[1].n > 0


def test_thesis_protocol_takes_a_windows_chosen_path(spark: SparkSession, windowed: RunRecord) -> None:
    """In the synthetic windows the chosen path is that of the first member."""
    found = {a.step: a for a in latencies.thesis_ground_truth(spark, windowed)}
    for s in windowed.steps:
        first = rows_of(s).drop_duplicates(["output_partition", "output_offset"])
        hops = first["path"].astype(str).str.split("/")
        same = hops.map(lambda h, s=s: node_of(s, h[0]) == node_of(s, h[-1]))
        kept = first[same & (first["thesis_ground_truth_ms"] <= latencies.complete_mean_ms(s))]
        assert found[s.index].n == len(kept)
        assert found[s.index].value == pytest.approx(kept["thesis_ground_truth_ms"].mean(), rel=1e-12)
        assert f"{len(first)} outputs" in found[s.index].note


def step_with(run: RunRecord, complete: dict[str, CompleteLatency]) -> StepRecord:
    s = run.steps[1]
    changed = s.interval.model_copy(update={"complete_latency_ms": complete})
    return replace(s, interval=changed)


def test_complete_latency_is_weighted_by_what_each_spout_acked(run: RunRecord) -> None:
    """By hand: (10 * 300 + 20 * 100) / 400 = 12.5; the thesis's protocol takes the plain mean, 15."""
    a, b = (e.label for e in run.steps[1].plan.start.of("spout"))
    step = step_with(
        run, {a: CompleteLatency(mean_ms=10, acked=300), b: CompleteLatency(mean_ms=20, acked=100)}
    )
    found = by_key(list(latencies.complete(step)))
    assert found[1, "ours", Measure.COMPLETE, "", "mean"].value == 12.5
    assert found[1, "ours", Measure.COMPLETE, a, "mean"].value == 10
    assert found[1, "thesis", Measure.COMPLETE, b, "p90_paths"].value == 20
    assert found[1, "thesis", Measure.COMPLETE, "", "p90_paths"].value == 15


def test_a_spout_that_acked_nothing_is_named_and_weighs_nothing(run: RunRecord) -> None:
    a, b = (e.label for e in run.steps[1].plan.start.of("spout"))
    step = step_with(
        run, {a: CompleteLatency(mean_ms=10, acked=300), b: CompleteLatency(mean_ms=None, acked=0)}
    )
    found = by_key(list(latencies.complete(step)))
    assert found[1, "ours", Measure.COMPLETE, "", "mean"].value == 10
    assert found[1, "ours", Measure.COMPLETE, b, "mean"].value is None
    assert "acked" in found[1, "ours", Measure.COMPLETE, b, "mean"].note


def test_without_complete_latency_nothing_is_cut_and_nothing_claimed(
    spark: SparkSession, tmp_path: Path
) -> None:
    steps = [FakeStep(2, seconds=10, interval={"complete_latency_ms": {}})]
    run = read_run(build(tmp_path / "r", FakeRun(steps=steps)))
    (found,) = latencies.thesis_ground_truth(spark, run)
    assert found.value is None
    assert "no complete latency" in found.note
    assert latencies.complete_mean_ms(run.steps[0]) is None


def test_a_step_measured_from_topic_to_topic_is_judged_by_it(
    spark: SparkSession, run_path: Path, tmp_path: Path
) -> None:
    """As of workers with clocks of their own: one step of four, half of whose rows have no ground truth."""
    path, apart = shutil.copytree(run_path, tmp_path / "run"), 1
    folder = path / "steps" / f"{apart:02d}"
    table = pq.read_table(folder / "latency.parquet")
    at = table.schema.get_field_index("ground_truth_ms")
    some = pc.if_else(
        pa.array(np.arange(table.num_rows) % 2 == 0), table["ground_truth_ms"].combine_chunks(), None
    )
    pq.write_table(table.set_column(at, table.schema.field(at), some), folder / "latency.parquet")
    interval = json.loads((folder / "interval.json").read_text())
    (folder / "interval.json").write_text(json.dumps(interval | {"latency": "topics"}))

    run = read_run(path)
    found = by_key(list(latencies.ground_truth(spark, run, histogram(spark, run))))
    drawn = timeline(spark, run)
    for s in run.steps:
        rows = rows_of(s)
        values = rows["broker_ms" if s.index == apart else "ground_truth_ms"]
        actual = found[s.index, "ours", Measure.GROUND_TRUTH, "", "mean"]
        assert actual.n == len(rows)
        assert actual.value == pytest.approx(values.mean(), rel=1e-12)
        step = read_step(read_raw(path).steps[s.index])
        assert samples(step).values == len(rows)
        seen = step.observation(Settings(storm={}, version=""))
        assert seen.latency["ground_truth_ms"].to_numpy() == pytest.approx(values.to_numpy())
        p50_ms = drawn.loc[drawn["step"] == s.index, "p50_ms"].median()
        assert p50_ms == pytest.approx(values.median(), rel=0.1)  # a sketch, by bucket
    before = by_key(
        list(latencies.ground_truth(spark, read_run(run_path), histogram(spark, read_run(run_path))))
    )
    key = (apart, "ours", Measure.GROUND_TRUTH, "", "mean")
    assert found[key].value > before[key].value + 2  # the broker's are two to three ms more here
