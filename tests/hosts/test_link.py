"""A link between two hosts is slowed by so many milliseconds, and nothing of it stays."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from hosts import ROOT, Provisioned, runs

from harness.backends.hosts.probing import LOG
from harness.backends.hosts.slow_link import slowed
from harness.errors import ClusterError

pytestmark = pytest.mark.system

DELAY_MS = 5.0
PACKETS = 20


def round_trips_ms(provisioned: Provisioned, source: str, target: str) -> list[float]:
    """What fping says, which asks the kernel when a packet came back: a busy machine adds little."""
    probe = ["fping", "-q", "-C", str(PACKETS), "-p", "20", "-t", "5000", provisioned.address(target)]
    _, _, times = provisioned.said_in_sandbox("ip", "netns", "exec", source, *probe).partition(" : ")
    assert "-" not in times.split(), "a packet was lost"
    return [float(ms) for ms in times.split()]


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


def test_probes_lose_no_packet_that_takes_longer_than_the_next_one_waits(provisioned: Provisioned) -> None:
    """They send one every 20 ms."""
    line = re.compile(r"round_trip,source=node-1,target=node-2 (ms=|lost=)(\S+)")

    def probed() -> list[tuple[str, str]]:
        return line.findall(provisioned.on("node-1", f"sudo cat {LOG}").stdout)

    ends = (provisioned.end("node-1"), provisioned.end("node-2"))
    packets = provisioned.cluster.probes.packets
    deadline = time.monotonic() + 60
    with slowed(provisioned.network, *ends, 4 * DELAY_MS):
        before = len(probed())
        while len(found := probed()[before:]) < 3 * packets:  # the first may be of the fast link
            assert time.monotonic() < deadline, found
    assert {field for field, _ in found} == {"ms="}
    assert min(float(ms) for _, ms in found[packets:]) >= 8 * DELAY_MS


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


ASKER = """
import sys
from pathlib import Path
from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.slow_link import LinkEnd, slowed

folder, *ends = sys.argv[1:]
with slowed(HostNetwork(Path(folder)), LinkEnd(*ends[:2]), LinkEnd(*ends[2:]), 5.0) as by:
    print(by, flush=True)
    sys.stdin.read()
"""


def test_a_link_is_as_it_was_when_who_slowed_it_is_killed(provisioned: Provisioned) -> None:
    ends = (provisioned.end("node-1"), provisioned.end("node-2"))
    before = {end.name: interfaces(provisioned, end.name) for end in ends}
    command = [sys.executable, "-c", ASKER, str(provisioned.network.folder), *ends[0], *ends[1]]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asker:
        assert asker.stdout is not None
        try:
            relays = relays_of(psutil.Process(asker.pid), asker.stdout.readline().strip())
            assert {end.name: interfaces(provisioned, end.name) for end in ends} != before
        finally:
            asker.kill()
    deadline = time.monotonic() + 30
    while any(runs(relay) for relay in relays):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert {end.name: interfaces(provisioned, end.name) for end in ends} == before


def end_relays(by: str) -> None:
    relays = relays_of(psutil.Process(), by)
    relays[-1].kill()
    gone, _ = psutil.wait_procs(relays, 30)
    assert gone


def relays_of(asker: psutil.Process, by: str) -> list[psutil.Process]:
    if by == "netem":
        pytest.skip("what is in the kernel does not end")
    relays = [p for p in asker.children(recursive=True) if relays_packets(p)]
    assert len(relays) == 2  # who went into the sandbox, and the relay there
    return relays


def relays_packets(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("packet_relay" in word for word in process.cmdline())
    return False
