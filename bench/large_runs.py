"""Runs of any size for ``bench/scale.py``: of the schemas and habits of measured ones, drawn at random.

The small files come from the tests' synthetic runs; the two tables are written in pieces, so that a run may
be larger than the memory. Tuples queue and are served with lognormal times at every component, keys are
skewed, windows hold their members back, tasks report in buckets of their own phase.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from synthetic_run import FakeRun, FakeStep, build, metrics_table, physical_plan

from harness.plans import PhysicalPlan
from harness.runs import Interval
from harness.schemas import HOP, LATENCY, METRICS

PIECE = 1_000_000
"""Rows that are made, and written as a row group, at a time."""
TASKS = 16
EXECUTORS = (1, 2, 4, 8, 16)
CHAINS = {
    "fields-to-fields": ("spout", "bolt-a", "bolt-b", "sender"),
    "windowed": ("spout", "window", "sender"),
}
MEMBERS = 10
"""Of a window."""
TEMPLATE_S = 20
TEMPLATE_TPS = 2000.0
"""Metrics are drawn for so long, at this rate, and then repeated."""
BURN_IN = 0.1
"""Share of a step's time and rows."""


@dataclass(frozen=True)
class Size:
    """How large a run is to be: rows of all its steps, the repeats included.

    A repeat is the same files under another step's name (hard links), read and computed like any other.
    """

    latency_rows: int
    metric_rows: int
    repeats: int = 1
    topology: str = "fields-to-fields"


def make(path: Path, size: Size) -> Path:
    """Write a run directory of that size and return it."""
    steps = len(EXECUTORS)
    rows = size.latency_rows // (steps * size.repeats)
    of_metrics = size.metric_rows // (steps * size.repeats)
    bare = FakeRun(topology=size.topology, tasks=TASKS)
    plans = [physical_plan(bare, e) for e in EXECUTORS]
    templates = []
    for i, plan in enumerate(plans):
        drawn = FakeStep(EXECUTORS[i], seconds=TEMPLATE_S, burn_in_s=0, rate_tps=TEMPLATE_TPS)
        templates.append(metrics_table(drawn, plan, 0, seed=i))
    longest = max(TEMPLATE_S * of_metrics / t.num_rows for t in templates)
    seconds = float(TEMPLATE_S * max(round(longest / TEMPLATE_S), 2))
    interval_s, burn_in_s = (1 - BURN_IN) * seconds, BURN_IN * seconds
    rate = rows / seconds
    fake = [
        FakeStep(
            e,
            seconds=interval_s,
            burn_in_s=burn_in_s,
            rate_tps=20 / seconds,  # a few rows, which are replaced
            interval={"rate_tps": rate, "configuration": f"{e}@{rate:.0f}"},
        )
        for e in EXECUTORS * size.repeats
    ]
    build(path, FakeRun(topology=size.topology, tasks=TASKS, steps=fake))
    folders = [path / "steps" / f"{i:02d}" for i in range(len(fake))]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        jobs = [
            pool.submit(_write_step, folders[i], plans[i], size.topology, rows, of_metrics, templates[i], i)
            for i in range(steps)
        ]
        for job in jobs:
            job.result()
    for i, folder in enumerate(folders[steps:], start=steps):
        of = folders[i % steps]
        for name in ("latency.parquet", "metrics.parquet"):
            (folder / name).unlink()
            os.link(of / name, folder / name)
        interval = Interval.model_validate_json((of / "interval.json").read_bytes())
        (folder / "interval.json").write_text(interval.model_copy(update={"step": i}).model_dump_json())
    return path


def _write_step(
    folder: Path, plan: PhysicalPlan, topology: str, rows: int, of_metrics: int, template: pa.Table, seed: int
) -> None:
    interval = Interval.model_validate_json((folder / "interval.json").read_bytes())
    _write(folder / "latency.parquet", LATENCY, _latencies(interval, plan, CHAINS[topology], rows, seed))
    _write(folder / "metrics.parquet", METRICS, _metrics(interval, of_metrics, template))


def _write(path: Path, schema: pa.Schema, pieces: Iterator[pa.Table]) -> None:
    path.unlink(missing_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for piece in pieces:
            writer.write_table(piece, row_group_size=PIECE)


def _metrics(interval: Interval, rows: int, template: pa.Table) -> Iterator[pa.Table]:
    """Repeat the template from the burn-in's start on."""
    first = interval.start_epoch_ms - (interval.start_ns - interval.up_ns) // 1_000_000
    at = template.schema.get_field_index("bucket_end_ms")
    held: list[pa.Table] = []
    for part in range(-(-rows // template.num_rows)):
        ends = pa.array(template["bucket_end_ms"].to_numpy() + first + part * TEMPLATE_S * 1000)
        held.append(template.set_column(at, METRICS.field(at), ends))
        if sum(t.num_rows for t in held) >= PIECE:
            yield pa.concat_tables(held).unify_dictionaries().cast(METRICS)
            held = []
    if held:
        yield pa.concat_tables(held).unify_dictionaries().cast(METRICS)


def _latencies(
    interval: Interval, plan: PhysicalPlan, chain: tuple[str, ...], rows: int, seed: int
) -> Iterator[pa.Table]:
    rng = np.random.default_rng(seed)
    tasks = [np.array([t for e in plan.of(c) for t in e.tasks], np.int32) for c in chain]
    names = [[f"{c}:{t}" for t in of] for c, of in zip(chain, tasks, strict=True)]
    paths = pa.array(["/".join(hops) for hops in product(*names)])
    sink = pa.array([chain[-1]])
    window = chain.index("window") if "window" in chain else None
    shape = ChainShape(tasks, paths, sink, window)
    period_ns = (interval.end_ns - interval.up_ns) / rows
    for first in range(0, rows, PIECE):
        yield _piece(interval, shape, period_ns, first, min(PIECE, rows - first), rng)


@dataclass(frozen=True)
class ChainShape:
    """Tasks of each component of a chain, all paths through them, the sink, and where the window is."""

    tasks: list[np.ndarray]
    paths: pa.Array
    sink: pa.Array
    window: int | None


def _piece(
    interval: Interval,
    shape: ChainShape,
    period_ns: float,
    first: int,
    count: int,
    rng: np.random.Generator,
) -> pa.Table:
    tasks, window = shape.tasks, shape.window
    hops = len(tasks)
    members = 1 if window is None else MEMBERS
    together = -(-count // members)
    output = first // members + np.arange(count) // members
    number = np.arange(first, first + count)
    scheduled = interval.up_ns + (number * period_ns).astype(np.int64)
    entered = scheduled + rng.integers(200_000, 1_200_000, count)
    skew = 1 / np.arange(1, TASKS + 1) ** 0.5
    chosen = []
    for k in range(hops):
        shared = window is not None and k >= window
        draw = rng.choice(TASKS, together if shared else count, p=skew / skew.sum()).astype(np.int32)
        chosen.append(np.repeat(draw, members)[:count] if shared else draw)
    received = np.empty((count, hops), np.int64)
    emitted = np.empty((count, hops), np.int64)
    received[:, 0] = emitted[:, 0] = entered
    for k in range(1, hops):
        shared = window is not None and k > window
        draws = together if shared else count
        way, work = (
            np.repeat((m * np.exp(s * rng.standard_normal(draws))).astype(np.int64), members if shared else 1)
            for m, s in ((1.5e6, 0.7), (0.4e6, 0.4))
        )
        received[:, k] = emitted[:, k - 1] + way[:count]
        emitted[:, k] = received[:, k] + work[:count]
        if k == window:
            last = np.maximum.reduceat(emitted[:, k], np.arange(0, count, members))
            emitted[:, k] = np.repeat(last, members)[:count]
    left = emitted[:, -1]
    code = np.zeros(count, np.int32)
    for of in chosen:
        code = code * TASKS + of
    ground_ms = (left - entered) / 1e6
    thesis_ms = ground_ms
    if members > 1:
        starts = np.arange(0, count, members)
        same = code == np.repeat(code[starts], members)[:count]  # the path that a window's output names
        entry = np.add.reduceat((entered - entered[0]) * same, starts) / np.add.reduceat(same, starts)
        mean_entry = entered[0] + np.repeat(entry, members)[:count].astype(np.int64)
        thesis_ms = (left - mean_entry) / 1e6
    task = np.stack([of[c] for of, c in zip(tasks, chosen, strict=True)], axis=1)
    records = pa.StructArray.from_arrays(
        [pa.array(task.ravel()), pa.array(received.ravel()), pa.array(emitted.ravel())], fields=list(HOP)
    )
    columns = {
        "message_id": number,
        "child": np.zeros(count, np.int32),
        "in_interval": scheduled >= interval.start_ns,
        "scheduled_ns": scheduled,
        "sent_ns": scheduled + 20_000,
        "entered_ns": entered,
        "left_ns": left,
        "ground_truth_ms": ground_ms,
        "broker_ms": np.ceil(ground_ms) + 2,
        "scheduled_ms": (left - scheduled) / 1e6,
        "thesis_ground_truth_ms": thesis_ms,
        "path": pa.DictionaryArray.from_arrays(pa.array(code), shape.paths),
        "sink": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), shape.sink),
        "output_partition": (output % 16).astype(np.int32),
        "output_offset": output // 16,
        "hops": pa.ListArray.from_arrays(pa.array(np.arange(0, count * hops + 1, hops, np.int32)), records),
    }
    arrays = [v if isinstance(v := columns[f.name], pa.Array) else pa.array(v) for f in LATENCY]
    return pa.table(arrays, schema=LATENCY)
