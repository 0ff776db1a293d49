"""The pair table: every prediction beside what was measured, by both protocols (``errors.parquet``)."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.analysis import tables
from harness.analysis.inputs import RunRecord
from harness.analysis.latencies import COMPLETE, GROUND_TRUTH, Actual
from harness.analysis.noise import combined
from harness.schemas import ERRORS

ACTUALS = pa.schema(
    [
        ("step", pa.int32()),
        ("protocol", pa.string()),
        ("measure", pa.string()),
        ("subject", pa.string()),
        ("statistic", pa.string()),
        ("value", pa.float64()),
        ("within", pa.float64()),
        ("n", pa.float64()),
        ("note", pa.string()),
    ]
)
THESIS_STATISTICS: Mapping[str, str] = {GROUND_TRUTH: "mean_same_node", COMPLETE: "p90_paths"}
"""What the thesis's protocol compares (5.7.2); all other statistics belong to ours."""
PAIR = ["model", "source_step", "proposed_step"]


def actuals(spark: SparkSession, run: RunRecord, latencies: list[Actual], counted: DataFrame) -> DataFrame:
    """Put all that was measured into one table, with ``noise`` and ``repeats``."""
    of_latency = tables.from_rows(spark, list(latencies), ACTUALS)
    of_counters = counted.withColumn("protocol", sf.lit("ours")).withColumn("note", sf.lit(""))
    steps = tables.intervals(spark, run).select("step", "configuration")
    both = of_latency.unionByName(of_counters.select(*ACTUALS.names))
    return combined(both.join(sf.broadcast(steps), "step"))


def pairs(
    spark: SparkSession, run: RunRecord, measured: DataFrame, unusable: Mapping[int, tuple[str, str]]
) -> DataFrame:
    """Join predictions with what was measured of the proposed step.

    Parameters
    ----------
    measured : DataFrame
        What ``actuals`` gives.
    unusable : mapping of int to (str, str)
        The verdict (``invalid`` or ``unsteady``) and the reason, for steps that cannot be used.

    Returns
    -------
    DataFrame
        Schema ``harness.schemas.ERRORS``. Errors are null unless the verdict is ``judged``. A pair
        for which a model gives no number of the thesis's protocol has a row ``not-predicted``.
    """
    predicted = tables.predictions(spark, run)
    thesis = sf.lit(False)
    for measure, statistic in THESIS_STATISTICS.items():
        thesis |= (sf.col("measure") == measure) & (sf.col("statistic") == statistic)
    predicted = predicted.withColumn("protocol", sf.when(thesis, "thesis").otherwise("ours"))
    predicted = predicted.unionByName(_gaps(predicted, measured))
    keys = ["proposed_step", "protocol", "measure", "subject", "statistic"]
    beside = measured.select(
        sf.col("step").alias("proposed_step"),
        *keys[1:],
        sf.col("value").alias("actual"),
        "noise",
        "note",
    )
    joined = predicted.join(beside, keys, "left")
    for end in ("source", "proposed"):
        joined = joined.join(sf.broadcast(_unusable(spark, unusable, end)), f"{end}_step", "left")
    return _errors(_verdicts(joined)).select(*ERRORS.names)


def _gaps(predicted: DataFrame, measured: DataFrame) -> DataFrame:
    """Rows for what the thesis's protocol compares and a model does not give."""
    asked = (
        measured.where("protocol = 'thesis'")
        .select(sf.col("step").alias("proposed_step"), "measure", "subject", "statistic", "protocol")
        .join(sf.broadcast(predicted.select(*PAIR).distinct()), "proposed_step")
    )
    missing = asked.join(predicted, [*PAIR, "measure", "subject", "statistic", "protocol"], "left_anti")
    none = sf.lit(None).cast("double")
    return missing.withColumns(
        {
            "value": none,
            "low": none,
            "high": none,
            "status": sf.lit("declined"),
            "reason": sf.concat(sf.lit("the model gives no "), "statistic"),
        }
    )


def _unusable(spark: SparkSession, steps: Mapping[int, tuple[str, str]], end: str) -> DataFrame:
    names = (f"{end}_step", f"{end}_verdict", f"{end}_reason")
    rows: list[dict[str, object]] = [
        dict(zip(names, (step, verdict, reason), strict=True)) for step, (verdict, reason) in steps.items()
    ]
    return tables.from_rows(
        spark, rows, pa.schema(list(zip(names, (pa.int32(), pa.string(), pa.string()), strict=True)))
    )


def _verdicts(joined: DataFrame) -> DataFrame:
    """Add ``verdict``, and to ``reason`` why a row was not judged."""
    actual, value = sf.col("actual"), sf.col("value")
    ends = [sf.col("proposed_verdict"), sf.col("source_verdict")]
    no_actual = actual.isNull() | sf.isnan(actual) | (actual == 0)
    verdict = (
        sf.when(
            sf.coalesce(ends[0] == "invalid", sf.lit(False))
            | sf.coalesce(ends[1] == "invalid", sf.lit(False)),
            "invalid",
        )
        .when(sf.coalesce(*ends).isNotNull(), "unsteady")
        .when(sf.col("status") == "saturated", "saturated")
        .when((sf.col("status") != "ok") | value.isNull() | sf.isnan(value), "not-predicted")
        .when(no_actual, "not-measured")
        .otherwise("judged")
    )
    why = (
        sf.when(
            sf.col("verdict").isin("invalid", "unsteady"), sf.coalesce("proposed_reason", "source_reason")
        )
        .when((sf.col("verdict") == "not-measured") & (actual == 0), "measured as 0: no relative error")
        .when(
            sf.col("verdict") == "not-measured",
            sf.coalesce(sf.nullif(sf.col("note"), sf.lit("")), sf.lit("not measured in the proposed step")),
        )
        .when((sf.col("verdict") == "not-predicted") & (sf.col("reason") == ""), "the model gave no number")
        .otherwise(sf.col("reason"))
    )
    return joined.withColumn("verdict", verdict).withColumn("reason", why)


def _errors(rows: DataFrame) -> DataFrame:
    predicted, actual, noise = sf.col("value"), sf.col("actual"), sf.col("noise")
    judged = sf.col("verdict") == "judged"

    def where(condition: Column, value: Column) -> Column:
        return sf.when(judged & condition, value)

    always = sf.lit(True)
    relative = (predicted - actual) / actual
    positive = (predicted > 0) & (actual > 0)
    bounded = sf.col("low").isNotNull() & sf.col("high").isNotNull()
    return rows.withColumns(
        {
            "relative_error": where(always, relative),
            "abs_error_pct": where(always, sf.abs(relative) * 100.0),
            "q_error": where(positive, sf.greatest(predicted / actual, actual / predicted)),
            "error_over_noise": where(noise > 0, sf.abs(predicted - actual) / noise),
            "covered": where(bounded, (sf.col("low") <= actual) & (actual <= sf.col("high"))),
        }
    )
