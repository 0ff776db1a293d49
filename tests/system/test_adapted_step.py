"""Steps that change while messages flow, on the cluster: plan and nodes, batch sizes, and key groups."""

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
from harness.topologies.key_groups import first_table, key_group

pytestmark = pytest.mark.system

ADAPT = {
    "scheduler": "even",
    "period_s": 8,
    "settle_s": 0,
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
                    "settle_s": 0,
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


GROUPS = {"count": 8, "total": 6}
ON_ONE_TASK = [key for key in map(str, range(60)) if all(key_group(key, n) % 2 == 0 for n in GROUPS.values())]
"""Keys whose groups the first table deals to the first of two tasks, so to one node."""
BUSY = {"kind": "cpu", "distribution": "exponential", "mean_ms": 5}
KEYED_SETTINGS = {
    **short_experiment(
        "moved-groups", {"attempts": 1, **short_measure(1, 5, 32)}, tasks=2, ackers=1, slots_per_node=1
    ),
    "topology": {
        "load_aware": False,
        "ackers": 1,
        "tasks": 2,
        "components": {
            "in": {"role": "spout"},
            "parse": {"role": "json"},
            "count": {"role": "keyed", "groups": GROUPS["count"], "forwarded_share": 1, "service": BUSY},
            "total": {"role": "keyed", "groups": GROUPS["total"], "service": BUSY},
            "out": {"role": "sender"},
        },
        "streams": [
            {"from": "in", "to": "parse", "grouping": "shuffle"},
            {"from": "parse", "to": "count", "grouping": "fields"},
            {"from": "count", "to": "total", "grouping": "fields"},
            {"from": "total", "to": "out", "grouping": "shuffle"},
        ],
    },
    "workload": {"rate_tps": 10, "keys": dict.fromkeys(ON_ONE_TASK, 1)},
    "steps": {
        "plan": [
            {
                "executors": 2,
                "workers": 2,
                "adapt": {"scheduler": "albic", "moves": "key-groups", "period_s": 6},
            }
        ]
    },
}


def test_key_groups_move_and_no_message_goes_astray(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All groups with keys are on the first task of two. Those that are said to move serve on the other."""
    run = carry_out(KEYED_SETTINGS, cluster, tmp_path_factory.mktemp("moved"), unwatched)
    rows = pq.read_table(run.step_path(0) / "adaptation.parquet").to_pylist()
    applied = [row for row in rows if row["decision"] == "applied"]
    assert applied, [row["reason"] for row in rows]
    plan, quality = run.plan(0), run.quality(0)
    assert executors_moved(plan.start, plan.end) == 0
    assert quality.adaptation is not None
    assert quality.adaptation.plan_as_decided.ok, quality.adaptation.plan_as_decided.detail
    assert quality.adaptation.losses_explained.ok, quality.adaptation.losses_explained.detail
    for row in applied:
        assert row["asked_ns"] < row["in_force_ns"]
        assert min(row["groups_moved"], row["moved_state_bytes"], row["group_pause_ms"]) > 0
        assert (row["executors_moved"], row["workers_restarted"]) == (0, 0)
    ledger = quality.ledger
    assert ledger is not None
    assert ledger.balanced, ledger.problems
    assert (ledger.received, ledger.lost, ledger.duplicates) == (ledger.sent, 0, 0)

    metrics = pq.read_table(run.step_path(0) / "metrics.parquet").to_pandas()
    moves = metrics[(metrics["measurement"] == "key_group_moved") & (metrics["field"] == "table_version")]
    assert sum(row["groups_moved"] for row in applied) == len(moves)
    came = moves.sort_values("value").groupby(["component", "peer"], observed=True)["task"].last().to_dict()
    serves = metrics[metrics["measurement"] == "key_group"]
    for name, groups in GROUPS.items():
        own = serves[serves["component"] == name]
        tasks = [task for e in plan.end.of(name) for task in e.tasks]
        begun = first_table(groups, len(tasks))
        for group in {key_group(key, groups) for key in ON_ONE_TASK}:
            told = own[own["peer"] == str(group)]
            rows_of = told.pivot_table(index=["bucket_end_ms", "task"], columns="field", values="value")
            served = rows_of[rows_of["count"] > 0]
            assert served.index[0][1] == tasks[begun[group]] == tasks[0]
            assert served.index[-1][1] == came.get((name, str(group)), tasks[0])
            state = rows_of["state_tuples"]  # it goes along: each tuple is counted in it once
            assert state.loc[served.index[-1]] - state.loc[served.index[0]] == served["count"].iloc[1:].sum()
