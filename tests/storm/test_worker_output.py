"""Which workers cannot start, and why: on files as the slots' starts leave them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from harness.errors import ClusterError
from harness.storm.worker_output import DEAD_S, VAIN_STARTS, WorkerOutput, starts

PORT = 6701
HEAP = "Error occurred during initialization of VM\nInitial heap size set to a larger value"


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def start(logs: Path, process: int, output: str = "", time: str = "2026-01-02 03:04:05") -> None:
    with (logs / f"worker-{PORT}.log").open("a") as log:
        print(f"worker started {time} process {process}", *output.splitlines(), sep="\n", file=log)


def output(logs: Path) -> WorkerOutput:
    return WorkerOutput(logs, {6700: "node-1", PORT: "node-1"})


def test_starts_are_told_from_what_is_printed() -> None:
    begun = "worker started 2026-01-02 03:04"
    text = f"noise\n{begun}:05 process 7\n{begun}:06 process 8\na\nb\n"
    assert [(s.process, s.output) for s in starts(text)] == [(7, ()), (8, ("a", "b"))]


def test_a_worker_that_died_and_is_not_started_again_is_an_error_with_its_cause(
    tmp_path: Path, dead: int
) -> None:
    workers = output(tmp_path)
    start(tmp_path, dead, HEAP)
    workers.check([6700, PORT], 100.0)
    workers.check([6700, PORT], 99.9 + DEAD_S)
    workers.check([6700], 100.0 + DEAD_S)  # the plan has no use for that slot
    with pytest.raises(ClusterError) as e:
        workers.check([6700, PORT], 100.0 + DEAD_S)
    message = "the worker on node-1:6701 died at its start: Initial heap size set to a larger value"
    assert e.value.message == message
    assert e.value.log == str(tmp_path / "worker-6701.log")
    assert e.value.excerpt == HEAP


def test_a_worker_that_dies_again_and_again_is_an_error_however_soon_it_is_started(
    tmp_path: Path, dead: int
) -> None:
    workers = output(tmp_path)
    for _ in range(VAIN_STARTS):
        workers.check([PORT], 0.0)
        start(tmp_path, dead)
    with pytest.raises(ClusterError, match="died at its start"):
        workers.check([PORT], 0.0)


def test_earlier_deaths_and_a_live_worker_are_no_error(tmp_path: Path, dead: int) -> None:
    workers = output(tmp_path)
    for _ in range(VAIN_STARTS):
        start(tmp_path, dead)
    workers.mark()
    workers.check([PORT], 0.0)
    workers.check([PORT], 1000.0)
    start(tmp_path, dead)
    workers.check([PORT], 1000.0)
    start(tmp_path, os.getpid())
    workers.check([PORT], 2000.0)


def test_a_worker_that_got_as_far_as_its_own_log_is_explained_by_that(tmp_path: Path, dead: int) -> None:
    workers = output(tmp_path)
    for second in range(VAIN_STARTS):
        start(tmp_path, dead, time=f"2026-01-02 03:04:1{second}")
    log = tmp_path / "workers" / "topology-1" / str(PORT) / "worker.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "2026-01-02 03:04:09.000 ERROR o.a.s.u.Utils Halting process: an earlier worker\n"
        "2026-01-02 03:04:12.500 ERROR o.a.s.d.w.Worker on initialization\n"
        "java.net.BindException: Address already in use\n"
    )
    with pytest.raises(ClusterError) as e:
        workers.check([PORT], 0.0)
    assert e.value.message.endswith(": java.net.BindException: Address already in use")
    assert e.value.log == str(log)
    assert "earlier" not in e.value.excerpt


def test_the_java_of_workers_notes_each_start_and_keeps_the_output(tmp_path: Path) -> None:
    script = files("harness") / "assets" / "servers" / "storm" / "java-of-workers.sh"
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\necho "got $*"\necho failed >&2\nexit 3\n')
    java.chmod(0o755)
    words = ["-cp", "x", "org.apache.storm.LogWriter", "java", f"-Dworker.port={PORT}", "Worker"]
    environment = {**os.environ, "HARNESS_JAVA": str(java), "HARNESS_WORKER_OUTPUT": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run(["sh", str(script), *words], env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")
    found = starts((tmp_path / f"worker-{PORT}.log").read_text())
    assert [s.output for s in found] == [(f"got -Dworker.port={PORT} Worker", "failed")] * 2


def test_only_workers_of_a_node_whose_clock_may_be_moved_are_started_with_what_moves_it(
    tmp_path: Path,
) -> None:
    """The library is an empty file here: the loader says so, and goes on."""
    script = files("harness") / "assets" / "servers" / "storm" / "java-of-workers.sh"
    java, clock = tmp_path / "java", tmp_path / "clock"
    java.write_text(
        '#!/bin/sh\necho "preloaded ${LD_PRELOAD:-nothing}, moved by ${FAKETIME_TIMESTAMP_FILE:-nothing}"\n'
    )
    java.chmod(0o755)
    given = {"HARNESS_JAVA": str(java), "HARNESS_WORKER_OUTPUT": str(tmp_path)}
    environment = {**os.environ, **given, "HARNESS_WORKER_CLOCK": str(clock)}

    def said(*words: str) -> str:
        done = subprocess.run(
            ["sh", str(script), *words], env=environment, capture_output=True, text=True, check=True
        )
        log = tmp_path / f"worker-{PORT}.log"
        lines = (done.stdout + (log.read_text() if log.exists() else "")).splitlines()
        return [line for line in lines if line.startswith("preloaded")][-1]

    assert said(f"-Dworker.port={PORT}") == "preloaded nothing, moved by nothing"
    clock.mkdir()
    (clock / "moved_s").touch()
    moved = f"preloaded {clock}/libfaketimeMT.so.1, moved by {clock}/moved_s"
    assert said(f"-Dworker.port={PORT}") == moved
    (tmp_path / f"worker-{PORT}.log").unlink()
    assert said("-version") == "preloaded nothing, moved by nothing"
