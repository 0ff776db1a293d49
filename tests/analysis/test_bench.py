"""The eight queries on raw tables: Spark finds what DuckDB finds, by SQL that was written apart."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

pytest.importorskip("duckdb")
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import balancing_figures
import scale
import scale_figures
from large_runs import Size, make
from process_memory import carry_out

from harness.analysis.figures.period_figures import COLLOCATION, DISTANCE, MIGRATIONS
from harness.analysis.spark.inputs import read_run
from harness.schedulers.groups import equal_nodes


@pytest.mark.deep
@pytest.mark.parametrize("topology", ["fields-to-fields", "windowed"])
def test_spark_and_duckdb_find_the_same(spark: SparkSession, tmp_path: Path, topology: str) -> None:
    run = read_run(make(tmp_path / "run", Size(20_000, 20_000, topology=topology)))
    asked = scale.queries(windowed=topology == "windowed")
    ours = {q.name: q.spark(spark, run) for q in asked}
    theirs = scale.measure_duckdb(run, asked).found
    for query in asked:
        rows = len(ours[query.name])
        assert rows > 0
        assert scale_figures.differences(query, ours[query.name], theirs[query.name]) == f"same {rows} rows"


@pytest.mark.deep
def test_what_duckdb_cannot_do_leaves_the_other_figures(spark: SparkSession, tmp_path: Path) -> None:
    """In 1 MB DuckDB reads no Parquet file: each row says so, and keeps Spark's time."""
    run = read_run(make(tmp_path / "run", Size(20_000, 20_000)))
    asked = [q for q in scale.queries(windowed=False) if q.name in ("latency-histogram", "metric-cover")]
    ours = scale_figures.Measured(memory_mb={"driver": 1.0, "python": 1.0})
    for query in asked:
        ours.add(query.name, partial(query.spark, spark, run))
    theirs = scale.measure_duckdb(run, asked, memory="1MB")
    found = scale_figures.figures(run, asked, ours, theirs, "1MB")
    for row in found["queries"]:
        assert row["spark_s"] > 0
        assert row["duckdb_s"] is row["results"] is None
        assert "Out of Memory" in row["duckdb_failed"]
    said = "\n".join(scale_figures.lines(found | {"whole_s": 1.0}))
    assert said.count("DuckDB failed after") == 2
    assert "in 1MB" in said.splitlines()[0]


def test_made_periods_begin_where_the_one_before_ended() -> None:
    """Flux, one move a period, loads 4, 3, 2, 1 on one of two nodes: 4 goes (6 and 4), then 1 (5 and 5)."""
    loads = np.array([4.0, 3, 2, 1])
    problem = equal_nodes(loads, np.zeros(4, dtype=np.int64), 2, 1.0)
    found = balancing_figures.line("Flux", problem, balancing_figures.flux_allocation, [loads, loads])
    assert found.values[DISTANCE].tolist() == [1.0, 0.0]
    assert found.values[MIGRATIONS].tolist() == [1.0, 1.0]


def test_made_pairs_come_together_at_once_by_cola_and_step_by_step_by_albic() -> None:
    """No pair is together at first, and ALBIC has 10 moves; COLA is bound by no number (003, IV.B)."""
    albic, cola = balancing_figures.collocation_lines(periods=1)
    assert 0 < albic.values[COLLOCATION][0] < cola.values[COLLOCATION][0]
    assert albic.values[MIGRATIONS][0] <= 10 < cola.values[MIGRATIONS][0]


def test_made_loads_keep_their_sum() -> None:
    base = np.array([10.0, 20, 30])
    periods = list(balancing_figures.loads_by_period(base, 3, 0.25, 0))
    assert [loads.sum() for loads in periods] == pytest.approx([60.0] * 3)
    assert len({tuple(loads) for loads in periods}) == 3


def test_the_memory_of_a_command_is_that_of_all_its_processes() -> None:
    """Two hold 50 MB each while the second adds its bytes up; an interpreter has 10 MB or so."""
    second = "raise SystemExit(sum(bytearray(50_000_000)) + 3)"
    first = (
        "import subprocess, sys; held = bytearray(50_000_000);"
        f" sys.exit(subprocess.call([sys.executable, '-c', '{second}']))"
    )
    status, peak_bytes = carry_out([sys.executable, "-c", first])
    assert status == 3
    assert 100e6 < peak_bytes < 150e6


@pytest.mark.deep
def test_more_memory_than_is_allowed_fails_the_benchmark(tmp_path: Path) -> None:
    run = make(tmp_path / "run", Size(20_000, 20_000))
    done = CliRunner().invoke(scale.main, ["predict", str(run), "--model", "no-change", "--most-gib", "0.01"])
    assert done.exit_code == 1
    assert "harness predict with no-change" in done.output
    assert "GiB resident, 0.01 allowed" in done.output
    assert (run / "predictions.parquet").is_file()
