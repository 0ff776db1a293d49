"""Rates, service times, routing and I/O ratios: against a plain pandas computation on the same files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from synthetic_run import BUCKET_MS, FakeRun, FakeStep, build

from harness.analysis.judge.raw_steps import read_step, samples
from harness.analysis.spark import counters
from harness.analysis.spark.inputs import STEP_NUMBERS, Archive, RunRecord, Source, StepRecord, read_run
from harness.plans import connection_label

Found = dict[tuple[int, str, str, str], dict[str, float | None]]


def found_in(spark: SparkSession, source: Source, totals: counters.Totals) -> Found:
    rows = counters.measures(spark, source, totals).toArrow().to_pylist()
    keys = [(r["step"], r["measure"], r["subject"], r["statistic"]) for r in rows]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, rows, strict=True))


@pytest.fixture(scope="module")
def found(spark: SparkSession, run: RunRecord) -> Found:
    return found_in(spark, run, counters.total(spark, run))


def interval_rows(s: StepRecord) -> pd.DataFrame:
    frame = pq.read_table(s.folder / "metrics.parquet").to_pandas()
    inside = (frame["bucket_end_ms"] > s.interval.start_epoch_ms) & (
        frame["bucket_end_ms"] <= s.interval.end_epoch_ms
    )
    frame = frame[inside].copy()
    frame["executor"] = frame["task"].map(lambda t: s.plan.start.by_task[t].label)
    return frame


def total(rows: pd.DataFrame, measurement: str, field: str = "count", **where: object) -> float:
    chosen = (rows["measurement"] == measurement) & (rows["field"] == field)
    for column, value in where.items():
        chosen &= rows[column] == value
    return float(rows.loc[chosen, "value"].sum())


def test_service_time_is_time_over_tuples_to_the_last_bit(run: RunRecord, found: Found) -> None:
    for s in run.steps:
        rows = interval_rows(s)
        for component in ("bolt-a", "bolt-b", "sender"):
            of = {"component": component}
            expected = total(rows, "service", "wall_sum_ns", **of) / total(rows, "service", **of) * 1e-6
            assert found[s.index, "service_time_ms", component, "mean"]["value"] == expected
            for e in s.plan.start.of(component):
                at = {"executor": e.label}
                expected = total(rows, "service", "wall_sum_ns", **at) / total(rows, "service", **at) * 1e-6
                assert found[s.index, "service_time_ms", e.label, "mean"]["value"] == expected


def test_ack_latency_is_time_over_acks_by_executor_and_overall(run: RunRecord, found: Found) -> None:
    for s in run.steps:
        rows = interval_rows(s)
        expected = total(rows, "ack", "sum_ns") / total(rows, "ack") * 1e-6
        assert found[s.index, "ack_latency_ms", "", "mean"]["value"] == expected
        for e in s.plan.start.of("spout"):
            at = {"executor": e.label}
            expected = total(rows, "ack", "sum_ns", **at) / total(rows, "ack", **at) * 1e-6
            assert found[s.index, "ack_latency_ms", e.label, "mean"]["value"] == expected


def test_arrival_rate_divides_by_the_time_that_the_buckets_cover(run: RunRecord, found: Found) -> None:
    """Every task has a bucket each 2 s here, so the covered time is their number times 2 s."""
    for s in run.steps:
        rows = interval_rows(s)
        for component in ("bolt-a", "sender"):
            received = rows[(rows["measurement"] == "received") & (rows["component"] == component)]
            covered_s = received.groupby("task")["bucket_end_ms"].nunique().mean() * BUCKET_MS / 1000
            expected = received["value"].sum() / covered_s
            assert found[s.index, "arrival_rate_tps", component, "mean"]["value"] == pytest.approx(
                expected, rel=1e-12
            )
            by_executor = [
                found[s.index, "arrival_rate_tps", e.label, "mean"]["value"]
                for e in s.plan.start.of(component)
            ]
            assert sum(v for v in by_executor if v is not None) == pytest.approx(expected, rel=1e-9)


def test_routing_is_the_share_of_each_target_and_sums_to_one(run: RunRecord, found: Found) -> None:
    for s in run.steps:
        rows = interval_rows(s)
        plan = s.plan.start
        sent = rows[rows["measurement"] == "transferred"].copy()
        sent["to"] = [plan.by_task[int(t)].label for t in sent["peer"]]
        for stream, source, target in plan.connections():
            mine = sent[
                (sent["executor"] == source.label)
                & sent["to"].isin([e.label for e in plan.of(stream.target)])
            ]
            expected = mine.loc[mine["to"] == target.label, "value"].sum() / mine["value"].sum()
            label = connection_label(stream, source, target)
            assert found[s.index, "routing_probability", label, "mean"]["value"] == expected
        for source in plan.of("bolt-a"):
            labels = [
                connection_label(plan.query_plan.outputs("bolt-a")[0], source, t) for t in plan.of("bolt-b")
            ]
            assert sum(
                found[s.index, "routing_probability", k, "mean"]["value"] or 0 for k in labels
            ) == pytest.approx(1)


def test_io_ratio_is_emits_over_receipts_and_spouts_have_none(run: RunRecord, found: Found) -> None:
    for s in run.steps:
        rows = interval_rows(s)
        expected = total(rows, "emitted", component="bolt-a") / total(rows, "received", component="bolt-a")
        assert found[s.index, "io_ratio", "bolt-a:default", "mean"]["value"] == expected
    assert not [k for k in found if k[1] in ("io_ratio", "arrival_rate_tps") and k[2].startswith("spout")]


def test_histogram_percentiles_are_within_a_bin_of_those_of_the_values(run: RunRecord, found: Found) -> None:
    """The synthetic bins are 1/8 octave wide; the reader takes them for 1/16."""
    for s in run.steps:
        rows = interval_rows(s)
        bins = rows[(rows["measurement"] == "ack_hist")]
        counts = bins.assign(upper=bins["field"].astype(str).astype(float)).groupby("upper")["value"].sum()
        for statistic, q in (("p50", 0.5), ("p99", 0.99)):
            upper = counts.index[np.searchsorted(counts.cumsum(), q * counts.sum())] / 1e6
            value = found[s.index, "ack_latency_ms", "", statistic]["value"]
            assert value is not None
            assert upper / 2 ** (1 / 8) <= value <= upper


@dataclass(frozen=True)
class Odd:
    """What one job finds in runs whose metrics are odd: the measures by run, and the silent tasks."""

    paths: dict[str, Path]
    found: dict[str, Found]
    silent: dict[str, tuple[int, ...]]


@pytest.fixture(scope="module")
def odd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Odd:
    folder = tmp_path_factory.mktemp("runs")
    poisson = FakeRun(steps=[FakeStep(1, seconds=400, rate_tps=100)] * 6, tasks=1)
    paths = {"poisson": build(folder / "poisson", poisson)}
    for name in ("plain", "ticks", "silent", "nothing"):
        paths[name] = build(folder / name, FakeRun(steps=[FakeStep(1)]))
    table = pq.read_table(metrics_of(paths["plain"]))
    received = table.filter(pc.equal(table["measurement"].cast(pa.string()), "received"))
    ticks = pa.array(["__tick"] * received.num_rows).dictionary_encode()
    ticks = received.set_column(received.schema.get_field_index("stream"), "stream", ticks)
    pq.write_table(pa.concat_tables([table, ticks], promote_options="default"), metrics_of(paths["ticks"]))
    last = max(table["task"].to_pylist())
    pq.write_table(table.filter(pc.not_equal(table["task"], last)), metrics_of(paths["silent"]))
    pq.write_table(table.slice(0, 0), metrics_of(paths["nothing"]))
    source = Archive.of([read_run(path) for path in paths.values()])
    totals = counters.total(spark, source)
    found: dict[str, Found] = {name: {} for name in paths}
    names = list(paths)
    for (step, *rest), row in found_in(spark, source, totals).items():
        own = step % STEP_NUMBERS
        found[names[step // STEP_NUMBERS]][(own, *rest)] = {**row, "step": own}
    silent = {names[s // STEP_NUMBERS]: tasks for s, tasks in counters.silent_tasks(source, totals).items()}
    return Odd(paths, found, silent)


def metrics_of(path: Path) -> Path:
    return path / "steps" / "00" / "metrics.parquet"


def test_noise_of_poisson_counts_is_about_their_root(odd: Odd) -> None:
    """A Poisson count n has standard deviation sqrt(n), so the rate's relative error is 1/sqrt(n)."""
    shares = []
    for step in range(6):
        for component in ("bolt-a", "bolt-b", "sender"):
            row = odd.found["poisson"][step, "arrival_rate_tps", component, "mean"]
            assert row["within"] is not None
            assert row["value"] is not None
            shares.append((row["within"] / row["value"]) ** 2)
    assert np.mean(shares) == pytest.approx(1 / 40_000, rel=0.5)  # 18 estimates of 9 degrees of freedom each


def test_storms_own_streams_are_no_arrivals(odd: Odd) -> None:
    before, after = odd.found["plain"], odd.found["ticks"]
    assert after.keys() == before.keys()
    assert after[0, "arrival_rate_tps", "sender", "mean"] == before[0, "arrival_rate_tps", "sender", "mean"]


def test_a_task_that_did_not_report_is_named(odd: Odd) -> None:
    last = max(pq.read_table(metrics_of(odd.paths["plain"]))["task"].to_pylist())
    assert odd.silent["silent"] == (last,)
    assert odd.silent["plain"] == ()


def test_no_metrics_at_all_give_no_measures(odd: Odd) -> None:
    assert odd.found["nothing"] == {}


def test_tasks_that_say_nothing_are_named_unless_they_are_not_instrumented(
    spark: SparkSession, run_path: Path, tmp_path: Path
) -> None:
    """By Spark's sums and by the raw tables of one step, which the regression reads."""
    path = Path(shutil.copytree(run_path, tmp_path / "run"))
    file = path / "steps" / "00" / "metrics.parquet"
    table = pq.read_table(file)
    of_bolt = pc.equal(table["component"].cast(pa.string()), "bolt-a")
    pq.write_table(table.filter(pc.invert(of_bolt)), file)
    record = read_run(path)
    plan = record.steps[0].plan.start
    tasks = tuple(sorted(t for e in plan.of("bolt-a") for t in e.tasks))
    for unwrapped, silent in ((frozenset[str](), tasks), (frozenset({"bolt-a"}), ())):
        known = replace(record, steps=tuple(replace(s, unwrapped=unwrapped) for s in record.steps))
        by_spark = counters.silent_tasks(known, counters.total(spark, known))
        assert by_spark == {s.index: silent if s.index == 0 else () for s in known.steps}
        assert samples(read_step(known.steps[0])).silent_tasks == silent
