"""What ``bench/scale.py`` measures, and how it says it: both engines side by side, as a table and as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from harness.analysis.spark.inputs import RunRecord, Source
from harness.errors import HarnessError

THREADS = 2
ALLOWED = 3.0
"""Spark may take so many times as long as DuckDB."""
WHOLE = "raw tables to error matrices"
FAILURES = (HarnessError, PySparkException, Py4JError, duckdb.Error)


@dataclass(frozen=True)
class Query:
    """One query on raw tables: in Spark, in DuckDB, and by what columns its rows are told apart."""

    name: str
    spark: Callable[[SparkSession, Source], pd.DataFrame]
    sql: str
    keys: tuple[str, ...]


def differences(query: Query, spark: pd.DataFrame, duck: pd.DataFrame) -> str:
    """Say in how many rows two results differ by more than 1e-9 of their size."""
    keys = list(query.keys)
    ours, theirs = (
        f.assign(**{k: f[k].fillna("") for k in keys if f[k].dtype == object}) for f in (spark, duck)
    )
    both = ours.merge(theirs, on=keys, how="outer", suffixes=("", "_duck"), indicator=True)
    wrong = both["_merge"] != "both"
    for column in spark.columns.difference(keys):
        a, b = both[column], both[f"{column}_duck"]
        if a.dtype == object:
            wrong |= a != b
        else:
            wrong |= ~np.isclose(a.astype(float), b.astype(float), rtol=1e-9, atol=0, equal_nan=True)
    return f"same {len(both)} rows" if not wrong.any() else f"{int(wrong.sum())} of {len(both)} rows differ"


@dataclass
class Measured:
    """What one engine found, in how many seconds, and why it found nothing where it did not."""

    found: dict[str, pd.DataFrame] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, query: Callable[[], pd.DataFrame]) -> None:
        """Carry out one query; that it fails says nothing of the others."""
        begun = time.perf_counter()
        try:
            found = query()
        except FAILURES as error:
            text = str(error).strip() or type(error).__name__
            self.failed[name] = f"after {time.perf_counter() - begun:.0f} s: {text.splitlines()[0]}"
        else:
            self.seconds[name] = time.perf_counter() - begun
            self.found[name] = found


def figures(
    run: RunRecord, asked: Sequence[Query], ours: Measured, theirs: Measured, memory: str
) -> dict[str, Any]:
    """Return all figures and what they were measured under, as JSON has them."""
    rows = []
    for query in asked:
        name = query.name
        both = name in ours.found and name in theirs.found
        rows.append(
            {
                "query": name,
                "spark_s": ours.seconds.get(name),
                "duckdb_s": theirs.seconds.get(name),
                "spark_failed": ours.failed.get(name),
                "duckdb_failed": theirs.failed.get(name),
                "results": differences(query, ours.found[name], theirs.found[name]) if both else None,
            }
        )
    return {
        "latency_rows": sum(s.latency_rows for s in run.steps),
        "metrics_rows": sum(s.metrics_rows for s in run.steps),
        "steps": len(run.steps),
        "threads": THREADS,
        "spark": pyspark.__version__,
        "duckdb": duckdb.__version__,
        "duckdb_memory": memory,
        "queries": rows,
        "whole_s": ours.seconds.get(WHOLE),
        "whole_failed": ours.failed.get(WHOLE),
        "memory_mb": ours.memory_mb,
    }


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the figures as a table; its last row adds up what both engines carried out."""
    yield (
        f"{found['latency_rows']:,} samples, {found['metrics_rows']:,} metric rows, {found['steps']} steps;"
        f" {found['threads']} threads; DuckDB {found['duckdb']} in {found['duckdb_memory']},"
        f" Spark {found['spark']}"
    )
    yield f"{'query':<20}{'Spark s':>9}{'DuckDB s':>10}{'ratio':>7}  results"
    for row in found["queries"]:
        failed = [f"{e} failed {why}" for e in ("Spark", "DuckDB") if (why := row[f"{e.lower()}_failed"])]
        yield _line(row["query"], row["spark_s"], row["duckdb_s"], "; ".join(failed) or row["results"] or "")
    rows = found["queries"]
    both = [row for row in rows if None not in (row["spark_s"], row["duckdb_s"])]
    if len(both) < len(rows) and all(row["spark_s"] is not None for row in rows):
        yield _line("all queries", sum(row["spark_s"] for row in rows), None, "")
    if both:
        sums = [sum(row[key] for row in both) for key in ("spark_s", "duckdb_s")]
        name = "all queries" if len(both) == len(rows) else f"the {len(both)} of both"
        yield _line(name, sums[0], sums[1], f"at most {ALLOWED:g} is asked")
    whole = found["whole_s"]
    yield f"raw tables to error matrices: {found['whole_failed'] if whole is None else f'{whole:.1f} s'}"
    memory = found["memory_mb"]
    yield f"memory at its peak: driver {memory['driver']:.0f} MB, Python {memory['python']:.0f} MB"


def _line(name: str, spark_s: float | None, duck_s: float | None, said: str) -> str:
    of_each = "".join(
        f"{'-' if s is None else f'{s:.1f}':>{width}}" for s, width in ((spark_s, 9), (duck_s, 10))
    )
    ratio = f"{spark_s / duck_s:.1f}" if spark_s is not None and duck_s else "-"
    return f"{name:<20}{of_each}{ratio:>7}  {said}".rstrip()
