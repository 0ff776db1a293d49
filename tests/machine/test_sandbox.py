"""The sandbox with real processes: what Linux guarantees is what is asserted."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psutil
import pytest
import waiting

from harness.errors import ClusterError
from harness.machine import sandbox

pytestmark = pytest.mark.skipif(sandbox.obstacle() is not None, reason=f"no sandbox: {sandbox.obstacle()}")

WAIT_S = 60.0
until = partial(waiting.until, within_s=WAIT_S)


def command(script: str, where: str = "new") -> list[str]:
    return [
        sys.executable,
        "-m",
        "harness.machine.sandbox",
        where,
        sys.executable,
        "-c",
        textwrap.dedent(script),
    ]


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(script), capture_output=True, text=True, check=False, timeout=WAIT_S)


@contextmanager
def started(script: str, where: str = "new") -> Iterator[subprocess.Popen[str]]:
    """A command in a sandbox that has written its first line."""
    with subprocess.Popen(command(script, where), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def in_network_of(pid: int) -> list[psutil.Process]:
    network = os.readlink(f"/proc/{pid}/ns/net")
    found = []
    for process in psutil.process_iter():
        try:
            if os.readlink(f"/proc/{process.pid}/ns/net") == network:
                found.append(process)
        except OSError:
            continue  # it ended, or belongs to somebody else
    return found


def test_a_private_network_and_process_tree() -> None:
    done = run(
        """
        import json, os, socket
        from harness.machine import sandbox
        with socket.create_server(("127.0.0.77", 6627)) as server:
            client = socket.create_connection(("127.0.0.77", 6627), timeout=10)
            reached = server.accept()[1][0]
        print(json.dumps({
            "inside": sandbox.inside(),
            "interfaces": [name for _, name in socket.if_nameindex()],
            "reached": reached,
            "pids": [p for p in os.listdir("/proc") if p.isdigit()],
        }))
        """
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["inside"]
    assert "lo" in said["interfaces"]
    assert said["reached"]  # loopback is up, with all of 127.0.0.0/8
    assert said["pids"] == ["1", "2"]  # init and the command


def test_the_mark_is_believed_only_in_the_network_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that inherits the variable but left the network, e.g. by a service manager, is outside."""
    monkeypatch.setenv(sandbox.MARK, "net:[1]")
    assert not sandbox.inside()


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os.kill(os.getpid(), 15)", 128 + 15),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
    ],
)
def test_the_exit_status_is_the_commands(script: str, status: int) -> None:
    assert run(script).returncode == status


def test_a_command_that_is_not_there() -> None:
    line = [sys.executable, "-m", "harness.machine.sandbox", "new", "no-such-command"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (127, "harness: no-such-command: No such file or directory\n")


def test_orphans_are_reaped() -> None:
    """A grandchild whose parent is gone (a worker whose supervisor died) leaves no zombie when it ends."""
    done = run(
        """
        import os, subprocess, sys, time
        # the parent prints its child's pid and ends; the child ends when its standard input does
        child = "import sys; sys.stdin.read()"
        parent = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {child!r}]).pid)"
        started = subprocess.Popen(
            [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        pid = int(started.stdout.readline())
        started.wait()
        assert os.path.exists(f"/proc/{pid}")
        started.stdin.close()
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.01)
        print("reaped")
        """
    )
    assert done.stdout == "reaped\n"


STAYS = """
    import subprocess, sys, time
    subprocess.Popen(["sleep", "1000"], start_new_session=True)  # as servers are started
    print("ready", flush=True)
    time.sleep(1000)
"""


def test_kill_9_of_the_outer_process_ends_everything() -> None:
    with started(STAYS) as outer:
        inside = in_network_of(outer.pid)
        assert len(inside) == 4  # outer, init, command, sleep
        outer.kill()
        outer.wait()
        until(lambda: not any(p.is_running() and p.status() != "zombie" for p in inside), "all have ended")


def test_the_end_of_the_command_ends_what_it_left_running() -> None:
    with started(STAYS) as outer:
        inside = in_network_of(outer.pid)
        line = [sys.executable, "-c"]
        target = next(p for p in inside if p.cmdline()[:2] == line)
        target.kill()
        assert outer.wait(WAIT_S) == 128 + signal.SIGKILL
        until(lambda: not any(p.is_running() for p in inside), "all have ended")


def test_sigterm_reaches_the_command() -> None:
    with started(
        """
        import signal, time
        def stop(*_):
            raise SystemExit(7)
        signal.signal(signal.SIGTERM, stop)
        print("ready", flush=True)
        time.sleep(1000)
        """
    ) as outer:
        outer.terminate()
        assert outer.wait(WAIT_S) == 7


def test_a_sigint_that_a_process_sends_reaches_the_command() -> None:
    with started(
        """
        import sys, time
        try:
            print("ready", flush=True)
            time.sleep(1000)
        except KeyboardInterrupt:
            sys.exit(6)
        """
    ) as outer:
        outer.send_signal(signal.SIGINT)
        assert outer.wait(WAIT_S) == 6


def test_ctrl_c_is_one_keyboard_interrupt() -> None:
    """Typed in a real terminal, where the whole foreground process group is sent the signal."""
    line = command(
        """
        import sys, time
        try:
            print("ready", flush=True)
            time.sleep(1000)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(5)
        """
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(line[0], line)
    said = b""
    while b"ready" not in said:
        said += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    try:
        while chunk := os.read(terminal, 1024):
            said += chunk
    except OSError:
        pass  # how Linux says that the other end is closed
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 5
    assert said.count(b"interrupted") == 1


def test_another_command_joins_the_network_and_ends_alone() -> None:
    serve = """
        import socket
        with socket.create_server(("127.0.0.2", 45671)) as server:
            print("ready", flush=True)
            while True:
                server.accept()[0].sendall(b"hello")
    """
    ask = """
        import socket
        print(socket.create_connection(("127.0.0.2", 45671), timeout=10).recv(5).decode())
    """
    with started(serve) as outer:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", 45671), timeout=10)
        joined = subprocess.run(
            command(ask, str(outer.pid)), capture_output=True, text=True, check=False, timeout=WAIT_S
        )
        assert (joined.returncode, joined.stdout) == (0, "hello\n"), joined.stderr
        with started(STAYS, str(outer.pid)) as other:
            guests = [p for p in in_network_of(outer.pid) if p not in (psutil.Process(outer.pid),)]
            other.kill()
            other.wait()
            until(lambda: sum(p.is_running() for p in guests) == 2, "only the server's own are left")
        assert outer.poll() is None


def test_joining_a_process_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    with pytest.raises(ClusterError, match="is gone"):
        sandbox.join(gone.pid, ["true"])
