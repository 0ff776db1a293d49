"""``harness run`` of three steps on the real cluster, killed with -9 and resumed twenty times.

The first kill and one in the middle come as soon as one more step is there. All others come at random times
before that, most of them while servers start. What a run's private process tree holds is told by its
namespace.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from short_experiments import short_experiment, short_measure

from harness.machine import sandbox, servers
from harness.runs import Run, read_table

KILLS = 20
AFTER_A_STEP = (0, KILLS // 2)
STEPS = 3
WAIT_S = 600.0
LAST_STEP_IS_MEASURED = re.compile(rf"step {STEPS}/{STEPS} \S+ measure")
"""From then on the run may end by itself."""


def asked() -> dict[str, object]:
    return {
        **short_experiment(
            "killed-often", {**short_measure(2, 5), "attempts": 1}, tasks=2, ackers=1, slots_per_node=1
        ),
        "steps": {"plan": [{"executors": 1}, {"executors": 2}, {"executors": 1, "rate_tps": 20}]},
    }


class Command:
    """``harness run`` in a process and a sandbox of its own."""

    def __init__(self, folder: Path, number: int, *arguments: str) -> None:
        self._log = folder / f"{number:02d}.log"
        outside = {k: v for k, v in os.environ.items() if k != sandbox.MARK}
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "harness", "run", *arguments, "--wait", "--json"],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**outside, "TMPDIR": str(folder)},
            )
        self.began_s = time.monotonic()

    @property
    def said(self) -> str:
        """All that it printed."""
        return self._log.read_text()

    def until(self, done: Callable[[], bool], most_s: float) -> None:
        """Wait for something that comes before it ends by itself, or for so long."""
        while time.monotonic() - self.began_s < most_s and not done():
            assert self.process.poll() is None, self.said
            if LAST_STEP_IS_MEASURED.search(self.said):
                return
            time.sleep(0.02)

    def kill(self) -> list[str]:
        """Kill it; return the names of processes of its private trees that outlive it."""
        trees = {_tree(p.pid) for p in psutil.Process(self.process.pid).children(recursive=True)}
        trees -= {_tree(os.getpid()), ""}
        assert self.process.poll() is None, self.said
        self.process.kill()
        assert self.process.wait(WAIT_S) == -signal.SIGKILL
        deadline = time.monotonic() + WAIT_S
        while (left := _living(trees)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left


def _tree(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:  # it ended
        return ""


def _living(trees: set[str]) -> list[str]:
    return [p.info["name"] for p in psutil.process_iter(["name"]) if _tree(p.pid) in trees]


def digests(run: Run) -> dict[str, str]:
    """SHA-256 of each file of the steps that are finished."""
    return {
        str(path.relative_to(run.path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for step in run.finished_steps
        for path in sorted(run.step_path(step).iterdir())
    }


def test_a_real_run_of_three_steps_that_is_killed_twenty_times(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    servers.install()
    file, runs = tmp_path / "killed-often.yaml", tmp_path / "runs"
    file.write_text(json.dumps(asked()))
    arguments = [str(file), "--runs", str(runs)]
    draw, kept, known, a_step_s = random.Random(7), [], {}, WAIT_S
    for kill in range(KILLS):
        command = Command(tmp_path, kill, *arguments)
        before = kept[-1] if kept else 0

        def one_more(before: int = before) -> bool:
            return len(list(runs.glob("*/*/steps/[0-9][0-9]"))) > before

        command.until(one_more, WAIT_S if kill in AFTER_A_STEP else a_step_s * draw.random() ** 3)
        took_s = time.monotonic() - command.began_s
        assert command.kill() == []
        (path,) = runs.glob("*/*")
        run = Run(path)
        if not kept:
            a_step_s, arguments = took_s, ["--resume", str(path)]
        kept.append(len(run.finished_steps))
        assert known.items() <= digests(run).items()
        known = digests(run)
    assert kept == sorted(kept)
    assert {1, 2} <= set(kept)
    last = Command(tmp_path, KILLS, *arguments)
    assert last.process.wait(WAIT_S) in (0, 3, 4), last.said  # so short an interval proves nothing
    assert run.finished_steps == tuple(range(STEPS))
    assert known.items() <= digests(run).items()
    for step in run.finished_steps:
        for table in ("latency.parquet", "metrics.parquet"):
            assert read_table(run.step_path(step) / table).num_rows > 0
        assert run.quality(step).ledger.balanced
    checks = json.loads((run.path / "verdict.json").read_text())["checks"]
    whole = [
        check for check in checks if check["check"] in ("seal", "agreement", "one-experiment", "all-steps")
    ]
    assert {check["status"] for check in whole} == {"valid"}, whole
    assert list(run.path.rglob("*.partial")) == []
    counts = ", ".join(f"{kept.count(n)} with {n}" for n in sorted(set(kept)))
    figure(f"{KILLS} kills ({counts} steps finished), {len(known)} files as they were")
