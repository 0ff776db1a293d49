"""A Storm cluster as somebody else would start it: Storm's jars, defaults and ports, nothing of ours."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import psutil

from harness.backends.kafka.client import Topics
from harness.errors import ClusterError
from harness.machine import server_config
from harness.machine.server_process import kafka_answers
from harness.machine.servers import ServerHomes
from harness.storm.nimbus import Nimbus

NIMBUS, KAFKA = "localhost:6627", "localhost:9092"
SLOTS = 4
"""What a supervisor offers when nobody says otherwise: ports 6700 to 6703."""
WAIT_S = 180.0


def until(done: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}"
        time.sleep(0.2)


def submit_as_others_do(jars: Path, home: Path, jar: Path, name: str, nimbus: Nimbus) -> None:
    """Let a program of ``tests/system/foreign`` submit its topology with Storm's client alone; wait until it is up.

    Parameters
    ----------
    jars : Path
        Folder whose ``lib-worker`` is the client's class path.
    home : Path
        Of the cluster.
    """
    path = f"{jars}/lib-worker/*:{home}/storm/conf:{jar}"
    command = ["java", f"-Dstorm.jar={jar}", "-cp", path, jar.stem.capitalize(), name, "once"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    until(lambda: (s := nimbus.topology(name)).status == "ACTIVE" and s.all_up, f"{name} is up")


def require_untouched(nimbus: Nimbus, name: str, uptimes_s: Mapping[str, int]) -> None:
    """Fail unless a topology is alone on the cluster, in the workers that it had, and no topic is left."""
    assert set(nimbus.cluster_summary().topologies) == {name}
    after = nimbus.topology(name).uptimes_s()
    assert after.keys() == uptimes_s.keys()
    assert all(after[slot] > uptimes_s[slot] for slot in uptimes_s)  # none was started again
    with Topics(KAFKA) as topics:
        assert topics.names() == frozenset()


@contextmanager
def default_storm(homes: ServerHomes, home: Path, jars: Path | None = None) -> Iterator[Nimbus]:
    """Give Nimbus of a cluster that is up for the block: ZooKeeper, Nimbus, one supervisor, a broker.

    Parameters
    ----------
    homes : ServerHomes
        The broker's jars, and Storm's.
    home : Path
        Folder for all that the cluster writes.
    jars : Path, optional
        Folder with ``lib`` and ``lib-worker`` of another version of Storm.
    """
    storm = _storm_home(jars or homes.storm, home / "storm")
    (home / "zoo.cfg").write_text(
        f"dataDir={home / 'zookeeper'}\nclientPort=2181\nadmin.enableServer=false\n"
    )
    ports = server_config.Ports(kafka=9092, kafka_controller=9093)
    (home / "server.properties").write_text(server_config.kafka_properties(home / "kafka", ports))
    kafka = ["java", "-Xmx256m", "-cp", f"{homes.kafka}/lib/*"]
    formatting = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c"]
    subprocess.run([*kafka, *formatting, home / "server.properties"], check=True, capture_output=True)
    quorum = "org.apache.storm.shade.org.apache.zookeeper.server.quorum.QuorumPeerMain"
    daemon = [
        "java",
        "-Xmx256m",
        *server_config.ADD_OPENS,
        f"-Dstorm.home={storm}",
        f"-Dstorm.log.dir={storm}/logs",
    ]
    daemon += [f"-Dlog4j.configurationFile={storm}/log4j2/cluster.xml", "-cp", f"{storm}/lib/*:{storm}/conf"]
    started: list[psutil.Popen] = []

    def start(name: str, *command: object) -> None:
        with (home / f"{name}.log").open("w") as log:
            started.append(psutil.Popen([str(c) for c in command], stdout=log, stderr=log, cwd=home))

    nimbus = Nimbus(*_split(NIMBUS))
    try:
        start("zookeeper", "java", "-Xmx128m", "-cp", f"{storm}/lib/*", quorum, home / "zoo.cfg")
        start("kafka", *kafka, "kafka.Kafka", home / "server.properties")
        until(lambda: _listens(2181), "ZooKeeper listens")
        for name in ("Nimbus", "Supervisor"):
            start(name, *daemon, f"org.apache.storm.daemon.{name.lower()}.{name}")
        until(lambda: _registered(nimbus), f"the supervisor registers (see {home})")
        until(lambda: kafka_answers(*_split(KAFKA)), "the broker answers")
        yield nimbus
    finally:
        everything = [c for p in started if p.is_running() for c in (p, *p.children(recursive=True))]
        for process in everything:
            process.kill()
        psutil.wait_procs(everything, 30)


def _storm_home(jars: Path, storm: Path) -> Path:
    """Make a Storm home: Storm's jars, and a storm.yaml that says no more than where the servers are."""
    for name in ("conf", "log4j2", "logs", "extlib", "extlib-daemon"):
        (storm / name).mkdir(parents=True)
    for name in ("lib", "lib-worker"):
        (storm / name).symlink_to(jars / name)
    for name in ("cluster.xml", "worker.xml"):
        kept = files("harness") / "assets" / "servers" / "storm" / "log4j2" / name
        (storm / "log4j2" / name).write_bytes(kept.read_bytes())
    settings = {
        "storm.zookeeper.servers": ["localhost"],
        "nimbus.seeds": ["localhost"],
        "storm.local.hostname": "localhost",
        "storm.local.dir": str(storm / "local"),
    }
    (storm / "conf" / "storm.yaml").write_text(json.dumps(settings))
    return storm


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _listens(port: int) -> bool:
    return any(c.laddr.port == port for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN)


def _registered(nimbus: Nimbus) -> bool:
    try:
        return [s.slots for s in nimbus.cluster_summary().supervisors] == [SLOTS]
    except ClusterError:
        return False
