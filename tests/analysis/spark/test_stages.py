"""The parts of a latency: against plain sums over the hop records, and their exact additivity."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from synthetic_run import FakeRun, FakeStep, build, physical_plan

from harness.analysis.spark import stages
from harness.analysis.spark.distribution import MISSING
from harness.analysis.spark.inputs import RunRecord, StepRecord, read_run
from harness.plans import PhysicalPlan
from harness.schemas import Measure


@pytest.fixture(scope="module")
def found(spark: SparkSession, run: RunRecord) -> pd.DataFrame:
    return stages.stages(spark, run)


def hops(s: StepRecord) -> Iterator[tuple[str, str, str, int]]:
    """Component, stage, place and ns of every part, read with pyarrow alone."""
    table = pq.read_table(s.folder / "latency.parquet")
    by_task = s.plan.start.by_task
    for row in table.filter(table["in_interval"])["hops"].to_pylist():
        for before, hop in pairwise(row):
            here, there = by_task[hop["task"]].worker, by_task[before["task"]].worker
            place = 0 if here == there else 1 if here.node == there.node else 2
            component = by_task[hop["task"]].component
            yield component, stages.TRANSFER, stages.PLACES[place], hop["received_ns"] - before["emitted_ns"]
            yield component, stages.INSIDE, "", hop["emitted_ns"] - hop["received_ns"]


def test_counts_and_sums_equal_those_of_the_hop_records(run: RunRecord, found: pd.DataFrame) -> None:
    for s in run.steps:
        parts = pd.DataFrame(hops(s), columns=["component", "stage", "place", "ns"])
        expected = parts.groupby(["component", "stage", "place"])["ns"].agg(["size", "sum"])
        mine = found[found["step"] == s.index].groupby(["component", "stage", "place"])[["n", "sum_ns"]].sum()
        assert mine["n"].to_dict() == expected["size"].to_dict()
        assert mine["sum_ns"].to_dict() == expected["sum"].to_dict()


def test_the_parts_add_up_to_the_mean_ground_truth(run: RunRecord, found: pd.DataFrame) -> None:
    parts = stages.means(found, run.steps[0].plan.start.query_plan)["part_ms"]
    for s in run.steps:
        table = pq.read_table(s.folder / "latency.parquet")
        rows = table.filter(table["in_interval"])
        mean = (rows["left_ns"].to_numpy() - rows["entered_ns"].to_numpy()).mean() / 1e6
        assert parts.loc[s.index].sum() == pytest.approx(mean, rel=1e-12)


def test_a_parts_error_is_that_of_its_batches_means(run: RunRecord, found: pd.DataFrame) -> None:
    """A part that is a fixed share of a latency has that share of the latency's batch-means error."""
    got = stages.means(found, run.steps[0].plan.start.query_plan)
    one = got.loc[(1, "bolt-a", stages.TRANSFER)]
    assert 0 < one["part_error_ms"] < 0.1 * one["part_ms"]
    assert one["visit_ms"] == pytest.approx(one["part_ms"]), "every message passes bolt-a once"


def test_a_batch_is_a_tenth_of_the_interval(run: RunRecord, found: pd.DataFrame) -> None:
    assert sorted(found["batch"].unique()) == list(range(stages.BATCHES))
    counts = found[(found["component"] == "sender") & (found["stage"] == stages.INSIDE)]
    by_batch = counts[counts["step"] == 0].groupby("batch")["n"].sum()
    assert by_batch.max() - by_batch.min() <= 1, "messages are evenly spaced here"


def test_windowed_members_each_have_their_own_stay(spark: SparkSession, windowed: RunRecord) -> None:
    got = stages.stages(spark, windowed)
    for s in windowed.steps:
        rows = got[(got["step"] == s.index) & (got["component"] == "window") & (got["stage"] == "inside")]
        table = pq.read_table(s.folder / "latency.parquet")
        assert rows["n"].sum() == table["in_interval"].to_numpy().sum()
    query = windowed.steps[0].plan.start.query_plan
    assert stages.label(query, "window", stages.INSIDE) == "window: window"
    assert stages.measure(query, "window", stages.INSIDE) == Measure.RESIDENCE
    assert stages.measure(query, "sender", stages.INSIDE) == Measure.SERVICE


def test_a_transfer_between_hosts_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Two hosts share no clock: what lies between them cannot be had, what lies within can."""
    path = build(tmp_path / "r", FakeRun(steps=[FakeStep(2)]))
    file = path / "steps" / "00" / "plan.json"
    file.write_text(file.read_text().replace('"host": "here"', '"host": "there"', 1))
    got = stages.stages(spark, read_run(path))
    transfers = got[got["stage"] == stages.TRANSFER]
    between = transfers["place"] == "between nodes"
    assert (transfers.loc[between, "bin"] == MISSING).all()
    assert (transfers.loc[~between, "bin"] > MISSING).all()
    assert between.any()


def test_stages_come_in_the_order_of_the_streams() -> None:
    plan: PhysicalPlan = physical_plan(FakeRun(topology="join-split"), 1)
    names = list(dict.fromkeys(c for c, _ in stages.order(plan.query_plan)))
    assert set(names[:2]) == {"json", "multiplier"}
    assert names[2] == "join"
    assert set(names[3:]) == {"sender-1", "sender-2"}


def test_rows_without_hops_have_no_stages(spark: SparkSession, tmp_path: Path) -> None:
    path = build(tmp_path / "r", FakeRun(steps=[FakeStep(1, seconds=10)]))
    file = path / "steps" / "00" / "latency.parquet"
    table = pq.read_table(file)
    empty = pa.array([[]] * table.num_rows, table.schema.field("hops").type)
    pq.write_table(table.set_column(table.schema.get_field_index("hops"), "hops", empty), file)
    run = read_run(path)
    got = stages.stages(spark, run)
    assert len(got) == 0
    assert len(stages.means(got, run.steps[0].plan.start.query_plan)) == 0
