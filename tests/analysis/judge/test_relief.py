"""The report's section on help and back-pressure: sums over rows that are given here."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.analysis.figures.relief_figure import PANELS, has_relief, relief_over_time
from harness.analysis.judge.relief import relief_points, relieved_steps
from harness.analysis.judge.results import Results
from harness.analysis.report.page import render
from harness.analysis.spark.inputs import RunRecord, read_run
from harness.plans import Backpressure, Relief
from harness.schemas import METRICS, Metric, MetricField

S = 1_000_000_000
PAUSING = Relief(backpressure=Backpressure(kind="heron", high_pct=50, low_pct=10))


def relieved(run: RunRecord, folder: Path) -> RunRecord:
    """Return the run with one step, of 10 s; its rows are those below, and one from before the interval."""
    step = run.steps[0]
    interval = step.interval.model_copy(update={"start_epoch_ms": 0, "end_epoch_ms": 10_000})
    given = [
        (5_000, Metric.ACK, "word", 7, MetricField.ACKED, 900),
        (10_000, Metric.ACK, "word", 7, MetricField.ACKED, 930),
        (0, Metric.ACK, "word", 7, MetricField.ACKED, 5_000),
        (5_000, Metric.PAUSED, "word", 7, MetricField.PAUSED_NS, 1 * S),
        (10_000, Metric.PAUSED, "word", 7, MetricField.PAUSED_NS, 0),
        (5_000, Metric.PAUSED, "word", 7, MetricField.WATCHED_NS, 5 * S),
        (10_000, Metric.PAUSED, "word", 7, MetricField.WATCHED_NS, 5 * S),
        (5_000, Metric.HELP, "compute", 3, MetricField.OFFERED, 1_000),
        (5_000, Metric.HELP, "compute", 4, MetricField.OFFERED, 1_000),
        (5_000, Metric.HELP, "compute", 3, MetricField.TUPLES, 200),
        (5_000, Metric.HELP, "compute", 4, MetricField.TUPLES, 300),
        (5_000, Metric.HELP, "compute", 3, MetricField.REQUESTS, 2),
        (10_000, Metric.HELP, "compute", 3, MetricField.REQUESTS, 5),
        (5_000, Metric.PRESSURE, "exclam1", 5, MetricField.FILL_PCT, 20),
        (10_000, Metric.PRESSURE, "exclam1", 5, MetricField.FILL_PCT, 30),
        (10_000, Metric.PRESSURE, "exclam1", 5, MetricField.FILL_MOST_PCT, 51),
        (10_000, Metric.PRESSURE, "exclam1", 5, MetricField.HELPED_NS, 2 * S),
        (10_000, Metric.PRESSURE, "exclam1", 5, MetricField.PRESSED_NS, 1 * S),
        (10_000, Metric.PRESSURE, "exclam1", 5, MetricField.WATCHED_NS, 4 * S),
    ]
    rows = [
        {
            **dict.fromkeys(("worker", "stream", "peer"), ""),
            "bucket_end_ms": end_ms,
            "measurement": metric,
            "component": component,
            "task": task,
            "field": field,
            "value": value,
        }
        for end_ms, metric, component, task, field, value in given
    ]
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, METRICS), folder / "metrics.parquet")
    plan = step.plan.model_copy(update={"relief": PAUSING})
    return replace(run, steps=(replace(step, folder=folder, interval=interval, plan=plan),))


def test_shares_are_of_the_interval(run_path: Path, tmp_path: Path) -> None:
    """By hand: 1,830 acks in 10 s, 1 of 10 s paused, 500 of 2,000 tuples helped, requests from 2 to 5."""
    run = read_run(run_path)
    assert relieved_steps(run) == []
    (step,) = relieved_steps(relieved(run, tmp_path / "step"))
    assert (step.acked_tps, step.paused_pct) == (183.0, 10.0)
    assert (step.helped_tps, step.helped_pct, step.requests) == (50.0, 25.0, 3)
    (component,) = step.components
    assert component == ("exclam1", 25.0, 51.0, 50.0, 25.0)


def test_buckets_add_up_since_the_interval_began(run_path: Path, tmp_path: Path) -> None:
    """900 and 930 acks, 1 of 5 s paused in the first bucket, 500 tuples helped in it and unknown after it."""
    buckets = relief_points(relieved(read_run(run_path), tmp_path / "step"))
    assert buckets["step"].tolist() == [0, 0]
    assert buckets["time_s"].tolist() == [5, 10]
    assert buckets["acked_so_far"].tolist() == [900, 1830]
    assert buckets["paused_pct"].tolist() == [20, 0]
    assert buckets["helped_so_far"].tolist() == pytest.approx([500, math.nan], nan_ok=True)


def test_the_figure_has_a_panel_each_and_a_line_a_step(results: Results, tmp_path: Path) -> None:
    assert not has_relief(results)
    run = relieved(results.run, tmp_path / "step")
    given = replace(results, run=replace(results.run, steps=run.steps), relief_points=relief_points(run))
    assert has_relief(given)
    axes = relief_over_time(given).axes
    assert [ax.get_ylabel() for ax in axes] == list(PANELS.values())
    assert [len(ax.lines) for ax in axes] == [1, 1, 1]


def test_the_page_has_the_section_where_bolts_help(results: Results, tmp_path: Path) -> None:
    run = relieved(results.run, tmp_path / "step")
    page = render(replace(results, run=replace(results.run, steps=run.steps)), tmp_path, [])
    section = page[page.index('id="relief"') : page.index('id="matrices"')]
    assert section.count("<tr><td>") == 1
    assert "exclam1" in section
    assert 'id="relief"' not in render(results, tmp_path, [])
