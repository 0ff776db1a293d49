"""The report's section on steps that changed their plan: rows as ``adaptation.parquet`` has them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.analysis.figures.all_figures import BY_NAME
from harness.analysis.judge.results import Results
from harness.analysis.report.adaptations import adapted_steps
from harness.analysis.report.page import render
from harness.analysis.spark.inputs import read_run
from harness.schemas import ADAPTATION

S = 1_000_000_000
ROWS = [
    {
        "period": 0,
        "start_ns": 100 * S,
        "end_ns": 120 * S,
        "decision": "applied",
        "reason": "traffic between nodes 150 -> 60 tuples/s <&>",
        "asked_ns": 120 * S,
        "in_force_ns": 127 * S,
        "executors_moved": 5,
        "workers_restarted": 2,
        "groups_moved": 4,
        "moved_state_bytes": 1234,
        "group_pause_ms": 17.5,
        "pause_ms": 5995.0,
        "lost": 3,
        "repeated": 0,
        "latency_mean_ms": 12.5,
        "latency_p95_ms": 31.0,
        "rate_tps": 70.0,
        "planned_tps": 95.5,
        "forecast": "fourier-ar",
        "quantile": 0.95,
        "horizon_s": 40.0,
        "executors": 4,
        "workers": 1,
        "nodes": 2,
        "nodes_added": ["node-3"],
        "nodes_removed": [],
        "nodes_marked": ["node-1"],
        "batches": ["fan:default 3/50 ms", "in:default 1"],
        "bottleneck": "cpu",
        "cpu_use_pct": 91.4,
        "over_target_s": 7,
        "between_nodes_tps": 150.0,
        "load_distance_pct": 7.5,
    },
    {
        "period": 1,
        "start_ns": 127 * S,
        "end_ns": 147 * S,
        "decision": "declined",
        "reason": "it has seen too little",
        "planned_tps": 60.0,
        "forecast_declined": "the history has 3 buckets, 12 are needed",
        "lost": 0,
        "repeated": 1,
        "executors": 6,
        "workers": 2,
        "over_target_s": 5,
    },
]


def with_adaptation(run: Path, folder: Path, step: int) -> Path:
    shutil.copytree(run, folder)
    table = pa.Table.from_pylist(ROWS, ADAPTATION)
    pq.write_table(table, folder / "steps" / f"{step:02d}" / "adaptation.parquet")
    return folder


def test_rows_are_those_of_the_file(run_path: Path, tmp_path: Path) -> None:
    """Times by hand: from 100 s, asked for at 120 s and in force at 127 s; the second changed nothing."""
    assert adapted_steps(read_run(run_path)) == []
    (found,) = adapted_steps(read_run(with_adaptation(run_path, tmp_path / "run", 1)))
    first, second = found.rows
    assert found.step == 1
    assert (first.start_s, first.end_s, first.in_force_s) == (0.0, 20.0, 7.0)
    assert (first.decision, first.executors_moved, first.lost, first.pause_ms) == ("applied", 5, 3, 5995.0)
    assert (second.start_s, second.decision, second.reason) == (27.0, "declined", "it has seen too little")
    assert (second.in_force_s, second.pause_ms, second.latency_mean_ms) == (None, None, None)
    assert (found.reconfigurations, found.seconds, found.over_target_s) == (1, 40.0, 12)
    assert (found.executor_seconds, found.worker_seconds) == (4 * 20 + 6 * 20, 1 * 20 + 2 * 20)
    assert found.astray == (3, 1)
    assert (first.nodes, first.bottleneck) == (2, "cpu 91 %")
    assert first.nodes_changed == "node-3 comes, node-1 is to leave"
    assert first.batches == "fan:default 3/50 ms, in:default 1"
    assert (first.groups_moved, first.moved_state_bytes, first.group_pause_ms) == (4, 1234, 17.5)
    assert (second.groups_moved, second.moved_state_bytes, second.group_pause_ms) == (None, None, None)
    assert (first.planned_tps, first.forecast_declined) == (95.5, "")
    assert (second.planned_tps, second.forecast_declined) == (60, "the history has 3 buckets, 12 are needed")
    assert found.planned_for == "the last period"
    assert (second.nodes, second.bottleneck, second.nodes_changed, second.batches) == (None, "", "", "")


def test_a_file_of_before_numbers_changed_has_no_totals(run_path: Path, tmp_path: Path) -> None:
    run = with_adaptation(run_path, tmp_path / "run", 1)
    path = run / "steps" / "01" / "adaptation.parquet"
    later = ["rate_tps", "executors", "workers", "over_target_s", "nodes", "nodes_added", "bottleneck"]
    later += ["batches", "batches_asked", "planned_tps", "forecast_declined"]
    pq.write_table(pq.read_table(path).drop_columns(later), path)
    environment = run / "environment.json"
    environment.write_text(json.dumps({**json.loads(environment.read_text()), "schema": 2}))
    (found,) = adapted_steps(read_run(run))
    assert (found.over_target_s, found.executor_seconds, found.reconfigurations) == (None, None, 1)
    assert {(row.planned_tps, row.forecast_declined) for row in found.rows} == {(None, "")}


def test_the_page_has_the_section_where_there_is_something_to_say(results: Results, tmp_path: Path) -> None:
    assert 'id="adaptations"' not in render(results, tmp_path, [])
    first, *others = results.run.steps
    periods = pa.Table.from_pylist(ROWS, ADAPTATION).to_pandas()
    run = replace(results.run, steps=(replace(first, adaptation=periods), *others))
    page = render(replace(results, run=run), tmp_path, [])
    section = page[page.index('id="adaptations"') : page.index('id="matrices"')]
    assert "traffic between nodes 150 -&gt; 60 tuples/s &lt;&amp;&gt;" in section
    assert section.count("<tr><td>") == 1 + 2 * len(ROWS)  # two tables of periods
    assert "<td>95.5</td>" in section
    assert "it has seen too little; no forecast: the history has 3 buckets" in section
    assert '<td class="l">the last period</td>' in section


def test_figures_stand_in_the_sections_that_they_belong_to(results: Results, tmp_path: Path) -> None:
    """Of steps that only adapt no placements are ranked, and the section has the figures alone."""
    kinds = [BY_NAME[name] for name in ("latency-by-scheduler", "adaptation-by-period")]
    for kind in kinds:
        (tmp_path / f"{kind.name}.svg").write_text("<svg/>")
    first, *others = results.run.steps
    periods = pa.Table.from_pylist(ROWS, ADAPTATION).to_pandas()
    run = replace(results.run, steps=(replace(first, adaptation=periods), *others))
    page = render(replace(results, run=run), tmp_path, kinds)
    places = [page.index(f'id="{name}"') for name in ("placements", kinds[0].name)]
    places += [page.index(f'id="{name}"') for name in ("adaptations", kinds[1].name, "matrices")]
    assert places == sorted(places)
