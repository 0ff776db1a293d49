"""A cluster on namespace hosts, driven by the commands as a user gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.backends.hosts import host_network
from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.slow_link import LinkEnd
from harness.backends.hosts.state import ProvisionedState
from harness.experiments.cluster_file import ClusterFile, load

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "configs" / "clusters" / "namespaces-3.yaml"
NAME = "tested"
EXISTING = "tested-existing"
MOST_S = 600
SHORT = (
    "topology.tasks=4",
    "measure.bucket_s=1",
    "measure.burn_in.least_s=12",  # the least number of buckets that can be judged
    "measure.burn_in.most_s=60",  # of a machine that is busy otherwise
    "measure.burn_in.drift_pct=90",
    "measure.interval.least_s=12",
    "measure.interval.most_s=12",
    "measure.interval.looks=1",
    "measure.interval.precision_pct=50",
    "workload.rate_tps=50",
    "models=[no-change]",
    "steps.plan=[{executors: 1, workers: 2}, {executors: 2, workers: 4}]",
)
STAMPS_MS = 1.0
"""The broker stamps in whole milliseconds, so a difference of two stamps is too small by less than this."""


def obstacle() -> str:
    """Why no namespace hosts can be made here; empty when they can."""
    if os.environ.get("STORM_HARNESS_SANDBOX"):
        return "namespace hosts cannot be made inside another sandbox: make test-hosts and reliability can"
    if missing := host_network.missing_packages():
        return f"namespace hosts need {', '.join(missing)}"
    lacks = host_network.obstacle()
    return f"namespace hosts need {lacks}" if lacks else ""


@dataclass(frozen=True)
class Answer:
    """How a command ended, and its last line."""

    status: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found

    @property
    def error(self) -> str:
        """The line that says what is wrong."""
        return next(line for line in self.err.splitlines() if line.startswith("error: "))


def harness(*arguments: str, **environment: str) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_S,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


def cluster_file(folder: Path, name: str = NAME, network: str = "10.96.7.0/24", extra: str = "") -> Path:
    """Write the shipped cluster's file under another name, on another network."""
    text = SHIPPED.read_text().replace("name: namespaces-3", f"name: {name}")
    assert "  kind: local\n" in text
    path = folder / f"{name}.yaml"
    path.write_text(text.replace("  kind: local\n", f"  kind: local\n  network: {network}\n") + extra)
    return path


def existing_file(folder: Path, cluster: Provisioned) -> Path:
    """Write a file that describes a cluster's hosts as ones that are there already."""
    there = cluster.cluster
    hosts = {
        "kind": "existing",
        "ssh_user": there.hosts.ssh_user,
        "ssh_key": str(cluster.state.key(there)),
        "controllers": [there.hosts.gateway],  # type: ignore[union-attr]
        "machines": [
            m.model_dump(mode="json", exclude_none=True) | {"address": cluster.address(m.name)}
            for m in there.hosts.machines
        ],
    }
    whole = there.model_dump(mode="json", exclude={"hosts"}) | {"name": EXISTING, "hosts": hosts}
    path = folder / f"{EXISTING}.yaml"
    path.write_text(json.dumps(whole))  # which is YAML too
    return path


class Provisioned:
    """The cluster as it is."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.cluster: ClusterFile = load(file)
        self.state = ProvisionedState(self.cluster.name)
        self.network = HostNetwork(self.state.hosts)

    def provision(self, **environment: str) -> Answer:
        return harness("provision", str(self.file), **environment)

    def address(self, name: str) -> str:
        return self.state.addresses()[name]

    def end(self, name: str) -> LinkEnd:
        return LinkEnd(name, self.address(name))

    def on(self, name: str, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command on a host, over ssh as Ansible does."""
        options = f"-F /dev/null -o BatchMode=yes -o UserKnownHostsFile={self.state.known_hosts} -i"
        key = str(self.state.key(self.cluster))
        with self.network.entered():
            return subprocess.run(
                ["ssh", *options.split(), key, f"harness@{self.address(name)}", command],
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )

    def in_sandbox(self, *command: str) -> str:
        """Run a command of this machine among the hosts' namespaces."""
        where = ["nsenter", "--target", str(self.network.pid), "--net", "--mount", "--pid"]
        return subprocess.run([*where, *command], capture_output=True, text=True, check=True).stdout

    def said_in_sandbox(self, *command: str) -> str:
        """Do the same with a command that says what it found on standard error."""
        where = ["nsenter", "--target", str(self.network.pid), "--net", "--mount", "--pid"]
        return subprocess.run([*where, *command], capture_output=True, text=True, check=True).stderr

    def first_process(self, name: str) -> str:
        """A host's first process, as the sandbox counts them."""
        for pid in self.in_sandbox("ip", "netns", "pids", name).split():
            if self.in_sandbox("cat", f"/proc/{pid}/comm").strip() == "runsvdir":
                return pid
        raise AssertionError(f"{name} has no runsvdir")

    def as_root(self, name: str, command: str) -> str:
        """Run a command with a host's files, without logging in."""
        enter = ["nsenter", "--target", self.first_process(name), "--mount"]
        return self.in_sandbox(*enter, "sh", "-c", command)

    def kill(self, name: str) -> None:
        """Kill a host's first process, with which it is gone."""
        self.in_sandbox("kill", "-KILL", self.first_process(name))
        deadline = time.monotonic() + 30
        while self.network.host_alive(name):  # the kernel ends the rest of its processes
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def service_pids(self, name: str) -> dict[str, int]:
        """The process of each of a host's services."""
        done = self.on(
            name, "for s in /etc/service/harness-*; do echo $(basename $s) $(sudo cat $s/supervise/pid); done"
        )
        assert done.returncode == 0, done.stderr
        return {
            line.split()[0].removeprefix("harness-"): int(line.split()[1])
            for line in done.stdout.splitlines()
        }


KINDS = ("net", "mnt", "pid", "uts", "ipc")


def namespaces(pid: int | str) -> set[str]:
    try:
        return {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in KINDS}
    except OSError:  # it ended
        return set()


def runs(process: psutil.Process) -> bool:
    try:  # whether one that has ended is reaped is up to this machine's first process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class Belongings:
    """What a sandbox has on this machine, whatever else goes on there."""

    processes: tuple[psutil.Process, ...]
    namespaces: frozenset[str]

    @classmethod
    def of(cls, network: HostNetwork) -> Belongings:
        top = psutil.Process(network.pid)
        processes = (top, *top.children(recursive=True))
        found = set().union(*(namespaces(p.pid) for p in processes)) - namespaces("self")
        assert len(processes) > 1
        assert len(found) > len(KINDS)
        return cls(processes, frozenset(found))

    def left(self) -> set[str]:
        """What there still is of it."""
        there = set().union(*(namespaces(p.pid) for p in psutil.process_iter()))
        return {f"process {p.pid}" for p in self.processes if runs(p)} | (self.namespaces & there)


@dataclass(frozen=True)
class Traces:
    """What of this process's own network and mounts a cluster could leave changed."""

    interfaces: frozenset[str]
    mounts: frozenset[str]

    @classmethod
    def now(cls) -> Traces:
        mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
        return cls(frozenset(psutil.net_if_addrs()), frozenset(mounts))
