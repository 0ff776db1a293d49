"""The words of everything measured: tables of a run directory, measures, and metrics with their fields.

``docs/run-directory.md`` says in prose what these types say to programs; its lists of measures and metrics
are made from them, and Java's tests read the same list.
"""

from harness.schemas.measures import (
    LATENCIES,
    MEASURES,
    PERCENTILES,
    JudgedRows,
    Measure,
    Subject,
    rows_judged,
    unit_of,
)
from harness.schemas.metrics import Clock, Metric, MetricField, Reporter
from harness.schemas.tables import ADAPTATION, ERRORS, HOP, LATENCY, METRICS, PREDICTIONS, SCHEMA_VERSION

__all__ = [
    "ADAPTATION",
    "ERRORS",
    "HOP",
    "LATENCIES",
    "LATENCY",
    "MEASURES",
    "METRICS",
    "PERCENTILES",
    "PREDICTIONS",
    "SCHEMA_VERSION",
    "Clock",
    "JudgedRows",
    "Measure",
    "Metric",
    "MetricField",
    "Reporter",
    "Subject",
    "rows_judged",
    "unit_of",
]
