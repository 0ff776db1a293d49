"""Rows that count when a measure is judged: one rule (``schemas.Measure``) for texts, frames and Spark."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as sf

from harness.schemas import JudgedRows, Measure, rows_judged


def is_judged(measure: str, subject: str) -> bool:
    """Say whether a measure is judged by its rows of a subject.

    Examples
    --------
    >>> is_judged(Measure.THROUGHPUT, ""), is_judged("of-a-user", "bolt-a[3-4]")
    (True, True)
    """
    return rows_judged(measure).include(subject)


def judged_rows(rows: pd.DataFrame) -> pd.Series[bool]:
    """Mark the rows of a frame with the columns measure and subject that count when they are judged."""
    marks = pd.Series(data=False, index=rows.index)
    subjects = rows["subject"].unique()
    for rule, measures in _by_rule(rows["measure"].unique().tolist()).items():
        included = [subject for subject in subjects if rule.include(subject)]
        marks |= rows["measure"].isin(measures) & rows["subject"].isin(included)
    return marks


def judged_column() -> Column:
    """Return the rule for Spark: true of rows that count when they are judged."""
    column = _matches(JudgedRows.PARTS)  # measures of users, which the list of measures lacks
    for rule, measures in _by_rule(list(Measure)).items():
        column = sf.when(sf.col("measure").isin(*measures), _matches(rule)).otherwise(column)
    return column


def _by_rule(measures: list[str] | list[Measure]) -> dict[JudgedRows, list[str]]:
    by_rule: dict[JudgedRows, list[str]] = defaultdict(list)
    for measure in measures:
        by_rule[rows_judged(measure)].append(str(measure))
    return by_rule


def _matches(rule: JudgedRows) -> Column:
    return sf.col("subject").rlike(f"^(?:{rule.value})$")
