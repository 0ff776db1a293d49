"""``harness run`` as a user types it: the quick experiment, stopped in three ways and taken up again.

Ctrl-C in the first step, ``kill -9`` in the second, SIGTERM while the servers start; then it runs to its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from harness.app.homes import PREFIX
from harness.errors import UsageError
from harness.machine import machine_lock, sandbox
from harness.machine.machine_lock import MachineLock
from harness.machine.servers import ServerHomes

pytestmark = pytest.mark.system

WAIT_S = 420.0
MODELS = ("jackson", "no-change")
NOT_LONG = (
    *(
        word
        for key, value in {
            "attempts": 1,
            "burn_in.drift_pct": 90,
            "burn_in.least_s": 6,
            "burn_in.most_s": 6,
            "interval.precision_pct": 50,
            "interval.least_s": 10,
            "interval.most_s": 10,
            "interval.looks": 1,
        }.items()
        for word in ("--set", f"measure.{key}={value}")
    ),
    "--set",
    f"models=[{', '.join(MODELS)}]",
)
"""What is measured here is looked at for what is there, not for how steady and precise it is."""
LOAD_RELATED = {"steady", "burn-in", "precision", "generator", "metrics", "stolen"}
"""Checks that a machine which does other work at the same time may spoil: in ten seconds it may give a worker
so little time that a task reports nothing. Lines that were lost are no such thing."""
IN_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # what is typed there is for this process group
os.execv(sys.argv[1], sys.argv[1:])
"""


def harness(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "harness", *arguments]


def digest(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


class Started:
    """A command at the terminal of its own that somebody typed it in."""

    def __init__(self, log: Path, environment: dict[str, str], *arguments: str) -> None:
        self.log = log
        self.keyboard, its_end = os.openpty()
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", IN_ITS_TERMINAL, *harness(*arguments)],
                stdin=its_end,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        os.close(its_end)

    def said(self) -> str:
        return self.log.read_text()

    def until(self, done: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not done(self.said()):
            assert self.process.poll() is None, self.said()[-3000:]
            assert time.monotonic() < deadline, self.said()[-3000:]
            time.sleep(0.2)

    def end(self, tell: Callable[[], object]) -> int:
        """Tell it to stop; return its exit status once nothing is left of it and of its network."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        networks = {network for p in family if (network := network_of(p.pid))} - {network_of(os.getpid())}
        assert len(family) > 5
        assert len(networks) == 1
        tell()
        status = self.process.wait(WAIT_S)
        _, alive = psutil.wait_procs(family, timeout=30)
        assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
        assert not [p for p in psutil.pids() if network_of(p) in networks]
        return status


@contextmanager
def started(log: Path, environment: dict[str, str], *arguments: str) -> Iterator[Started]:
    command = Started(log, environment, *arguments)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.wait()
        os.close(command.keyboard)


def network_of(pid: int) -> str:
    with suppress(OSError):  # it ended
        return os.readlink(f"/proc/{pid}/ns/net")
    return ""


def how_to_go_on(run: Path, finished: int) -> str:
    kept = f"{finished} of the run's 2 steps are finished and kept"
    return f"{kept}; go on with: harness run --resume {os.path.relpath(run)}"


@pytest.mark.timeout(2700)
def test_quick_stopped_in_three_ways_and_resumed(server_homes: ServerHomes, tmp_path: Path) -> None:
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    # The tests live in a sandbox; the command, as its user's would, makes one of its own.
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK}
    environment["TMPDIR"] = str(tmp_path / "temporary")
    (tmp_path / "temporary").mkdir()

    def left_over() -> list[Path]:
        return list((tmp_path / "temporary").glob(f"{PREFIX}*"))

    begun = ("run", "quick", *NOT_LONG, "--runs", str(tmp_path))
    with started(tmp_path / "ctrl-c.log", environment, *begun) as command:
        command.until(lambda said: "burn-in" in said)
        assert command.end(lambda: os.write(command.keyboard, b"\x03")) == 1
        said = command.said()
    (run,) = (tmp_path / "quick").iterdir()
    assert "step 1/2" in said
    assert "told to stop by SIGINT, ending the servers" in said
    assert said.splitlines()[-2:] == ["stopped by SIGINT", how_to_go_on(run, 0)]
    assert "Traceback" not in said
    assert "told to stop by SIGINT" in (run / "log.txt").read_text()
    assert list((run / "steps").iterdir()) == []
    assert left_over() == []

    resumed = ("run", "--resume", str(run), "--json")
    with started(tmp_path / "kill.log", environment, *resumed) as command:
        command.until(lambda said: "burn-in" in said.partition("step 2/2")[2])
        assert command.end(command.process.kill) == -signal.SIGKILL
    assert [p.name for p in (run / "steps").iterdir()] == ["00"]
    before = digest(run / "steps/00")

    with started(tmp_path / "term.log", environment, *resumed) as command:
        command.until(lambda said: "waiting for nimbus" in said)
        assert command.end(command.process.terminate) == 1
        said = command.said()
    *_, stopped, how, last = said.splitlines()
    assert (stopped, how) == ("stopped by SIGTERM", how_to_go_on(run, 1))
    assert json.loads(last) == {"exit_status": 1, "status": "stopped"}
    assert "Traceback" not in said
    assert digest(run / "steps/00") == before
    assert left_over() == []  # nor what the run that was killed left

    done = subprocess.run(
        harness(*resumed), capture_output=True, text=True, env=environment, timeout=900, check=False
    )
    # Whether a busy machine measures validly is not this test's question; that it says so is.
    assert done.returncode in (0, 3, 4), done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["verdict"] == {0: "valid", 3: "invalid", 4: "unknown"}[done.returncode]
    assert digest(run / "steps/00") == before
    interval = json.loads((run / "steps/01/interval.json").read_text())
    assert interval["submission"] == "resumed"
    assert len(json.loads((run / "environment.json").read_text())["resumed"]) == 3
    for step in ("00", "01"):
        quality = json.loads((run / f"steps/{step}/quality.json").read_text())
        assert quality["plan_as_asked"]["ok"]
        assert quality["plan_unchanged"]["ok"]
        assert quality["ledger"]["balanced"], quality["ledger"]["reason"]
    verdict = json.loads((run / "verdict.json").read_text())
    spoilt = {c["check"]: c["detail"] for c in verdict["checks"] if c["status"] != "valid"}
    assert spoilt.keys() <= LOAD_RELATED, spoilt
    assert "lost" not in spoilt.get("metrics", ""), spoilt
    for name in ("report.html", "predictions.parquet", "errors.parquet", "summary.json", "verdict.json"):
        assert (run / name).stat().st_size > 0

    # With no cluster and on a copy, predict and report give the same numbers.
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run), str(copy)], check=True)
    same = [word for model in MODELS for word in ("--model", model)]
    for words, status in ((["predict", str(copy), *same], 0), (["report", str(copy)], done.returncode)):
        again = subprocess.run(harness(*words), capture_output=True, text=True, timeout=900, check=False)
        assert again.returncode == status, again.stderr[-3000:]
    assert json.loads((copy / "summary.json").read_text()) == json.loads((run / "summary.json").read_text())
    assert json.loads((copy / "verdict.json").read_text()) == json.loads((run / "verdict.json").read_text())


@pytest.mark.timeout(900)
def test_a_second_run_is_refused_or_waits_and_then_has_the_machine(
    server_homes: ServerHomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process holds the lock as a run would; the command enters a sandbox with it."""
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv(machine_lock.PLACE, str(tmp_path / "locks"))
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK}
    asked = ("run", "quick", *NOT_LONG, "--runs", str(tmp_path / "runs"))
    with MachineLock("runs/another", wait=False, say=print) as lock:
        held = f"process {os.getpid()} is measuring runs/another on this machine"
        done = subprocess.run(
            harness(*asked), capture_output=True, text=True, env=environment, timeout=600, check=False
        )
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(f"error: {held}: ")
        assert not (tmp_path / "runs").exists()

        with started(tmp_path / "waits.log", environment, *asked, "--wait") as command:
            command.until(lambda said: f"{held}: waiting until it has ended" in said)
            assert not (tmp_path / "runs").exists()
            lock.release()
            command.until(
                lambda said: "waiting for nimbus" in said and (tmp_path / "runs" / "quick").is_dir()
            )
            (run,) = (tmp_path / "runs" / "quick").iterdir()
            with pytest.raises(UsageError) as refused:
                MachineLock("a third", wait=False, say=print)
            says = f"process {command.process.pid} is measuring {run} on this machine"
            assert refused.value.message == says
            assert command.end(command.process.terminate) == 1
    with MachineLock("what comes next", wait=False, say=print):
        pass
