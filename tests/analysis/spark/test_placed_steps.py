"""Steps that differ by who placed their executors, over time: means and rates worked out by hand."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from made_records import step_plan
from pyspark.sql import SparkSession
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.spark import placed_steps
from harness.analysis.spark.inputs import Archive, RunRecord, read_run
from harness.analysis.spark.placed_steps import compared_steps, latency_points, traffic_points
from harness.plans import AskedPlacement
from harness.runs import Run
from harness.schemas import METRICS

S = 1_000_000_000
FAKE = FakeRun(steps=[FakeStep(2), FakeStep(2), FakeStep(2), FakeStep(2), FakeStep(1)], tasks=2)
"""Two rounds of two placements, and a step with other counts."""


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """Steps 1 and 3 are placed by a scheduler; step 0 has latencies and metrics of its own."""
    path = build(tmp_path_factory.mktemp("runs") / "placed", FAKE)
    for step in (1, 3):
        plan = Run(path).plan(step).start
        asked = AskedPlacement(by="by-test", workers={e.label: e.worker.label for e in plan.executors})
        changed = step_plan(plan, placement=asked)
        (Run(path).step_path(step) / "plan.json").write_text(changed.model_dump_json(), encoding="utf-8")
    write_latencies(Run(path), 0)
    write_traffic(Run(path), 0)
    return read_run(path)


def write_latencies(run: Run, step: int) -> None:
    """25 messages, one every 100 ms, which take 1, 2, ... 25 ms; the last one comes first in the file."""
    path = run.step_path(step) / "latency.parquet"
    table = pq.read_table(path)
    rows = table.filter(table["in_interval"]).slice(0, 25)
    due_ns = [run.interval(step).start_ns + n * S // 10 for n in range(25)]
    for name, values in (("scheduled_ns", due_ns), ("ground_truth_ms", [n + 1.0 for n in range(25)])):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(name), pa.array(values))
    before = table.filter(pc.invert(table["in_interval"]))
    pq.write_table(pa.concat_tables([rows.slice(24), before, rows.slice(0, 24)]), path)


def write_traffic(run: Run, step: int) -> None:
    """A spout sends 50 tuples to one task and 30 to another in each bucket of 2 s; then these change nodes.

    In the first four seconds the one with 30 is on the other node, in the next four the one with 50 is. Then
    all are on one node, while one task still reports from its old worker, too. A bucket of before the
    interval, acks, and what goes to a task that is nowhere do not count.
    """
    plan, interval = run.plan(step).start, run.interval(step)
    (spout, *_), (first, second) = ([t for e in plan.of(c) for t in e.tasks] for c in ("spout", "bolt-a"))
    places = {0: ("node-1", "node-2"), 1: ("node-2", "node-1"), 2: ("node-1", "node-1")}
    rows: list[dict[str, object]] = []
    for tick in range(7):  # 0 is before the interval
        nodes = places[max(0, tick - 1) // 2]
        where = {spout: "node-1", first: nodes[0], second: nodes[1]}
        end = {"bucket_end_ms": interval.start_epoch_ms + 2000 * tick, "field": "count"}
        left = [(first, "node-2")] if tick > 4 else []
        for task, node in [*where.items(), *left]:
            own = {"component": plan.by_task[task].component, "task": task, "worker": f"{node}:6700"}
            measurement = "emitted" if task == spout else "received"
            rows.append({**end, **own, "measurement": measurement, "stream": "default", "value": 80.0})
        own = {"component": "spout", "task": spout, "worker": "node-1:6700", "measurement": "transferred"}
        for stream, peer, sent in (
            *(("default", first, 50.0), ("default", second, 30.0)),
            *(("__ack_init", second, 7.0), ("default", 999, 11.0)),
        ):
            rows.append({**end, **own, "stream": stream, "peer": str(peer), "value": sent})
    columns = {
        f.name: pa.array([r.get(f.name) for r in rows], f.type.value_type).dictionary_encode()
        if pa.types.is_dictionary(f.type)
        else pa.array([r.get(f.name) for r in rows], f.type)
        for f in METRICS
    }
    pq.write_table(pa.table(columns).cast(METRICS), run.step_path(step) / "metrics.parquet")


def test_steps_with_the_same_counts_are_compared_by_who_placed_them(placed: RunRecord) -> None:
    (group,) = compared_steps(placed)
    steps = {who: [s.index for s in of] for who, of in group.by.items()}
    assert steps == {"Storm's own": [0, 2], "by-test": [1, 3]}
    rounds = [{who: s.index for who, s in of.items()} for of in group.rounds]
    assert rounds == [{"Storm's own": 0, "by-test": 1}, {"Storm's own": 2, "by-test": 3}]


def test_a_point_is_the_mean_of_ten_messages(spark: SparkSession, placed: RunRecord) -> None:
    """(1 + ... + 10) / 10 = 5.5 ms, due from 0 to 0.9 s; (11 + ... + 20) / 10; five are no ten."""
    found = latency_points(spark, placed)
    assert set(found["step"]) == {0, 1, 2, 3}
    mine = found[found["step"] == 0]
    assert mine["latency_ms"].to_list() == [5.5, 15.5]
    assert mine["time_s"].to_numpy() == pytest.approx([0.45, 1.45])
    assert (found["step"] == 1).sum() == 50 * 40 // 10


def test_of_a_long_step_every_nth_point_is_kept(
    spark: SparkSession, placed: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """25 messages are more than one point's ten: every third is kept, that is the first."""
    monkeypatch.setattr(placed_steps, "MOST_POINTS", 1)
    found = latency_points(spark, placed)
    assert found.loc[found["step"] == 0, "latency_ms"].to_list() == [5.5]


def test_traffic_is_counted_between_the_nodes_that_tasks_are_on(
    spark: SparkSession, placed: RunRecord
) -> None:
    """2 x 30 tuples in 4 s, then 2 x 50, then none; a bucket that ends at 4 s began at 2 s."""
    found = traffic_points(spark, placed)
    mine = found[found["step"] == 0]
    assert mine["between_nodes_tps"].to_list() == [15.0, 25.0, 0.0]
    assert mine["time_s"].to_list() == [1.0, 5.0, 9.0]


def test_runs_of_one_job_are_told_apart_and_others_cost_nothing(
    spark: SparkSession, placed: RunRecord, run: RunRecord
) -> None:
    assert compared_steps(run) == ()
    assert latency_points(spark, run).empty
    assert traffic_points(spark, run).empty
    both = latency_points(spark, Archive.of([run, placed]))
    alone = latency_points(spark, placed)
    assert both["latency_ms"].to_list() == alone["latency_ms"].to_list()
