"""Steps that change while messages flow, carried out on the cluster: plan and nodes, and batch sizes."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from campaigns import carry_out
from short_experiments import short_experiment, short_measure

from harness.analysis.judge.checks import ADAPTS, run_checks, unusable
from harness.analysis.judge.evidence import AGREEMENT, SEAL
from harness.analysis.judge.raw_steps import read_step, samples
from harness.analysis.spark.inputs import read_raw
from harness.backends.local.cluster import LocalCluster
from harness.experiments.contracts import unwatched
from harness.schedulers.plan_costs import executors_moved

pytestmark = pytest.mark.system

ADAPT = {
    "scheduler": "even",
    "period_s": 8,
    "nodes": [2, 3],
    # any worker that lives uses more than a hundredth of a core
    "scale": {"out_pct": 0.5, "in_pct": 0},
}
SETTINGS = {
    **short_experiment(
        "adapted-step", {"attempts": 1, **short_measure(1, 5, 24)}, tasks=4, ackers=2, slots_per_node=2
    ),
    "steps": {"plan": [{"executors": 2, "workers": 4, "adapt": ADAPT}]},
}


def test_a_plan_is_applied_while_messages_flow(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A third node comes, and executors are dealt to three in turn. Afterwards the cluster is as it was."""
    before = cluster.nodes
    run = carry_out(SETTINGS, cluster, tmp_path_factory.mktemp("adapted"), unwatched)
    rows = pq.read_table(run.step_path(0) / "adaptation.parquet").to_pylist()
    first = rows[0]
    assert first["decision"] == "applied", first["reason"]
    assert first["executors_moved"] > 0
    assert first["asked_ns"] < first["in_force_ns"]
    assert first["pause_ms"] > 1000 / 40
    assert (first["nodes"], first["nodes_added"]) == (2, ["node-3"])
    assert first["bottleneck"] in ("cpu", "heap")
    assert rows[-1]["decision"] == "stays"
    assert (rows[-1]["nodes"], rows[-1]["nodes_added"]) == (3, [])
    assert {w.node for w in run.plan(0).end.workers} == {"node-1", "node-2", "node-3"}
    metrics = pq.read_table(run.step_path(0) / "metrics.parquet")
    assert any(worker.startswith("node-3:") for worker in metrics["worker"].unique().to_pylist())
    assert cluster.nodes == before
    assert {s.address for s in cluster.nimbus.cluster_summary().supervisors} == {n.address for n in before}
    plan, quality = run.plan(0), run.quality(0)
    assert executors_moved(plan.start, plan.end) > 0
    assert quality.adaptation is not None
    assert quality.adaptation.plan_as_decided.ok, quality.adaptation.plan_as_decided.detail
    assert quality.adaptation.losses_explained.ok, quality.adaptation.losses_explained.detail
    record = read_raw(run.path)
    seen = {0: samples(read_step(record.steps[0]))}
    results = {r.check: r for r in run_checks(record, seen)}
    assert unusable(results.values())[0][0] == "invalid"
    of_its_files = [results[name] for name in (ADAPTS, AGREEMENT, SEAL, "metrics", "receiver")]
    assert [r for r in of_its_files if r.status != "valid"] == []
    assert "adaptation.parquet" in json.loads((run.step_path(0) / "seal.json").read_text())["files"]


BATCHED = {
    **short_experiment(
        "resized-step", {"attempts": 1, **short_measure(1, 5, 30)}, tasks=1, ackers=1, slots_per_node=1
    ),
    "steps": {
        "plan": [
            {
                "executors": 1,
                "workers": 2,
                "batching": {"spout": 1, "bolt-a": 1},
                "adapt": {
                    # messages come every 25 ms: with 30 ms for each that is sent, two have to share it
                    "tuner": {
                        "name": "aeolus",
                        "flush_ms": 500,
                        "message": {"n_us": 30_000, "s_ns_per_byte": 0, "origin": "this test"},
                    },
                    "period_s": 6,
                },
            }
        ]
    },
}


def test_batch_sizes_change_and_no_worker_restarts(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tuples travel alone, then by two or more, as the tasks report; none is lost by it or comes twice."""
    run = carry_out(BATCHED, cluster, tmp_path_factory.mktemp("resized"), unwatched)
    rows = pq.read_table(run.step_path(0) / "adaptation.parquet").to_pylist()
    applied = [i for i, row in enumerate(rows) if row["decision"] == "applied"]
    assert applied, [row["reason"] for row in rows]
    first, second = rows[applied[0] : applied[0] + 2]
    assert [text.partition(" ")[2] for text in first["batches"]] == ["1", "1"]
    assert first["asked_ns"] < first["in_force_ns"]
    assert second["batches"] == first["batches_asked"] != first["batches"]
    assert all(text.endswith("/500 ms") for text in second["batches"])
    assert (first["lost"], first["repeated"]) == (0, 0)
    plan, quality = run.plan(0), run.quality(0)
    assert executors_moved(plan.start, plan.end) == 0
    assert quality.adaptation is not None
    assert quality.adaptation.plan_as_decided.ok, quality.adaptation.plan_as_decided.detail
    assert quality.adaptation.losses_explained.ok, quality.adaptation.losses_explained.detail
    metrics = pq.read_table(run.step_path(0) / "metrics.parquet").to_pandas()
    sent = metrics[(metrics["measurement"] == "batch") & (metrics["component"] == "spout")]
    fields = sent.pivot_table(index="bucket_end_ms", columns="field", values="value", aggfunc="sum")
    assert (fields["tuples"] == fields["messages"])[fields["size"] == 1].iloc[0]
    assert (fields["tuples"] > fields["messages"])[fields["size"] > 1].any()
