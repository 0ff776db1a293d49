"""Runs that are killed again and again, and runs of many steps: on the simulator, whose steps are real files.

What is expected is the same run without any kill, and the process as it was after its first fifty steps.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from harness.app.simulated.campaign import carry_out
from harness.experiments.config import Experiment
from harness.experiments.contracts import Progress
from harness.experiments.loading import files, load
from harness.machine.environment import describe
from harness.runs import Run, read_table

SCRIPT = Path(__file__).parents[1] / "support" / "played_run.py"
KILLS = 20
STEPS = 200
SETTLED = 50
"""Steps after which a process has loaded what it ever will."""
SIMULATED = "cluster.kind=simulator"


def new_run(folder: Path, experiment: Experiment) -> Run:
    return Run.create(folder, experiment.name, files(experiment), describe("simulator", {}))


def started(run: Run) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(run.path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill_in(process: subprocess.Popen[str], run: Run, most_s: float) -> None:
    """Kill -9 after that time, or as soon as one more step is there."""
    before, limit = len(run.finished_steps), time.monotonic() + most_s
    while time.monotonic() < limit and len(run.finished_steps) == before and process.poll() is None:
        time.sleep(0.002)
    assert process.poll() is None, "it ended before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL


def test_a_run_of_three_steps_that_is_killed_twenty_times(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """Anywhere in a step, and as soon as one is there; what remains is as without any kill."""
    experiment = load("quick", [SIMULATED, "steps.plan=[{executors: 1}, {executors: 2}, {executors: 4}]"])
    whole = new_run(tmp_path / "whole", experiment)
    process = started(whole)
    began = time.monotonic()
    assert process.wait(600) == 0
    a_step_s = (time.monotonic() - began) / 3
    run, draw, kept = new_run(tmp_path / "killed", experiment), random.Random(7), []
    for kill in range(KILLS):
        process, finished = started(run), len(run.finished_steps)
        whole_step = kill in (KILLS // 3, 2 * KILLS // 3) and finished < 2
        kill_in(process, run, 600.0 if whole_step else draw.uniform(0.0, 0.3) * a_step_s)
        kept.append(len(run.finished_steps))
    assert kept == sorted(kept)
    assert {0, 1, 2} <= set(kept)
    assert started(run).wait(600) == 0
    assert run.finished_steps == whole.finished_steps == (0, 1, 2)
    for step in run.finished_steps:
        tables = [read_table(r.step_path(step) / "latency.parquet") for r in (run, whole)]
        assert tables[0].equals(tables[1])
        assert run.quality(step) == whole.quality(step)
    assert list(run.path.rglob("*.partial")) == []
    counts = ", ".join(f"{kept.count(n)} with {n}" for n in range(3))
    figure(f"{KILLS} kills ({counts} steps finished), equal tables")


def test_two_hundred_steps_leave_memory_descriptors_and_threads_as_they_were(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    experiment = load(
        "quick",
        [
            SIMULATED,
            "measure.bucket_s=1",
            "measure.burn_in={least_s: 1, most_s: 1}",
            "measure.interval={least_s: 5, most_s: 5, looks: 1}",
            "workload.rate_tps=40",
            "steps.plan=[{executors: 1}, {executors: 2}]",
            f"steps.repeats={STEPS // 2}",
        ],
    )
    process, seen = psutil.Process(), []

    def watch(now: Progress) -> None:
        if now.phase == "done":
            seen.append((process.memory_info().rss / 2**20, process.num_fds(), process.num_threads()))

    run = new_run(tmp_path, experiment)
    carry_out(experiment, run, lambda _: None, watch)
    assert len(run.finished_steps) == STEPS
    first, last = (np.array(seen)[part] for part in (slice(SETTLED - 10, SETTLED), slice(-10, None)))
    (mb_0, files_0, threads_0), (mb_1, files_1, threads_1) = first.max(axis=0), last.min(axis=0)
    assert files_1 <= files_0
    assert threads_1 <= threads_0
    assert mb_1 <= 1.1 * mb_0
    figure(
        f"{mb_0:.0f} MiB after {SETTLED} steps, {mb_1:.0f} after {STEPS}; files {files_0:.0f}, {files_1:.0f};"
        f" threads {threads_0:.0f}, {threads_1:.0f}",
    )
