"""CPU quotas for local hosts while a block lasts: of supervisor, workers and all else that runs there.

A process of its own sets them and takes them off again: at the block's end, and also when who asked for them
is killed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.backends.hosts.host_network import HostNetwork
from harness.errors import ClusterError, HarnessError
from harness.machine.cgroups import CpuQuotas


@contextmanager
def limited(
    network: HostNetwork, quota_cores: Mapping[str, float], beside: Sequence[str] = ()
) -> Iterator[None]:
    """Let hosts use so many cores at most while the block lasts.

    Parameters
    ----------
    network : HostNetwork
        The sandbox of the hosts.
    quota_cores : mapping
        Cores by the host's name.
    beside : sequence of str
        Hosts without a quota that are in their way as equals; all others go on as they are.

    Raises
    ------
    ClusterError
        When a host is gone, or this machine allows no quotas.
    """
    if not quota_cores:
        yield
        return
    command = [
        sys.executable,
        "-m",
        __name__,
        str(network.folder),
        json.dumps([dict(quota_cores), list(beside)]),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # the keeper ends with it: when the block ends, or this process
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # what ends who asks must not end it in the middle
    ) as keeper:
        assert keeper.stdout is not None
        said = keeper.stdout.readline()
        if said != "ready\n":
            raise ClusterError(said.strip() or "CPU quotas cannot be set: their keeper ended")
        yield
        if keeper.poll() is not None:
            raise ClusterError("hosts are under their CPU quotas no longer: their keeper ended")


def _keep(network: HostNetwork, quota_cores: Mapping[str, float], beside: Sequence[str]) -> None:
    """Put hosts into groups, and under quotas, until standard input ends."""
    quotas = CpuQuotas(quota_cores)
    try:
        for host in (*quota_cores, *beside):
            under: set[int] = set()
            while new := set(network.processes(host)) - under:  # started meanwhile
                for pid in new:
                    quotas.add(host, pid)
                under |= new
        _tell("ready")
        sys.stdin.read()
    finally:
        quotas.release()


def _tell(line: str) -> None:
    """Say a line to who started this process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    try:
        _keep(HostNetwork(Path(sys.argv[1])), *json.loads(sys.argv[2]))
    except HarnessError as error:
        _tell(str(error))
        sys.exit(1)
