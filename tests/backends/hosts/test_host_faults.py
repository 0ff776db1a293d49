"""The process that a fault is for, found among those of a host; on real hosts in tests/reliability."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.backends.faults import WORKER
from harness.backends.hosts.host_faults import HostFaults, faults_of
from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.state import ProvisionedState
from harness.errors import ClusterError, HarnessError
from harness.experiments.cluster_file import LocalHosts, load
from harness.experiments.step_faults import Fault
from harness.plans import WorkerNode

CLUSTERS = Path(__file__).resolve().parents[3] / "configs" / "clusters"
CLUSTER = load(CLUSTERS / "namespaces-3.yaml")
NODES = tuple(
    WorkerNode(name=name, address="", host="h", cores=2, slots=(6700, 6701)) for name in ("node-1", "node-2")
)
COMMANDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "broker": ("control", ("-Xmx256m", "kafka.Kafka")),
    "nimbus": ("control", ("-Ddaemon.name=nimbus",)),
    "zookeeper": ("control", ("-Dlogfile.name=zookeeper.log",)),
    "supervisor": ("node-1", ("-Ddaemon.name=supervisor",)),
    "second": ("node-1", ("-Dworker.port=6701", "-Dlogfile.name=worker.log", WORKER)),
    "worker": ("node-1", ("-Dworker.port=6700", "-Dlogfile.name=worker.log", WORKER)),
    "log writer": ("node-1", ("-Dworker.port=6700", WORKER)),
}
"""Host and words of a command, as infra/ansible and Storm's supervisor start them."""


class Known(HostNetwork):
    """Hosts whose processes are given."""

    def __init__(self, pids: Mapping[str, list[int]]) -> None:
        self._pids = pids

    def processes(self, name: str) -> tuple[int, ...]:
        return tuple(self._pids.get(name, ()))


@pytest.fixture
def started() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    with ExitStack() as stack:
        found = {}
        for name, (_, words) in COMMANDS.items():
            command = [sys.executable, "-c", "import signal; signal.pause()", *words]
            found[name] = stack.enter_context(subprocess.Popen(command))
            stack.callback(found[name].kill)
        yield found


def test_each_part_is_found_on_its_host(started: dict[str, subprocess.Popen[bytes]]) -> None:
    pids: dict[str, list[int]] = {}
    for name, (host, _) in COMMANDS.items():
        pids.setdefault(host, []).append(started[name].pid)
    ended = subprocess.Popen(["true"])
    ended.wait()
    pids["node-1"].insert(0, ended.pid)
    assert isinstance(CLUSTER.hosts, LocalHosts)
    faults = HostFaults(Known(pids), CLUSTER, CLUSTER.hosts, NODES, {"receiver": 17})
    for part in ("broker", "nimbus", "zookeeper", "receiver"):
        fault = Fault.model_validate({"at_s": 0, "stop": part, "for_s": 1})
        assert faults.find(fault) == (17 if part == "receiver" else started[part].pid)
    for part in ("worker", "supervisor"):
        fault = Fault.model_validate({"at_s": 0, "stop": part, "node": "node-1", "for_s": 1})
        assert faults.find(fault) == started[part].pid
        elsewhere = fault.model_copy(update={"node": "node-2"})
        with pytest.raises(ClusterError, match=f"stop {part} node-2: there is no such process"):
            faults.find(elsewhere)


def test_hosts_that_are_no_namespaces_have_no_faults(tmp_path: Path) -> None:
    key, file = tmp_path / "key", tmp_path / "existing-3.yaml"
    key.touch()
    file.write_text((CLUSTERS / file.name).read_text().replace("~/.ssh/id_ed25519", str(key)))
    cluster = load(file)
    maker = faults_of(ProvisionedState(cluster.name), cluster, NODES, {})
    with pytest.raises(HarnessError, match="stop broker: this cluster has no faults"):
        maker.made(Fault(at_s=0, stop="broker", for_s=1))
