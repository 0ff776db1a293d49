"""How Spark is started: by size, never with anything that others can reach, and its errors in one line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.spark import class_archive, tables
from harness.analysis.spark.inputs import read_run
from harness.analysis.spark.session import SMALL_ROWS, settings, spark_session
from harness.errors import HarnessError, UsageError


def test_a_local_session_listens_on_loopback_only_and_has_no_user_interface() -> None:
    for rows in (0, SMALL_ROWS + 1):
        found = settings(rows, "local[2]")
        assert found["spark.driver.bindAddress"] == "127.0.0.1"
        assert found["spark.ui.enabled"] == "false"


def test_a_large_run_keeps_the_compiler_and_the_partitions_that_it_needs() -> None:
    small, large = settings(SMALL_ROWS, "local[2]"), settings(SMALL_ROWS + 1, "local[2]")
    assert "TieredStopAtLevel" in small["spark.driver.extraJavaOptions"]
    assert "TieredStopAtLevel" not in large["spark.driver.extraJavaOptions"]
    assert int(large["spark.sql.shuffle.partitions"]) > int(small["spark.sql.shuffle.partitions"])


def test_the_driver_stays_under_two_gibibytes() -> None:
    assert settings(10**9, "local[2]")["spark.driver.memory"] == "1200m"


def test_a_cluster_is_not_told_about_loopback() -> None:
    assert "spark.driver.host" not in settings(0, "spark://127.0.0.1:7077")


def test_a_session_that_is_there_is_used_and_left(spark: SparkSession) -> None:
    with spark_session() as again:
        assert again is spark
    assert spark.range(3).count() == 3


def test_any_local_run_uses_the_class_archive_and_no_other() -> None:
    option = "-XX:SharedArchiveFile=a.jsa"
    for rows in (0, SMALL_ROWS + 1):
        assert option in settings(rows, "local[2]", option)["spark.driver.extraJavaOptions"]
        assert option not in settings(rows, "spark://h:7077", option)["spark.driver.extraJavaOptions"]


def test_an_archive_takes_its_place_only_when_its_jvm_ended_well(tmp_path: Path) -> None:
    path = tmp_path / "classes" / "spark.jsa"
    assert class_archive.use(path) == ""
    option = class_archive.record(path)
    made = Path(option.removeprefix("-XX:ArchiveClassesAtExit="))
    assert made.parent == path.parent, "it is renamed, so it has to be on the same disk"
    made.write_bytes(b"classes")
    class_archive.keep(path, 1)
    assert list(path.parent.iterdir()) == []
    made.write_bytes(b"classes")
    class_archive.keep(path, 0)
    assert [p.name for p in path.parent.iterdir()] == ["spark.jsa"]
    assert class_archive.use(path) == f"-XX:SharedArchiveFile={path}"


def test_a_folder_that_cannot_be_made_is_gone_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert class_archive.record(tmp_path / "file" / "classes" / "spark.jsa") == ""
    assert class_archive.record(None) == ""
    class_archive.keep(None, 0)


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for name in ("one", "two"):
        java = tmp_path / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text("#!/bin/sh\n")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / name))
        seen.add(class_archive.archive_path())
    assert len(seen) == 2
    assert None not in seen
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert class_archive.archive_path() is None


def test_a_file_that_is_damaged_inside_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Its end, with the schema, is whole: only reading the data shows it."""
    path = build(tmp_path / "run 1", FakeRun(steps=[FakeStep(1, seconds=20)]))
    file = path / "steps" / "00" / "latency.parquet"
    data = bytearray(file.read_bytes())
    data[4 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4)
    file.write_bytes(bytes(data))
    assert pq.read_schema(file) is not None
    run = read_run(path)
    with pytest.raises(UsageError) as caught, spark_session() as session:
        tables.collect(tables.latency(session, run), "rows")
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_other_trouble_of_sparks_is_one_line(spark: SparkSession) -> None:
    with pytest.raises(HarnessError) as caught, spark_session() as session:
        session.sql("SELECT 1 / 0").collect()
    assert "\n" not in str(caught.value)
    assert "DIVIDE_BY_ZERO" in str(caught.value)
