"""Runs on the simulator cluster: complete, consistent with themselves, and told apart from measured ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from harness.analysis.judge.evaluation import evaluate, read_split
from harness.analysis.judge.predicting import observation
from harness.analysis.spark.inputs import read_raw
from harness.app.simulated.campaign import carry_out
from harness.app.simulated.networks import HOST_CORES
from harness.app.simulated.placing import place, worker_nodes
from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import dump, load
from harness.machine.environment import describe
from harness.models.baselines.no_change import no_change
from harness.runs import Run

SHORT = (
    "cluster.kind=simulator",
    "measure.burn_in.least_s=4",
    "measure.burn_in.most_s=6",
    "measure.interval.least_s=10",
    "measure.interval.most_s=10",
)


def played(folder: Path, name: str, *more: str) -> tuple[Run, Experiment]:
    experiment = load(name, (*SHORT, *more))
    run = Run.create(
        folder, name, {"experiment.yaml": dump(experiment)}, describe("simulator", {"storm": "2.8.3"})
    )
    carry_out(experiment, run, lambda _: None)
    return run, experiment


def of(metrics: pd.DataFrame, measurement: str, field: str = "count") -> pd.DataFrame:
    return metrics[(metrics["measurement"] == measurement) & (metrics["field"] == field)]


@pytest.mark.parametrize("name", ["fields-to-fields", "multiplier", "all-in-one", "join-split"])
def test_every_topology_is_played_and_its_books_balance(name: str, tmp_path: Path) -> None:
    """The campaign's own ledger, delivery and receiver checks find nothing; counters agree with the rows."""
    run, experiment = played(tmp_path, name, "steps.plan=[{executors: 2}]")
    quality = run.quality(0)
    for finding in (quality.receiver, quality.metrics, quality.generator, quality.plan_as_asked):
        assert finding is not None
        assert finding.ok, finding.detail
    assert quality.ledger.balanced, quality.ledger.reason
    assert quality.ledger.complete, quality.ledger
    latency = pq.read_table(run.step_path(0) / "latency.parquet").to_pandas()
    assert (latency["ground_truth_ms"] > 0).all()
    assert (latency["broker_ms"] >= np.floor(latency["ground_truth_ms"])).all()
    metrics = pq.read_table(run.step_path(0) / "metrics.parquet").to_pandas()
    query_plan = experiment.topology.query_plan()
    assert of(metrics, "transferred")["value"].sum() == of(metrics, "received")["value"].sum()
    for sink in query_plan.sinks:
        served = of(metrics, "service")
        mine = latency[latency["sink"] == sink]
        records = mine.groupby(["output_partition", "output_offset"]).ngroups
        assert served[served["component"] == sink]["value"].sum() == records
    entered = latency.groupby("message_id")["entered_ns"]
    assert (entered.min() == entered.max()).all()
    acks = of(metrics, "ack", "acked")["value"].sum()
    emitted = of(metrics, "emitted")
    assert 0 < acks <= emitted[emitted["component"] == "spout"]["value"].sum()
    for clock in ("wall", "cpu"):
        hist = metrics[(metrics["measurement"] == "service_hist") & (metrics["peer"] == clock)]
        assert hist["value"].sum() == of(metrics, "service")["value"].sum()


def test_a_model_reads_a_played_step_as_a_measured_one(tmp_path: Path) -> None:
    """no-change's answer for the step itself is its rows' mean, and no measure is declined but by name."""
    run, experiment = played(tmp_path, "fields-to-fields", "steps.plan=[{executors: 2}]")
    seen = observation(run, experiment, 0)
    found = no_change(seen, seen.plan, seen.settings, seen.rate_tps)
    whole = ("ground_truth_latency_ms", "mean", "")
    mean = next(e.value for e in found.estimates if (e.measure, e.statistic, e.subject) == whole)
    assert mean == pytest.approx(run.interval(0).mean_ms)
    rates = [e.value for e in found.estimates if e.measure == "arrival_rate_tps" and e.subject == "bolt-a"]
    assert rates[0] == pytest.approx(experiment.workload.rate_tps, rel=0.02)


def test_steps_follow_one_another_and_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    steps = "steps.plan=[{executors: 1}, {executors: 4, rate_tps: 100}]"
    run, experiment = played(tmp_path, "fields-to-fields", steps)
    first, second = run.interval(0), run.interval(1)
    for one in (first, second):
        assert one.up_ns <= one.start_ns < one.end_ns <= (one.settled_ns or 0) <= (one.drained_ns or 0)
        assert one.overhead_s is not None
        assert one.overhead_s >= 0
    assert first.done_ns < second.up_ns
    assert second.rate_tps == 100
    assert run.plan(1).start.configuration() == run.plan(1).asked
    before = pq.read_table(run.step_path(1) / "latency.parquet")
    for file in run.step_path(1).iterdir():
        file.unlink()
    run.step_path(1).rmdir()
    carry_out(experiment, run, lambda _: None)
    assert pq.read_table(run.step_path(1) / "latency.parquet").equals(before)


def test_a_played_run_is_not_measured(tmp_path: Path) -> None:
    run, _ = played(tmp_path, "fields-to-fields", "steps.plan=[{executors: 1}]")
    assert not read_raw(run.path).measured
    split = tmp_path / "split.yaml"
    split.write_text(json.dumps({"tuning": ["fields-to-fields"], "development": [], "reporting": []}))
    with pytest.raises(UsageError, match="simulated, not measured"):
        evaluate([run.path], read_split(split))
    said = run.path / "environment.json"
    assert '"cluster_kind": "simulator"' in said.read_text()
    said.write_text(said.read_text().replace('"cluster_kind": "simulator"', '"cluster_kind": "local"'))
    assert not read_raw(run.path).measured  # experiment.yaml knows better
    with pytest.raises(UsageError, match="simulated, not measured"):
        evaluate([run.path], read_split(split))


def test_what_the_simulator_does_not_play_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="parity"):
        played(tmp_path, "join-split", "topology.routing=parity")
    with pytest.raises(UsageError, match=r"plans\.store"):
        load("fields-to-fields", ("cluster.kind=simulator", "plans.store=neo4j"))


def test_a_quota_that_is_nearly_used_up_makes_messages_late(tmp_path: Path) -> None:
    """Two bolts of 1 ms and their own 0.15 ms, and a spout's, sink's and acker's less: 0.13 cores of each of
    two nodes at 100/s. A quota of 0.15 is used up in many periods, one of 0.9 in none."""
    means = [
        played(
            tmp_path / quota,
            "fields-to-fields",
            "workload.rate_tps=100",
            "topology.service={bolt-a: {kind: cpu, distribution: exponential, mean_ms: 1},"
            " bolt-b: {kind: cpu, distribution: exponential, mean_ms: 1}}",
            f"cluster.cpu_quota_cores={{node-1: {quota}, node-2: {quota}}}",
            "steps.plan=[{executors: 2, workers: 2}]",
        )[0]
        .interval(0)
        .mean_ms
        for quota in ("0.15", "0.9", "2")
    ]
    assert means[1] == pytest.approx(means[2])
    assert means[0] > 1.2 * means[1]


def test_executors_are_placed_as_storms_even_scheduler_does() -> None:
    """By component name, one executor after another over slots that take turns between nodes; tasks follow
    one another, the first executors having one more where they do not come out even."""
    experiment = load(
        "fields-to-fields",
        ("topology.tasks=5", "cluster.slots_per_node=2", "steps.plan=[{executors: 2, workers: 4}]"),
    )
    asked = experiment.configuration(experiment.steps.plan[0])
    plan = place(experiment.topology.query_plan(), asked, {}, worker_nodes(2, 2, HOST_CORES))
    assert [e.label for e in plan.executors][:4] == [
        "bolt-a[1-3]",
        "bolt-a[4-5]",
        "bolt-b[6-8]",
        "bolt-b[9-10]",
    ]
    assert [e.worker.label for e in plan.executors][:4] == [
        "node-1:6700", "node-2:6800", "node-1:6701", "node-2:6801",
    ]  # fmt: skip
