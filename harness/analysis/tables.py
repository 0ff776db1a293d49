"""The run's tables as Spark sees them, and the one way small results come back to the driver."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from harness.analysis.inputs import RunRecord, spark_path
from harness.errors import HarnessError
from harness.plans import connection_label
from harness.schemas import LATENCY, METRICS, PREDICTIONS

MOST_ROWS = 2_000_000
"""No result larger than this ever comes to the driver: raw samples stay in Spark."""

_INTERVALS = pa.schema(
    [
        ("step", pa.int32()),
        *((name, pa.int64()) for name in ("start_ns", "end_ns", "start_epoch_ms", "end_epoch_ms")),
        ("configuration", pa.string()),
    ]
)
_TASKS = pa.schema(
    [
        ("step", pa.int32()),
        ("task", pa.int32()),
        *((name, pa.string()) for name in ("component", "executor", "node")),
    ]
)
_CONNECTIONS = pa.schema(
    [
        ("step", pa.int32()),
        *((name, pa.string()) for name in ("label", "stream", "source", "target", "target_component")),
    ]
)


def latency(spark: SparkSession, run: RunRecord) -> DataFrame:
    """``latency.parquet`` of all steps, with the column ``step``."""
    return _steps(spark, run, "latency.parquet", LATENCY)


def metrics(spark: SparkSession, run: RunRecord) -> DataFrame:
    """``metrics.parquet`` of all steps, with the column ``step``."""
    return _steps(spark, run, "metrics.parquet", METRICS)


def predictions(spark: SparkSession, run: RunRecord) -> DataFrame:
    """``predictions.parquet``."""
    schema = from_arrow_schema(_plain(PREDICTIONS))
    return spark.read.schema(schema).parquet(spark_path(run.path / "predictions.parquet"))


def _steps(spark: SparkSession, run: RunRecord, name: str, schema: pa.Schema) -> DataFrame:
    read = spark.read.schema(from_arrow_schema(_plain(schema))).parquet(*run.files(name))
    step = sf.regexp_extract("_metadata.file_path", r"/steps/(\d+)/[^/]*$", 1).cast("int")
    return read.select(step.alias("step"), *schema.names)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema without dictionary encoding, which is no part of a Spark type."""
    return pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )


def intervals(spark: SparkSession, run: RunRecord) -> DataFrame:
    """One row a step: the measured interval on both clocks, and the label that repeats share."""
    rows = [
        {
            "step": s.index,
            "start_ns": s.interval.start_ns,
            "end_ns": s.interval.end_ns,
            "start_epoch_ms": s.interval.start_epoch_ms,
            "end_epoch_ms": s.interval.end_epoch_ms,
            "configuration": s.interval.configuration,
        }
        for s in run.steps
    ]
    return from_rows(spark, rows, _INTERVALS)


def tasks(spark: SparkSession, run: RunRecord) -> DataFrame:
    """One row a step and task of the query plan: its component, executor's label and worker node."""
    rows = [
        {"step": s.index, "task": task, "component": e.component, "executor": e.label, "node": e.worker.node}
        for s in run.steps
        for e in s.plan.start.executors
        if e.component in {c.name for c in s.plan.start.query_plan.components}
        for task in e.tasks
    ]
    return from_rows(spark, rows, _TASKS)


def connections(spark: SparkSession, run: RunRecord) -> DataFrame:
    """One row a step and logical connection of the plan: its label and its ends' executors."""
    rows = [
        {
            "step": s.index,
            "label": connection_label(stream, source, target),
            "stream": stream.stream,
            "source": source.label,
            "target": target.label,
            "target_component": stream.target,
        }
        for s in run.steps
        for stream, source, target in s.plan.start.connections()
    ]
    return from_rows(spark, rows, _CONNECTIONS)


def from_rows(spark: SparkSession, rows: list[dict[str, object]], schema: pa.Schema) -> DataFrame:
    """Return a small table that the driver made as a Spark table."""
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema))


def collect(table: DataFrame, what: str, most: int = MOST_ROWS) -> pa.Table:
    """Bring a small result to the driver.

    Raises
    ------
    HarnessError
        When it has more than ``most`` rows: then it is not the small table it should be.
    """
    found = table.limit(most + 1).toArrow()
    if found.num_rows > most:
        raise HarnessError(
            f"{what}: more than {most} rows would come to the driver", "analyse fewer runs at a time"
        )
    return found


def collect_frame(table: DataFrame, what: str, most: int = MOST_ROWS) -> pd.DataFrame:
    """Bring a small result to the driver as a pandas frame (see ``collect``)."""
    frame: pd.DataFrame = collect(table, what, most).to_pandas()
    return frame
