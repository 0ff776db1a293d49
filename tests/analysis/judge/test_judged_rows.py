"""Which rows a measure is judged by: one rule, which texts, frames and Spark read in the same way."""

from __future__ import annotations

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from harness.analysis.judge.judged_rows import is_judged, judged_column, judged_rows
from harness.schemas import LATENCIES, MEASURES, JudgedRows, Measure

SUBJECTS = (
    *("", "sender", "bolt-a:default", "spout/json/sender-1", "node-1", "node-1:6700"),
    *("bolt-a[3-4]", "bolt-a[3-4]:default", "a[1-2]->b[5-8]:default"),
)
"""Labels of every kind of subject (docs/write-a-model.md)."""
OF_A_USER = "of-a-user_ms"
JUDGED_ALONE = {
    "": {*LATENCIES, Measure.THROUGHPUT, Measure.SUSTAINABLE, Measure.WORKER_CPU},
    "node-1:6700": {Measure.WORKER_CPU},
    "sender": {Measure.WORKER_CPU},
}
"""Measures judged by a subject without a bracket (docs/analysis.md, "Errors")."""


@pytest.mark.parametrize(("subject", "measures"), JUDGED_ALONE.items())
def test_subjects_without_a_bracket_judge_few_measures(subject: str, measures: set[Measure]) -> None:
    assert {m for m in Measure if m.rows.include(subject)} == measures
    assert not is_judged(OF_A_USER, subject)


@pytest.mark.parametrize("subject", [s for s in SUBJECTS if "[" in s])
def test_executors_and_connections_judge_what_is_not_of_the_whole_topology(subject: str) -> None:
    whole = {m for m in Measure if m.rows is JudgedRows.TOPOLOGY}
    assert whole == {*LATENCIES, Measure.THROUGHPUT, Measure.SUSTAINABLE}
    assert {m for m in Measure if m.rows.include(subject)} == set(Measure) - whole
    assert is_judged(OF_A_USER, subject)


def test_texts_frames_and_spark_read_the_rule_in_the_same_way(spark: SparkSession) -> None:
    pairs = [(measure, subject) for measure in (*MEASURES, OF_A_USER) for subject in SUBJECTS]
    frame = pd.DataFrame(pairs, columns=["measure", "subject"], index=range(7, 7 + len(pairs)))
    by_text = {pair for pair in pairs if is_judged(*pair)}
    by_frame = frame[judged_rows(frame)]
    by_spark = spark.createDataFrame(frame).where(judged_column()).toPandas()
    assert 0 < len(by_text) < len(pairs)
    assert set(by_frame.itertuples(index=False, name=None)) == by_text
    assert set(by_spark.itertuples(index=False, name=None)) == by_text
