"""One server: a Java process in a session of its own, with its log in one file."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from harness.errors import ClusterError, MissingTool
from harness.machine import sandbox
from harness.machine.java_environment import without_jvm_options
from harness.machine.niceness import NICENESS, servers_increment
from harness.machine.trust import Trust, require_trusted

POLL_S = 0.1
"""Time between two looks at a server that is starting or stopping."""
REQUEST_TIMEOUT_S = 2.0
SESSION_NICENESS_S = 20.0
"""Longest time until the kernel has taken it."""
JVM_SAYS_NOTHING = (
    "Error: Could not create the Java Virtual Machine.",
    "Error: A fatal exception has occurred. Program will exit.",
    "Error occurred during initialization of VM",
)
"""Lines that a JVM that does not come up prints beside the reason."""
JVM_OUT_OF_MEMORY = "# There is insufficient memory for the Java Runtime Environment"


class ServerProcess:
    """A server that was started, until it is stopped.

    Its session is its own, so Ctrl-C in a terminal does not reach it, and all it starts itself (a
    supervisor's workers) is in its process group.

    Parameters
    ----------
    name : str
        What it is called in messages, and the name of its log.
    command : sequence of str
        Its command line.
    log : Path
        File that takes its standard output and error.
    environment : mapping
        Variables added to this process's own, which are taken over without options for JVMs.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        if shutil.which(command[0]) is None:
            raise MissingTool(f"there is no {command[0]} on PATH", "apt-get install openjdk-17-jre-headless")
        setpriv = None if sandbox.inside() else shutil.which("setpriv")
        if setpriv:  # no sandbox would end it with this process
            command = [setpriv, "--pdeathsig", "KILL", *command]
        command = ["nice", "-n", str(servers_increment()), *command]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**without_jvm_options(), **(environment or {})},
            )
        self._let_session_give_way()

    def _let_session_give_way(self) -> None:
        """Give the session the niceness that its processes have.

        A kernel that groups by session weighs sessions first. It takes such a wish every 100 ms only, from
        all of the machine's ordinary users together.
        """
        group, limit = Path(f"/proc/{self.pid}/autogroup"), time.monotonic() + SESSION_NICENESS_S
        while True:
            try:
                group.write_text(str(NICENESS))
            except BlockingIOError as error:
                if time.monotonic() > limit:
                    self._process.kill()
                    message = f"{self.name}: the niceness of its session cannot be set"
                    raise ClusterError(message, f"tried for {SESSION_NICENESS_S:g} s") from error
                time.sleep(POLL_S / 4)
            except OSError:  # no such grouping in this kernel, or the process has ended
                return
            else:
                return

    @property
    def pid(self) -> int:
        """Its process, which leads the process group of the same number."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Its exit status, negative for a signal; None as long as it runs."""
        return self._process.poll()

    def death(self) -> ClusterError:
        """Return the error that says how it died: status, cause, the log's last lines and its path."""
        status = self.exit_status
        if status is not None and status < 0:
            # What ends a process so is never in its log: any error there is another matter.
            message = f"{self.name} stopped with signal {signal.Signals(-status).name}"
            hint = "somebody ended it, or the kernel did for want of memory"
        else:
            message, hint = f"{self.name} stopped with status {status}: {cause(self.log)}", ""
        return ClusterError(message, hint, str(self.log), tail(self.log))

    def wait_ready(
        self, ready: Callable[[], bool], timeout_s: float, others: Sequence[ServerProcess] = ()
    ) -> None:
        """Wait until a request is answered.

        Parameters
        ----------
        ready : callable
            Makes a request; true when it was answered as it should be.
        timeout_s : float
            How long to wait.
        others : sequence of ServerProcess
            Servers that this one needs, which must not die meanwhile.

        Raises
        ------
        ClusterError
            When it or another dies, or time is up.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            # Looked at before the request: a process that is ready by ending well may end in between.
            dead = [server for server in (self, *others) if server.exit_status is not None]
            if ready():
                return
            if dead:
                raise dead[0].death()
            if time.monotonic() > deadline:
                message = f"{self.name} did not answer within {timeout_s:g} s: {cause(self.log)}"
                raise ClusterError(message, log=str(self.log), excerpt=tail(self.log))
            time.sleep(POLL_S)

    def terminate(self) -> None:
        """Ask it to end; ``wait_ended`` waits for it."""
        if self.exit_status is None:
            self._process.terminate()

    def wait_ended(self, timeout_s: float) -> None:
        """Wait for its end, then end it and everything in its process group for good."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        with suppress(ProcessLookupError):  # nothing is left in its group
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log; nothing when it cannot be read."""
    try:
        text = log.read_text(errors="replace").rstrip().splitlines()
    except OSError:
        return ""
    return "\n".join(text[-lines:])


def cause(log: Path) -> str:
    """Return the line of a log that most likely says what went wrong.

    That is the deepest cause of the last exception, else the last error, else the last line. For a JVM that
    did not come up, the line is its complaint about its options.
    """
    try:
        return cause_in(log.read_text(errors="replace").splitlines())
    except OSError as e:
        return f"its log cannot be read: {e.strerror}"


def cause_in(text: Sequence[str]) -> str:
    """Return the line among a log's lines that most likely says what went wrong."""
    lines = [line.strip() for line in text if line.strip()]
    told = [line for line in lines if line not in JVM_SAYS_NOTHING]
    if len(told) < len(lines) and told and not any("Exception" in line for line in told):
        return next((line for line in told if " warning: " not in line), told[0])
    if fatal := [line for line in lines if line.startswith(JVM_OUT_OF_MEMORY)]:
        return fatal[0].removeprefix("# ")
    for mark in ("Caused by: ", "Exception: ", "Exception in thread", " ERROR ", " FATAL ", "Error: "):
        found = [line for line in lines if mark in line]
        if found:
            return found[-1].removeprefix("Caused by: ")
    return f"its log ends with: {lines[-1]}" if lines else "its log is empty"


# -- requests that show that a server is there ----------------------------------------------------


def zookeeper_answers(host: str, port: int) -> bool:
    """Return True if ZooKeeper answers "are you ok" with "I am"."""
    return _request(host, port, b"ruok", lambda s: s.recv(4) == b"imok")


def kafka_answers(host: str, port: int, trust: Trust | None = None) -> bool:
    """Return True if a broker's metadata name at least one broker (request Metadata, version 0, no topic).

    Parameters
    ----------
    trust : Trust, optional
        How its certificate is known, where it speaks TLS at that port.

    Raises
    ------
    UsageError
        When its certificate is another one.
    """
    api_key, version, correlation = 3, 0, 1
    body = struct.pack(">hhihi", api_key, version, correlation, -1, 0)

    def brokers(s: socket.socket) -> bool:
        # size, correlation, then the array of brokers
        head = b""
        while len(head) < 12 and (more := s.recv(12 - len(head))):  # TLS knows no MSG_WAITALL
            head += more
        return len(head) == 12 and struct.unpack(">iii", head)[2] >= 1

    return _request(host, port, struct.pack(">i", len(body)) + body, brokers, trust)


def _request(
    host: str, port: int, data: bytes, accept: Callable[[socket.socket], bool], trust: Trust | None = None
) -> bool:
    try:
        with (
            socket.create_connection((host, port), timeout=REQUEST_TIMEOUT_S) as plain,
            trust.context().wrap_socket(plain, server_hostname=host) if trust else plain as s,
        ):
            s.sendall(data)
            return accept(s)
    except OSError as error:
        require_trusted(trust, f"the server at {host}:{port}", error)
        return False


def port_is_free(host: str, port: int) -> bool:
    """Return True if a server could listen at the port of the host."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
            s.listen(1)
        except OSError:
            return False
    return True
