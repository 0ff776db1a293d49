"""What a slowed link did, from two runs made by hand: means, ways and predictions are given."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_runs import EPOCH_MS, PLAN, placed, write_run

from harness.analysis.figures import slowed_link
from harness.errors import UsageError
from harness.runs import Run
from harness.schemas import LATENCY, METRICS, PREDICTIONS

NODES = ("node-1", "node-2")
ONE, TWO = placed(PLAN, 1, nodes=1), placed(PLAN, 1, nodes=2, slots=1)
"""On a node, and dealt over two: ackers 1 and 2, spout 3-4 on node-1, a 5-6 on node-2, sink 7-8 on node-1."""
WAYS = [[3, 5, 7], [4, 6, 8], [3, 7]]
"""From spout to a to sink and twice between the nodes, likewise, and from spout to sink on one node."""


def made(folder: Path, means_ms: list[float], said_ms: dict[tuple[int, int], float], rtt_ms: float) -> Run:
    run = write_run(folder, [ONE, TWO])
    for step, mean_ms in enumerate(means_ms):
        path = run.step_path(step) / "interval.json"
        changed = {**json.loads(path.read_text()), "mean_ms": mean_ms, "half_width_ms": 0.3 if step else 0.4}
        path.write_text(json.dumps(changed))
        hops = [
            [{"task": task, "received_ns": 0, "emitted_ns": 0} for task in way] for way in [*WAYS, [3, 5, 7]]
        ]
        whole = {name: [None] * len(hops) for name in LATENCY.names}
        whole |= {"hops": hops, "in_interval": [True, True, True, False]}
        table = pa.table({f.name: pa.array(whole[f.name], f.type) for f in LATENCY})
        pq.write_table(table, run.step_path(step) / "latency.parquet")
        row = {"measurement": "round_trip", "component": "", "task": -1, "worker": "", "field": "rtt_ms"}
        rows = [
            {"bucket_end_ms": EPOCH_MS + i, **row, "stream": a, "peer": b, "value": value}
            for a, b, values in (
                ("node-1", "node-2", [rtt_ms, rtt_ms + 0.2]),
                ("node-2", "node-1", [rtt_ms - 0.2]),
                ("node-2", "node-3", [90.0]),
            )
            for i, value in enumerate(values)
        ]
        metrics = pa.Table.from_pylist(rows, schema=METRICS)
        pq.write_table(metrics, run.step_path(step) / "metrics.parquet")
    about = {"measure": "ground_truth_latency_ms", "subject": "", "statistic": "mean", "status": "ok"}
    predictions = [
        {"model": "composite", "source_step": s, "proposed_step": p, "value": value, **about}
        for (s, p), value in said_ms.items()
    ]
    predictions.append({**predictions[0], "model": "no-change", "value": 99.0})
    predictions.append({**predictions[0], "source_step": 1, "value": None, "status": "declined"})
    pq.write_table(pa.Table.from_pylist(predictions, schema=PREDICTIONS), run.path / "predictions.parquet")
    return run


def test_effects(tmp_path: Path) -> None:
    fast = made(tmp_path / "a", [4.0, 8.0], {(0, 0): 4.1, (0, 1): 7.5, (1, 1): 8.0}, 0.1 + 0.2)
    slow = made(tmp_path / "b", [4.2, 15.0], {(0, 0): 4.1, (0, 1): 14.0, (1, 1): 14.9}, 10.3)
    assert {e.worker.node for e in TWO.executors if e.component == "a"} == {"node-2"}
    assert {e.worker.node for e in TWO.executors if e.component in ("spout", "sink")} == {"node-1"}
    assert slowed_link.between(fast) == NODES
    link = slowed_link.link(fast, slow)
    assert (link.nodes, link.fast_ms, link.slow_ms) == (NODES, pytest.approx(0.15), pytest.approx(5.15))
    stayed, moved = slowed_link.effects(fast, slow)
    assert (stayed.workers, stayed.crossings) == (2, 0.0)
    assert (moved.workers, moved.executors, moved.crossings) == (2, 1, pytest.approx(4 / 3))
    assert moved.measured_ms == pytest.approx(7.0)
    assert moved.half_ms == pytest.approx(0.3 * 2**0.5)
    assert moved.predicted_ms == pytest.approx({0: 6.5, 1: 6.9})
    for run, verdict in ((fast, "valid"), (slow, "unknown")):
        (run.path / "verdict.json").write_text(json.dumps({"verdict": verdict}))
    rows = slowed_link.publish(fast.path, slow.path, tmp_path / "out")
    last = rows[(rows["step"] == 1) & (rows["source_step"] == 0)].iloc[0]
    assert last["relative_error"] == pytest.approx(6.5 / 7 - 1)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        f"slowed-link.{kind}" for kind in ("csv", "png", "svg")
    ]


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    said = {(0, 0): 4.1}
    fast = made(tmp_path / "a", [4.0, 8.0], said, 0.3)
    turned = write_run(tmp_path / "c", [ONE, placed(PLAN, 1, nodes=2, slots=1, first=1)])
    (turned.path / "predictions.parquet").symlink_to(fast.path / "predictions.parquet")
    for step in (0, 1):
        (turned.step_path(step) / "latency.parquet").symlink_to(fast.step_path(step) / "latency.parquet")
    with pytest.raises(UsageError, match="step 1: the plans of the two runs differ"):
        slowed_link.effects(fast, turned)
    (turned.path / "predictions.parquet").unlink()
    declined = pq.read_table(fast.path / "predictions.parquet").slice(1)
    assert set(declined["status"].to_pylist()) == {"ok", "declined"}  # ok is another model's
    pq.write_table(declined, turned.path / "predictions.parquet")
    with pytest.raises(UsageError, match=r"predictions\.parquet: nothing that composite predicted"):
        slowed_link.effects(fast, turned)
    (fast.path / "verdict.json").write_text(json.dumps({"verdict": "valid"}))
    (turned.path / "verdict.json").write_text(json.dumps({"verdict": "invalid"}))
    for runs in ((fast, turned), (turned, fast)):
        with pytest.raises(UsageError, match=f"{turned.path}: its verdict is invalid"):
            slowed_link.publish(*(run.path for run in runs), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    short, near = write_run(tmp_path / "d", [ONE]), write_run(tmp_path / "e", [ONE, ONE])
    with pytest.raises(UsageError, match="have other steps"):
        slowed_link.effects(fast, short)
    with pytest.raises(UsageError, match="no step has its workers on two nodes"):
        slowed_link.between(near)
    for step in (0, 1):
        pq.write_table(METRICS.empty_table(), turned.step_path(step) / "metrics.parquet")
    with pytest.raises(UsageError, match="no round trip between node-1 and node-2 was measured"):
        slowed_link.link(turned, fast)
