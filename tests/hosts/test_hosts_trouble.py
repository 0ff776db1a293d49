"""Each trouble of hosts, provoked for real: one line that names it, and the way back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hosts import Provisioned, harness

pytestmark = pytest.mark.system


def repair(provisioned: Provisioned, host: str) -> None:
    """Make a host anew."""
    provisioned.kill(host)
    done = provisioned.provision()
    assert done.status == 0, done.err


def test_a_host_that_disappeared_is_named_and_made_anew(provisioned: Provisioned) -> None:
    provisioned.kill("node-2")
    assert not provisioned.network.host_alive("node-2")
    told = harness("cluster", "status", provisioned.cluster.name)
    assert told.status == 1
    address = provisioned.address("node-2")
    unreachable = next(p for p in told.result["problems"] if p.startswith("node-2 is unreachable: "))
    assert address in unreachable
    others = {h["name"] for h in told.result["hosts"] if h["reachable"]}
    assert others == {"control", "node-1"}
    before = provisioned.service_pids("node-1")
    done = provisioned.provision()
    assert done.status == 0, done.err
    assert provisioned.service_pids("node-1") == before  # nobody else was touched
    assert harness("cluster", "status", provisioned.cluster.name).status == 0


def test_a_wrong_key(provisioned: Provisioned, tmp_path: Path) -> None:
    key = provisioned.state.key(provisioned.cluster)
    kept = tmp_path / "kept"
    shutil.move(key, kept)
    shutil.copy(provisioned.state.host_key(), key)  # a key, but not one that the hosts accept
    try:
        done = provisioned.provision()
    finally:
        shutil.move(kept, key)
    assert done.status == 1
    assert "is unreachable: " in done.error
    assert "Permission denied (publickey)" in done.error
    assert "the host does not accept this key or user" in done.error
    assert log_of(done.error).is_file()


def test_another_host_at_the_same_address(provisioned: Provisioned, tmp_path: Path) -> None:
    known = provisioned.state.known_hosts
    text = known.read_text()
    login = provisioned.state.key(provisioned.cluster)
    other = " ".join(login.with_name(f"{login.name}.pub").read_text().split()[:2])
    fake = "".join(f"{line.split()[0]} {other}\n" for line in text.splitlines())
    known.write_text(fake)
    try:
        told = harness("cluster", "status", provisioned.cluster.name)
    finally:
        known.write_text(text)
    assert told.status == 1
    assert any(
        "HOST IDENTIFICATION HAS CHANGED" in p or "key verification" in p for p in told.result["problems"]
    )


def test_a_full_disk(provisioned: Provisioned) -> None:
    done = provisioned.on(
        "node-1",
        "sudo rm /opt/harness/servers-*/complete"
        " && sudo fallocate -l $(($(df --output=avail -B1 /opt | tail -1) - 50000000)) /opt/filler",
    )
    assert done.returncode == 0, done.stderr
    try:
        failed = provisioned.provision()
        assert failed.status == 1
        assert failed.error.startswith("error: node-1: Room for the software: disk full: ")
        assert "make room on that host" in failed.error
        assert log_of(failed.error).is_file()
        assert "half-provisioned" in failed.err
        told = harness("cluster", "status", provisioned.cluster.name)
        assert told.status == 1
        assert "half-provisioned" in told.result["problems"][0]
    finally:
        provisioned.on("node-1", "sudo rm /opt/filler")
    resumed = provisioned.provision()
    assert resumed.status == 0, resumed.err
    assert harness("cluster", "status", provisioned.cluster.name).status == 0


def test_sudo_refused(provisioned: Provisioned) -> None:
    assert provisioned.on("node-2", "sudo rm /etc/sudoers.d/harness").returncode == 0
    failed = provisioned.provision()
    assert failed.status == 1
    assert failed.error.startswith("error: node-2: ")
    assert "the user needs sudo without a password" in failed.error
    repair(provisioned, "node-2")


def test_two_commands_at_once(provisioned: Provisioned) -> None:
    with provisioned.state.locked():
        done = provisioned.provision()
    assert done.status == 2
    assert "another command is changing the cluster" in done.error


def log_of(error: str) -> Path:
    return Path(error.rsplit("(log: ", 1)[1].rstrip(")\n"))
