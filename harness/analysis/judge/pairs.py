"""The pair table: every prediction beside what was measured, by both protocols (``errors.parquet``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.analysis.judge.judged_rows import judged_column
from harness.analysis.spark import tables
from harness.analysis.spark.inputs import STEP_NUMBERS, Source
from harness.analysis.spark.latencies import Actual
from harness.analysis.spark.noise import borrowed, combined
from harness.schemas import ERRORS, LATENCIES, Measure

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
THESIS_STATISTICS: Mapping[str, str] = {Measure.GROUND_TRUTH: "mean_same_node", Measure.COMPLETE: "p90_paths"}
"""What the thesis's protocol compares (5.7.2); all other statistics belong to ours."""
PAIR = ["model", "source_step", "proposed_step"]
ENDS = ("proposed", "source")
MOST_BROADCAST = 1_000_000
"""Up to so many predictions a table of them is sent to every executor; beyond, Spark chooses."""

_LABELS = pa.schema([("step", pa.int32()), ("run", pa.int32()), ("configuration", pa.string())])
_STATES = pa.schema(
    [("step", pa.int32()), *((name, pa.string()) for name in ("unusable", "why", "saturated"))]
)
"""Why a step cannot be used, and that it was saturated."""


def actuals(spark: SparkSession, source: Source, latencies: list[Actual], counted: DataFrame) -> DataFrame:
    """Put all that was measured into one table, with ``noise``, ``run`` (its place) and ``configuration``."""
    of_latency = tables.from_rows(spark, list(latencies), ACTUALS)
    of_counters = counted.withColumn("protocol", sf.lit("ours")).withColumn("note", sf.lit(""))
    both = borrowed(
        of_latency.unionByName(of_counters.select(*ACTUALS.names)),
        borrower=Measure.COMPLETE,
        lender=Measure.ACK,
    )
    labels: list[dict[str, object]] = [
        {"step": s.index, "run": run.place, "configuration": s.interval.configuration}
        for run in source.runs
        for s in run.steps
    ]
    configured = both.join(sf.broadcast(tables.from_rows(spark, labels, _LABELS)), "step", "left")
    repeated = len({(label["run"], label["configuration"]) for label in labels}) < len(labels)
    return combined(configured, repeated, per=["run"])


def pairs(
    spark: SparkSession, source: Source, measured: DataFrame, unusable: Mapping[int, tuple[str, str]]
) -> DataFrame:
    """Join predictions with the measurements of the proposed step.

    Parameters
    ----------
    measured : DataFrame
        What ``actuals`` gives.
    unusable : mapping of int to (str, str)
        The verdict (``invalid`` or ``unsteady``) and the reason, for steps that cannot be used.

    Returns
    -------
    DataFrame
        Schema ``harness.schemas.ERRORS``. Errors are null unless the verdict is ``judged``. What a model
        should have answered and did not has a row ``not-predicted``.
    """
    predicted = tables.predictions(spark, source)
    thesis = sf.lit(False)
    for measure, statistic in THESIS_STATISTICS.items():
        thesis |= (sf.col("measure") == measure) & (sf.col("statistic") == statistic)
    predicted = predicted.withColumn("protocol", sf.when(thesis, "thesis").otherwise("ours"))
    few = sum(run.predictions_rows for run in source.runs) <= MOST_BROADCAST
    small = sf.broadcast if few else _unhinted
    predicted = predicted.unionByName(_gaps(predicted, measured, small))
    keys = ["proposed_step", "protocol", "measure", "subject", "statistic"]
    beside = measured.select(
        sf.col("step").alias("proposed_step"), *keys[1:], sf.col("value").alias("actual"), "noise", "note"
    )
    joined = predicted.join(small(beside), keys, "left")
    states: list[dict[str, object]] = [
        {
            "step": s.index,
            "saturated": s.quality.saturated or None,
            **dict(zip(("unusable", "why"), unusable.get(s.index, (None, None)), strict=True)),
        }
        for s in source.steps
    ]
    ends = tables.from_rows(spark, states, _STATES)
    for end in ENDS:
        named = ends.select(*(sf.col(name).alias(f"{end}_{name}") for name in _STATES.names))
        joined = joined.join(sf.broadcast(named), f"{end}_step", "left")
    return _errors(_verdicts(joined)).select(*ERRORS.names)


def _unhinted(table: DataFrame) -> DataFrame:
    return table


def run_of(step: str) -> Column:
    """Return the place of a step's run among the runs of the job."""
    return sf.floor(sf.col(step) / STEP_NUMBERS).cast("int")


def _gaps(predicted: DataFrame, measured: DataFrame, small: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Return rows for measurements that a model should have predicted and did not.

    Those are the thesis's statistics, of every model, and the statistics that a model predicts for any other
    pair of the run.
    """
    kind = ["measure", "statistic", "protocol"]
    every = predicted.select(*PAIR).distinct()
    run = run_of("proposed_step").alias("run")
    answered = predicted.where(judged_column()).select(run, "model", *kind).distinct()
    comparable = measured.where(judged_column() | (sf.col("protocol") == "thesis"))
    asked = (
        comparable.select(sf.col("step").alias("proposed_step"), "run", "subject", *kind)
        .join(sf.broadcast(every), "proposed_step")
        .join(sf.broadcast(answered.withColumn("answered", sf.lit(True))), ["run", "model", *kind], "left")
        .where((sf.col("protocol") == "thesis") | sf.col("answered"))
        .drop("run", "answered")
    )
    keys = [*PAIR, "subject", *kind]
    missing = asked.join(small(predicted.select(*keys)), keys, "left_anti")
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


def _verdicts(joined: DataFrame) -> DataFrame:
    """Add ``verdict``, and to ``reason`` why a row was not judged.

    A step whose backlog grew is no source to learn from, and has no latency to judge by; what went through
    it can be judged.
    """
    actual, value, status = sf.col("actual"), sf.col("value"), sf.col("status")
    proposed, source = [sf.coalesce(sf.col(f"{end}_unusable"), sf.lit("")) for end in ENDS]
    source_full, full = sf.col("source_saturated"), sf.col("proposed_saturated")
    full = sf.when(sf.col("measure").isin(*LATENCIES), full)
    measured_full = sf.coalesce(
        sf.concat(sf.lit("the source step was "), source_full), sf.concat(sf.lit("the step was "), full)
    )
    verdict = (
        sf.when((proposed == "invalid") | (source == "invalid"), "invalid")
        .when((proposed == "unsteady") | (source == "unsteady"), "unsteady")
        .when(measured_full.isNotNull() | (status == "saturated"), "saturated")
        .when((status != "ok") | value.isNull() | sf.isnan(value), "not-predicted")
        .when(actual.isNull() | sf.isnan(actual) | (actual == 0), "not-measured")
        .otherwise("judged")
    )
    known = sf.nullif(sf.coalesce("note", sf.lit("")), sf.lit(""))
    missing = sf.when(actual == 0, "measured as 0: no relative error").otherwise(
        sf.coalesce(known, sf.lit("not measured in the proposed step"))
    )
    why = (
        sf.when(
            sf.col("verdict").isin("invalid", "unsteady"),
            # of the end whose state it is: an unsteady step says nothing of why the other one is invalid
            sf.when(proposed == sf.col("verdict"), sf.col("proposed_why")).otherwise(sf.col("source_why")),
        )
        .when((sf.col("verdict") == "saturated") & measured_full.isNotNull(), measured_full)
        .when(sf.col("verdict") == "not-measured", missing)
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
