"""The runs' tables as Spark sees them, and the one way small results come back to the driver.

A step's files are its partition: which step a row is of follows from its file. Every read declares the
schema, which ``inputs`` has compared with that of the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from harness.analysis.spark.inputs import Source, StepRecord, spark_path
from harness.errors import HarnessError
from harness.plans import Executor
from harness.schemas import LATENCY, METRICS
from harness.schemas.derivable import NEEDED, NS_PER_MS

MOST_ROWS = 2_000_000
"""No result larger than this ever comes to the driver: raw samples stay in Spark."""

_FILES = pa.schema(
    [
        ("file", pa.string()),
        ("step", pa.int32()),
        *((name, pa.int64()) for name in ("start_ns", "end_ns", "bucket_ms")),
        ("by_broker", pa.bool_()),
        ("derivable", pa.list_(pa.string())),
        ("names", pa.map_(pa.int32(), pa.string())),
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
_COMPONENTS = pa.schema(
    [
        ("step", pa.int32()),
        ("component", pa.string()),
        ("downstream", pa.bool_()),
        ("sink", pa.bool_()),
        ("outputs", pa.list_(pa.string())),
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


def latency(spark: SparkSession, source: Source) -> DataFrame:
    """``latency.parquet`` of all steps, with step, start_ns, end_ns and bucket_ms (of the metrics).

    Its ground truth is what each step was measured by (``harness.runs.judged``).
    """
    rows = _steps(spark, source, "latency.parquet")
    for name in NEEDED:
        if any(name in step.derivable for step in source.steps):
            left_out = sf.array_contains("derivable", name)
            rows = rows.withColumn(name, sf.when(left_out, _derived(name)).otherwise(sf.col(name)))
    rows = rows.drop("derivable", "names")
    if not any(step.interval.by_broker for step in source.steps):
        return rows
    judged = sf.when(sf.col("by_broker"), sf.col("broker_ms")).otherwise(sf.col("ground_truth_ms"))
    return rows.withColumn("ground_truth_ms", judged)


def _derived(name: str) -> Column:
    """Return a column that a file leaves out, as ``harness.schemas.derivable`` computes it."""
    hops = sf.col("hops")
    if name == "path":
        hop = sf.transform(
            hops,
            lambda h: sf.concat(sf.try_element_at("names", h["task"]), sf.lit(":"), h["task"].cast("string")),
        )
        return sf.array_join(hop, "/")
    if name in ("entered_ns", "left_ns"):
        return sf.try_element_at(hops, sf.lit(1 if name == "entered_ns" else -1))["emitted_ns"]
    if name == "thesis_ground_truth_ms":
        return sf.col("ground_truth_ms")
    end_ns, start_ns = NEEDED[name]
    return (sf.col(end_ns) - sf.col(start_ns)).cast("double") / NS_PER_MS


def metrics(spark: SparkSession, source: Source) -> DataFrame:
    """``metrics.parquet`` of all steps, with step, start_ns, end_ns and bucket_ms."""
    return _steps(spark, source, "metrics.parquet").drop("derivable", "names")


@lru_cache(maxsize=4)
def _steps(spark: SparkSession, source: Source, name: str) -> DataFrame:
    """Read one file of every step; kept, since all of a job's queries read the same files."""
    schema = {"latency.parquet": LATENCY, "metrics.parquet": METRICS}[name]
    steps = {s.folder / name: (run, s) for run in source.runs for s in run.steps}
    read = spark.read.schema(from_arrow_schema(_plain(schema))).parquet(*map(spark_path, steps))
    rows: list[dict[str, object]] = []
    for file, path in _files(read):
        run, step = steps[path]
        rows.append(
            {
                "file": file,
                "step": step.index,
                "start_ns": step.interval.start_ns,
                "end_ns": step.interval.end_ns,
                "bucket_ms": round(run.bucket_s * 1000),
                "by_broker": step.interval.by_broker,
                "derivable": list(step.derivable),
                "names": [(t, e.component) for t, e in step.plan.start.by_task.items()]
                if step.derivable
                else [],
            }
        )
    return _beside_file(spark, read, rows, _FILES).select(*_FILES.names[1:], *schema.names)


def _beside_file(
    spark: SparkSession, read: DataFrame, of_files: list[dict[str, object]], schema: pa.Schema
) -> DataFrame:
    """Add to every row what belongs to its file.

    A row's file is looked up by the hash of its name, a number: to look up the name itself takes half as long
    as to read the row. Whether it is that name, and not another of the same hash, is asked of what is found.
    """
    files = from_rows(spark, of_files, schema).withColumn("name_hash", sf.xxhash64("file"))
    name = sf.col("_metadata.file_path")
    return read.select("*", name.alias("row_file")).join(
        sf.broadcast(files),
        (sf.xxhash64("row_file") == sf.col("name_hash")) & sf.col("row_file").startswith(sf.col("file")),
    )


def _files(read: DataFrame) -> Iterator[tuple[str, Path]]:
    """Yield the names that Spark may give to a row's file, with the file's path."""
    for uri in read.inputFiles():
        path = Path(unquote(urlsplit(uri).path))
        yield uri, path
        if uri.startswith("file:///"):  # a row's metadata leave the empty host out
            yield uri.replace("file:///", "file:/", 1), path


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema without dictionary encoding, which is no part of a Spark type."""
    return pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )


def tasks(spark: SparkSession, source: Source) -> DataFrame:
    """One row a step and task of the query plan: where it ran, and the step's interval."""
    rows: list[dict[str, object]] = [
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
        for s, e in _executors(source)
        for task in e.tasks
    ]
    return from_rows(spark, rows, _TASKS)


def components(spark: SparkSession, source: Source) -> DataFrame:
    """One row a step and component: whether it has inputs, is a sink, and the streams others subscribe to."""
    rows: list[dict[str, object]] = []
    for s in source.steps:
        query = s.plan.start.query_plan
        rows += [
            {
                "step": s.index,
                "component": c.name,
                "downstream": bool(query.inputs(c.name)),
                "sink": c.name in query.sinks,
                "outputs": sorted({stream.stream for stream in query.outputs(c.name)}),
            }
            for c in query.components
        ]
    return from_rows(spark, rows, _COMPONENTS)


def peers(spark: SparkSession, source: Source) -> DataFrame:
    """One row a step and task: its executor as a destination, and all executors of its component."""
    rows: list[dict[str, object]] = [
        {
            "step": s.index,
            "peer": str(task),
            "to_executor": e.label,
            "to_executors": [other.label for other in s.plan.start.of(e.component)],
        }
        for s, e in _executors(source)
        for task in e.tasks
    ]
    return from_rows(spark, rows, _PEERS)


def _executors(source: Source) -> Iterator[tuple[StepRecord, Executor]]:
    """Yield the executors of every step's query plan (Storm's own components are not in it)."""
    for s in source.steps:
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
