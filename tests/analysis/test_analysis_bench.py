"""The eight queries on raw tables: Spark finds what DuckDB finds, by SQL that was written apart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("duckdb")
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import scale
from large_runs import Size, make

from harness.analysis.inputs import read_run


@pytest.mark.parametrize("topology", ["fields-to-fields", "windowed"])
def test_spark_and_duckdb_find_the_same(spark: SparkSession, tmp_path: Path, topology: str) -> None:
    run = read_run(make(tmp_path / "run", Size(20_000, 20_000, topology=topology)))
    asked = scale.queries(windowed=topology == "windowed")
    ours = {q.name: q.spark(spark, run) for q in asked}
    theirs = scale.measure_duckdb(run, asked)["found"]
    for query in asked:
        rows = len(ours[query.name])
        assert rows > 0
        assert scale.differences(query, ours[query.name], theirs[query.name]) == f"same {rows} rows"
