"""Clusters that tests start for themselves: each in a sandbox of its own, of which nothing may be left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from waiting import until

from harness.app.jars import jars
from harness.backends.local import daemon as cluster_daemon
from harness.errors import UsageError
from harness.machine import sandbox, servers
from harness.machine.machine_lock import came_up

pytestmark = pytest.mark.system


def in_a_sandbox(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(script))
    command = [
        sys.executable,
        "-m",
        "harness.machine.sandbox",
        "new",
        sys.executable,
        str(file),
        str(tmp_path),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.usefixtures("sandbox_allowed")
def test_a_dead_server_is_named_and_stop_leaves_nothing(tmp_path: Path) -> None:
    """One cluster of its own: nimbus is killed, and after stop only this process is left in the sandbox."""
    done = in_a_sandbox(
        """
        import json, os, sys, time
        from pathlib import Path
        import psutil
        from harness.machine import servers
        from harness.backends.local.cluster import LocalCluster
        from harness.experiments.clusters import Local
        from harness.errors import ClusterError

        home, shape = Path(sys.argv[1]), Local(nodes=1, slots_per_node=1)
        cluster = LocalCluster(servers.install(), home / "home", shape)

        def homes():  # but for archives of classes, which another test may be making
            found = [
                (folder, sorted(f for f in files if not f.endswith(".jsa")))
                for folder, _, files in os.walk(cluster.homes.storm)
                if ".classes-" not in folder
            ]
            return sorted(found)

        before = homes()
        cluster.start()
        answer = {"up": [s.name for s in cluster._servers]}
        other = LocalCluster(cluster.homes, home / "other", shape)
        try:
            other.start()
        except ClusterError as e:
            answer["second"] = str(e)
        nimbus = next(s for s in cluster._servers if s.name == "nimbus")
        os.kill(nimbus.pid, 9)
        while (dead := cluster.watch()) is None:
            time.sleep(0.01)
        answer["dead"] = dead.name if dead else None
        try:
            cluster.check()
        except ClusterError as e:
            answer |= {"message": e.message, "log": e.log, "tail": e.excerpt}
        try:
            cluster.nimbus.cluster_summary()
        except ClusterError as e:
            answer["gone"] = str(e)
        cluster.stop()
        answer["left"] = sorted(psutil.pids())
        answer["untouched"] = bool(before) and homes() == before
        print(json.dumps(answer))
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["up"] == ["zookeeper", "nimbus", "node-1", "kafka"]
    assert answer["second"].startswith("port 2181, which zookeeper needs, is taken")
    assert answer["dead"] == "nimbus"
    assert answer["message"].startswith("nimbus stopped with signal SIGKILL")
    assert answer["log"] == str(tmp_path / "home" / "logs" / "nimbus.log")
    assert len(answer["tail"].splitlines()) > 1
    assert "nimbus at 127.0.0.1:6627" in answer["gone"]
    assert len(answer["left"]) == 2  # the sandbox's first process and the script
    assert answer["untouched"]


@pytest.mark.usefixtures("sandbox_allowed")
def test_a_server_that_cannot_start_is_one_clear_error(tmp_path: Path) -> None:
    done = in_a_sandbox(
        """
        import json, sys
        from pathlib import Path
        import psutil
        from harness.machine import servers
        from harness.backends.local.cluster import LocalCluster
        from harness.experiments.clusters import Local
        from harness.machine.server_config import Heaps
        from harness.errors import ClusterError

        cluster = LocalCluster(
            servers.install(),
            Path(sys.argv[1]) / "home",
            Local(nodes=1, slots_per_node=1),
            heaps=Heaps(nimbus=1),
        )
        try:
            cluster.start()
        except ClusterError as e:
            print(json.dumps({"message": e.message, "log": e.log, "left": len(psutil.pids())}))
        """,
        tmp_path,
    )
    answer = json.loads(done.stdout)
    assert answer["message"].startswith("nimbus stopped with status 1: ")
    assert answer["log"].endswith("nimbus.log")
    assert answer["left"] == 2


@pytest.mark.usefixtures("sandbox_allowed")
def test_outside_a_sandbox_only_workers_listen_beyond_loopback_and_nothing_outlives_kill_9(
    tmp_path: Path,
) -> None:
    """A process that believes itself outside one (the mark is taken away), in a network that is free."""
    child = f"""
        import os, sys
        from pathlib import Path
        from harness.machine import sandbox, servers
        from harness.backends.local.cluster import LocalCluster
        from harness.experiments.clusters import Local
        from harness.errors import UsageError

        os.environ.pop(sandbox.MARK)
        homes, home = servers.install(), Path({str(tmp_path)!r}) / "home"
        try:
            LocalCluster(homes, home, Local(nodes=2, slots_per_node=1)).start()
        except UsageError as e:
            print(e, flush=True)
        jar = Path({str(jars() / "instrumentation.jar")!r})
        cluster = LocalCluster(homes, home, Local(nodes=2, slots_per_node=1), extlib=(jar,))
        cluster.start()
        print("started", flush=True)
        sys.stdin.read()
    """
    (tmp_path / "child.py").write_text(textwrap.dedent(child))
    done = in_a_sandbox(
        """
        import json, subprocess, sys, time
        import psutil

        line = [sys.executable, f"{sys.argv[1]}/child.py"]
        child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        refused, started = child.stdout.readline(), child.stdout.readline()
        listening = [c.laddr.ip for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        child.kill()
        child.wait()
        while any(p.info["name"] == "java" for p in psutil.process_iter(["name"])):
            time.sleep(0.05)
        print(json.dumps({"refused": refused, "started": started, "listening": listening}))
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["refused"].startswith("outside a sandbox nimbus would listen on every address")
    assert answer["started"] == "started\n"
    # zookeeper, nimbus, two supervisors, kafka and its controller
    assert len(answer["listening"]) >= 6
    assert all(ip.removeprefix("::ffff:").startswith("127.") for ip in answer["listening"])


@pytest.fixture
def sandbox_allowed() -> None:
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")


def processes_in_network_of(pid: int) -> list[psutil.Process]:
    network = os.readlink(f"/proc/{pid}/ns/net")
    found = []
    for process in psutil.process_iter():
        try:
            if os.readlink(f"/proc/{process.pid}/ns/net") == network:
                found.append(process)
        except OSError:
            continue  # it ended, or it is not ours
    return found


@pytest.fixture
def own_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.ServerHomes]:
    homes = servers.install()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield homes
    cluster_daemon.down()


@pytest.mark.usefixtures("sandbox_allowed")
def test_a_cluster_stays_up_until_down_and_dies_whole_with_its_outer_process(
    own_daemon: servers.ServerHomes,
) -> None:
    shape = cluster_daemon.Shape(nodes=1, slots_per_node=1)
    assert cluster_daemon.status().state is None
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        with pytest.raises(UsageError, match="a cluster is being started: wait for it"):
            cluster_daemon.up(own_daemon, shape)

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt  # as Ctrl-C does, which does not reach what was started

    with pytest.raises(KeyboardInterrupt):
        cluster_daemon.up(own_daemon, shape, interrupted)
    assert cluster_daemon.status().state is None

    before_ns = time.monotonic_ns()
    state = cluster_daemon.up(own_daemon, shape, tell)
    up_ns = time.monotonic_ns()
    assert came_up(before_ns, up_ns) == [os.getpid()]  # which makes what a run measured by then invalid
    assert came_up(up_ns, up_ns + 10**9) == []
    assert said, "progress was told"
    status = cluster_daemon.status()
    assert status.up
    assert set(status.answering) == {"zookeeper", "kafka", "nimbus", "node-1"}
    assert cluster_daemon.up(own_daemon, shape).pid == state.pid  # it is up already
    assert came_up(up_ns, time.monotonic_ns()) == []
    with pytest.raises(UsageError, match="another shape"):
        cluster_daemon.up(own_daemon, cluster_daemon.Shape(nodes=2, slots_per_node=1))

    joined = [sys.executable, "-m", "harness", "cluster", "exec", "readlink", "/proc/self/ns/net"]
    network = subprocess.run(joined, capture_output=True, text=True, check=True).stdout.strip()
    inside = processes_in_network_of(state.pid)
    assert network in {os.readlink(f"/proc/{p.pid}/ns/net") for p in inside}
    assert len(inside) >= 6  # outer, init, harness, and at least zookeeper, nimbus, node-1, kafka less one
    os.kill(state.pid, signal.SIGKILL)
    until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in inside), "all ended")
    assert cluster_daemon.status().state is None
    assert not cluster_daemon.down()

    state = cluster_daemon.up(own_daemon, shape)
    inside = processes_in_network_of(state.pid)
    assert cluster_daemon.down()
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in inside)
    assert not cluster_daemon.folder().exists()
