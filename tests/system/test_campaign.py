"""A campaign on the real cluster, with a delay of known length in one bolt.

Bolt A waits 20 ms for each message, bolt B does not; otherwise they do the same work. Two steps, the
second by rebalance. What is asserted are identities and the delay, not how fast the machine is.
"""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from campaigns import carry_out

from harness.analysis.predicting import predict
from harness.backends.local import LocalCluster
from harness.experiments.contracts import Progress
from harness.runs import Run

pytestmark = pytest.mark.system

DELAY_MS = 20.0
EXPERIMENT = {
    "name": "delay",
    "topology": {
        "name": "fields-to-fields",
        "load_aware": False,
        "tasks": 4,
        "ackers": 2,
        "service": {"bolt-a": {"kind": "wait", "distribution": "constant", "mean_ms": DELAY_MS}},
    },
    "workload": {"rate_tps": 40},
    "cluster": {"nodes": 2, "slots_per_node": 2},
    "measure": {
        "burn_in": {"least_s": 14, "most_s": 20, "drift_pct": 50},
        "interval": {"least_s": 14, "most_s": 14, "looks": 1, "precision_pct": 50},
    },
    "steps": {"plan": [{"executors": 2, "workers": 4}, {"executors": 4, "workers": 2}]},
}


@pytest.fixture(scope="module")
def run(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    phases: list[Progress] = []
    made = carry_out(EXPERIMENT, cluster, tmp_path_factory.mktemp("campaign"), phases.append)
    assert {p.phase for p in phases} >= {"submit", "rebalance", "burn-in", "measure", "drain", "done"}
    return made


def hops(run: Run, step: int) -> pd.DataFrame:
    """One row a message: task, and received and emitted times of its four components."""
    rows = pq.read_table(run.step_path(step) / "latency.parquet").to_pandas()
    parts = {
        (component, what): [h[i][field] for h in rows["hops"]]
        for i, component in enumerate(("spout", "bolt-a", "bolt-b", "sender"))
        for what, field in (("task", "task"), ("received", "received_ns"), ("emitted", "emitted_ns"))
    }
    return pd.DataFrame({**parts, ("row", "ground_truth_ms"): rows["ground_truth_ms"]})


def test_both_plans_are_the_asked_ones_and_did_not_change(run: Run) -> None:
    for step, (executors, workers) in enumerate([(2, 4), (4, 2)]):
        plan = run.plan(step)
        assert plan.start.executors == plan.end.executors
        counts = plan.start.configuration()
        assert counts == plan.asked
        assert {n: c for n, c in counts.executors.items() if not n.startswith("__")} == dict.fromkeys(
            ("spout", "bolt-a", "bolt-b", "sender"), executors
        )
        assert counts.workers == workers
        assert run.quality(step).plan_as_asked.ok
        assert run.quality(step).plan_unchanged.ok


def test_the_ledger_balances_and_nothing_is_lost(run: Run) -> None:
    for step in (0, 1):
        ledger = run.quality(step).ledger
        assert ledger["balanced"], ledger["reason"]
        assert ledger["complete"]
        # 14 s at 40 messages a second, by the schedule; a boundary may fall on either side
        assert abs(ledger["sent"] - 560) <= 1


def test_the_hop_records_parts_add_up_to_the_ground_truth(run: Run) -> None:
    for step in (0, 1):
        h = hops(run, step)
        components = ("spout", "bolt-a", "bolt-b", "sender")
        service = sum(h[c, "emitted"] - h[c, "received"] for c in components)
        between = sum(h[b, "received"] - h[a, "emitted"] for a, b in pairwise(components))
        assert ((service + between) == (h["sender", "emitted"] - h["spout", "emitted"])).all()
        assert np.allclose((service + between) / 1e6, h["row", "ground_truth_ms"], rtol=0, atol=1e-9)
        assert (between > 0).all()


def test_a_delay_of_20_ms_is_measured_back_within_a_fifth_of_a_millisecond(run: Run) -> None:
    for step in (0, 1):
        h = hops(run, step)
        waited = {c: (h[c, "emitted"] - h[c, "received"]) / 1e6 for c in ("bolt-a", "bolt-b")}
        assert (waited["bolt-a"] >= DELAY_MS).all()
        # the least of many: what the machine's other work adds to a message is not the delay
        assert waited["bolt-a"].min() - waited["bolt-b"].min() == pytest.approx(DELAY_MS, abs=0.2)


def test_the_wrappers_agree_with_the_hop_records(run: Run) -> None:
    """Of every task: by the end of its last bucket, each message taken by then is counted, and its time.

    A bucket ends between two messages, so counts and hop records can be compared exactly but for what the
    harness's two clocks, read one after the other, may differ by. Wall time is the hop's and what is around.
    """
    apart_ns = 5 * 10**8
    for step in (0, 1):
        metrics = pq.read_table(run.step_path(step) / "metrics.parquet").to_pandas()
        assert metrics["worker"].astype(str).str.match(r"node-\d:\d+").all()
        interval, h = run.interval(step), hops(run, step)
        of = metrics[
            (metrics["component"] == "bolt-a") & metrics["measurement"].isin(["received", "service"])
        ]
        assert set(of["task"]) == set(h["bolt-a", "task"])
        for task, reported in of.groupby("task"):
            after_ms = int(reported["bucket_end_ms"].max()) - interval.start_epoch_ms
            end_ns = interval.start_ns + after_ms * 10**6
            mine = h[h["bolt-a", "task"] == task]
            surely, perhaps = (mine[mine["bolt-a", "emitted"] < end_ns + d] for d in (-apart_ns, apart_ns))
            assert len(surely) > 0
            total = reported.groupby(["measurement", "field"], observed=True)["value"].sum()
            assert len(surely) <= total["received", "count"] <= len(perhaps)
            assert len(surely) <= total["service", "count"] <= len(perhaps)
            hop_ns = (surely["bolt-a", "emitted"] - surely["bolt-a", "received"]).sum()
            assert total["service", "wall_sum_ns"] >= hop_ns


def test_storms_complete_latency_covers_the_delay(run: Run) -> None:
    for step in (0, 1):
        found = run.interval(step).complete_latency_ms
        assert len(found) == (2, 4)[step]
        for spout in found.values():
            assert spout.acked > 0
            assert spout.mean_ms is not None
            assert spout.mean_ms >= DELAY_MS


def test_a_prediction_does_not_see_the_other_steps(run: Run, tmp_path: Path) -> None:
    """Every other step's data are overwritten, and no bit of the prediction changes."""
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    before = predict(Run(copy)).to_pandas()
    table = pq.read_table(copy / "steps/01/latency.parquet")
    metrics = pq.read_table(copy / "steps/01/metrics.parquet")
    at = table.schema.get_field_index("ground_truth_ms")
    pq.write_table(
        table.set_column(at, "ground_truth_ms", [np.full(table.num_rows, 1e6)]),
        copy / "steps/01/latency.parquet",
    )
    at = metrics.schema.get_field_index("value")
    pq.write_table(
        metrics.set_column(at, "value", [np.full(metrics.num_rows, 7.0)]), copy / "steps/01/metrics.parquet"
    )
    after = predict(Run(copy)).to_pandas()
    key = ["source_step", "proposed_step"]
    from_0 = before[before["source_step"] == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        from_0, after[after["source_step"] == 0].reset_index(drop=True), check_exact=True
    )
    assert not before.sort_values(key).equals(after.sort_values(key))
