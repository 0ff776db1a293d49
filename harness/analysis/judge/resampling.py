"""A night that might have been: a run's intervals drawn again from their own blocks of time.

Every measured interval is cut into blocks of one metric bucket, and as many are drawn with replacement:
latencies and metrics of a block move together to their new place. Storm's own complete latency comes for the
whole interval only; it moves as the ack latency of its spout executor did. Such nights differ by chance
alone, within intervals; the differences between real nights are not in them.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.analysis.judge.raw_steps import (
    Ints,
    RawStep,
    blocks,
    inside,
    latency_blocks,
    metric_blocks,
    read_step,
)
from harness.analysis.spark.inputs import read_raw
from harness.machine.whole_files import folder_atomically
from harness.plans import PhysicalPlan
from harness.runs import CompleteLatency, Interval
from harness.schemas import Metric, MetricField
from harness.schemas.environment import Environment

TIMES = ("scheduled_ns", "sent_ns", "entered_ns", "left_ns")
ID_STEP = 10**12
"""A block drawn twice gives messages of their own: so far apart are their identifiers."""
OFFSET_STEP = 10**9


def redrawn(step: RawStep, seed: int) -> RawStep:
    """Return a step as another night might have measured it.

    Parameters
    ----------
    step : RawStep
    seed : int
        Of the night: the steps of one are drawn independently of each other.
    """
    number = max(1, blocks(step))
    drawn = np.random.default_rng([seed, step.record.index]).integers(0, number, number)
    again = _metrics(step.metrics, step.interval, drawn)
    return replace(
        step,
        interval=_complete(step.interval, step.record.plan.start, step.metrics, again),
        latency=_latency(step.latency, step.interval, drawn),
        metrics=again,
    )


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
    run = read_raw(run_path)
    with folder_atomically(target) as folder:
        shutil.copy(run.path / "experiment.yaml", folder / "experiment.yaml")
        environment: Environment = {**run.environment, "resampled": seed}
        (folder / "environment.json").write_text(json.dumps(environment, indent=2))
        for record in run.steps:
            place = folder / "steps" / record.folder.name
            place.mkdir(parents=True)
            for name in ("plan.json", "quality.json"):
                shutil.copy(record.folder / name, place / name)
            again = redrawn(read_step(record), seed)
            pq.write_table(again.latency, place / "latency.parquet", compression="zstd")
            pq.write_table(again.metrics, place / "metrics.parquet", compression="zstd")
            (place / "interval.json").write_text(again.interval.model_dump_json(indent=1))
    return target


def _taken(block: Ints, drawn: Ints) -> tuple[Ints, Ints]:
    """Return the rows of the drawn blocks, and the place that each of them is drawn for."""
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(len(drawn) + 1))
    found = [order[ends[b] : ends[b + 1]] for b in drawn]
    return np.concatenate(found), np.repeat(np.arange(len(drawn)), [len(f) for f in found])


def _latency(table: pa.Table, interval: Interval, drawn: Ints) -> pa.Table:
    length_ns = (interval.end_ns - interval.start_ns) / len(drawn)
    rows, place = _taken(latency_blocks(table["scheduled_ns"].to_numpy(), interval, len(drawn)), drawn)
    out = table.take(pa.array(rows)).combine_chunks()
    by_ns = np.round((place - drawn[place]) * length_ns).astype(np.int64)
    for name in TIMES:
        out = _replaced(out, name, pa.array(out[name].to_numpy() + by_ns))
    out = _replaced(out, "message_id", pa.array(out["message_id"].to_numpy() + place * ID_STEP))
    out = _replaced(out, "output_offset", pc.add(out["output_offset"], pa.array(place * OFFSET_STEP)))
    hops = out["hops"].combine_chunks()
    passed, sizes = hops.flatten(), hops.value_lengths().to_numpy()
    each_ns = np.repeat(by_ns, sizes)
    moved = [
        pa.array(passed.field(k).to_numpy() + each_ns) if k != "task" else passed.field(k)
        for k in ("task", "received_ns", "emitted_ns")
    ]
    structs = pa.StructArray.from_arrays(moved, fields=list(passed.type))
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return _replaced(out, "hops", pa.ListArray.from_arrays(pa.array(ends), structs))


def _metrics(table: pa.Table, interval: Interval, drawn: Ints) -> pa.Table:
    mine = inside(table, interval)
    kept, table = table.filter(pc.invert(mine)), table.filter(mine)
    length_ms = (interval.end_epoch_ms - interval.start_epoch_ms) / len(drawn)
    rows, place = _taken(metric_blocks(table["bucket_end_ms"].to_numpy(), interval, len(drawn)), drawn)
    by_ms = np.round((place - drawn[place]) * length_ms).astype(np.int64)
    out = table.take(pa.array(rows)).combine_chunks()
    out = _replaced(out, "bucket_end_ms", pa.array(out["bucket_end_ms"].to_numpy() + by_ms))
    return pa.concat_tables([kept.cast(out.schema), out])


def _replaced(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), column.cast(table.schema.field(name).type))


def _complete(interval: Interval, plan: PhysicalPlan, before: pa.Table, after: pa.Table) -> Interval:
    """Move every spout executor's complete latency by what its ack latency moved by."""
    old, new = (_acks(t.filter(inside(t, interval)), plan) for t in (before, after))
    moved = dict(interval.complete_latency_ms)
    for label, value in interval.complete_latency_ms.items():
        if value.mean_ms is None or label not in old or label not in new:
            continue
        (sum_before, acks_before), (sum_after, acks_after) = old[label], new[label]
        factor = (sum_after / acks_after) / (sum_before / acks_before)
        acked = round(value.acked * acks_after / acks_before)
        moved[label] = CompleteLatency(mean_ms=value.mean_ms * factor, acked=acked)
    return interval.model_copy(update={"complete_latency_ms": moved})


def _acks(metrics: pa.Table, plan: PhysicalPlan) -> dict[str, tuple[float, float]]:
    """Return sum and number of the ack latencies by executor, where there are any."""
    rows = metrics.filter(pc.equal(metrics["measurement"].cast(pa.string()), Metric.ACK))
    frame = rows.select(["task", "field", "value"]).to_pandas()
    labels = frame["task"].map({t: e.label for t, e in plan.by_task.items()})
    sums = frame.groupby([labels, frame["field"].astype(str)])["value"].sum().unstack(fill_value=0.0)
    if not {MetricField.SUM_NS, MetricField.COUNT} <= set(sums.columns):
        return {}
    used = sums[(sums[MetricField.COUNT] > 0) & (sums[MetricField.SUM_NS] > 0)]
    return {str(k): (float(r[MetricField.SUM_NS]), float(r[MetricField.COUNT])) for k, r in used.iterrows()}
