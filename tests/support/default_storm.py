"""A Storm cluster as somebody else would start it: Storm's jars, defaults and ports, nothing of ours."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, Self

import psutil
import waiting
from submitted import workers_of

from harness.backends.kafka.client import Topics
from harness.errors import ClusterError
from harness.machine import server_config
from harness.machine.server_process import kafka_answers
from harness.machine.servers import ServerHomes
from harness.storm.nimbus import Nimbus
from harness.storm.topology_state import Ranges, Slot

NIMBUS, KAFKA = "localhost:6627", "localhost:9092"
until = partial(waiting.until, within_s=180.0)
SLOTS = 4
"""What a supervisor offers when nobody says otherwise: ports 6700 to 6703."""


class SeenTopology(NamedTuple):
    """Executors by slot, and the workers' processes, each of which is told from a later one of its number."""

    slots: Mapping[Slot, Ranges]
    processes: frozenset[psutil.Process]

    @classmethod
    def of(cls, nimbus: Nimbus, name: str) -> Self:
        """Look at a topology, which has workers."""
        seen = cls(nimbus.topology(name).slots(), frozenset(workers_of(name)))
        assert seen.processes, f"there is no process of {name}"
        return seen


def require_untouched(nimbus: Nimbus, name: str, before: SeenTopology) -> None:
    """Fail unless a topology is alone on the cluster, in the workers that it had, and no topic is left."""
    alone = "the run's topology is gone"  # which Nimbus removes after it has taken the request
    until(lambda: set(nimbus.cluster_summary().topologies) == {name}, alone)
    assert SeenTopology.of(nimbus, name) == before
    with Topics(KAFKA) as topics:  # which a broker deletes after it has taken the request
        until(lambda: topics.names() == frozenset(), "the run's topics are gone")


HEARTBEATS = (
    "nimbus.task.timeout.secs",
    "nimbus.supervisor.timeout.secs",
    "supervisor.worker.timeout.secs",
)
"""Settings for how long Storm waits for a heartbeat, in s."""


@dataclass(frozen=True)
class OthersStorm:
    """A cluster that is up, as whoever runs it has it.

    Attributes
    ----------
    home : Path
        Folder for all that it writes; each server's output is in ``NAME.log``.
    nimbus : Nimbus
    """

    home: Path
    nimbus: Nimbus
    _servers: dict[str, psutil.Popen]

    def start(self, name: str, *command: object) -> None:
        """Start a server."""
        with (self.home / f"{name}.log").open("a") as log:
            started = psutil.Popen([str(c) for c in command], stdout=log, stderr=log, cwd=self.home)
        self._servers[name] = started

    def start_daemon(self, name: str) -> None:
        """Start one of Storm's daemons, with the class path that Storm's own script gives it."""
        storm = self.home / "storm"
        path = ":".join(str(storm / part) for part in ("lib/*", "extlib/*", "extlib-daemon/*", "conf"))
        flags = (f"-Dstorm.home={storm}", f"-Dstorm.log.dir={storm}/logs")
        logging = f"-Dlog4j.configurationFile={storm}/log4j2/cluster.xml"
        main = f"org.apache.storm.daemon.{name.lower()}.{name}"
        self.start(name, "java", "-Xmx256m", *server_config.ADD_OPENS, *flags, logging, "-cp", path, main)

    def submit_foreign(self, jar: Path, name: str) -> None:
        """Let a program of ``tests/system/foreign`` submit its topology with Storm's client; wait for it."""
        storm = self.home / "storm"
        path = f"{storm}/lib-worker/*:{storm}/conf:{jar}"
        command = ["java", f"-Dstorm.jar={jar}", "-cp", path, jar.stem.capitalize(), name, "once"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        until(lambda: (s := self.nimbus.topology(name)).status == "ACTIVE" and s.all_up, f"{name} is up")

    def restart_nimbus(self, plug_in: Path, settings: Mapping[str, object]) -> None:
        """Put a jar on Nimbus' class path and lines into its settings, and start it again; workers go on."""
        storm = self.home / "storm"
        shutil.copy(plug_in, storm / "extlib-daemon" / plug_in.name)
        file = storm / "conf" / "storm.yaml"
        file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
        nimbus = self._servers["Nimbus"]
        nimbus.terminate()
        nimbus.wait(60)
        self.start_daemon("Nimbus")
        until(lambda: _registered(self.nimbus), f"nimbus is up again (see {self.home})")

    def end(self) -> None:
        """End all servers, and the workers."""
        everything = [
            c for p in self._servers.values() if p.is_running() for c in (p, *p.children(recursive=True))
        ]
        for process in everything:
            process.kill()
        psutil.wait_procs(everything, 30)


@contextmanager
def default_storm(homes: ServerHomes, home: Path, jars: Path | None = None) -> Iterator[OthersStorm]:
    """Give a cluster that is up for the block: ZooKeeper, Nimbus, one supervisor, a broker.

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
    # the log cleaner takes 128 MB at once: with twice that, the broker once died of it
    kafka = ["java", "-Xmx512m", "-cp", f"{homes.kafka}/lib/*"]
    formatting = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c"]
    subprocess.run([*kafka, *formatting, home / "server.properties"], check=True, capture_output=True)
    quorum = "org.apache.storm.shade.org.apache.zookeeper.server.quorum.QuorumPeerMain"
    cluster = OthersStorm(home, Nimbus(*_split(NIMBUS)), {})
    try:
        cluster.start("zookeeper", "java", "-Xmx128m", "-cp", f"{storm}/lib/*", quorum, home / "zoo.cfg")
        cluster.start("kafka", *kafka, "kafka.Kafka", home / "server.properties")
        until(lambda: _listens(2181), "ZooKeeper listens")
        for name in ("Nimbus", "Supervisor"):
            cluster.start_daemon(name)
        until(lambda: _registered(cluster.nimbus), f"the supervisor registers (see {home})")
        until(lambda: kafka_answers(*_split(KAFKA)), "the broker answers")
        yield cluster
    finally:
        cluster.end()


def _storm_home(jars: Path, storm: Path) -> Path:
    """Make a Storm home: Storm's jars, and a storm.yaml that says little more than where the servers are.

    A busy machine may keep heartbeats back for longer than Storm's 30 s, and workers would be started again.
    """
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
        **dict.fromkeys(HEARTBEATS, 600),
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
