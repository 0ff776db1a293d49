"""Writes what is made from ``harness.schemas``; tests keep it equal.

python scripts/measured_words.py

The lists of measures and metrics in docs/run-directory.md, and storm-topologies/metrics.json, which Java's
tests compare with what the wrappers report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from marks import replaced

from harness.schemas import JudgedRows, Measure, Metric, MetricField

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "run-directory.md"
LISTING = ROOT / "storm-topologies" / "metrics.json"
JUDGED_BY = {
    JudgedRows.TOPOLOGY: "the whole topology",
    JudgedRows.PARTS: "executors and connections",
    JudgedRows.ALL: "all subjects",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)


def measures() -> str:
    """Return the table of measures."""
    rows = [
        [m, m.unit, ", ".join(m.subjects), JUDGED_BY[m.rows] if m.judged else "shown only", m.meaning]
        for m in Measure
    ]
    return table(("measure", "unit", "subjects", "judged by", "meaning"), rows)


def metrics() -> str:
    """Return the table of metrics."""
    rows = [
        [
            *(m, m.subject, m.stream, m.peer),
            "upper bounds of bins in ns" if m.histogram else ", ".join(m.fields),
            m.meaning,
        ]
        for m in Metric
    ]
    return table(("measurement", "of each", "stream", "peer", "fields", "meaning"), rows)


def fields() -> str:
    """Return the table of fields."""
    return table(("field", "unit", "meaning"), [[f, f.unit, f.meaning] for f in MetricField])


def page(text: str) -> str:
    """Return the page with its tables made anew between their markers."""
    for name, made in (("measures", measures()), ("metrics", metrics()), ("fields", fields())):
        text = replaced(text, name, made)
    return text


def listing() -> str:
    """Return metrics.json: what Java's tests know of each measurement."""
    by_name = {
        metric: {
            "fields": list(metric.fields),
            "histogram": metric.histogram,
            "stream": bool(metric.stream),
            "peer": bool(metric.peer),
            "reporter": metric.reporter,
        }
        for metric in Metric
    }
    return json.dumps(by_name, indent=2) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    LISTING.write_text(listing(), encoding="utf-8")
