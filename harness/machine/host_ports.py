"""Presence of hosts elsewhere: a host is there while it takes connections at its ssh port.

A connection that fails once says little of a host that took others: it is gone when it has taken none for a
while.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

ASK_EVERY_S = 5.0
"""Seldom enough for an ssh server that refuses those who come often and never log in."""
CONNECT_WITHIN_S = 3.0
GONE_AFTER_S = 15.0


class HostPorts:
    """Hosts that are asked over the network.

    Parameters
    ----------
    addresses : mapping of str to str
        Of each host, by name.
    port : int
        Where its ssh server listens.
    gone_after_s : float
        How long a host takes no connections before it is gone.
    """

    def __init__(
        self, addresses: Mapping[str, str], port: int = 22, *, gone_after_s: float = GONE_AFTER_S
    ) -> None:
        self._addresses = addresses
        self._port = port
        self._gone_after_s = gone_after_s
        self._asked_s: dict[str, float] = {}
        self._silent_since_s: dict[str, float] = {}
        self._seen: set[str] = set()

    @property
    def alive(self) -> bool:
        """True at all times: the network that the hosts are in is not this machine's."""
        return True

    def host_alive(self, name: str) -> bool:
        """Return True if a host is there; its port is asked now and then."""
        now_s = time.monotonic()
        if now_s - self._asked_s.get(name, -ASK_EVERY_S) >= ASK_EVERY_S:
            if self._answers(name):
                self._seen.add(name)
                self._silent_since_s.pop(name, None)
            else:
                self._silent_since_s.setdefault(name, now_s)
            self._asked_s[name] = now_s = time.monotonic()
        silent_s = now_s - self._silent_since_s.get(name, now_s)
        return name in self._seen and silent_s < self._gone_after_s

    def _answers(self, name: str) -> bool:
        try:
            with socket.create_connection((self._addresses[name], self._port), timeout=CONNECT_WITHIN_S):
                return True
        except OSError:
            return False


def address_towards(bootstrap: str) -> str:
    """Return the address that this machine has in the network of a server at ``HOST:PORT``."""
    host, _, port = bootstrap.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((host, int(port)))  # sends nothing
        found: str = asked.getsockname()[0]
    return found
