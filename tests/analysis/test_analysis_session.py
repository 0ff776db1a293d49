"""How Spark is started: by size, and never with anything that others can reach."""

from __future__ import annotations

from pyspark.sql import SparkSession

from harness.analysis.session import SMALL_ROWS, settings, spark_session


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
    assert settings(10**9, "local[2]")["spark.driver.memory"] == "1500m"


def test_a_cluster_is_not_told_about_loopback() -> None:
    assert "spark.driver.host" not in settings(0, "spark://127.0.0.1:7077")


def test_a_session_that_is_there_is_used_and_left(spark: SparkSession) -> None:
    with spark_session() as again:
        assert again is spark
    assert spark.range(3).count() == 3
