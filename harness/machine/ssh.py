"""Commands on hosts, over ssh, where no playbook is needed."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import NamedTuple

from harness.errors import ClusterError

CONNECT_WITHIN_S = 5


class Login(NamedTuple):
    """Who logs in to the hosts of a cluster, and which hosts are known."""

    user: str
    key: Path
    known_hosts: Path
    port: int = 22

    def command(self, address: str, command: str) -> list[str]:
        """Return what runs a command on a host; it ends by itself when the host does not answer any more."""
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_WITHIN_S,
            "IdentitiesOnly": "yes",
            "IdentityFile": self.key,
            "Port": self.port,
            "ServerAliveCountMax": 2,
            "ServerAliveInterval": CONNECT_WITHIN_S,
            "UserKnownHostsFile": self.known_hosts,
        }
        given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        # after the dashes nothing is an option, whatever a cluster's file calls its user
        return ["ssh", "-F", "/dev/null", *given, "--", f"{self.user}@{address}", command]


class Shell:
    """A host's root shell, over one connection that is made when it is first used, and again when it broke.

    Parameters
    ----------
    login : Login
    host : str
        What the host is called in messages.
    address : str
    """

    def __init__(self, login: Login, host: str, address: str) -> None:
        self.host = host
        self._command = login.command(address, "sudo sh")
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, command: str) -> bytes:
        """Return what a command writes to its standard output.

        Raises
        ------
        ClusterError
            When it fails, or the host does not answer.
        """
        used = self._process is not None
        answer = self._ask(command)
        if used and not answer:  # the connection ended unseen, while nothing was asked of it
            answer = self._ask(command)
        if not answer:
            raise ClusterError(f"{self.host} does not answer", "harness cluster status")
        said, _, status = base64.b64decode(answer).rpartition(b" ")
        if int(status):
            raise ClusterError(f"{self.host}: {command}: status {int(status)}")
        return said

    def _ask(self, command: str) -> bytes:
        """Return the shell's line: the output, a blank and the exit status; nothing when it has hung up."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:  # one line, whatever is in it
            self._process.stdin.write(f'{{ ({command}); echo " $?"; }} | base64 -w0; echo\n'.encode())
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            answer = b""
        if answer.endswith(b"\n"):
            return answer
        self.close()
        return b""

    def close(self) -> None:
        """Hang up."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
