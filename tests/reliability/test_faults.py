"""Faults in the steps of an experiment, made on the real cluster: what each does to what is measured.

Messages come every 25 ms; how long something stood still is what interval.json says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest
from campaigns import carry_out
from movable_clocks import clocks_obstacle
from short_experiments import RATE_TPS, short_experiment, short_measure

from harness.analysis.judge.checks import STEP_CHECKS, run_checks
from harness.analysis.judge.raw_steps import untiled
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.inputs import read_raw
from harness.backends.local.cluster import LocalCluster
from harness.backends.metrics.rows import MetricRows
from harness.experiments.contracts import Progress
from harness.machine import servers
from harness.runs import FaultMade, Run, read_table

pytestmark = pytest.mark.system

MEASURE = {**short_measure(4, 14), "attempts": 1}
SETTINGS = short_experiment("faulty", MEASURE, tasks=2, ackers=1, slots_per_node=1)
PLAIN, GENERATOR, LOST, SKEWED, KILLED = range(5)
BEHIND_S = 6
FAULTS: dict[int, dict[str, object]] = {
    GENERATOR: {"at_s": 2, "stop": "generator", "for_s": 10},
    SKEWED: {"at_s": 2, "skew-clock": "node-2", "by_s": -BEHIND_S, "for_s": 6},
    KILLED: {"at_s": 13.3, "kill": "worker", "node": "node-2"},
}
"""By step; the first has none, as its spouts have to join their consumer group first."""
if no_clocks := clocks_obstacle():
    del FAULTS[SKEWED]
BESIDE = GENERATOR
"""The step beside which a cluster comes up; what it is about is a process that stands still anyway."""
LOST_S = 4.0
"""How long the store of metrics takes all that it is sent, and keeps nothing; from the interval's start."""


class ClusterBeside:
    """``harness cluster up`` beside a run, with a cache of its own: it is nobody's cluster."""

    def __init__(self, folder: Path) -> None:
        cache = folder / "cache" / servers.cache_folder().name
        cache.mkdir(parents=True)
        (cache / "servers").symlink_to(servers.cache_folder() / "servers")
        self._environment = {**os.environ, "XDG_CACHE_HOME": str(cache.parent)}
        self.pid = 0

    def start(self) -> None:
        """Begin to bring it up, if that was not done."""
        if not self.pid:
            self._up = self._harness("up", "--nodes", "1", "--slots-per-node", "1")
            self.pid = self._up.pid

    def end(self) -> None:
        """Wait until it is up, and take it down."""
        assert self._up.wait() == 0
        assert self._harness("down").wait() == 0

    def _harness(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "harness", "cluster", *words]
        return subprocess.Popen(command, env=self._environment)


class Faulty:
    """A run with a fault a step but the first, and why steps were measured again."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        faults = [[FAULTS[step]] if step in FAULTS else [] for step in range(KILLED + 1)]
        plan = [{"executors": 1, "workers": 2, "faults": of_step} for of_step in faults]
        self._lost_until_s = 0.0
        self.beside = ClusterBeside(folder)
        keep = MetricRows.add

        def keep_or_lose(rows: MetricRows, body: str, ns_per_unit: int) -> list[str]:
            return [] if time.monotonic() < self._lost_until_s else keep(rows, body, ns_per_unit)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MetricRows, "add", keep_or_lose)
            self.run: Run = carry_out({**SETTINGS, "steps": {"plan": plan}}, cluster, folder, self._watch)

    def _watch(self, now: Progress) -> None:
        if now.step == LOST and now.phase == "measure" and not self._lost_until_s:
            self._lost_until_s = time.monotonic() + LOST_S
        if now.step == BESIDE and now.phase == "burn-in":
            self.beside.start()  # four servers take longer than the burn-in
        if now.step == BESIDE and now.phase == "done":
            self.beside.end()

    def fault(self, step: int) -> FaultMade:
        """The fault that was made in a step."""
        (made,) = self.run.interval(step).faults
        return made


@pytest.fixture(scope="module")
def faulty(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    return Faulty(cluster, tmp_path_factory.mktemp("faulty"))


def test_each_step_is_measured_once_with_its_fault_at_its_second(faulty: Faulty) -> None:
    assert faulty.run.finished_steps == (PLAIN, GENERATOR, LOST, SKEWED, KILLED)
    plain = set(faulty.run.finished_steps) - set(FAULTS)
    for step in plain:
        assert faulty.run.interval(step).faults == ()
        assert faulty.run.interval(step).evidence
    for step, asked in FAULTS.items():
        interval, made = faulty.run.interval(step), faulty.fault(step)
        assert not interval.evidence
        assert made.problem == ""
        assert made.at_ns is not None
        after_s = (made.at_ns - interval.start_ns) / 1e9
        assert float(str(asked["at_s"])) <= after_s
        assert made.at_ns < interval.end_ns
    record = read_raw(faulty.run.path)
    found = run_checks(record, {s.index: Samples(values=100) for s in record.steps})
    told = [r.detail for r in found if r.check == "faults"]
    assert {told[step] for step in plain} == {""}
    assert all(told[step].endswith("; no evidence for models") for step in FAULTS)
    assert "stop generator (process " in told[GENERATOR]


def test_a_generator_that_stands_still_makes_the_step_invalid_with_the_number(
    faulty: Faulty, figure: Callable[[str], None]
) -> None:
    made, found = faulty.fault(GENERATOR), faulty.run.quality(GENERATOR).generator
    assert made.at_ns is not None
    assert made.until_ns is not None
    assert found is not None
    assert not found.ok
    latest_ms = float(found.detail.rsplit("all within ", 1)[1].split()[0])
    # a message may be due up to 25 ms after it stood still, and what goes on has to be woken
    stood_ms = (made.until_ns - made.at_ns) / 1e6
    assert latest_ms >= stood_ms - 1000 / RATE_TPS - 20
    figure(f"{stood_ms:.0f} ms: {latest_ms:.0f} ms late")


def test_a_cluster_that_comes_up_beside_a_run_makes_its_step_invalid(
    faulty: Faulty, figure: Callable[[str], None]
) -> None:
    """``harness cluster up``, which no lock refuses, as it measures nothing."""
    steps = read_raw(faulty.run.path).steps
    told = {s.index: STEP_CHECKS["alone"](s, Samples(values=100)) for s in steps}
    said = f"another cluster came up on this machine in the interval (process {faulty.beside.pid})"
    assert told[BESIDE] == ("invalid", said)
    assert {status for step, (status, _) in told.items() if step != BESIDE} == {"valid"}
    figure(f"one of {len(told)} steps: {said.partition(' (')[0]}")


def test_metrics_that_a_store_took_and_lost_are_named(faulty: Faulty, figure: Callable[[str], None]) -> None:
    """Each task lacks the buckets of that time, but for one that may have been on its way at either end."""
    record = read_raw(faulty.run.path).steps[LOST]
    found = untiled(record)
    own = {c.name for c in record.plan.start.query_plan.components}
    assert own <= {line.split(":")[0] for line in found}
    gaps_s = [float(gap) for line in found for gap in re.findall(r"no bucket of 1 s for ([\d.]+) s", line)]
    assert len(gaps_s) == len(found)
    assert min(gaps_s) >= LOST_S - 1
    status, detail = STEP_CHECKS["metrics"](record, Samples(values=100, untiled=found))
    assert status == "invalid"
    assert found[0] in detail
    figure(f"{LOST_S:g} s lost by their store: {len(found)} tasks, such as {found[0]}")


@pytest.mark.skipif(bool(no_clocks), reason=no_clocks)
def test_a_worker_whose_time_of_day_is_moved_is_named_and_its_latency_is_not(
    faulty: Faulty, figure: Callable[[str], None]
) -> None:
    """Buckets are named by the time of day of their worker, times of messages by its monotonic clock.

    Had one of a message's times been taken 6 s early, they would not be in the order of its way. Had
    something waited by the time of day that was set back, the first message since would have waited for 6 s.
    """
    made, record = faulty.fault(SKEWED), read_raw(faulty.run.path).steps[SKEWED]
    assert made.until_ns is not None
    node = {task: e.worker.node for task, e in record.plan.start.by_task.items()}
    moved = {task for task in record.reporting_tasks if node[task] == "node-2"}
    assert 0 < len(moved) < len(record.reporting_tasks)
    found = untiled(record)
    assert {int(line.split(":")[1]) for line in found} == moved
    status, detail = STEP_CHECKS["metrics"](record, Samples(values=100, untiled=found))
    assert status == "invalid"
    assert found[0] in detail
    assert record.quality.plan_unchanged.ok, record.quality.plan_unchanged.detail
    assert record.quality.ledger.lost == 0, record.quality.ledger
    latest_ms = {}
    for step in (PLAIN, SKEWED):
        rows = read_table(faulty.run.step_path(step) / "latency.parquet")
        rows = rows.filter(rows["in_interval"])
        latest_ms[step] = pc.max(rows["scheduled_ms"]).as_py()
        for row in rows.select(["scheduled_ns", "entered_ns", "left_ns", "hops"]).to_pylist():
            way = [t for hop in row["hops"] for t in (hop["received_ns"], hop["emitted_ns"])]
            times = [row["scheduled_ns"], row["entered_ns"], *way, row["left_ns"]]
            assert times == sorted(times), row
    assert latest_ms[SKEWED] < BEHIND_S * 1000 - 1000 / RATE_TPS
    figure(
        f"node-2 by -{BEHIND_S} s: {len(found)} tasks, such as {found[0]};"
        f" longest latency {latest_ms[SKEWED]:.0f} ms, {latest_ms[PLAIN]:.0f} without"
    )


def test_a_worker_that_is_killed_in_the_last_second_is_named(
    faulty: Faulty, figure: Callable[[str], None]
) -> None:
    interval, made = faulty.run.interval(KILLED), faulty.fault(KILLED)
    assert made.at_ns is not None
    before_s = (interval.end_ns - made.at_ns) / 1e9
    assert 0 < before_s <= 0.7
    found = faulty.run.quality(KILLED).plan_unchanged
    assert not found.ok
    address = next(n for n in faulty.run.plan(KILLED).start.nodes if n.name == "node-2").address
    assert f"{address}:" in found.detail
    figure(f"{before_s:.2f} s before the end: {found.detail}")
    assert pc.max(read_table(faulty.run.step_path(KILLED) / "latency.parquet")["scheduled_ms"]).as_py() > 0
