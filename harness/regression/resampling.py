"""A night that might have been: a run's intervals drawn again from their own blocks of time.

Every measured interval is cut into blocks of one metric bucket, and as many are drawn with replacement:
latencies and metrics of a block move together to their new place. Storm's own complete latency comes for the
whole interval only; it moves by what the ack latency of its spout executor did. What such nights differ by is
chance alone, within intervals; what differs between real nights is not in them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.plans import PhysicalPlan
from harness.runs import CompleteLatency, Interval, Run, folder_atomically

TIMES = ("scheduled_ns", "sent_ns", "entered_ns", "left_ns")
ID_STEP = 10**12
"""A block drawn twice gives messages of their own: so far apart are their identifiers."""
OFFSET_STEP = 10**9


def resample(run_path: Path, target: Path, seed: int) -> Path:
    """Write a resampled night of a run into a new run directory.

    Parameters
    ----------
    run_path, target : Path
        A run directory, and one that does not exist yet.
    seed : int

    Returns
    -------
    Path
        The new run directory, whole or not at all.
    """
    run = Run(run_path)
    rng = np.random.default_rng(seed)
    with folder_atomically(target) as folder:
        for name in ("experiment.yaml", "environment.json"):
            shutil.copy(run.path / name, folder / name)
        for index in run.finished_steps:
            source, place = run.step_path(index), folder / "steps" / f"{index:02d}"
            place.mkdir(parents=True)
            for name in ("plan.json", "quality.json"):
                shutil.copy(source / name, place / name)
            interval = run.interval(index)
            metrics = pq.read_table(source / "metrics.parquet")
            blocks = _blocks(interval, metrics)
            drawn = rng.integers(0, blocks, blocks)
            latency = _latency(pq.read_table(source / "latency.parquet"), interval, drawn)
            again = _metrics(metrics, interval, drawn)
            pq.write_table(latency, place / "latency.parquet", compression="zstd")
            pq.write_table(again, place / "metrics.parquet", compression="zstd")
            moved = _complete(interval, run.plan(index).start, metrics, again)
            (place / "interval.json").write_text(moved.model_dump_json(indent=1))
    return target


def _blocks(interval: Interval, metrics: pa.Table) -> int:
    """Return how many metric buckets the interval holds: as many as its best-covered task has in it."""
    inside = metrics.filter(_inside(metrics, interval)).select(["task", "bucket_end_ms"])
    counted = inside.group_by("task").aggregate([("bucket_end_ms", "count_distinct")])
    most = pc.max(counted["bucket_end_ms_count_distinct"]).as_py()
    return int(most or 20)


def _inside(metrics: pa.Table, interval: Interval) -> pa.Array:
    end = metrics["bucket_end_ms"]
    return pc.and_(pc.greater(end, interval.start_epoch_ms), pc.less_equal(end, interval.end_epoch_ms))


def _taken(block: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the drawn blocks, and the place that each of them is drawn for."""
    rows = [np.flatnonzero(block == b) for b in range(len(drawn))]
    found = [rows[b] for b in drawn]
    return np.concatenate(found), np.repeat(np.arange(len(drawn)), [len(f) for f in found])


def _latency(table: pa.Table, interval: Interval, drawn: np.ndarray) -> pa.Table:
    table = table.filter(table["in_interval"])
    since = table["scheduled_ns"].to_numpy() - interval.start_ns
    length_ns = (interval.end_ns - interval.start_ns) / len(drawn)
    rows, place = _taken((since // length_ns).astype(int), drawn)
    out = table.take(pa.array(rows)).combine_chunks()
    by_ns = np.round((place - drawn[place]) * length_ns).astype(np.int64)
    for name in TIMES:
        out = _replaced(out, name, pa.array(out[name].to_numpy() + by_ns))
    out = _replaced(out, "message_id", pa.array(out["message_id"].to_numpy() + place * ID_STEP))
    out = _replaced(out, "output_offset", pc.add(out["output_offset"], pa.array(place * OFFSET_STEP)))
    hops = out["hops"].combine_chunks()
    passed = hops.flatten()
    each_ns = np.repeat(by_ns, hops.value_lengths().to_numpy())
    moved = [
        pa.array(passed.field(k).to_numpy() + each_ns) if k != "task" else passed.field(k)
        for k in ("task", "received_ns", "emitted_ns")
    ]
    structs = pa.StructArray.from_arrays(moved, fields=list(passed.type))
    lengths = np.concatenate([[0], np.cumsum(hops.value_lengths().to_numpy())]).astype(np.int32)
    return _replaced(out, "hops", pa.ListArray.from_arrays(pa.array(lengths), structs))


def _metrics(table: pa.Table, interval: Interval, drawn: np.ndarray) -> pa.Table:
    inside = _inside(table, interval)
    kept, table = table.filter(pc.invert(inside)), table.filter(inside)
    since = table["bucket_end_ms"].to_numpy() - interval.start_epoch_ms - 1
    length_ms = (interval.end_epoch_ms - interval.start_epoch_ms) / len(drawn)
    rows, place = _taken((since // length_ms).astype(int), drawn)
    by_ms = np.round((place - drawn[place]) * length_ms).astype(np.int64)
    out = table.take(pa.array(rows)).combine_chunks()
    out = _replaced(out, "bucket_end_ms", pa.array(out["bucket_end_ms"].to_numpy() + by_ms))
    return pa.concat_tables([kept.cast(out.schema), out])


def _replaced(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), column.cast(table.schema.field(name).type))


def _complete(interval: Interval, plan: PhysicalPlan, before: pa.Table, after: pa.Table) -> Interval:
    """Move every spout executor's complete latency by what its ack latency moved by."""
    labels = {task: e.label for task, e in plan.by_task.items()}
    old, new = (_acks(t.filter(_inside(t, interval)), labels) for t in (before, after))
    moved = dict(interval.complete_latency_ms)
    for label, value in interval.complete_latency_ms.items():
        if value.mean_ms is None or label not in old or label not in new:
            continue
        (sum_before, acks_before), (sum_after, acks_after) = old[label], new[label]
        factor = (sum_after / acks_after) / (sum_before / acks_before)
        acked = round(value.acked * acks_after / acks_before)
        moved[label] = CompleteLatency(mean_ms=value.mean_ms * factor, acked=acked)
    return interval.model_copy(update={"complete_latency_ms": moved})


def _acks(metrics: pa.Table, labels: dict[int, str]) -> dict[str, tuple[float, float]]:
    rows = metrics.filter(pc.equal(metrics["measurement"].cast(pa.string()), "ack"))
    found: dict[str, tuple[float, float]] = {}
    for task, name, value in zip(
        rows["task"].to_pylist(), rows["field"].to_pylist(), rows["value"].to_pylist(), strict=True
    ):
        total, count = found.get(labels[task], (0.0, 0.0))
        if name == "sum_ns":
            total += value
        elif name == "count":
            count += value
        found[labels[task]] = total, count
    return {k: v for k, v in found.items() if v[1] > 0}
