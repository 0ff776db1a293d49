"""Commands on hosts, over ssh, where no playbook is needed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

CONNECT_WITHIN_S = 5


class Login(NamedTuple):
    """Who logs in to the hosts of a cluster, and which hosts are known."""

    user: str
    key: Path
    known_hosts: Path

    def command(self, address: str, command: str) -> list[str]:
        """Return what runs a command on a host; it ends by itself when the host does not answer any more."""
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_WITHIN_S,
            "IdentitiesOnly": "yes",
            "IdentityFile": self.key,
            "ServerAliveCountMax": 2,
            "ServerAliveInterval": CONNECT_WITHIN_S,
            "UserKnownHostsFile": self.known_hosts,
        }
        given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        return ["ssh", "-F", "/dev/null", *given, f"{self.user}@{address}", command]
