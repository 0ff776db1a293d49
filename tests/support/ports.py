"""Ports for servers that tests start beside the shared cluster."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_port() -> int:
    """Return a port of the loopback address that nobody uses."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return several different ones."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
