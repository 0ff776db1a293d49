"""Each trouble of hosts, provoked for real: one line that names it, and the way back."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from hosts import Provisioned, harness

pytestmark = pytest.mark.system


def test_a_full_disk_stops_a_change_which_then_restarts_only_what_reads_it(provisioned: Provisioned) -> None:
    hosts = ("control", "node-1")
    before = {name: provisioned.service_pids(name) for name in hosts}
    text = provisioned.file.read_text()
    assert "  slots_per_node: 2\n" in text
    provisioned.file.write_text(
        text.replace("  slots_per_node: 2\n", "  slots_per_node: 2\n  settings: {logviewer.port: 8001}\n")
    )
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
    # what a command leaves that wrote the files of a service and ended before that had started anew
    assert provisioned.on("node-1", "sudo touch /etc/harness/stale/probes").returncode == 0

    resumed = provisioned.provision()
    assert resumed.status == 0, resumed.err
    after = {name: provisioned.service_pids(name) for name in hosts}
    restarted = {(host, s) for host in hosts for s in before[host] if after[host][s] != before[host][s]}
    assert restarted == {("control", "nimbus"), ("node-1", "supervisor"), ("node-1", "probes")}


def test_a_jar_that_was_changed_on_a_host_or_came_to_it_is_named(provisioned: Provisioned) -> None:
    jars = "/opt/harness/servers-*/storm/lib"
    client = f"{jars}/storm-client-*.jar"
    for spoil, mend, says in (
        (f"printf x >> $(ls {client})", f"truncate -s -1 {client}", "FAILED"),
        (f"touch $(echo {jars})/planted.jar", f"rm {jars}/planted.jar", "was not packed"),
    ):
        assert provisioned.on("node-1", f"sudo sh -c '{spoil}'").returncode == 0
        try:
            failed = provisioned.provision()
        finally:
            assert provisioned.on("node-1", f"sudo sh -c '{mend}'").returncode == 0
        assert failed.status == 1
        assert failed.error.startswith("error: node-1: What is there: /opt/harness/servers-")
        assert says in failed.error
        assert "remove that folder there" in failed.error


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


def test_another_host_at_the_same_address(provisioned: Provisioned) -> None:
    known = provisioned.state.known_hosts
    text = known.read_text()
    login = provisioned.state.key(provisioned.cluster)
    other = " ".join(login.with_name(f"{login.name}.pub").read_text().split()[:2])
    known.write_text("".join(f"{line.split()[0]} {other}\n" for line in text.splitlines()))
    try:
        told = harness("cluster", "status", provisioned.cluster.name)
    finally:
        known.write_text(text)
    assert told.status == 1
    unreachable = [p for p in told.result["problems"] if "is unreachable: " in p]
    assert len(unreachable) == 3
    assert all("HOST IDENTIFICATION HAS CHANGED" in p or "key verification" in p for p in unreachable)


def test_sudo_refused(provisioned: Provisioned) -> None:
    provisioned.as_root("node-2", "mv /etc/sudoers.d/harness /etc/harness.sudoers")
    try:
        failed = provisioned.provision()
    finally:
        provisioned.as_root("node-2", "mv /etc/harness.sudoers /etc/sudoers.d/harness")
    assert failed.status == 1
    assert failed.error.startswith("error: node-2: ")
    assert "the user needs sudo without a password" in failed.error


def test_two_commands_at_once(provisioned: Provisioned) -> None:
    with provisioned.state.locked():
        done = provisioned.provision()
    assert done.status == 2
    assert "another command uses the cluster" in done.error


def test_a_host_that_does_not_answer(provisioned: Provisioned, tmp_path: Path) -> None:
    """Port 1 of this machine, which is no host of ours and refuses: nothing of it is forgotten silently."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", 1), timeout=5)
    file = tmp_path / "far.yaml"
    file.write_text(f"""\
name: far
hosts:
  kind: existing
  ssh_user: nobody
  ssh_key: {provisioned.state.key(provisioned.cluster)}
  ssh_port: 1
  machines:
    - {{ name: only, roles: [zookeeper, nimbus, kafka, supervisor], address: 127.0.0.1 }}
""")
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "state")}
    for arguments in (("provision", str(file)), ("deprovision", "far", "--yes")):
        done = harness(*arguments, **elsewhere)
        assert done.status == 1
        assert done.error.startswith("error: only is unreachable: ")
        assert "Connection refused" in done.error
    assert str(tmp_path / "state" / "storm-harness" / "clusters" / "far") in done.err  # delete it, it says
    told = harness("cluster", "status", "far", **elsewhere)
    assert told.status == 1
    assert "half-provisioned" in told.result["problems"][0]


def log_of(error: str) -> Path:
    return Path(error.rsplit("(log: ", 1)[1].rstrip(")\n"))
