"""Servers as processes: small programs stand for them where only a process's life is looked at."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.errors import ClusterError, MissingTool
from harness.machine.niceness import NICENESS
from harness.machine.server_process import (
    ServerProcess,
    cause,
    kafka_answers,
    port_is_free,
    tail,
    zookeeper_answers,
)


def server(script: str, log: Path) -> ServerProcess:
    return ServerProcess("nimbus", [sys.executable, "-c", script], log)


def test_a_server_that_dies_before_it_is_ready(tmp_path: Path) -> None:
    log = tmp_path / "nimbus.log"
    dying = server("print('one'); print('java.net.BindException: Address already in use'); exit(3)", log)
    with pytest.raises(ClusterError) as e:
        dying.wait_ready(lambda: False, 60)
    assert e.value.message == "nimbus stopped with status 3: java.net.BindException: Address already in use"
    assert e.value.excerpt == "one\njava.net.BindException: Address already in use"
    assert e.value.log == str(log)


def test_all_servers_give_way_to_who_measures_alike(tmp_path: Path) -> None:
    """A session's weight counts where the kernel groups by session, a process's elsewhere.

    Started at once, as supervisors are: the kernel takes one wish for a session every 100 ms.
    """
    lower = min(psutil.Process().nice() + NICENESS, 19)
    running = [server("import time; time.sleep(1000)", tmp_path / f"{n}") for n in range(4)]
    for one in running:
        one.wait_ready(lambda pid=one.pid: psutil.Process(pid).nice() == lower, 60)  # type: ignore[misc]
        group = Path(f"/proc/{one.pid}/autogroup")
        if group.is_file():
            assert group.read_text().rstrip().endswith(f"nice {NICENESS}")
    for one in running:
        one.terminate()
        one.wait_ended(60)


def test_a_server_that_does_not_answer_in_time(tmp_path: Path) -> None:
    slow = server("import time; print('starting', flush=True); time.sleep(1000)", tmp_path / "log")
    with pytest.raises(ClusterError, match=r"nimbus did not answer within 0 s"):
        slow.wait_ready(lambda: False, 0)
    slow.terminate()
    slow.wait_ended(60)
    assert slow.exit_status == -15


def test_a_server_that_another_needs_dies(tmp_path: Path) -> None:
    well = server("import time; time.sleep(1000)", tmp_path / "well")
    dead = ServerProcess("zookeeper", ["false"], tmp_path / "dead")
    with pytest.raises(ClusterError, match="zookeeper stopped with status 1: its log is empty"):
        well.wait_ready(lambda: False, 60, [dead])
    well.terminate()
    well.wait_ended(60)


def test_a_process_that_ends_well_just_after_it_was_asked_is_ready(tmp_path: Path) -> None:
    # Formatting Kafka's log is ready by ending with status 0; it may end between two looks at it.
    may_end = tmp_path / "may end"
    formatting = server(
        f"import pathlib, time\nwhile not pathlib.Path({str(may_end)!r}).exists(): time.sleep(0.01)",
        tmp_path / "log",
    )

    def asked_too_early() -> bool:
        ended_well = formatting.exit_status == 0
        may_end.touch()
        formatting._process.wait(60)
        return ended_well

    formatting.wait_ready(asked_too_early, 60)
    assert formatting.exit_status == 0


def test_the_end_takes_the_whole_process_group(tmp_path: Path) -> None:
    """A supervisor's workers must not outlive it, even when they ignore SIGTERM."""
    child = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
    )
    script = (
        "import subprocess, sys\n"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "p.stdout.readline(); print(p.pid, flush=True); p.wait()"
    )
    log = tmp_path / "log"
    supervisor = server(script, log)
    supervisor.wait_ready(lambda: log.read_text().endswith("\n"), 60)
    worker = psutil.Process(int(log.read_text()))
    assert os.getsid(worker.pid) == supervisor.pid != os.getsid(0)
    supervisor.terminate()
    supervisor.wait_ended(60)
    psutil.wait_procs([worker], timeout=60)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_no_such_program(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="there is no no-such-java on PATH"):
        ServerProcess("nimbus", ["no-such-java"], tmp_path / "log")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nException in thread x java.lang.A: one\n  at b\nCaused by: java.io.B: two\n", "java.io.B: two"),
        ("2026 ERROR first\n2026 INFO later\n", "2026 ERROR first"),
        (
            "Error: Could not create the Java Virtual Machine.\n",
            "Error: Could not create the Java Virtual Machine.",
        ),
        # what OpenJDK 17 prints for an unknown option and for a heap larger than memory
        (
            "Unrecognized VM option 'Foo'\nError: Could not create the Java Virtual Machine.\n"
            "Error: A fatal exception has occurred. Program will exit.\n",
            "Unrecognized VM option 'Foo'",
        ),
        (
            "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory failed\n"
            "Error occurred during initialization of VM\nCould not reserve enough space for object heap\n",
            "Could not reserve enough space for object heap",
        ),
        (
            "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x1, 2, 0) failed\n#\n"
            "# There is insufficient memory for the Java Runtime Environment to continue.\n"
            "# Native memory allocation (mmap) failed to map 2 bytes.\n",
            "There is insufficient memory for the Java Runtime Environment to continue.",
        ),
        ("all is well\n", "its log ends with: all is well"),
        ("", "its log is empty"),
    ],
)
def test_the_cause_in_a_log(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "log").write_text(text)
    assert cause(tmp_path / "log") == expected


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert cause(tmp_path / "none") == "its log cannot be read: No such file or directory"
    assert tail(tmp_path / "none") == ""


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def test_zookeeper_says_it_is_ok() -> None:
    with answering(b"imok") as port:
        assert zookeeper_answers("127.0.0.1", port)
    with answering(b"") as port:
        assert not zookeeper_answers("127.0.0.1", port)
    assert not zookeeper_answers("127.0.0.1", port)  # nobody listens any more


@pytest.mark.parametrize(("brokers", "ready"), [(1, True), (0, False)])
def test_kafka_is_ready_with_its_first_broker(brokers: int, ready: bool) -> None:
    """Metadata response, version 0: size, correlation, array of brokers (Kafka's protocol guide)."""
    with answering(struct.pack(">iii", 8, 1, brokers)) as port:
        assert kafka_answers("127.0.0.1", port) is ready


def test_a_port_is_free_until_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not port_is_free("127.0.0.1", port)
        assert not port_is_free("", port)  # on every address, as workers bind
    assert port_is_free("127.0.0.1", port)
