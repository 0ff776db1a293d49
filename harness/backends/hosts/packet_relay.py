"""A link between two network namespaces on which every packet takes longer: what netem does, without netem.

    packet_relay.py DELAY_MS NAME ADDRESS NAME ADDRESS

Each of the two gets a TUN device that the other's address is routed to. What one's kernel writes there is
kept for the delay and given to the other's, in its order. It says ``ready`` when both are there. When its
standard input ends, it passes on at once what it keeps, and ends; the devices, and with them the routes, are
gone then. A program by itself: nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_PR_SET_TIMERSLACK = 29
_LONGEST_BYTES = 65536
_LIBC = ctypes.CDLL(None, use_errno=True)


def device(other: str) -> str:
    """Return the name of the device that leads to another host, whose name has at most 12 letters."""
    return f"to-{other}"


def opened(namespace: str, name: str) -> int:
    """Make a TUN device in a namespace and return what it is read from and written to."""
    where = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if _LIBC.setns(where, _CLONE_NEWNET) == -1:
            raise OSError(ctypes.get_errno(), f"the network of {namespace} cannot be entered")
    finally:
        os.close(where)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return tun


def connected(namespace: str, address: str, other: str, other_address: str) -> int:
    """Let one end's packets to the other's address go to a device, and return it."""
    name = device(other)
    tun = opened(namespace, name)
    ip = ["ip", "-netns", namespace]
    subprocess.run([*ip, "link", "set", name, "up"], check=True)
    subprocess.run([*ip, "route", "add", f"{other_address}/32", "dev", name, "src", address], check=True)
    return tun


def punctual() -> None:
    """Let this process be woken in time, as far as it may."""
    _LIBC.prctl(_PR_SET_TIMERSLACK, 1)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def relay(one: int, other: int, delay_ns: int, asker: int) -> None:
    """Pass packets on, each after the delay, until a file ends; then those that are left, in their order."""
    to = {one: other, other: one}
    waiting: dict[int, deque[tuple[int, bytes]]] = {one: deque(), other: deque()}
    while True:
        due = [queue[0][0] for queue in waiting.values() if queue]
        left_s = max(min(due) - time.monotonic_ns(), 0) / 1e9 if due else None
        readable, _, _ = select.select([one, other, asker], [], [], left_s)
        over = asker in readable
        for tun in (one, other):
            with suppress(BlockingIOError):
                while True:
                    packet = os.read(tun, _LONGEST_BYTES)
                    if packet[0] >> 4 == 4:  # IPv6's own chatter has nowhere to go
                        waiting[to[tun]].append((time.monotonic_ns() + delay_ns, packet))
        now = time.monotonic_ns()
        for tun, queue in waiting.items():
            while queue and (over or queue[0][0] <= now):
                os.write(tun, queue.popleft()[1])
        if over:
            return


def main(delay_ms: float, one: tuple[str, str], other: tuple[str, str]) -> None:
    """Connect the two ends and pass packets on."""
    here, there = connected(*one, *other), connected(*other, *one)
    punctual()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    relay(here, there, round(delay_ms * 1e6), sys.stdin.fileno())


if __name__ == "__main__":
    main(float(sys.argv[1]), (sys.argv[2], sys.argv[3]), (sys.argv[4], sys.argv[5]))
