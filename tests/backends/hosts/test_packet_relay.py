"""Packets between two ends are kept for the delay, in their order, and none is lost when the relay ends.

Sockets of whole datagrams stand in for the two devices, which only a sandbox's network has; on real hosts in
tests/hosts/test_link.py.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

from harness.backends.hosts.packet_relay import relay

HOUR_NS = 3600 * 10**9
IPV4, IPV6 = 0x45, 0x60
PACKETS = 8
"""As many as any kernel keeps of a socket that nobody reads."""


def packet(number: int, version: int = IPV4) -> bytes:
    return bytes([version]) + number.to_bytes(2)


def relayed(delay_ns: int, act: Callable[[socket.socket, socket.socket, Callable[[], None]], None]) -> None:
    """Do something with both ends while a relay of a delay is between them; ``act`` may end the relay."""
    here, device = socket.socketpair(type=socket.SOCK_DGRAM)
    there, other = socket.socketpair(type=socket.SOCK_DGRAM)
    asker, asking = os.pipe()
    for end in (device, other):
        end.setblocking(False)
    thread = threading.Thread(target=relay, args=(device.fileno(), other.fileno(), delay_ns, asker))

    def end() -> None:
        os.close(asking)
        thread.join(30)
        assert not thread.is_alive()

    with here, device, there, other:
        here.settimeout(30)
        there.settimeout(30)
        thread.start()
        act(here, there, end)
    os.close(asker)


def test_each_packet_takes_the_delay_in_either_direction_and_ipv6_goes_nowhere() -> None:
    def act(here: socket.socket, there: socket.socket, end: Callable[[], None]) -> None:
        for source, target in ((here, there), (there, here)):
            began = time.monotonic_ns()
            source.send(packet(1, IPV6))
            for number in range(PACKETS):
                source.send(packet(number))
            assert [target.recv(9) for _ in range(PACKETS)] == [packet(number) for number in range(PACKETS)]
            assert time.monotonic_ns() - began >= 20_000_000
        end()

    relayed(20_000_000, act)


def test_what_is_kept_is_passed_on_at_once_when_the_relay_ends() -> None:
    def act(here: socket.socket, there: socket.socket, end: Callable[[], None]) -> None:
        for number in range(PACKETS):
            here.send(packet(number))
            there.send(packet(100 + number))
        end()
        assert [there.recv(9) for _ in range(PACKETS)] == [packet(number) for number in range(PACKETS)]
        assert [here.recv(9) for _ in range(PACKETS)] == [packet(100 + number) for number in range(PACKETS)]

    relayed(HOUR_NS, act)
