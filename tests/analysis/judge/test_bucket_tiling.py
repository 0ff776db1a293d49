"""Metric buckets that are missing, doubled or squeezed, made of an archived step's own rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from altered_runs import ALL_IN_ONE, REPORTS

from harness.analysis.judge import checks, raw_steps
from harness.analysis.judge.bucket_tiling import untiled
from harness.analysis.judge.raw_steps import RawStep, read_step
from harness.analysis.judge.resampling import redrawn, resample
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.inputs import read_raw
from harness.quality import Backlog

BUCKET_MS = 2000
"""As the archived run asked."""


@pytest.fixture(scope="module")
def step() -> RawStep:
    return read_step(read_raw(ALL_IN_ONE).steps[1])


def judged_of(step: RawStep, metrics: pa.Table, *, saturated: bool = False) -> tuple[str, ...]:
    plan = step.record.plan.start
    return untiled(metrics, step.interval, plan, BUCKET_MS / 1000, saturated=saturated)


def task_of(step: RawStep, component: str) -> int:
    return step.record.plan.start.of(component)[0].first_task


def ends_of(step: RawStep, task: int) -> list[int]:
    """The task's buckets in the interval, in order."""
    return sorted(
        step.inside.filter(pc.equal(step.inside["task"], task))["bucket_end_ms"].unique().to_pylist()
    )


def rows_of(metrics: pa.Table, task: int, ends: list[int]) -> pa.Array:
    return pc.and_(pc.equal(metrics["task"], task), pc.is_in(metrics["bucket_end_ms"], pa.array(ends)))


def with_ends(metrics: pa.Table, ends: np.ndarray) -> pa.Table:
    at = metrics.schema.get_field_index("bucket_end_ms")
    return metrics.set_column(at, metrics.schema.field(at), pa.array(ends))


def test_the_buckets_of_a_measured_step_tile_its_interval(step: RawStep) -> None:
    assert judged_of(step, step.metrics) == step.untiled == ()


@pytest.mark.parametrize(("component", "saturated"), [("spout", False), ("spout", True), ("sender", False)])
def test_one_bucket_of_one_task_is_missing(
    step: RawStep, component: str, saturated: bool, figure: Callable[[str], None]
) -> None:
    task = task_of(step, component)
    gone = ends_of(step, task)[5]
    left = step.metrics.filter(pc.invert(rows_of(step.metrics, task, [gone])))
    (found,) = judged_of(step, left, saturated=saturated)
    assert found.startswith(f"{component}:{task}: ")
    assert "no bucket of 2 s for 4.0 s" in found
    figure(found)


def test_one_measurement_of_a_task_is_missing(step: RawStep) -> None:
    task = task_of(step, "sender")
    gone = rows_of(step.metrics, task, ends_of(step, task)[5:6])
    gone = pc.and_(gone, pc.equal(step.metrics["measurement"].cast(pa.string()), "service"))
    (found,) = judged_of(step, step.metrics.filter(pc.invert(gone)))
    assert found.startswith(f"sender:{task}: service: no bucket")


@pytest.mark.parametrize("edge", ["first", "last"])
def test_the_buckets_at_an_edge_of_the_interval_are_missing(step: RawStep, edge: str) -> None:
    """With those beyond the edge, as if a worker's batches began late or ended early."""
    task, at = task_of(step, "spout"), step.interval
    end = step.metrics["bucket_end_ms"]
    beyond = (
        pc.less(end, at.start_epoch_ms + 2 * BUCKET_MS)
        if edge == "first"
        else pc.greater(end, at.end_epoch_ms - 2 * BUCKET_MS)
    )
    gone = pc.and_(pc.equal(step.metrics["task"], task), beyond)
    (found,) = judged_of(step, step.metrics.filter(pc.invert(gone)))
    assert found.startswith(f"spout:{task}: ")


def test_the_lost_batches_of_one_worker_name_its_tasks(step: RawStep) -> None:
    """8 s, four buckets of 15: the review's case, in which arrivals came out 7 % too low."""
    worker = step.record.plan.start.executors[0].worker
    tasks = {t for t, e in step.record.plan.start.by_task.items() if e.worker == worker}
    start = step.interval.start_epoch_ms + 5 * BUCKET_MS
    end = step.metrics["bucket_end_ms"]
    gone = pc.and_(
        pc.and_(pc.greater(end, start), pc.less_equal(end, start + 8000)),
        pc.is_in(step.metrics["task"], pa.array(sorted(tasks), pa.int32())),
    )
    found = judged_of(step, step.metrics.filter(pc.invert(gone)))
    reporting = set(step.inside["task"].to_pylist())
    assert {int(line.split(":")[1]) for line in found} == tasks & reporting
    samples = Samples(values=1, untiled=found)
    status, detail = checks.STEP_CHECKS["metrics"](step.record, samples)
    assert status == "invalid"
    assert found[0] in detail


@pytest.mark.parametrize("saturated", [False, True])
def test_a_bucket_that_came_twice(step: RawStep, saturated: bool, figure: Callable[[str], None]) -> None:
    task = task_of(step, "sender")
    twice = step.metrics.filter(rows_of(step.metrics, task, ends_of(step, task)[5:6]))
    (found,) = judged_of(step, pa.concat_tables([step.metrics, twice]), saturated=saturated)
    assert found.endswith("1 buckets came twice")
    figure(found)
    later = with_ends(twice, twice["bucket_end_ms"].to_numpy() + 400)
    (found,) = judged_of(step, pa.concat_tables([step.metrics, later]), saturated=saturated)
    assert found.startswith(f"sender:{task}: ")
    assert " buckets of 2 s in " in found


GROWING = Backlog(
    growth_tps=20, growth_error_tps=1, throughput_tps=180, throughput_error_tps=1, saturated=True
)


def moved(step: RawStep, task: int, by_ms: dict[int, int]) -> pa.Table:
    """The step's metrics with some of a task's buckets, by their places in the interval, ending later."""
    ends = step.metrics["bucket_end_ms"].to_numpy().copy()
    places = ends_of(step, task)
    for place, late_ms in by_ms.items():
        ends[rows_of(step.metrics, task, [places[place]]).to_numpy(zero_copy_only=False)] += late_ms
    return with_ends(step.metrics, ends)


@pytest.mark.parametrize(
    "by_ms",
    [{5: 1950}, {5: 3900, 6: 1950}, {0: 1900, 1: 1500, 2: 900, 3: 300}],
    ids=["one late tick", "a stall of two ticks", "a queue that empties"],
)
def test_ticks_that_waited_in_the_queue_lose_nothing(step: RawStep, by_ms: dict[int, int]) -> None:
    """An executor reports between two calls: a burst makes a bucket long and the next ones short."""
    assert judged_of(step, moved(step, task_of(step, "sender"), by_ms)) == ()


def test_gaps_of_a_bolt_whose_queue_grows_say_nothing(step: RawStep) -> None:
    """It gets twice what it can do: each tick waits a bucket longer than the one before it."""
    task = task_of(step, "sender")
    ends = step.metrics["bucket_end_ms"].to_numpy().copy()
    mine = step.metrics["task"].to_numpy() == task
    since_ms = step.interval.start_epoch_ms
    ends[mine] = np.where(ends[mine] > since_ms, 2 * ends[mine] - since_ms, ends[mine])
    queued = with_ends(step.metrics, ends)
    assert judged_of(step, queued, saturated=True) == ()
    assert judged_of(step, queued)[0].startswith(f"sender:{task}: ")


def test_what_all_lost_in_a_saturated_step_is_named(step: RawStep, figure: Callable[[str], None]) -> None:
    """8 s, as if the store had been away: no queue explains a gap that spouts have too."""
    since_ms = step.interval.start_epoch_ms + 5 * BUCKET_MS
    end = step.metrics["bucket_end_ms"]
    lost = pc.and_(pc.greater(end, since_ms), pc.less_equal(end, since_ms + 8000))
    found = judged_of(step, step.metrics.filter(pc.invert(lost)), saturated=True)
    spouts = {t for t, executor in step.record.plan.start.by_task.items() if executor.component == "spout"}
    assert {int(line.split(":")[1]) for line in found} >= spouts
    record = replace(step.record, quality=step.record.quality.model_copy(update={"backlog": GROWING}))
    assert record.quality.saturated
    status, detail = checks.STEP_CHECKS["metrics"](record, Samples(values=1, untiled=found))
    assert status == "invalid"
    figure(f"8 s lost by all in a saturated step: {len(found)} tasks, such as {found[0]}")
    assert found[0] in detail


@pytest.mark.parametrize("saturated", [False, True])
@pytest.mark.parametrize("moved_ms", [6000, -6000])
def test_a_wall_clock_that_moves_in_the_interval(
    step: RawStep, moved_ms: int, saturated: bool, figure: Callable[[str], None]
) -> None:
    """All tasks' buckets after it are moved; set back, they are squeezed to a millisecond each until the
    clock has caught up, as the wrappers do."""
    ends = step.metrics["bucket_end_ms"].to_numpy().copy()
    middle = (step.interval.start_epoch_ms + step.interval.end_epoch_ms) // 2
    tasks = step.metrics["task"].to_numpy()
    for task in np.unique(tasks):
        mine = np.flatnonzero(tasks == task)
        times, of = np.unique(ends[mine], return_inverse=True)
        moved = np.where(times > middle, times + moved_ms, times)
        for i in range(1, len(moved)):
            moved[i] = max(moved[i], moved[i - 1] + 1)
        ends[mine] = moved[of]
    found = judged_of(step, with_ends(step.metrics, ends), saturated=saturated)
    own = {c.name for c in step.record.plan.start.query_plan.components}
    gaps_of_bolts_are_excused = saturated and moved_ms > 0
    assert ({"spout"} if gaps_of_bolts_are_excused else own) <= {line.split(":")[0] for line in found}
    figure(f"{moved_ms / 1000:+.0f} s: {len(found)} tasks, such as {found[0]}")


def test_a_night_drawn_from_blocks_keeps_what_the_measured_one_had(step: RawStep, tmp_path: Path) -> None:
    """Blocks are whole buckets of most tasks, not of each, so drawn buckets need not tile."""
    assert redrawn(step, seed=3).untiled == ()
    night = read_raw(resample(ALL_IN_ONE, tmp_path / "night", seed=3))
    assert all(record.bucket_s is None for record in night.steps)
    assert [raw_steps.untiled(record) for record in night.steps] == [()] * len(night.steps)


def test_spark_and_the_raw_tables_judge_by_one_rule(step: RawStep, tmp_path: Path) -> None:
    folder = tmp_path / "step"
    folder.mkdir()
    task = task_of(step, "sender")
    gone = rows_of(step.metrics, task, ends_of(step, task)[5:6])
    pq.write_table(step.metrics.filter(pc.invert(gone)), folder / "metrics.parquet")
    (found,) = raw_steps.untiled(step.record.__class__(**{**vars(step.record), "folder": folder}))
    assert found.startswith(f"sender:{task}: ")


@pytest.fixture(scope="module")
def adapted() -> RawStep:
    """A step of 180 s whose plan changed from 15.2 to 20.0 and from 60.2 to 68.3 s, as archived."""
    (path,) = (REPORTS / "runs" / "adapt-aeolus").iterdir()
    return read_step(read_raw(path).steps[0])


def from_s(step: RawStep, task: int, since_s: float, until_s: float) -> pa.Array:
    """Rows of a task in a part of the interval."""
    first_ms, ends = step.interval.start_epoch_ms, step.metrics["bucket_end_ms"]
    inside = pc.and_(
        pc.greater(ends, first_ms + round(1000 * since_s)),
        pc.less(ends, first_ms + round(1000 * until_s)),
    )
    return pc.and_(pc.equal(step.metrics["task"], task), inside)


@pytest.mark.parametrize(
    ("component", "since_s", "until_s", "reason"),
    [
        ("in", 100, 106, "no bucket of 2 s for"),
        ("in", 20, 61, "no bucket for"),  # nothing of it comes between both restarts
        ("in", 60.2, 83, ""),  # it restarts
        ("pick", 100, 106, ""),  # its queue may grow
    ],
)
def test_a_step_that_adapts_is_tiled_between_restarts(
    adapted: RawStep, component: str, since_s: float, until_s: float, reason: str
) -> None:
    assert adapted.untiled == ()
    task = task_of(adapted, component)
    gone = adapted.metrics.filter(pc.invert(from_s(adapted, task, since_s, until_s)))
    assert gone.num_rows < adapted.metrics.num_rows
    found = raw_steps.tiling(adapted.record, gone)
    assert [reason in text for text in found] == ([True] if reason else [])


def test_a_spout_that_counts_nothing_between_restarts_is_named_though_it_says_its_worker_s_time(
    adapted: RawStep,
) -> None:
    task = task_of(adapted, "in")
    counts = pc.is_in(adapted.metrics["measurement"].cast(pa.string()), pa.array(["emitted", "ack"]))
    silent = pc.and_(from_s(adapted, task, 20, 61), counts)
    (found,) = raw_steps.tiling(adapted.record, adapted.metrics.filter(pc.invert(silent)))
    assert "no bucket for" in found


def test_a_change_of_batch_sizes_is_no_restart(adapted: RawStep) -> None:
    """The change of 60.2 s, said to be one: buckets of before and after it would have to tile the time."""
    periods = adapted.record.adaptation
    assert periods is not None
    assert periods["restarted"].isna().all()  # of schema 2
    said = periods["asked_ns"].notna() & (periods["period"] != 3)
    record = replace(adapted.record, adaptation=periods.assign(restarted=said))
    spout = f"in:{task_of(adapted, 'in')}"
    assert any(text.startswith(spout) for text in raw_steps.tiling(record, adapted.metrics))


def test_a_bolt_s_bucket_that_came_twice_counts_while_a_step_adapts(adapted: RawStep) -> None:
    task = task_of(adapted, "pick")
    twice = pa.concat_tables([adapted.metrics, adapted.metrics.filter(from_s(adapted, task, 100, 106))])
    (found,) = raw_steps.tiling(adapted.record, twice)
    assert "buckets came twice" in found
