"""Ports for servers that tests start beside the shared cluster."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of the loopback address that nobody uses."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
