"""No model sees anything that was measured of the step that it is asked about."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from altered_runs import REPORTS, copy

from harness.analysis.judge.predicting import predict
from harness.runs import Run

RUN = REPORTS / "runs" / "loaded-window-500ms" / "20261123T202945Z"
CHANGED = 1
SCALED = {
    "latency.parquet": (10.0, ("ground_truth_ms", "scheduled_ms", "thesis_ground_truth_ms", "broker_ms")),
    "metrics.parquet": (3.0, ("value",)),
}


def spoil(step: Path) -> None:
    """Make all that was measured of a step another thing: latencies, metrics, mean, complete latency."""
    for name, (factor, columns) in SCALED.items():
        table = pq.read_table(step / name)
        for column in columns:
            at = table.schema.get_field_index(column)
            scaled = pc.multiply(table[column], factor)
            table = table.set_column(at, table.schema.field(at), scaled)
        pq.write_table(table, step / name)
    path = step / "interval.json"
    interval = json.loads(path.read_text())
    interval["mean_ms"] *= 10
    for said in interval["complete_latency_ms"].values():
        said["mean_ms"] *= 10
    path.write_text(json.dumps(interval))


def by_source(table: pa.Table, *, changed: bool) -> pa.Table:
    of_it = pc.equal(table["source_step"], CHANGED)
    kept = table.filter(of_it if changed else pc.invert(of_it))
    return kept.sort_by([(name, "ascending") for name in kept.column_names if name != "reason"])


def test_what_was_measured_of_a_proposed_step_changes_no_prediction(tmp_path: Path) -> None:
    honest, spoilt = (copy(RUN, tmp_path / name) for name in ("honest", "spoilt"))
    spoil(spoilt / "steps" / f"{CHANGED:02d}")
    before, after = (predict(Run(path)) for path in (honest, spoilt))
    assert by_source(after, changed=False).equals(by_source(before, changed=False))
    asked = by_source(before, changed=False)
    assert CHANGED in asked["proposed_step"].to_pylist()
    assert len(set(asked["model"].to_pylist())) >= 5  # every registered model was asked
    # what was changed is seen where it may be: in predictions from that step
    assert not by_source(after, changed=True).equals(by_source(before, changed=True))
