"""Configuration files and Java command lines of a local cluster's servers.

Every period that a rebalance waits for is set to the least that Storm takes (whole seconds). Every time-out
that would restart a slow but healthy server is made long. On a machine that is short of cores a late
heartbeat is no failure, and a restart would spoil the step that is being measured.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import UsageError

Jit = Literal["c1", "full"]

LOOPBACK = "127.0.0.1"
LOOPBACK_TRANSPORT = "harness.storm.cluster.LoopbackTransport"
PINNED_SCHEDULER = "harness.storm.cluster.PinnedScheduler"
MOST_NODES, MOST_SLOTS = 20, 80
"""Beyond these a slot's port would be that of another server (InfluxDB's 8086, Kafka's 9092)."""
JVM_FLAGS = (
    # one or two cores: no threads for collecting garbage beside the ones that work
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.net.preferIPv4Stack=true",
)
C1_FLAG = "-XX:TieredStopAtLevel=1"
"""Only the quick compiler: daemons never earn back what the optimising one costs at their start."""
ADD_OPENS = tuple(f"--add-opens=java.base/java.{p}=ALL-UNNAMED" for p in ("lang", "nio", "util"))
"""Kryo and the serialisers of Storm reflect on these packages, which JDK 17 closes."""


def jar_with(class_name: str, jars: Sequence[Path]) -> Path | None:
    """Return the first jar that has a class; None where no jar has it."""
    wanted = class_name.replace(".", "/") + ".class"
    for jar in jars:
        with zipfile.ZipFile(jar) as opened:
            if wanted in opened.namelist():
                return jar
    return None


@dataclass(frozen=True)
class Ports:
    """Where the servers listen; a node's slots are ``slot_base + 100 * node`` and up."""

    zookeeper: int = 2181
    nimbus: int = 6627
    kafka: int = 9092
    kafka_controller: int = 9093
    kafka_tls: int = 9094
    supervisor_base: int = 6631
    slot_base: int = 6700

    def slots(self, node: int, count: int) -> tuple[int, ...]:
        """Return the slots of a node, counted from 0; no two share one, as workers bind every address.

        Raises
        ------
        UsageError
            When there are more nodes or slots than ports set aside for them.
        """
        if node >= MOST_NODES or count > MOST_SLOTS:
            most = f"{MOST_NODES} nodes with {MOST_SLOTS} slots each"
            raise UsageError(f"node {node + 1} with {count} slots: a local cluster has at most {most}")
        first = self.slot_base + 100 * node
        return tuple(range(first, first + count))


@dataclass(frozen=True)
class Heaps:
    """Largest heap of each kind of server, in MB."""

    zookeeper: int = 128
    nimbus: int = 256
    supervisor: int = 128
    kafka: int = 512
    log_writer: int = 32


def node_address(node: int) -> str:
    """Return the loopback address of a worker node counted from 0: 127.0.0.2, 127.0.0.3, ..."""
    return f"127.0.0.{node + 2}"


def zookeeper_cfg(data: Path, ports: Ports) -> str:
    """Return ``zoo.cfg``."""
    return _properties(
        {
            "dataDir": data,
            "clientPort": ports.zookeeper,
            "clientPortAddress": LOOPBACK,
            **ZOOKEEPER,
        }
    )


ZOOKEEPER: Mapping[str, object] = {
    "tickTime": 2000,
    "maxSessionTimeout": 60_000,  # what storm.yaml asks for
    "maxClientCnxns": 0,  # every worker connects, all from one address
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok",
}
"""Settings that ZooKeeper gets wherever it runs."""


def kafka_properties(data: Path, ports: Ports) -> str:
    """Return ``server.properties`` of a single broker that is its own controller."""
    return _properties(
        {
            "controller.quorum.voters": f"1@{LOOPBACK}:{ports.kafka_controller}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{ports.kafka},"
            f"CONTROLLER://{LOOPBACK}:{ports.kafka_controller}",
            "log.dirs": data,
            **KAFKA,
        }
    )


_ONES = (
    "offsets.topic.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.num.partitions",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.min.isr",
)
KAFKA: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    **dict.fromkeys(_ONES, 1),
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 15_000,  # no other could take its place: it may stand still for longer
    "num.network.threads": 2,
    "num.io.threads": 4,
}
"""Settings that a single broker gets wherever it runs."""


@dataclass(frozen=True)
class StormFolders:
    """Folders of a daemon of Storm's.

    Attributes
    ----------
    local : Path
        Its own data.
    workers_artifacts : Path
        Where workers write.
    log4j2 : Path
        The logs' configuration.
    plans : Path, optional
        Of plan files that Nimbus follows; without it, Storm's own scheduler places executors.
    """

    local: Path
    workers_artifacts: Path
    log4j2: Path
    plans: Path | None = None


@dataclass(frozen=True)
class SupervisedNode:
    """A worker node, counted from 0, and the ports of its slots."""

    number: int
    slots: tuple[int, ...]


def storm_yaml(
    host: str,
    folders: StormFolders,
    ports: Ports,
    heaps: Heaps,
    worker_childopts: Sequence[str],
    *,
    node: SupervisedNode | None = None,
    secret: str = "",
) -> str:
    """Return ``storm.yaml`` of Nimbus or, where ``node`` is given, of a node's supervisor and workers.

    The text is JSON, which is YAML too, so that no value can be read as anything else.

    With a secret, the cluster can live in a network that is not its own. Daemons then listen on their
    loopback address (the class path must have ``LOOPBACK_TRANSPORT``). Workers, whose address Storm does not
    let anyone set, answer only to workers that have the secret too. With a folder of plans, Nimbus puts
    executors where its files say (the class path must have ``PINNED_SCHEDULER``).
    """
    settings: dict[str, object] = {
        "storm.local.hostname": host,
        "storm.local.dir": str(folders.local),
        "storm.workers.artifacts.dir": str(folders.workers_artifacts),
        "storm.log4j2.conf.dir": str(folders.log4j2),
        "storm.metricstore.rocksdb.location": str(folders.local / "rocksdb"),
        "storm.zookeeper.servers": [LOOPBACK],
        "storm.zookeeper.port": ports.zookeeper,
        "nimbus.seeds": [LOOPBACK],
        "nimbus.thrift.port": ports.nimbus,
        **PERIODS,
        **PATIENCE,
        "worker.childopts": list(worker_childopts),
        "worker.gc.childopts": "",
        "topology.worker.logwriter.childopts": log_writer_options(heaps),
    }
    if secret:
        server = "nimbus" if node is None else "supervisor"
        settings[f"{server}.thrift.transport"] = LOOPBACK_TRANSPORT
        settings["storm.messaging.netty.authentication"] = True
        # the name is historical: workers take their secret from here
        settings["storm.zookeeper.topology.auth.payload"] = secret
    if folders.plans:
        settings["storm.scheduler"] = PINNED_SCHEDULER
        settings["harness.plans.folder"] = str(folders.plans)
    if node is not None:
        # the name by which plans call it
        settings["supervisor.scheduler.meta"] = {"name": f"node-{node.number + 1}"}
        settings["supervisor.slots.ports"] = list(node.slots)
        settings["supervisor.thrift.port"] = ports.supervisor_base + node.number
    return json.dumps(settings, indent=1) + "\n"


def log_writer_options(heaps: Heaps) -> str:
    """Return the Java options of the process that copies a worker's output, where one is started."""
    return f"-Xmx{heaps.log_writer}m {' '.join((*JVM_FLAGS, C1_FLAG))}"


PERIODS: Mapping[str, object] = {
    # how soon a submission is scheduled, and a killed topology cleaned up (default 10)
    "nimbus.monitor.freq.secs": 1,
    # how soon a slot looks at its new assignment (default 3)
    "supervisor.monitor.frequency.secs": 1,
    # how long a worker is given to close its producers and consumers before kill -9 (default 3)
    "supervisor.worker.shutdown.sleep.secs": 1,
    # how soon new supervisors are known to Nimbus (default 5)
    "supervisor.heartbeat.frequency.secs": 2,
    # how soon a worker sees that the topology is active and who its peers are (default 10)
    "task.refresh.poll.secs": 1,
    # how soon a worker sees that its topology was given other batch sizes (default 30)
    "task.credentials.poll.secs": 1,
    # how stale executors' uptime and complete latency are when read from Nimbus (default 60)
    "executor.metrics.frequency.secs": 1,
}
PATIENCE: Mapping[str, object] = {
    "storm.zookeeper.session.timeout": 60_000,
    "nimbus.task.timeout.secs": 120,
    "nimbus.task.launch.secs": 240,
    "nimbus.supervisor.timeout.secs": 120,
    "supervisor.worker.timeout.secs": 120,
    "supervisor.worker.start.timeout.secs": 240,
    # a node that was away for three passes, which are seconds here, would get no worker for half an hour
    "blacklist.scheduler.tolerance.count": 1_000_000,
    # loads are exchanged, and a blob is looked for again, without any hurry
    "supervisor.localizer.update.blob.interval.secs": 300,
}


def worker_childopts(
    heap_mb: int, jit: Jit, hosts: Path, logs: Path, class_archive: Path | None
) -> tuple[str, ...]:
    """Return the Java options of worker processes."""
    return (
        f"-Xms{heap_mb}m",
        f"-Xmx{heap_mb}m",
        *JVM_FLAGS,
        *((C1_FLAG,) if jit == "c1" else ()),
        *ADD_OPENS,
        # SIGTERM ends a worker at once. Without it each takes more than the second that its supervisor
        # waits, and is killed a second later; a campaign has drained it, and knows its offsets committed.
        "-Xrs",
        f"-Djdk.net.hosts.file={hosts}",
        f"-XX:ErrorFile={logs}/worker-crash-%p.log",
        *((f"-XX:SharedArchiveFile={class_archive}",) if class_archive else ()),
    )


def hosts_file(hostname: str, nodes: int) -> str:
    """Return a hosts file for Java.

    Storm asks for the name of this host at every request, and in a network of its own there is nobody
    to ask.
    """
    lines = [f"{LOOPBACK} localhost {hostname}"]
    lines += [f"{node_address(i)} node-{i + 1}" for i in range(nodes)]
    return "\n".join(lines) + "\n"


def java(
    heap_mb: int,
    class_path: str,
    main: str,
    *arguments: str,
    properties: Mapping[str, object],
    class_archive: Path | None = None,
) -> list[str]:
    """Return the command line of a daemon."""
    return [
        "java",
        f"-Xmx{heap_mb}m",
        *JVM_FLAGS,
        C1_FLAG,
        *ADD_OPENS,
        *((f"-XX:SharedArchiveFile={class_archive}",) if class_archive else ()),
        *(f"-D{name}={value}" for name, value in properties.items()),
        "-cp",
        class_path,
        main,
        *arguments,
    ]


def _properties(settings: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
