"""A link between two hosts is slowed by so many milliseconds, and nothing of it stays."""

from __future__ import annotations

from contextlib import suppress

import psutil
import pytest
from hosts import Provisioned

from harness.backends.slow_link import slowed
from harness.errors import ClusterError

pytestmark = pytest.mark.system

DELAY_MS = 5.0
PACKETS = 20


def round_trips_ms(provisioned: Provisioned, source: str, target: str) -> list[float]:
    """What fping says, which asks the kernel when a packet came back: a busy machine adds little."""
    probe = ["fping", "-q", "-C", str(PACKETS), "-p", "20", provisioned.address(target)]
    _, _, times = provisioned.said_in_sandbox("ip", "netns", "exec", source, *probe).partition(" : ")
    return [float(ms) for ms in times.split()]  # a packet that was lost has a dash


def interfaces(provisioned: Provisioned, name: str) -> list[str]:
    said = provisioned.in_sandbox("ip", "-netns", name, "-brief", "link")
    return [line.split()[0] for line in said.splitlines()]


def test_every_packet_takes_the_delay_longer_each_way(provisioned: Provisioned) -> None:
    ends = (provisioned.end("node-1"), provisioned.end("node-2"))
    before = {name: interfaces(provisioned, name) for name in ("node-1", "node-2")}
    fast = min(round_trips_ms(provisioned, "node-1", "node-2"))
    assert fast < 1.0
    with slowed(provisioned.network, *ends, DELAY_MS):
        for source, target in (("node-1", "node-2"), ("node-2", "node-1")):
            found = round_trips_ms(provisioned, source, target)
            assert len(found) == PACKETS
            assert min(found) >= 2 * DELAY_MS
            assert (min(found) - fast) / 2 == pytest.approx(DELAY_MS, abs=0.5)
        assert min(round_trips_ms(provisioned, "node-1", "control")) < 1.0  # nobody else's packets
    assert min(round_trips_ms(provisioned, "node-1", "node-2")) < 1.0
    assert {name: interfaces(provisioned, name) for name in before} == before


def test_a_link_that_is_slow_is_not_slowed_again(provisioned: Provisioned) -> None:
    ends = (provisioned.end("node-1"), provisioned.end("node-2"))
    with slowed(provisioned.network, *ends, DELAY_MS) as by:
        if by == "netem":
            pytest.skip("netem has no device that could be in use")
        again = slowed(provisioned.network, *ends, DELAY_MS)
        with pytest.raises(ClusterError, match=r"between node-1 and node-2 cannot be slowed: .* busy"), again:
            pass


def test_a_relay_that_ended_is_told(provisioned: Provisioned) -> None:
    link = slowed(provisioned.network, provisioned.end("node-1"), provisioned.end("node-2"), DELAY_MS)
    with (
        pytest.raises(ClusterError, match="the link between node-1 and node-2 is slow no longer"),
        link as by,
    ):
        end_relays(by)


def end_relays(by: str) -> None:
    if by == "netem":
        pytest.skip("what is in the kernel does not end")
    relays = [p for p in psutil.Process().children(recursive=True) if relays_packets(p)]
    assert len(relays) == 2  # who went into the sandbox, and the relay there
    relays[-1].kill()
    gone, _ = psutil.wait_procs(relays, 30)
    assert gone


def relays_packets(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("packet_relay" in word for word in process.cmdline())
    return False
