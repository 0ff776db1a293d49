"""Sizes of the errors (``summary.json``), and the matrices behind the figures: computed in Spark."""

from __future__ import annotations

from collections.abc import Set
from typing import TypedDict

import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from harness.analysis.judge.judged_rows import judged_column
from harness.analysis.spark import tables
from harness.analysis.spark.inputs import STEP_NUMBERS, RunRecord
from harness.machine.environment import commit
from harness.machine.version import HARNESS_VERSION
from harness.models import NO_CHANGE
from harness.protocols import Verdict
from harness.schemas import LATENCIES, SCHEMA_VERSION, Measure

EVIDENCE_PCT = 10.0
"""Where no-change errs by less than this, an experiment cannot tell a model from a guess."""
KIND = ["model", "protocol", "measure", "statistic"]


class ErrorSummary(TypedDict):
    """Errors of one model, protocol, measure and statistic over the off-diagonal pairs.

    - ``comparisons`` counts rows; a pair has one for each subject.
    - ``judged_share`` is the part of the rows that was judged.
    - ``coverage`` is the share of judged rows with an interval that holds the measured value.
    - ``median_width_pct`` is the median width of the interval in percent of the prediction.
    - ``skill`` is 1 minus the ratio of the median absolute errors of this model and of no-change, on the rows
      judged for both.

    Numbers are null where there is nothing to compute them from.
    """

    model: str
    protocol: str
    measure: str
    statistic: str
    pairs: int
    comparisons: int
    judged: int
    judged_share: float
    median_abs_error_pct: float | None
    p95_abs_error_pct: float | None
    worst_abs_error_pct: float | None
    median_q_error: float | None
    coverage: float | None
    median_width_pct: float | None
    median_error_over_noise: float | None
    skill: float | None


class EvidenceSummary(TypedDict):
    """Error of no-change, which decides how much an experiment can say about models at all."""

    measure: str
    no_change_median_abs_error_pct: float | None
    is_evidence: bool | None


COUNTED = (Measure.ARRIVALS, Measure.SERVICE, Measure.ROUTING)
"""Measures that are judged in a run without any latency."""


class JudgedWith(TypedDict):
    """The code that computed the errors, which is not always the code that measured."""

    harness: str
    commit: str


class Summary(TypedDict):
    """``summary.json``."""

    schema: int
    judged_with: JudgedWith
    experiment: str
    topology: str
    cluster_kind: str
    measured: bool
    verdict: Verdict
    steps: int
    evidence: list[EvidenceSummary]
    errors: list[ErrorSummary]


def _percentile(column: Column, fraction: float) -> Column:
    return sf.percentile(column, sf.lit(fraction))


def summaries(errors: DataFrame) -> dict[int, list[ErrorSummary]]:
    """Summarise the pair table over each run's off-diagonal pairs, by the run's place."""
    rows = errors.where("source_step != proposed_step").where(judged_column())
    same = Window.partitionBy("source_step", "proposed_step", "protocol", "measure", "statistic", "subject")
    no_change = sf.when(sf.col("model") == NO_CHANGE, sf.col("abs_error_pct"))
    rows = rows.withColumn("base_pct", sf.max(no_change).over(same))
    both = sf.col("base_pct").isNotNull() & sf.col("abs_error_pct").isNotNull()
    judged = sf.count_if(sf.col("verdict") == "judged")
    width = (sf.col("high") - sf.col("low")) / sf.nullif(sf.abs("value"), sf.lit(0.0)) * 100
    run = sf.floor(sf.col("proposed_step") / STEP_NUMBERS).cast("int")
    summed = rows.groupBy(run.alias("run"), *KIND).agg(
        sf.size(sf.collect_set(sf.struct("source_step", "proposed_step"))).alias("pairs"),
        sf.count("*").cast("int").alias("comparisons"),
        judged.cast("int").alias("judged"),
        (judged / sf.count("*")).alias("judged_share"),
        _percentile(sf.col("abs_error_pct"), 0.5).alias("median_abs_error_pct"),
        _percentile(sf.col("abs_error_pct"), 0.95).alias("p95_abs_error_pct"),
        sf.max("abs_error_pct").alias("worst_abs_error_pct"),
        _percentile(sf.col("q_error"), 0.5).alias("median_q_error"),
        sf.avg(sf.col("covered").cast("double")).alias("coverage"),
        _percentile(sf.when(sf.col("covered").isNotNull(), width), 0.5).alias("median_width_pct"),
        _percentile(sf.col("error_over_noise"), 0.5).alias("median_error_over_noise"),
        _percentile(sf.when(both, sf.col("abs_error_pct")), 0.5).alias("own"),
        _percentile(sf.when(both, sf.col("base_pct")), 0.5).alias("base"),
    )
    skill = sf.when(sf.col("base") > 0, 1 - sf.col("own") / sf.col("base"))
    found = summed.withColumn("skill", skill).drop("own", "base")
    by_run: dict[int, list[ErrorSummary]] = {}
    for row in tables.collect(found, "summary").to_pylist():
        by_run.setdefault(row.pop("run"), []).append(row)
    for of_run in by_run.values():
        of_run.sort(key=lambda s: (s["measure"], s["protocol"], s["statistic"], s["model"]))
    return by_run


def leading(latencies: Set[str]) -> tuple[str, ...]:
    """Return the measures that sum a run up: its latencies, or what is judged where none was measured.

    Parameters
    ----------
    latencies : set of str
        The kinds of the steps' latency (``Interval.latency``).

    Examples
    --------
    >>> [str(measure) for measure in leading({"ack"})]
    ['complete_latency_ms', 'ack_latency_ms']
    >>> [str(measure) for measure in leading({"service"})]
    ['arrival_rate_tps', 'service_time_ms', 'routing_probability']
    """
    if latencies and latencies <= {"service"}:
        return COUNTED
    if latencies and latencies <= {"ack", "service"}:
        return Measure.COMPLETE, Measure.ACK
    return LATENCIES


def evidence(summaries: list[ErrorSummary]) -> list[EvidenceSummary]:
    """Say for each latency whether its change between the steps is large enough to judge models by."""
    found = []
    for s in summaries:
        if (s["model"], s["protocol"], s["statistic"]) == (NO_CHANGE, "ours", "mean") and s[
            "measure"
        ] in LATENCIES:
            error = s["median_abs_error_pct"]
            found.append(
                EvidenceSummary(
                    measure=s["measure"],
                    no_change_median_abs_error_pct=error,
                    is_evidence=None if error is None else error >= EVIDENCE_PCT,
                )
            )
    return found


def matrices(errors: DataFrame) -> pd.DataFrame:
    """Return the error matrices, one row a cell: model, protocol, measure, statistic, source, proposed.

    Medians are over the subjects of the pair (one for a latency, its executors or connections else).
    """
    judged = sf.col("verdict") == "judged"
    cells = (
        errors.where(judged_column())
        .groupBy(*KIND, "source_step", "proposed_step")
        .agg(
            _percentile(sf.col("relative_error"), 0.5).alias("relative_error"),
            _percentile(sf.col("abs_error_pct"), 0.5).alias("abs_error_pct"),
            _percentile(sf.when(judged, sf.col("value")), 0.5).alias("predicted"),
            _percentile(sf.when(judged, sf.col("actual")), 0.5).alias("actual"),
            sf.min("low").alias("low"),
            sf.max("high").alias("high"),
            _percentile(sf.col("noise"), 0.5).alias("noise"),
            _percentile(sf.col("error_over_noise"), 0.5).alias("error_over_noise"),
            sf.count_if(judged).cast("int").alias("judged"),
            sf.count("*").cast("int").alias("comparisons"),
            sf.min(sf.when(~judged, sf.col("verdict"))).alias("verdict"),
            sf.min(sf.when(~judged, sf.col("reason"))).alias("reason"),
        )
    )
    return tables.collect_frame(cells, "error matrices")


def summary(run: RunRecord, verdict: Verdict, summaries: list[ErrorSummary]) -> Summary:
    """Put ``summary.json`` together."""
    topology = run.experiment.get("topology", {})
    return Summary(
        schema=SCHEMA_VERSION,
        judged_with=JudgedWith(harness=HARNESS_VERSION, commit=commit()),
        experiment=run.name,
        topology=str(topology.get("name") or topology.get("main", ""))
        if isinstance(topology, dict)
        else str(topology),
        cluster_kind=str(run.environment.get("cluster_kind", "")),
        measured=run.measured,
        verdict=verdict,
        steps=len(run.steps),
        evidence=evidence(summaries),
        errors=summaries,
    )
