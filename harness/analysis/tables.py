"""The run's tables as Spark sees them, and the one way small results come back to the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from harness.analysis.inputs import RunRecord, StepRecord, spark_path
from harness.errors import HarnessError
from harness.plans import Executor
from harness.schemas import LATENCY, METRICS, PREDICTIONS

MOST_ROWS = 2_000_000
"""No result larger than this ever comes to the driver: raw samples stay in Spark."""

_INTERVALS = pa.schema(
    [
        ("step", pa.int32()),
        *((name, pa.int64()) for name in ("start_ns", "end_ns")),
        ("configuration", pa.string()),
    ]
)
_TASKS = pa.schema(
    [
        ("step", pa.int32()),
        ("task", pa.int32()),
        *((name, pa.string()) for name in ("component", "executor", "worker", "node")),
        *((name, pa.int64()) for name in ("start_epoch_ms", "end_epoch_ms")),
    ]
)
_PEERS = pa.schema(
    [
        ("step", pa.int32()),
        ("peer", pa.string()),
        ("to_executor", pa.string()),
        ("to_executors", pa.list_(pa.string())),
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
    return read.select(_step_of_file(run, name).alias("step"), *schema.names)


def _step_of_file(run: RunRecord, name: str) -> Column:
    """Return a row's step: the digits before the file's name, ``.../steps/07/latency.parquet``.

    Taken from a fixed place, since this is done for every row: a pattern would cost more than the rest.
    """
    digits = {len(s.folder.name) for s in run.steps}
    most = max(digits)
    found = sf.substring("_metadata.file_path", -(most + 1 + len(name)), most)
    return (found if len(digits) == 1 else sf.ltrim(found, sf.lit("s/"))).cast("int")


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema without dictionary encoding, which is no part of a Spark type."""
    return pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )


def intervals(spark: SparkSession, run: RunRecord) -> DataFrame:
    """One row a step: the measured interval, and the label that repeats of a configuration share."""
    rows = [
        {
            "step": s.index,
            "start_ns": s.interval.start_ns,
            "end_ns": s.interval.end_ns,
            "configuration": s.interval.configuration,
        }
        for s in run.steps
    ]
    return from_rows(spark, rows, _INTERVALS)


def tasks(spark: SparkSession, run: RunRecord) -> DataFrame:
    """One row a step and task of the query plan: where it ran, and the step's interval."""
    rows = [
        {
            "step": s.index,
            "task": task,
            "component": e.component,
            "executor": e.label,
            "worker": e.worker.label,
            "node": e.worker.node,
            "start_epoch_ms": s.interval.start_epoch_ms,
            "end_epoch_ms": s.interval.end_epoch_ms,
        }
        for s, e in _executors(run)
        for task in e.tasks
    ]
    return from_rows(spark, rows, _TASKS)


def peers(spark: SparkSession, run: RunRecord) -> DataFrame:
    """One row a step and task: its executor as a destination, and all executors of its component."""
    rows = [
        {
            "step": s.index,
            "peer": str(task),
            "to_executor": e.label,
            "to_executors": [other.label for other in s.plan.start.of(e.component)],
        }
        for s, e in _executors(run)
        for task in e.tasks
    ]
    return from_rows(spark, rows, _PEERS)


def _executors(run: RunRecord) -> Iterator[tuple[StepRecord, Executor]]:
    """Yield the executors of every step's query plan (Storm's own components are not in it)."""
    for s in run.steps:
        names = {c.name for c in s.plan.start.query_plan.components}
        for e in s.plan.start.executors:
            if e.component in names:
                yield s, e


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
