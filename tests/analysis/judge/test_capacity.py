"""Saturated steps, throughput and the highest sustainable rate: on a ramp whose answers are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from synthetic_run import BUCKET_MS, FakeRun, FakeStep, build

from harness.analysis.judge import capacity, checks
from harness.analysis.judge.checks import run_checks, verdict
from harness.analysis.judge.judged_rows import judged_rows
from harness.analysis.judge.judging import judged
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.inputs import RunRecord, read_run
from harness.quality import Backlog, Finding
from harness.runs import BurnInFound
from harness.schemas import METRICS, PREDICTIONS, Measure

THROUGHPUT, SUSTAINABLE = Measure.THROUGHPUT, Measure.SUSTAINABLE
GROUND_TRUTH = "ground_truth_latency_ms"


def step(rate_tps: float, out_tps: float, executors: int = 2) -> FakeStep:
    full = out_tps < rate_tps
    backlog = Backlog(
        growth_tps=rate_tps - out_tps,
        growth_error_tps=0.5,
        throughput_tps=out_tps,
        throughput_error_tps=0.4,
        saturated=full,
    )
    quality: dict[str, Any] = {"backlog": backlog}
    if full:
        quality["steady"] = Finding(ok=False, detail="drift of latency: trend +300 %")
    burn_in = BurnInFound(found=not full, seconds=10, reason="drift of latency" if full else "steady")
    return FakeStep(
        executors, seconds=40, burn_in_s=4, rate_tps=rate_tps, quality=quality, interval={"burn_in": burn_in}
    )


@pytest.fixture(scope="module")
def ramp(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """Two executors at 40, 50, 55 and 70 messages/s, of which they sustain 52; and four at 55."""
    steps = [step(40, 40), step(50, 50), step(55, 52), step(70, 52), step(55, 55, executors=4)]
    path = build(tmp_path_factory.mktemp("runs") / "ramp", FakeRun(steps=steps))
    for index in range(len(steps)):
        add_worker_metrics(path / "steps" / f"{index:02d}" / "metrics.parquet")
    predictions = []
    for source in range(5):
        for proposed in range(5):
            for measure, value in ((GROUND_TRUTH, 12.0), (THROUGHPUT, 50.0), (SUSTAINABLE, 60.0)):
                predictions.append(prediction(source, proposed, measure, value))
    pq.write_table(pa.Table.from_pylist(predictions, schema=PREDICTIONS), path / "predictions.parquet")
    return read_run(path)


def prediction(source: int, proposed: int, measure: str, value: float) -> dict[str, Any]:
    return {
        "model": "m",
        "source_step": source,
        "proposed_step": proposed,
        "measure": measure,
        "subject": "",
        "statistic": "mean",
        "value": value,
        "low": None,
        "high": None,
        "status": "ok",
        "reason": "",
    }


def add_worker_metrics(path: Path) -> None:
    """Worker processes use 0.3 cores, reported by one of their tasks in each of its buckets."""
    rows = pq.read_table(path).to_pylist()
    first: dict[str, int] = {}
    for row in rows:
        first[row["worker"]] = min(row["task"], first.get(row["worker"], row["task"]))
    seen = {(r["bucket_end_ms"], r["component"], r["task"], r["worker"]) for r in rows}
    for end, component, task, worker in sorted(seen):
        if first[worker] == task:
            rows.append(
                {
                    "bucket_end_ms": end,
                    "measurement": "worker",
                    "component": component,
                    "task": task,
                    "worker": worker,
                    "stream": None,
                    "peer": None,
                    "field": "cpu_ns",
                    "value": 0.3 * BUCKET_MS * 1e6,
                }
            )
    pq.write_table(pa.Table.from_pylist(rows, schema=METRICS), path)


def test_the_bracket_of_a_ramp() -> None:
    limit, error, note = capacity.bracket([40.0, 50.0], [70.0, 55.0])
    assert limit == 52.5
    assert error == pytest.approx(5 / 12**0.5)
    assert note == ""
    assert "not saturated at up to 50" in capacity.bracket([40.0, 50.0], [])[2]
    assert "saturated from 55 messages/s on" in capacity.bracket([], [55.0])[2]
    assert "no limit between" in capacity.bracket([60.0], [55.0])[2]
    assert capacity.bracket([], []) == (None, None, "not measured")


def test_throughput_and_the_limit_of_each_configuration(ramp: RunRecord) -> None:
    found = {(a.step, a.measure): a for a in (*capacity.throughput(ramp), *capacity.sustainable_rate(ramp))}
    assert [found[s, THROUGHPUT].value for s in range(5)] == [40, 50, 52, 52, 55]
    assert found[2, THROUGHPUT].within == 0.4
    assert [found[s, SUSTAINABLE].value for s in range(5)] == [52.5] * 4 + [None]
    assert found[0, SUSTAINABLE].n == 4
    assert "not saturated at up to 55" in found[4, SUSTAINABLE].note


def test_an_unsteady_step_says_nothing_about_the_limit(tmp_path: Path) -> None:
    steps = [step(40, 40), step(50, 50), step(55, 52)]
    steps[1].quality["steady"] = Finding(ok=False, detail="drift")
    run = read_run(build(tmp_path / "run", FakeRun(steps=steps)))
    assert [a.value for a in capacity.sustainable_rate(run)] == [47.5] * 3


def test_a_run_of_an_older_harness_has_no_throughput(tmp_path: Path) -> None:
    run = read_run(build(tmp_path, FakeRun(steps=[FakeStep(2, seconds=10, quality={"backlog": None})])))
    assert {a.value for a in capacity.throughput(run)} == {None}
    assert all("before throughput was kept" in a.note for a in capacity.throughput(run))


def test_a_saturated_step_is_finished_and_valid(ramp: RunRecord) -> None:
    found = run_checks(ramp, {s.index: Samples(values=100) for s in ramp.steps})
    assert verdict(found) == "valid"
    assert checks.unusable(found) == {}
    said = {(r.check, r.step): r.detail for r in found}
    for check in ("backlog", "steady", "burn-in", "precision"):
        assert said[check, 2].startswith("saturated: the backlog grew by 3.0 ± 0.5 messages/s, 52.0"), check
    assert said["backlog", 1].startswith("kept up: ")


def test_verdicts_of_the_pairs(spark: SparkSession, ramp: RunRecord) -> None:
    with judged(spark, ramp) as found:
        frame = found.pairs.to_pandas()
        cores = found.actuals[found.actuals["measure"] == Measure.WORKER_CPU]
    rows = frame[judged_rows(frame) & (frame["protocol"] == "ours")].to_dict("records")
    by_pair = {(r["measure"], r["source_step"], r["proposed_step"]): r for r in rows}
    for source in range(5):
        for proposed in range(5):
            latency, out, limit = (
                by_pair[m, source, proposed] for m in (GROUND_TRUTH, THROUGHPUT, SUSTAINABLE)
            )
            if source in (2, 3):
                assert {r["verdict"] for r in (latency, out, limit)} == {"saturated"}
                assert latency["reason"].startswith("the source step was saturated: the backlog grew by")
            elif proposed in (2, 3):
                assert latency["verdict"] == "saturated"
                assert np.isnan(latency["abs_error_pct"])
                assert latency["reason"].startswith("the step was saturated: ")
                assert out["verdict"] == limit["verdict"] == "judged"
                assert out["abs_error_pct"] == pytest.approx(100 * 2 / 52)
            else:
                assert latency["verdict"] == out["verdict"] == "judged"
                assert limit["verdict"] == ("not-measured" if proposed == 4 else "judged")
    assert by_pair[SUSTAINABLE, 0, 1]["abs_error_pct"] == pytest.approx(100 * 7.5 / 52.5)
    assert "not saturated at up to" in by_pair[SUSTAINABLE, 0, 4]["reason"]
    assert set(cores["subject"]) == {w.label for w in ramp.steps[0].plan.start.workers}
    assert cores["value"].to_numpy() == pytest.approx(0.3)
