"""The machine's lock, held by real processes; and what runs get to know of clusters that come up."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from harness_command import harness, serving

from harness.errors import UsageError
from harness.machine import machine_lock
from harness.machine.machine_lock import MachineLock, came_up, coming_up
from harness.machine.readings import ThisMachine

HOLDER = """
import sys, time
from harness.machine.machine_lock import MachineLock

with MachineLock("quick", wait=False, say=print) as lock:
    lock.measures("runs/quick/20260102T030405Z")
    print("held", flush=True)
    sys.stdin.readline()
    lock.release()
    print("released", flush=True)
    sys.stdin.readline()
"""
HANDED_ON = """
import os, sys
from harness.machine.machine_lock import MachineLock

lock = MachineLock("quick", wait=False, say=print)
lock.hand_on()
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(machine_lock.PLACE, str(tmp_path))
    return tmp_path


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started = []

    def begin(*program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


def taken(wait: bool = False, say: Callable[[str], None] = print) -> MachineLock:
    return MachineLock("quick-b", wait=wait, say=say)


@pytest.mark.parametrize("program", [(HOLDER,), (HANDED_ON, HOLDER)], ids=["one process", "handed on"])
def test_a_second_run_is_refused_by_name_until_the_first_has_measured(
    start: Callable[..., subprocess.Popen[str]], program: tuple[str, ...], figure: Callable[[str], None]
) -> None:
    first = start(*program)
    with pytest.raises(UsageError) as refused:
        taken()
    assert refused.value.exit_status == 2
    figure(f"a second one: exit status {refused.value.exit_status}")
    says = f"process {first.pid} is measuring runs/quick/20260102T030405Z on this machine"
    assert refused.value.message == says
    assert "--wait" in refused.value.hint
    assert told(first) == "released\n"
    with taken():
        pass
    assert first.poll() is None


def test_who_waits_says_so_and_measures_next(
    start: Callable[..., subprocess.Popen[str]], figure: Callable[[str], None]
) -> None:
    first = start(HOLDER)
    said: list[str] = []
    waiting, has_it = threading.Event(), threading.Event()

    def say(line: str) -> None:
        said.append(line)
        waiting.set()

    def queue() -> None:
        with taken(wait=True, say=say):
            has_it.set()

    thread = threading.Thread(target=queue)
    thread.start()
    assert waiting.wait(60)
    assert not has_it.is_set()
    assert told(first) == "released\n"
    assert has_it.wait(60)
    thread.join()
    line, turn = said
    figure(f"one that waits: {len(said) - 1} line, then the lock")
    held = f"process {first.pid} is measuring runs/quick/20260102T030405Z on this machine"
    assert (line, turn) == (f"{held}: {machine_lock.WAITING}", machine_lock.ITS_TURN)


@pytest.mark.deep
def test_what_measures_nothing_takes_no_lock(tmp_path: Path) -> None:
    """A simulated run with its report, predict, report and serve, while another run holds the lock."""
    short = (
        "cluster.kind=simulator",
        "models=[no-change]",
        "measure.burn_in.most_s=6",
        "measure.interval.most_s=10",
    )
    least = ("measure.burn_in.least_s=4", "measure.interval.least_s=10")
    overrides = [part for key in (*short, *least) for part in ("--set", key)]
    with taken():
        status, _, said = harness("run", "quick", "--runs", str(tmp_path / "runs"), *overrides)
        assert status == 3, said  # played, so never valid
        (run,) = (tmp_path / "runs" / "quick").iterdir()
        assert harness("predict", str(run), "--model", "no-change")[0] == 0
        assert harness("report", str(run))[0] == 3
        with serving("--runs", str(tmp_path / "runs")) as url, urlopen(url, timeout=60) as answer:
            assert answer.status == 200
        with pytest.raises(UsageError, match="is measuring"):
            taken()


def test_a_run_that_is_killed_holds_nobody_up(start: Callable[..., subprocess.Popen[str]]) -> None:
    first = start(HOLDER)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    with taken():
        pass


def test_every_user_can_open_it_whatever_the_umask(place: Path) -> None:
    before = os.umask(0o077)
    try:
        with taken():
            pass
        with coming_up():
            pass
    finally:
        os.umask(before)
    for name in (machine_lock.LOCK, machine_lock.CLUSTERS):
        assert stat.S_IMODE((place / name).stat().st_mode) == 0o666


def test_a_link_in_its_place_is_not_followed(place: Path, tmp_path: Path) -> None:
    (place / machine_lock.LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="cannot be opened"):
        taken()
    assert not (tmp_path / "elsewhere").exists()


def test_a_cluster_that_comes_up_is_seen_in_each_interval_that_it_came_up_in(
    figure: Callable[[str], None],
) -> None:
    before = time.monotonic_ns()
    assert came_up(0, before) == []
    with coming_up():
        during = time.monotonic_ns()
        assert came_up(before, during) == [os.getpid()]  # it may still be starting
    after = time.monotonic_ns()
    intervals = ((0, before), (before, during), (during, after), (after, after + 10**9))
    found = [ThisMachine().came_up(*interval) for interval in intervals]
    assert found == [[], [os.getpid()], [os.getpid()], []]
    figure(f"seen in {sum(map(bool, found))} of {len(found)} intervals")


def test_what_is_no_cluster_is_left_out(place: Path) -> None:
    """Anybody may write the file."""
    rows = [[7, 100, 200], [8, 150, 0], ["x", 1, 2], [1], {"pid": 3}, None, [9, 100, True]]
    boot = machine_lock.BOOT.read_text().strip()
    (place / machine_lock.CLUSTERS).write_text(json.dumps({"boot": boot, "clusters": rows}))
    assert came_up(0, 300) == [7, 8]
    most_ns = round(machine_lock.COMING_UP_MOST_S * 1e9)
    assert came_up(150 + most_ns, 10**18) == [8]
    assert came_up(151 + most_ns, 10**18) == []
    (place / machine_lock.CLUSTERS).write_text(json.dumps({"boot": "another", "clusters": rows}))
    assert came_up(0, 300) == []  # the monotonic clock of another boot says nothing of this one
    for broken in ("", "{", "7", "null", '{"boot": "' + boot + '", "clusters": 7}'):
        (place / machine_lock.CLUSTERS).write_text(broken)
        assert came_up(0, 300) == []
        (place / machine_lock.LOCK).write_text(broken)
        with taken():
            pass
