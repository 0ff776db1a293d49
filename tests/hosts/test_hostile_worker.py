"""What a jar's code, which runs as user storm on a host, can reach on this machine by way of its logs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hosts import Provisioned

from harness.app.campaigning import keep_logs
from harness.backends.hosts import remote
from harness.backends.hosts.clocks import READER, ask
from harness.backends.hosts.data_servers import login_of
from harness.backends.hosts.provision import network
from harness.backends.hosts.variables import METRICS_TOKEN_FILE
from harness.machine import servers

pytestmark = pytest.mark.system

PLANT = (
    "cd /var/log/harness/storm && ln -sf /etc/shadow leak && ln -sf /nonexistent gone && ln -sf / root"
    " && cp /bin/true su && chmod 4755 su && mkfifo pipe && truncate -s 1T sparse.log && echo a line > a.log"
)
REMOVE = "cd /var/log/harness/storm && rm -f leak gone root su pipe sparse.log a.log"


@pytest.fixture(scope="module")
def cluster(provisioned: Provisioned, tmp_path_factory: pytest.TempPathFactory) -> remote.RemoteCluster:
    home = tmp_path_factory.mktemp("home")
    login = login_of(provisioned.state, provisioned.cluster)
    with network(provisioned.state, provisioned.cluster):
        clocks = {
            name: ask(name, login.command(address, READER))
            for name, address in provisioned.state.addresses().items()
        }
        homes = servers.install()
        return remote.RemoteCluster(provisioned.state, provisioned.cluster, homes, home, clocks, {})


def as_storm(provisioned: Provisioned, command: str) -> str:
    done = provisioned.on("node-1", f"sudo -u storm sh -c '{command}'")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_links_modes_and_owners_of_a_host_do_not_come_here(
    provisioned: Provisioned, cluster: remote.RemoteCluster, tmp_path: Path
) -> None:
    as_storm(provisioned, PLANT)
    try:
        with network(provisioned.state, provisioned.cluster):
            cluster.fetch_logs()
    finally:
        as_storm(provisioned, REMOVE)
    assert keep_logs(cluster.logs, tmp_path / "servers")
    for folder in (cluster.logs, tmp_path / "servers"):
        logs = folder / "node-1" / "storm"
        assert (logs / "a.log").read_text() == "a line\n"
        assert not [
            name for name in ("leak", "gone", "root", "pipe", "sparse.log") if os.path.lexists(logs / name)
        ]
        assert not stat.S_IMODE((logs / "su").lstat().st_mode) & 0o7111
        assert {path.lstat().st_uid for path in folder.rglob("*")} == {os.getuid()}
        assert not any(path.is_symlink() for path in folder.rglob("*"))
        assert (folder / "control" / "kafka.log").exists() or (folder / "control").is_dir()


def test_the_metrics_token_is_for_the_workers_user_alone(
    provisioned: Provisioned, cluster: remote.RemoteCluster
) -> None:
    """Also where that user left a link at the file's place, through which root would write."""
    as_storm(provisioned, f"rm -f {METRICS_TOKEN_FILE}; ln -s /etc/harness-planted {METRICS_TOKEN_FILE}")
    with network(provisioned.state, provisioned.cluster):
        assert cluster.hand_out("of-this-run") == METRICS_TOKEN_FILE
    for node in ("node-1", "node-2"):
        seen = provisioned.on(node, f"sudo stat -c '%U %a %F' {METRICS_TOKEN_FILE}").stdout
        assert seen == "storm 600 regular file\n"
        assert provisioned.on(node, f"sudo cat {METRICS_TOKEN_FILE}").stdout == "of-this-run\n"
        assert provisioned.on(node, f"cat {METRICS_TOKEN_FILE}").returncode != 0
    assert provisioned.on("node-1", "test -e /etc/harness-planted").returncode != 0
