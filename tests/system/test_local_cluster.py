"""The local cluster, its sandbox and Nimbus, with real servers.

What a plan should be is what was asked of Nimbus; nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.backends import cluster_daemon, sandbox, servers
from harness.backends.class_archive import class_archive
from harness.backends.kafka import Topics
from harness.backends.local import LocalCluster
from harness.backends.submission import submit
from harness.backends.topology_state import WorkerStarts
from harness.deployment import MAIN
from harness.errors import ClusterError, UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.experiments.submission import submit_settings, topology_settings
from harness.jars import jars
from harness.plans import ACKER, TopologyConfiguration

pytestmark = pytest.mark.system

WAIT_S = 120.0
NOBODY = "http://127.0.0.1:9/api/v2/write"  # the discard port: metrics are not looked at here


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}"
        time.sleep(0.1)


def asked(executors: int, workers: int, experiment: Experiment) -> TopologyConfiguration:
    names = [*experiment.topology.roles]
    return TopologyConfiguration(
        executors={**dict.fromkeys(names, executors), ACKER: experiment.ackers}, workers=workers
    )


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load("quick", ())


@pytest.fixture(scope="module")
def topology(
    cluster: LocalCluster, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A submitted fields-to-fields topology that is up, on two workers with one executor a component.

    One for all tests here; each takes it as the last one left it.
    """
    name = f"test-{uuid.uuid4().hex[:8]}"
    folder = tmp_path_factory.mktemp("topology")
    with Topics(cluster.bootstrap) as topics:
        for topic in (f"{name}-in", f"{name}-out"):
            topics.create(topic)
        settings = topology_settings(
            experiment,
            name,
            asked(1, 2, experiment),
            bootstrap=cluster.bootstrap,
            input_topic=f"{name}-in",
            output_topic=f"{name}-out",
        )
        (folder / "topology.json").write_text(json.dumps(settings))
        instructions = submit_settings(
            experiment,
            jars() / "topologies.jar",
            MAIN,
            [str(folder / "topology.json")],
            metrics_url=NOBODY,
            nimbus=(cluster.nimbus.host, cluster.nimbus.port),
        )
        (folder / "submit.json").write_text(json.dumps(instructions))
        submit(
            cluster.homes,
            folder / "submit.json",
            instrumentation=jars() / "instrumentation.jar",
            topology_jar=jars() / "topologies.jar",
            hosts=cluster.hosts,
        )
        try:
            cluster.nimbus.wait_active(name, WAIT_S, cluster.check)
            yield name
        finally:
            cluster.nimbus.kill(name)
            for topic in (f"{name}-in", f"{name}-out"):
                topics.delete(topic)


def workers_of(topology: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "org.apache.storm.daemon.worker.Worker" in words and any(
            w.startswith(f"{topology}-") for w in words
        ):
            found.append(process)
    return found


def test_the_summary_names_version_and_every_node(cluster: LocalCluster) -> None:
    summary = cluster.nimbus.cluster_summary()
    assert summary.version == servers.STORM_VERSION
    assert {s.address: s.slots for s in summary.supervisors} == {
        n.address: len(n.slots) for n in cluster.nodes
    }
    assert cluster.watch() is None
    cluster.check()


def test_every_server_maps_its_classes_into_memory(cluster: LocalCluster) -> None:
    """A JVM whose class path does not begin with that of its archive ignores it and says nothing."""
    for server in cluster._servers:
        archive = class_archive(cluster.homes, "kafka" if server.name == "kafka" else "daemons")
        mapped = {m.path for m in psutil.Process(server.pid).memory_maps()}
        assert str(archive) in mapped, server.name


def test_the_plan_is_the_configuration_that_was_asked_for(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    nimbus, query_plan = cluster.nimbus, experiment.topology.query_plan()
    plan = nimbus.physical_plan(topology, query_plan, cluster.nodes)
    first = asked(1, 2, experiment)
    assert plan.configuration().workers == 2
    assert first.executors.items() <= plan.configuration().executors.items()
    # every task is in exactly one executor: ackers, one metrics consumer, then 16 tasks a component
    tasks = sorted(t for e in plan.executors for t in e.tasks)
    assert tasks == list(range(1, 1 + experiment.ackers + 1 + 16 * len(query_plan.components)))

    starts = WorkerStarts()
    before = starts.update(nimbus.topology(topology).uptimes_s(), time.monotonic())
    pids = {p.pid for p in workers_of(topology)}
    assert len(pids) == 2

    second = asked(4, 2, experiment)
    rebalance = nimbus.rebalance(topology, second)
    state = nimbus.wait_rebalanced(topology, rebalance, WAIT_S, cluster.check)
    assert state.status == "ACTIVE"
    assert state.all_up
    plan = nimbus.physical_plan(topology, query_plan, cluster.nodes)
    assert plan.configuration().workers == 2
    assert second.executors.items() <= plan.configuration().executors.items()
    assert {len(e.tasks) for c in query_plan.components for e in plan.of(c.name)} == {4}
    # what was reported is of the new workers, not of the old ones on the same slots
    assert pids.isdisjoint(p.pid for p in workers_of(topology))
    after = starts.update(state.uptimes_s(), time.monotonic())
    assert all(after[slot] != start for slot, start in before.items() if slot in after)
    assert state.errors == ()


def test_old_reports_are_not_taken_for_new_workers(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    """From one worker to two: the last report of the one holds every executor of its successor."""
    before = {p.pid for p in workers_of(topology)}
    rebalance = cluster.nimbus.rebalance(topology, asked(1, 1, experiment))
    state = cluster.nimbus.wait_rebalanced(topology, rebalance, WAIT_S, cluster.check)
    assert len(state.slots()) == 1
    until(lambda: before.isdisjoint(p.pid for p in workers_of(topology)), "the old workers ended")

    before = {p.pid for p in workers_of(topology)}
    rebalance = cluster.nimbus.rebalance(topology, asked(1, 2, experiment))
    state = cluster.nimbus.wait_rebalanced(topology, rebalance, WAIT_S, cluster.check)
    assert len(state.slots()) == 2
    after = {p.pid for p in workers_of(topology)}
    assert before.isdisjoint(after)
    assert len(after) == 2


def test_settings_are_read_back_as_submitted(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    settings = cluster.nimbus.topology_settings(topology)
    for key, value in experiment.storm_settings().items():
        assert settings[key] == value, key


def test_a_worker_that_is_killed_is_seen_as_restarted(cluster: LocalCluster, topology: str) -> None:
    starts = WorkerStarts()

    def old_enough() -> bool:
        """Reports are late: a worker that has just begun cannot be told from its successor."""
        uptimes_s = cluster.nimbus.topology(topology).uptimes_s()
        starts.update(uptimes_s, time.monotonic())
        return bool(uptimes_s) and min(uptimes_s.values()) > 2 * WorkerStarts.TOLERANCE_S

    until(old_enough, "workers older than reports are late")
    before = starts.update(cluster.nimbus.topology(topology).uptimes_s(), time.monotonic())
    workers_of(topology)[0].kill()

    def restarted() -> bool:
        now = starts.update(cluster.nimbus.topology(topology).uptimes_s(), time.monotonic())
        return any(now.get(slot, start) != start for slot, start in before.items())

    until(restarted, "a worker with a later start")
    until(lambda: cluster.nimbus.topology(topology).all_up, "all executors up again")
    assert cluster.watch() is None  # servers are well: only a worker died


def test_a_topology_that_is_not_there_is_one_line(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="there is no topology nowhere"):
        cluster.nimbus.topology("nowhere")
    cluster.nimbus.kill("nowhere")  # killing what is not there is no mistake


def test_more_executors_than_tasks_are_capped_by_storm_and_seen(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    """Storm gives 16 executors where 17 were asked for: such a plan is never taken for the asked one."""
    rebalance = cluster.nimbus.rebalance(topology, asked(17, 2, experiment))
    until(
        lambda: (s := cluster.nimbus.topology(topology)).status == "ACTIVE" and len(s.executors) > 60,
        "64 executors and the system's own",
    )
    until(lambda: cluster.nimbus.topology(topology).all_up, "all executors up")
    assert not rebalance.whole(cluster.nimbus.topology(topology))


def in_a_sandbox(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(script))
    command = [
        sys.executable,
        "-m",
        "harness.backends.sandbox",
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
        from harness.backends import servers
        from harness.backends.local import LocalCluster
        from harness.errors import ClusterError

        cluster = LocalCluster(servers.install(), Path(sys.argv[1]) / "home", nodes=1, slots_per_node=1)
        homes = sorted(str(p) for p in cluster.homes.storm.rglob("*") if p.suffix != ".jsa")
        cluster.start()
        answer = {"up": [s.name for s in cluster._servers]}
        other = LocalCluster(cluster.homes, Path(sys.argv[1]) / "other", nodes=1, slots_per_node=1)
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
        answer["untouched"] = homes == sorted(
            str(p) for p in cluster.homes.storm.rglob("*") if p.suffix != ".jsa"
        )
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
        from harness.backends import servers
        from harness.backends.local import LocalCluster
        from harness.backends.server_config import Heaps
        from harness.errors import ClusterError

        cluster = LocalCluster(
            servers.install(), Path(sys.argv[1]) / "home", nodes=1, slots_per_node=1, heaps=Heaps(nimbus=1)
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
        from harness.backends import sandbox, servers
        from harness.backends.local import LocalCluster
        from harness.errors import UsageError

        os.environ.pop(sandbox.MARK)
        homes, home = servers.install(), Path({str(tmp_path)!r}) / "home"
        try:
            LocalCluster(homes, home, nodes=2, slots_per_node=1).start()
        except UsageError as e:
            print(e, flush=True)
        jar = Path({str(jars() / "instrumentation.jar")!r})
        cluster = LocalCluster(homes, home, nodes=2, slots_per_node=1, extlib=(jar,))
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

    state = cluster_daemon.up(own_daemon, shape, tell)
    assert said, "progress was told"
    status = cluster_daemon.status()
    assert status.up
    assert set(status.answering) == {"zookeeper", "kafka", "nimbus", "node-1"}
    assert cluster_daemon.up(own_daemon, shape).pid == state.pid  # it is up already
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
