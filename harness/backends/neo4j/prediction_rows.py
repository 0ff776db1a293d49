"""A run's evaluated predictions as rows: relationships between the steps that they are from and for.

``harness report`` judges a run's predictions as often as it is asked, with the models of that day. So the
relationships of a run are those of its last evaluation, which the run's node names by a digest.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

from harness.backends.neo4j.plan_rows import Rows, run_id
from harness.runs import Run, read_table
from harness.schemas import unit_of

EVALUATION = "errors.parquet"
_WRITTEN = (
    *("model", "source_step", "proposed_step", "measure"),
    *("value", "actual", "relative_error", "error_over_noise"),
)
_JUDGED: Mapping[str, str] = {"subject": "", "statistic": "mean", "protocol": "ours", "verdict": "judged"}
"""Rows that are written: means of the whole topology."""


def evaluation_id(run: Run) -> str:
    """Return a digest of a run's evaluation; empty where it has none."""
    path = run.path / EVALUATION
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32] if path.is_file() else ""


def evaluation_statements(run: Run) -> Iterator[tuple[str, Rows]]:
    """Yield Cypher statements and their rows, which put a run's evaluation in the place of one before.

    Raises
    ------
    UsageError
        When the file cannot be read.
    """
    yield _EVALUATION, [{"run": run_id(run), "evaluation": evaluation_id(run)}]
    yield _PREDICTED, [*_rows(run)]


def _rows(run: Run) -> Iterator[dict[str, object]]:
    """Yield a row a judged prediction; a step's prediction of itself is none."""
    table = read_table(run.path / EVALUATION, [*_WRITTEN, *_JUDGED])
    kept = pc.not_equal(table["source_step"], table["proposed_step"])
    for column, value in _JUDGED.items():
        kept = pc.and_(kept, pc.equal(table[column], value))
    name, judged = run_id(run), table.filter(kept)
    columns = (judged[column].to_pylist() for column in _WRITTEN)
    for model, source, proposed, measure, value, actual, error, over_noise in zip(*columns, strict=True):
        unit = _unit(measure)
        yield {
            "source": f"{name}/{source:02d}",
            "proposed": f"{name}/{proposed:02d}",
            "model": model,
            "measure": measure,
            "properties": {
                f"predicted{unit}": value,
                f"measured{unit}": actual,
                "error_pct": 100 * error,
                "error_over_noise": over_noise if _is_known(over_noise) else None,
            },
        }


def _unit(measure: str) -> str:
    """Return the unit of a measure, as it ends a name.

    Examples
    --------
    >>> _unit("throughput_tps"), _unit("io_ratio")
    ('_tps', '')
    """
    return f"_{measure.rsplit('_', 1)[-1]}" if unit_of(measure) else ""


def _is_known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


_EVALUATION = """
    UNWIND $rows AS row
    MATCH (r:Run {id: row.run})
    SET r.evaluation = row.evaluation
    WITH r
    MATCH (r)-[:STEP]->(:Step)-[e:PREDICTED]->(:Step)
    DELETE e
"""
_PREDICTED = """
    UNWIND $rows AS row
    MATCH (s:Step {id: row.source}), (t:Step {id: row.proposed})
    MERGE (s)-[e:PREDICTED {model: row.model, measure: row.measure}]->(t) ON CREATE SET e += row.properties
"""
