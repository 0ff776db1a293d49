"""The end of the cluster: nothing is left of it. Last by name, as it takes the cluster down."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
import waiting
from hosts import EXISTING, NAME, Belongings, Provisioned, Traces, harness

from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.terraform import Terraform

pytestmark = pytest.mark.system

until = partial(waiting.until, within_s=30.0)


def test_deprovision_takes_all_software_off_hosts_that_stay(
    provisioned: Provisioned, existing: Provisioned
) -> None:
    with provisioned.network.entered():
        done = harness("deprovision", EXISTING, "--yes")
    assert done.status == 0, done.err
    traces = "ls -d /opt/harness /etc/harness /var/*/harness /etc/sv/harness-* /etc/service/harness-* /home/*"
    for machine in existing.cluster.hosts.machines:
        assert provisioned.on(machine.name, traces).stdout.split() == ["/home/harness"]  # who logs in stays
        assert "storm" not in provisioned.on(machine.name, "cat /etc/passwd; ps axww").stdout
        assert "table" not in provisioned.on(machine.name, "sudo nft list tables").stdout
    assert not existing.state.folder.exists()


def test_deprovision_asks_first(provisioned: Provisioned) -> None:
    done = harness("deprovision", NAME)  # with nobody there to answer
    assert done.status != 0
    assert provisioned.network.alive


def test_deprovision_leaves_nothing(provisioned: Provisioned, before: Traces, state_folder: Path) -> None:
    belongings = Belongings.of(provisioned.network)
    done = harness("deprovision", NAME, "--yes")
    assert done.status == 0, done.err
    assert belongings.left() == set()
    assert Traces.now() == before
    assert list(state_folder.rglob("*")) == []
    gone = harness("cluster", "status", NAME)
    assert gone.status == 2
    assert f"there is no cluster {NAME}" in gone.error


def test_hosts_end_with_their_sandbox(before: Traces, state_folder: Path, tmp_path: Path) -> None:
    """What kill -9 of the sandbox's first process leaves: nothing but the files that say what was asked."""
    network = HostNetwork(tmp_path / "hosts")
    terraform = Terraform(tmp_path / "terraform", "local")
    inputs = {
        "cluster": "sandbox",
        "machines": [{"name": "one", "roles": ["nimbus"]}],
        "ssh": {"user": "harness", "public_key": "ssh-ed25519 AAAA"},
        "options": {"folder": str(tmp_path / "hosts"), "host_key": str(make_key(tmp_path))},
    }
    terraform.apply(inputs)
    assert network.host_alive("one")
    belongings = Belongings.of(network)
    os.kill(network.pid, signal.SIGKILL)
    until(lambda: not network.alive and not network.host_alive("one"), "its network is gone")
    until(lambda: not belongings.left(), "its belongings are gone")
    assert terraform.apply(inputs, network.dead(["one"]))  # noticed, and made anew
    assert network.host_alive("one")
    belongings = Belongings.of(network)
    terraform.destroy()
    assert not network.alive
    assert belongings.left() == set()
    assert Traces.now() == before


def make_key(folder: Path) -> Path:
    path = folder / "host_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path
