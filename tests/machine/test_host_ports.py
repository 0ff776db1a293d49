"""Hosts that are asked at a port, which is really open or closed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from harness.machine import host_ports
from harness.machine.host_ports import HostPorts

HERE = "127.0.0.1"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server((HERE, 0)) as server:
        yield server


@pytest.fixture(autouse=True)
def _asked_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_ports, "ASK_EVERY_S", 0.0)


def test_a_host_that_takes_connections_is_there(listener: socket.socket) -> None:
    assert HostPorts({"one": HERE}, listener.getsockname()[1]).host_alive("one")


def test_a_host_that_never_took_one_is_gone_at_once(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    assert not HostPorts({"one": HERE}, port).host_alive("one")


def test_a_host_is_gone_when_it_has_taken_none_for_a_while_and_back_with_the_first(
    listener: socket.socket,
) -> None:
    port = listener.getsockname()[1]
    patient = HostPorts({"one": HERE}, port, gone_after_s=3600.0)
    hasty = HostPorts({"one": HERE}, port, gone_after_s=0.05)
    assert patient.host_alive("one")
    assert hasty.host_alive("one")
    listener.close()
    began_s = time.monotonic()
    while hasty.host_alive("one"):
        assert time.monotonic() < began_s + 30
    assert time.monotonic() - began_s >= 0.05
    assert patient.host_alive("one")
    with socket.create_server((HERE, port)):
        assert hasty.host_alive("one")


def test_a_host_is_not_asked_at_every_question(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_ports, "ASK_EVERY_S", 3600.0)
    hosts = HostPorts({"one": HERE}, listener.getsockname()[1], gone_after_s=1e-9)
    assert hosts.host_alive("one")
    listener.close()
    assert hosts.host_alive("one")
