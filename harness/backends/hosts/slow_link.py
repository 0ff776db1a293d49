"""A slowed link between two local hosts: for tests, and for experiments on what the network takes.

Every packet between the two takes longer by the delay, each way; a round trip takes twice as much longer.
The delay is made by netem where the kernel has it (never tried: no kernel at hand has it), else by
``packet_relay``. The link is slow until the block ends, or until the process that asked for it ends in any
way. When that process is killed, a delay made by netem would stay until the hosts' sandbox ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from harness.backends.hosts.host_network import HostNetwork
from harness.errors import ClusterError

RELAY = Path(__file__).with_name("packet_relay.py")


class LinkEnd(NamedTuple):
    """A host at one end of a link."""

    name: str
    address: str


@contextmanager
def slowed(network: HostNetwork, one: LinkEnd, other: LinkEnd, delay_ms: float) -> Iterator[str]:
    """Slow the link between two hosts while the block lasts; gives what slows it.

    Parameters
    ----------
    network : HostNetwork
        The sandbox of the hosts.
    one, other : LinkEnd
    delay_ms : float
        What each packet takes longer, in either direction.

    Raises
    ------
    ClusterError
        When the link cannot be slowed, or ceased to be slow before the block's end.
    """
    if not network.alive:
        raise ClusterError("the hosts' sandbox is gone", "harness provision makes it anew")
    with ExitStack() as undo:
        for here, there in ((one, other), (other, one)):
            if not _netem(network, here.name, there.address, delay_ms):
                break
            undo.callback(_inside, network, _plain(here.name))
        else:
            yield "netem"
            return
    with _relayed(network, one, other, delay_ms):
        yield "packet_relay"


def _netem(network: HostNetwork, host: str, to: str, delay_ms: float) -> bool:
    """Delay what a host sends to an address, and return whether this kernel can."""
    change = ["tc", "-netns", host]
    on = ["dev", "eth0"]
    straight_on = ["priomap", *["0"] * 16]  # only what the filter picks goes to the second band
    commands = (
        [*change, "qdisc", "add", *on, "root", "handle", "1:", "prio", "bands", "2", *straight_on],
        [*change, "qdisc", "add", *on, "parent", "1:2", "netem", "delay", f"{delay_ms}ms", "limit", "100000"],
        [
            *[*change, "filter", "add", *on, "parent", "1:", "protocol", "ip"],
            *["u32", "match", "ip", "dst", f"{to}/32", "flowid", "1:2"],
        ],
    )
    done = 0
    for command in commands:
        if _inside(network, command) != 0:
            break
        done += 1
    if 0 < done < len(commands):
        _inside(network, _plain(host))
    return done == len(commands)


def _plain(host: str) -> list[str]:
    """Return what puts a host's interface back as it was."""
    return ["tc", "-netns", host, "qdisc", "del", "dev", "eth0", "root"]


@contextmanager
def _relayed(network: HostNetwork, one: LinkEnd, other: LinkEnd, delay_ms: float) -> Iterator[None]:
    what = f"the link between {one.name} and {other.name}"
    command = [sys.executable, "-I", str(RELAY), str(delay_ms), *one, *other]
    with subprocess.Popen(
        _entering(network, command),
        stdin=subprocess.PIPE,  # the relay ends with it: when the block ends, or this process
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # what ends who asks is no reason to end it in the middle
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != "ready\n":
            said = process.stderr.read().splitlines()
            raise ClusterError(f"{what} cannot be slowed: {said[-1] if said else 'the relay ended'}")
        yield
        if process.poll() is not None:
            said = process.stderr.read().splitlines()
            raise ClusterError(f"{what} is slow no longer: {said[-1] if said else 'the relay ended'}")


def _entering(network: HostNetwork, command: Sequence[str]) -> list[str]:
    return ["nsenter", "--target", str(network.pid), "--net", "--mount", "--pid", "--", *command]


def _inside(network: HostNetwork, command: Sequence[str]) -> int:
    done = subprocess.run(
        _entering(network, command), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode
