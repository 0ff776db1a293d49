"""Copies of a run with one thing changed on purpose."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.runs import read_latency

REPORTS = Path(__file__).resolve().parents[2] / "reports"
ALL_IN_ONE = REPORTS / "runs" / "all-in-one" / "20261121T210350Z"


def copy(run: Path, folder: Path, stamp: str | None = None) -> Path:
    """The run's raw files, columns that an archive leaves out included, perhaps as another night's."""
    target = folder / run.parent.name / (stamp or run.name)
    shutil.copytree(run, target, ignore=shutil.ignore_patterns("*.html", "figures", "predictions.parquet"))
    for step in target.glob("steps/*"):
        pq.write_table(read_latency(step), step / "latency.parquet")
    return target


def slower(run: Path, step: int, factor: float) -> None:
    """Make every ground truth of one step longer, and the last hop with it."""
    path = run / "steps" / f"{step:02d}" / "latency.parquet"
    table = pq.read_table(path)
    extra = np.round((factor - 1) * (table["left_ns"].to_numpy() - table["entered_ns"].to_numpy())).astype(
        int
    )
    changed = {
        "left_ns": table["left_ns"].to_numpy() + extra,
        "ground_truth_ms": table["ground_truth_ms"].to_numpy() + extra / 1e6,
        "scheduled_ms": table["scheduled_ms"].to_numpy() + extra / 1e6,
        "thesis_ground_truth_ms": table["thesis_ground_truth_ms"].to_numpy() * factor,
    }
    for name, values in changed.items():
        table = _replaced(table, name, pa.array(values))
    pq.write_table(table, path)


def shuffled(run: Path, seed: int) -> None:
    """Write every table's rows in another order."""
    rng = np.random.default_rng(seed)
    for path in run.glob("steps/*/*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.take(pa.array(rng.permutation(table.num_rows))), path)


def relabelled(run: Path, by: int) -> None:
    """Number all tasks anew, as Storm does when a topology has more or fewer of its own components."""
    for step in sorted(run.glob("steps/*")):
        plan = json.loads((step / "plan.json").read_text())
        for end in ("start", "end"):
            for executor in plan[end]["executors"]:
                executor["first_task"] += by
                executor["last_task"] += by
        (step / "plan.json").write_text(json.dumps(plan))
        interval = json.loads((step / "interval.json").read_text())
        interval["complete_latency_ms"] = {
            re.sub(r"\d+(?=[-\]])", lambda m: str(int(m[0]) + by), label): value
            for label, value in interval["complete_latency_ms"].items()
        }
        (step / "interval.json").write_text(json.dumps(interval))
        _tasks_of_metrics(step / "metrics.parquet", by)
        _tasks_of_latencies(step / "latency.parquet", by)


def _tasks_of_metrics(path: Path, by: int) -> None:
    table = pq.read_table(path)
    table = _replaced(table, "task", pc.add(table["task"], by))
    peers = table["peer"].cast(pa.string()).to_pylist()
    moved = [str(int(p) + by) if p is not None and p.isdigit() else p for p in peers]
    pq.write_table(_replaced(table, "peer", pa.array(moved, pa.string())), path)


def _tasks_of_latencies(path: Path, by: int) -> None:
    table = pq.read_table(path)
    texts = table["path"].cast(pa.string()).to_pylist()
    known = {t: re.sub(r"(?<=:)\d+", lambda m: str(int(m[0]) + by), t) for t in set(texts)}
    table = _replaced(table, "path", pa.array([known[t] for t in texts], pa.string()))
    hops = table["hops"].combine_chunks()
    passed = hops.flatten()
    fields = [pc.add(passed.field("task"), pa.scalar(by, pa.int32())), *(passed.field(i) for i in (1, 2))]
    structs = pa.StructArray.from_arrays(fields, fields=list(passed.type))
    ends = np.concatenate([[0], np.cumsum(hops.value_lengths().to_numpy())]).astype(np.int32)
    pq.write_table(_replaced(table, "hops", pa.ListArray.from_arrays(pa.array(ends), structs)), path)


def _replaced(table: pa.Table, name: str, column: Any) -> pa.Table:
    at = table.schema.get_field_index(name)
    kind = table.schema.field(name).type
    if pa.types.is_dictionary(kind) and not isinstance(column, pa.ChunkedArray):
        column = column.dictionary_encode()
    return table.set_column(at, name, column.cast(kind))
