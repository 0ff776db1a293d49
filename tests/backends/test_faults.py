"""Faults on processes of this machine, found as a cluster's are: by their command lines."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from waiting import until

from harness.backends.faults import WORKER, LocalFaults, done_to
from harness.errors import ClusterError
from harness.experiments.step_faults import Fault
from harness.plans import WorkerNode

NODES = tuple(
    WorkerNode(name=f"node-{i + 1}", address=f"127.0.0.{i + 2}", host="h", cores=2, slots=slots)
    for i, slots in enumerate(((6700, 6701), (6800, 6801)))
)


@contextmanager
def running(hosts: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with these options in its command line, like a Java program of a cluster."""
    command = [
        sys.executable,
        "-c",
        "import signal; signal.pause()",
        f"-Djdk.net.hosts.file={hosts}",
        *options,
    ]
    process = subprocess.Popen(command)
    try:
        # exec makes its pipe known before its command line
        until(lambda: str(command[-1]) in psutil.Process(process.pid).cmdline(), "its command line")
        yield process
    finally:
        process.kill()
        process.wait()


def worker(port: int) -> tuple[str, ...]:
    return f"-Dworker.port={port}", "-Dlogfile.name=worker.log", WORKER


def test_each_part_is_found_and_nothing_of_another_cluster(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(running(hosts, *options)).pid
            for name, hosts, options in (
                ("other's", other, ("-Ddaemon.name=kafka",)),
                ("broker", mine, ("-Ddaemon.name=kafka",)),
                ("supervisor", mine, ("-Ddaemon.name=node-2",)),
                ("second", mine, worker(6801)),
                ("first", mine, worker(6800)),
                ("log writer", mine, ("-Dworker.port=6800", WORKER)),
            )
        }
        faults = LocalFaults(mine, NODES, {"generator": 17})
        assert faults.find(Fault(at_s=0, stop="broker", for_s=1)) == started["broker"]
        assert faults.find(Fault(at_s=0, stop="supervisor", node="node-2", for_s=1)) == started["supervisor"]
        assert faults.find(Fault(at_s=0, kill="worker", node="node-2")) == started["first"]
        assert faults.find(Fault(at_s=0, stop="generator", for_s=1)) == 17
        for missing in ("worker node-1", "supervisor node-1"):
            part, node = missing.split()
            with pytest.raises(ClusterError, match=f"stop {missing}: there is no such process"):
                faults.made(Fault.model_validate({"at_s": 0, "stop": part, "node": node, "for_s": 1}))


def test_a_worker_that_was_started_without_a_movable_clock_is_refused(tmp_path: Path) -> None:
    skew = Fault.model_validate({"at_s": 0, "skew-clock": "node-1", "by_s": 6, "for_s": 1})
    faults = LocalFaults(tmp_path, NODES, clocks={"node-1": tmp_path / "clock"})
    with (
        pytest.raises(ClusterError, match=r"node-1 by \+6 s: there is no such"),
        faults.made(skew),
    ):
        pass
    with (
        running(tmp_path, *worker(6700)) as plain,
        pytest.raises(ClusterError, match=f"process {plain.pid} was started with a clock that cannot"),
        faults.made(skew),
    ):
        pass


def test_what_is_stopped_goes_on_and_what_is_killed_is_gone(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    with running(hosts, "-Ddaemon.name=kafka") as broker, running(hosts, *worker(6700)) as killed:
        faults = LocalFaults(hosts, NODES)
        seen = psutil.Process(broker.pid)
        with faults.made(Fault(at_s=0, stop="broker", for_s=1)) as done:
            assert done == f"stop broker (process {broker.pid})"
            until(lambda: seen.status() == psutil.STATUS_STOPPED, "the broker is stopped")
        until(lambda: seen.status() != psutil.STATUS_STOPPED, "the broker goes on")
        with faults.made(Fault(at_s=0, kill="worker", node="node-1")):
            assert killed.wait(30) == -signal.SIGKILL


def test_what_is_stopped_goes_on_when_who_stopped_it_is_killed(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    asker = """
import sys
from harness.backends.faults import done_to
from harness.experiments.step_faults import Fault

with done_to(Fault(at_s=0, stop="broker", for_s=1), int(sys.argv[1])) as done:
    print(done, flush=True)
    sys.stdin.read()
"""
    with running(tmp_path / "hosts") as broker:
        command = [sys.executable, "-c", asker, str(broker.pid)]
        seen = psutil.Process(broker.pid)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdout is not None
            assert asking.stdout.readline() == f"stop broker (process {broker.pid})\n"
            until(lambda: seen.status() == psutil.STATUS_STOPPED, "the broker is stopped")
            asking.kill()
        until(lambda: seen.status() != psutil.STATUS_STOPPED, "the broker goes on")
        figure(f"who stopped it was killed: {seen.status()}")


def test_a_process_that_has_ended_cannot_be_stopped() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    fault = Fault(at_s=0, stop="broker", for_s=1)
    with (
        pytest.raises(ClusterError, match=r"it cannot be stopped: .*No such process"),
        done_to(fault, ended.pid),
    ):
        pass
