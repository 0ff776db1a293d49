"""A plan's traffic at a moment, and the rows of a running step that it is made of.

Every expected number is counted by hand from the rows: tuples / seconds, bytes / tuples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from harness.experiments.arriving_rows import ARRIVING, EVERY_S, ArrivingRows, arriving_rows
from harness.experiments.plan_traffic import ConnectionTraffic, PlanTraffic, TrafficByMoment
from harness.experiments.watching import REPORTED_S
from harness.plans import Component, Executor, PhysicalPlan, QueryPlan, Stream, Worker, WorkerNode
from harness.schemas import METRICS

BUCKET_S = 2.0
NEAR, FAR = Worker(node="n1", port=1), Worker(node="n2", port=1)
PLAN = PhysicalPlan(
    query_plan=QueryPlan(
        name="q",
        components=(
            Component(name="in", tasks=1, role="spout"),
            Component(name="out", tasks=3, role="sender"),
        ),
        streams=(Stream(source="in", target="out", grouping="shuffle"),),
    ),
    nodes=(
        WorkerNode(name="n1", address="127.0.0.1", host="h", cores=1, slots=(1,)),
        WorkerNode(name="n2", address="127.0.0.2", host="h", cores=1, slots=(1,)),
    ),
    executors=(
        Executor(component="in", first_task=1, last_task=1, worker=NEAR),
        Executor(component="out", first_task=2, last_task=2, worker=NEAR),
        Executor(component="out", first_task=3, last_task=4, worker=FAR),
    ),
)
Row = tuple[int, str, int, str, str, str, float]


def bucket(end_ms: int, *, batched: bool) -> Iterator[Row]:
    """Yield what tasks report of a bucket: 20 tuples to task 2, 30 to task 3 and 50 to task 4."""
    yield end_ms, "emitted", 1, "default", "", "count", 100.0
    for task, tuples in ((2, 20.0), (3, 30.0), (4, 50.0)):
        yield end_ms, "transferred", 1, "default", str(task), "count", tuples
        yield end_ms, "service", task, "", "", "count", tuples
        yield end_ms, "service", task, "", "", "wall_sum_ns", 1e6
    if batched:  # 10 batches of 100 tuples, which could hold 125; of the 80 for elsewhere 4,000 bytes
        for name, value in (("tuples", 100), ("capacity", 125), ("bytes", 4000), ("bytes_tuples", 80)):
            yield end_ms, "batch", 1, "default", "", name, float(value)


def table(rows: list[Row]) -> pa.Table:
    names = ("bucket_end_ms", "measurement", "task", "stream", "peer", "field", "value")
    found = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    found |= {"component": ["c"] * len(rows), "worker": ["w"] * len(rows)}
    return pa.table({f.name: found[f.name] for f in METRICS}).cast(METRICS)


def at(epoch_ms: int, *, buckets: int = 8, batched: bool = True) -> PlanTraffic | None:
    rows = [row for i in range(1, buckets + 1) for row in bucket(2000 * i, batched=batched)]
    return TrafficByMoment(table(rows), PLAN, BUCKET_S).at(epoch_ms)


def test_rates_are_of_the_last_seconds_and_counts_of_all() -> None:
    found = at(14_000)
    assert found is not None
    assert (found.counted_s, found.window_s) == (14.0, 10.0)
    spout, sink = found.components
    assert (spout.name, spout.emitted, spout.emitted_tps, spout.executed) == ("in", 700.0, 50.0, None)
    assert (sink.name, sink.executed, sink.executed_tps, sink.emitted) == ("out", 700.0, 50.0, None)
    assert found.executors["out[3-4]"].executed_tps == 40.0
    assert (spout.tuple_bytes, sink.tuple_bytes) == (50.0, None)


def test_connections_have_what_was_measured_of_them() -> None:
    """Only what goes to another worker is written, so only that has bytes."""
    found = at(14_000)
    assert found is not None
    assert found.connections == (
        ConnectionTraffic("in[1-1]", "out[3-4]", "default", True, 40.0, 2000.0, 80.0),
        ConnectionTraffic("in[1-1]", "out[2-2]", "default", False, 10.0, None, 80.0),
    )
    assert found.streams == (ConnectionTraffic("in", "out", "default", True, 50.0, 2000.0, 80.0),)


def test_without_batches_neither_bytes_nor_fill_are_known() -> None:
    found = at(14_000, batched=False)
    assert found is not None
    assert {(c.bytes_s, c.fill_pct) for c in (*found.connections, *found.streams)} == {(None, None)}
    assert {c.tuple_bytes for c in found.components} == {None}


def test_nothing_is_known_before_the_first_bucket_and_the_last_stays_after_the_end() -> None:
    assert at(1_000) is None
    early, last, after = at(4_000), at(16_000), at(60_000)
    assert early is not None
    assert (early.counted_s, early.window_s) == (4.0, 4.0)
    assert early.components[0].emitted_tps == 50.0
    assert last == after


def test_a_step_without_reports_has_no_traffic() -> None:
    assert TrafficByMoment(METRICS.empty_table(), PLAN, BUCKET_S).at(1e12) is None


class Arrived:
    """Metrics of a store that has them all."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def rows(self, since_ms: int, until_ms: int) -> pa.Table:
        ends = self._rows["bucket_end_ms"].to_numpy()
        return self._rows.filter(pa.array((ends > since_ms) & (ends <= until_ms)))

    def texts(self, measurement: str, since_ms: int) -> list[Mapping[str, object]]:
        del measurement, since_ms
        return []

    def forget(self, until_ms: int) -> None:
        del until_ms


def test_what_arrives_in_a_step_is_read_while_it_is_written(tmp_path: Path) -> None:
    rows = table([row for i in range(1, 9) for row in bucket(2000 * i, batched=True)])
    clock_s = [0.0]
    assert arriving_rows(tmp_path, 3) is None
    with ArrivingRows(tmp_path, Arrived(rows), 3, 0, lambda: clock_s[0]) as arriving:
        arriving.keep()  # too early
        assert arriving_rows(tmp_path, 3) is None
        for clock_s[0] in (EVERY_S + REPORTED_S, EVERY_S + REPORTED_S + 1, 16 + REPORTED_S):
            arriving.keep()
        seen = arriving_rows(tmp_path, 3)
        assert seen is not None
        assert seen.schema == METRICS
        assert TrafficByMoment(seen, PLAN, BUCKET_S).at(16_000) == at(16_000)
        assert arriving_rows(tmp_path, 4) is None
        whole = (tmp_path / ARRIVING).read_bytes()
        (tmp_path / ARRIVING).write_bytes(whole[:-100])  # as it is in the middle of a write
        cut = arriving_rows(tmp_path, 3)
        assert cut is not None
        assert 0 < cut.num_rows < seen.num_rows
    assert not (tmp_path / ARRIVING).exists()


@pytest.mark.parametrize("length", [0, 3, 40])
def test_a_file_of_which_only_the_beginning_is_there_holds_nothing_yet(length: int, tmp_path: Path) -> None:
    with ArrivingRows(tmp_path, Arrived(METRICS.empty_table()), 0, 0, lambda: 1e6) as arriving:
        arriving.keep()
        beginning = (tmp_path / ARRIVING).read_bytes()[:length]
        (tmp_path / ARRIVING).write_bytes(beginning)
        assert arriving_rows(tmp_path, 0) is None


def test_a_folder_that_cannot_be_written_stops_no_campaign(tmp_path: Path) -> None:
    with ArrivingRows(tmp_path / "gone", Arrived(METRICS.empty_table()), 0, 0, lambda: 1e6) as arriving:
        arriving.keep()
