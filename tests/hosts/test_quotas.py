"""Hosts under CPU quotas while a block lasts, and as they were after it, however it ended."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hosts import ROOT, Provisioned

from harness.backends.hosts.host_quotas import limited
from harness.backends.hosts.slow_link import slowed
from harness.errors import ClusterError
from harness.machine import cgroups

pytestmark = pytest.mark.system

QUOTA_CORES = 0.3
SPIN = """
import time
began = time.monotonic(), time.process_time()
while time.monotonic() - began[0] < 3.0:
    pass
print((time.process_time() - began[1]) / (time.monotonic() - began[0]))
"""


@pytest.fixture(autouse=True)
def _allowed() -> None:
    if reason := cgroups.obstacle():
        pytest.skip(f"no CPU quotas here: {reason}")


def share_of_a_core(provisioned: Provisioned, host: str) -> float:
    """CPU time a second that a thread on a host gets which does nothing but ask for more."""
    return float(provisioned.on(host, "python3 -", SPIN).stdout)


def groups_of(provisioned: Provisioned, host: str) -> set[str]:
    """CPU groups that a host's processes are in."""
    found = set()
    for pid in provisioned.network.processes(host):
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        found |= {line for line in lines if cgroups.PREFIX in line}
    return found


def test_a_host_gets_no_more_than_its_quota_and_others_are_as_they_were(provisioned: Provisioned) -> None:
    """The kernel counts by periods of 100 ms: in 3 s at most one more than the quota has.

    What slows a link is in the host's network, may have a real-time priority, and is not the host's.
    """
    ends = provisioned.end("node-1"), provisioned.end("node-2")
    with (
        slowed(provisioned.network, *ends, 1.0),
        limited(provisioned.network, {"node-1": QUOTA_CORES}),
    ):
        assert share_of_a_core(provisioned, "node-1") <= QUOTA_CORES * (1 + 1 / 30) + 0.01
        assert len(groups_of(provisioned, "node-1")) == 1
        assert groups_of(provisioned, "node-2") == set()
    assert groups_of(provisioned, "node-1") == set()


def test_a_host_without_a_quota_is_in_the_way_of_others_as_an_equal(provisioned: Provisioned) -> None:
    with limited(provisioned.network, {"node-1": QUOTA_CORES}, ["node-2"]):
        (one,), (other,) = (groups_of(provisioned, name) for name in ("node-1", "node-2"))
        assert one.rpartition("/")[0] == other.rpartition("/")[0]
    assert groups_of(provisioned, "node-2") == set()


def test_a_host_that_is_not_there_has_no_quota(provisioned: Provisioned) -> None:
    with (
        pytest.raises(ClusterError, match="host node-9 is gone"),
        limited(provisioned.network, {"node-1": QUOTA_CORES, "node-9": QUOTA_CORES}),
    ):
        pass
    assert groups_of(provisioned, "node-1") == set()


ASKER = """
import sys
from pathlib import Path
from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.host_quotas import limited
from harness.backends.hosts.slow_link import slowed

with limited(HostNetwork(Path(sys.argv[1])), {"node-1": 0.5}):
    print("limited", flush=True)
    sys.stdin.read()
"""


def test_quotas_end_when_who_asked_for_them_is_killed(provisioned: Provisioned) -> None:
    command = [sys.executable, "-c", ASKER, str(provisioned.network.folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asker:
        assert asker.stdout is not None
        try:
            assert asker.stdout.readline() == "limited\n"
            assert len(groups_of(provisioned, "node-1")) == 1
        finally:
            asker.kill()
    deadline = time.monotonic() + 30
    while groups_of(provisioned, "node-1"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
