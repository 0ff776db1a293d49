"""A real Storm cluster and a real Kafka broker on this machine, each worker node on its own loopback address.

Meant to be started inside a sandbox (``harness.machine.sandbox``), whose network nothing outside can
reach. Everything it writes lies below its home folder.
"""

from __future__ import annotations

import platform
import secrets
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from harness.backends import worker_clocks
from harness.backends.faults import LocalFaults
from harness.backends.local.local_nodes import LocalNodes
from harness.errors import ClusterError, UsageError
from harness.experiments.clusters import Local
from harness.machine import sandbox, secret_files
from harness.machine import server_config as config
from harness.machine.broker import Broker
from harness.machine.cgroups import CpuQuotas
from harness.machine.class_archive import class_archive
from harness.machine.companions import Companion
from harness.machine.server_config import LOOPBACK, Heaps, Ports, StormFolders, SupervisedNode
from harness.machine.server_process import ServerProcess, kafka_answers, port_is_free, zookeeper_answers
from harness.machine.servers import ServerHomes, quiet
from harness.plans import WorkerNode
from harness.schemas import METRICS
from harness.storm.nimbus import Nimbus
from harness.storm.pinned_plans import write_plan
from harness.storm.worker_output import WorkerOutput

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
FOLDERS = ("conf", "logs", "tmp", "log4j2", "extlib", "plans")


class LocalCluster:
    """ZooKeeper, Nimbus, a supervisor a worker node, and Kafka in KRaft mode.

    Parameters
    ----------
    homes : ServerHomes
        The servers' jars.
    home : Path
        Folder for everything the servers write; made when it is not there.
    shape : Local
        Worker nodes, their slots and CPU quotas; heap and compilers of workers. The heap is the same from
        start to end. Quotas need a cgroup that may be written to.
    extlib : sequence of Path
        Jars put on the class path of workers, beside the topology's own. Nimbus takes its scheduler, by
        which plans are pinned, from the one that has it; where none does, Storm's own places executors.
    heaps : Heaps
        How large the servers grow.
    companions : sequence of Companion
        Servers beside Storm and Kafka, which start, are watched and end with the cluster.

    Examples
    --------
    >>> with LocalCluster(install(), Path("cluster"), Local(nodes=2)) as cluster:  # doctest: +SKIP
    ...     cluster.nimbus.cluster_summary().version
    '2.8.3'
    """

    def __init__(
        self,
        homes: ServerHomes,
        home: Path,
        shape: Local,
        *,
        extlib: Sequence[Path] = (),
        heaps: Heaps | None = None,
        companions: Sequence[Companion] = (),
    ) -> None:
        self.homes = homes
        self.home = home.resolve()
        self.ports = Ports()
        self.heaps = heaps or Heaps()
        self._shape = shape
        self.extlib = tuple(path.resolve() for path in extlib)
        self._companions = tuple(companions)
        self._quotas: CpuQuotas | None = None
        self._nodes = LocalNodes(self.ports, shape.nodes, shape.slots_per_node, shape.cpu_quota_cores)
        self.nimbus = Nimbus(LOOPBACK, self.ports.nimbus)
        self.worker_output = WorkerOutput(
            self.logs, {port: n.name for n in self.possible_nodes for port in n.slots}
        )
        # Outside a sandbox: what keeps daemons on loopback addresses.
        self._loopback_jar: Path | None = None
        self._scheduler_jar: Path | None = None
        self._secret = secrets.token_hex(16)
        self._servers: list[ServerProcess] = []

    @property
    def nodes(self) -> tuple[WorkerNode, ...]:
        """Its worker nodes by now."""
        return self._nodes.there

    @property
    def first_nodes(self) -> tuple[WorkerNode, ...]:
        """Worker nodes that it began with."""
        return self._nodes.first

    @property
    def possible_nodes(self) -> tuple[WorkerNode, ...]:
        """Worker nodes that it has or may have, in the order in which they come."""
        return self._nodes.possible

    def add_nodes(self, names: Sequence[str]) -> None:
        """Start supervisors; returns when Nimbus knows them.

        Raises
        ------
        ClusterError
            When a port is taken, or one dies or is not known in time.
        """
        come = [node for node in self._nodes.named(*names) if node not in self.nodes]
        self._require_free_ports(self._ports_of(come))
        self._nodes.come(*come)
        for server in [self._supervisor(node) for node in come]:
            server.wait_ready(self._all_registered, START_TIMEOUT_S, self._servers)

    def end_nodes(self, names: Sequence[str]) -> None:
        """End supervisors that have no workers; returns when Nimbus has forgotten them.

        Raises
        ------
        ClusterError
            When it has not in time.
        """
        gone = [server for server in self._servers if server.name in names]
        self._nodes.go(*self._nodes.named(*names))
        self._end(gone)
        if gone:
            (nimbus,) = (server for server in self._servers if server.name == "nimbus")
            nimbus.wait_ready(self._all_registered, START_TIMEOUT_S, self._servers)

    def restore_nodes(self) -> None:
        """Have the nodes again that it began with; those that it loses have no workers."""
        self.end_nodes([node.name for node in self.nodes if node not in self.first_nodes])
        self.add_nodes([node.name for node in self.first_nodes])

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the Kafka broker."""
        return f"{LOOPBACK}:{self.ports.kafka}"

    @property
    def broker(self) -> Broker:
        """The Kafka broker, on loopback."""
        return Broker(self.bootstrap)

    @property
    def here(self) -> str:
        """The address by which workers reach this machine."""
        return LOOPBACK

    @property
    def one_clock(self) -> bool:
        """True: the workers run on this machine, and so have its monotonic clock."""
        return True

    @property
    def broker_ahead_ms(self) -> float:
        """Lead of the broker's time of day over this machine's, in ms: 0, as both read one clock."""
        return 0.0

    @property
    def lost(self) -> tuple[WorkerNode, ...]:
        """Worker nodes that are gone, while the cluster goes on: none, as it ends with any of its servers."""
        return ()

    @property
    def logs(self) -> Path:
        """Folder of the servers' logs; those of workers lie in ``workers/<topology>/<port>``.

        ``worker-<port>.log`` has a line for each start of a slot's worker, and what it printed.
        """
        return self.home / "logs"

    @property
    def plans(self) -> Path:
        """Folder of the plan files that Nimbus' scheduler follows (``harness.storm.pinned_plans``)."""
        return self.home / "plans"

    def pin(self, topology: str, text: str) -> None:
        """Put a topology's plan file where Nimbus' scheduler reads it."""
        write_plan(self.plans, topology, text)

    def unpin(self, topology: str) -> None:
        """Take a topology's plan file away; executors stay where they are until something moves them."""
        (self.plans / f"{topology}.json").unlink(missing_ok=True)

    @property
    def hosts(self) -> Path:
        """Hosts file for Java programs that run beside the servers (``-Djdk.net.hosts.file``)."""
        return self.home / "hosts"

    def start(self, progress: Callable[[str], None] = quiet) -> None:
        """Start every server and return when each has answered a request.

        Outside a sandbox the servers end with the thread that called this, however that ends.

        Raises
        ------
        ClusterError
            When a port is taken, or a server dies or does not answer in time; what was started is
            stopped again.
        UsageError
            When CPU quotas are asked for and no control group can be made; or outside a sandbox, when
            no jar of ``extlib`` keeps the daemons on loopback addresses.
        MissingTool
            When there is no Java.
        """
        p = self.ports
        own = {"zookeeper": [p.zookeeper], "nimbus": [p.nimbus], "kafka": [p.kafka, p.kafka_controller]}
        self._require_free_ports(own | self._ports_of(self.nodes))
        if not sandbox.inside():
            self._loopback_jar = self._require_loopback_jar()
        self._scheduler_jar = config.jar_with(config.PINNED_SCHEDULER, self.extlib)
        progress("preparing the servers' folders")
        self._write_configuration()
        if self._shape.cpu_quota_cores:
            self._quotas = CpuQuotas(self._shape.cpu_quota_cores)
        try:
            self._start(progress)
            for companion in self._companions:
                companion.start(self.logs, progress)
        except BaseException:
            self.stop()
            raise

    def watch(self) -> ServerProcess | None:
        """Return the first server that has died, or None."""
        return next((s for s in self._servers if s.exit_status is not None), None)

    def check(self) -> None:
        """Raise ClusterError when a server has died, saying which, why and where its log is.

        A companion that has died is started again first.
        """
        if dead := self.watch():
            raise dead.death()
        for companion in self._companions:
            companion.check()

    def jar(self, topology: Path, _instrumentation: Path, /) -> Path:
        """Return the topology's jar: workers have the instrumentation in their class path."""
        return topology

    def hand_out(self, secret: str) -> str:
        """Put a secret where workers, who are this user's processes, can read it; return the file's path."""
        path = self.home / "metrics.token"
        secret_files.replace(path, secret)
        return str(path)

    def remember(self, kind: str, name: str) -> None:
        """Do nothing: whatever is on it ends with it."""

    def round_trips(self, _since_ms: int, _until_ms: int, /) -> pa.Table:
        """Return none: nodes on one loopback have no network between them."""
        return METRICS.empty_table()

    def faults(self, own: Mapping[str, int], /) -> LocalFaults:
        """Return what makes faults on it."""
        return LocalFaults(self.hosts, self.nodes, own, self._clocks)

    def movable_clocks(self, nodes: Sequence[str], /) -> AbstractContextManager[None]:
        """Let workers of nodes that start in the block have a clock that faults can move.

        Raises
        ------
        MissingTool
            When this machine has nothing that moves clocks.
        """
        return worker_clocks.movable(self._clocks, nodes)

    @property
    def _clocks(self) -> Mapping[str, Path]:
        return {node.name: self._clock(node.name) for node in self.possible_nodes}

    def _clock(self, name: str) -> Path:
        return self.home / "clocks" / name

    def stop(self) -> None:
        """End every server and worker; nothing is left running."""
        zookeeper = [s for s in self._servers if s.name == "zookeeper"]
        self._end([s for s in self._servers if s not in zookeeper])
        self._end(zookeeper)
        for companion in self._companions:  # last: workers write to them
            companion.stop()
        if self._quotas:
            self._quotas.remove()
            self._quotas = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self, servers: Sequence[ServerProcess]) -> None:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait_ended(STOP_TIMEOUT_S)
            self._servers.remove(server)

    # -- start, in the order that the servers need each other --------------------------------------

    def _start(self, progress: Callable[[str], None]) -> None:
        progress("starting zookeeper and kafka")
        zookeeper = self._zookeeper()
        formatting = self._format_kafka()
        zookeeper.wait_ready(lambda: zookeeper_answers(LOOPBACK, self.ports.zookeeper), START_TIMEOUT_S)
        progress("starting nimbus and supervisors")
        nimbus = self._nimbus()
        for node in self.nodes:
            self._supervisor(node)
        formatting.wait_ready(lambda: formatting.exit_status == 0, START_TIMEOUT_S)
        self._servers.remove(formatting)
        kafka = self._kafka("kafka", "kafka.Kafka", str(self.home / "conf" / "server.properties"))
        progress("waiting for nimbus, supervisors and kafka")
        nimbus.wait_ready(self._all_registered, START_TIMEOUT_S, self._servers)
        kafka.wait_ready(lambda: kafka_answers(LOOPBACK, self.ports.kafka), START_TIMEOUT_S, self._servers)

    def _nimbus(self) -> ServerProcess:
        return self._daemon("nimbus", "org.apache.storm.daemon.nimbus.Nimbus", self.heaps.nimbus)

    def _supervisor(self, node: WorkerNode) -> ServerProcess:
        self._write_storm_yaml(node.name, node.address, SupervisedNode(self._nodes.number(node), node.slots))
        main = "org.apache.storm.daemon.supervisor.Supervisor"
        supervisor = self._daemon(node.name, main, self.heaps.supervisor)
        if self._quotas:
            if node.cpu_quota_cores is not None:
                self._quotas.limit(node.name, node.cpu_quota_cores)
            self._quotas.add(node.name, supervisor.pid)  # before it has any worker
        return supervisor

    def _all_registered(self) -> bool:
        try:
            state = self.nimbus.cluster_summary()
        except ClusterError:
            return False
        registered = {s.address: s.slots for s in state.supervisors}
        return bool(state.version) and registered == {n.address: len(n.slots) for n in self.nodes}

    def _zookeeper(self) -> ServerProcess:
        main = "org.apache.storm.shade.org.apache.zookeeper.server.quorum.QuorumPeerMain"
        # forceSync: what a local cluster keeps need not survive a power cut
        properties = {**self._common("zookeeper"), "zookeeper.forceSync": "no"}
        command = config.java(
            self.heaps.zookeeper,
            f"{self.homes.storm}/lib/*",
            main,
            str(self.home / "conf" / "zoo.cfg"),
            properties=properties,
            class_archive=class_archive(self.homes, "daemons"),
        )
        return self._run("zookeeper", command)

    def _daemon(self, name: str, main: str, heap_mb: int) -> ServerProcess:
        conf = self.home / "conf" / name
        properties = {
            **self._common(name),
            "storm.home": self.homes.storm,
            "storm.log.dir": self.logs,
            "storm.conf.file": "",
            "storm.options": "",
        }
        # the jars first, as the archive asks for
        jars = {self._loopback_jar, self._scheduler_jar if name == "nimbus" else None} - {None}
        class_path = ":".join([f"{self.homes.storm}/lib/*", str(conf), *map(str, jars)])
        archive = class_archive(self.homes, "daemons")
        command = config.java(heap_mb, class_path, main, properties=properties, class_archive=archive)
        environment = {
            "STORM_CONF_DIR": str(conf),
            "STORM_EXT_CLASSPATH": f"{self.home}/extlib/*",
            # the java of workers, see its comment
            "JAVA_HOME": str(self.home / "java"),
            "HARNESS_JAVA": shutil.which("java") or "java",
            "HARNESS_WORKER_OUTPUT": str(self.logs),
            "HARNESS_WORKER_CLOCK": str(self._clock(name)),
            "HARNESS_DIES_WITH_PARENT": "" if sandbox.inside() else shutil.which("setpriv") or "",
        }
        return self._run(name, command, environment)

    def _format_kafka(self) -> ServerProcess:
        properties = str(self.home / "conf" / "server.properties")
        identifier = uuid.uuid4().hex[:22]
        arguments = ("format", "-t", identifier, "-c", properties, "--ignore-formatted")
        return self._kafka("kafka-format", "kafka.tools.StorageTool", *arguments)

    def _kafka(self, name: str, main: str, *arguments: str) -> ServerProcess:
        properties = {
            **self._common(name),
            "org.slf4j.simpleLogger.defaultLogLevel": "info",
            "org.slf4j.simpleLogger.showDateTime": "true",
        }
        class_path = f"{self.homes.kafka}/lib/*"
        archive = class_archive(self.homes, "kafka")
        command = config.java(
            self.heaps.kafka, class_path, main, *arguments, properties=properties, class_archive=archive
        )
        return self._run(name, command)

    def _common(self, name: str) -> dict[str, object]:
        return {
            "daemon.name": name,
            "logfile.name": f"{name}.log",
            "log4j.configurationFile": self.home / "log4j2" / "cluster.xml",
            "java.io.tmpdir": self.home / "tmp",
            "jdk.net.hosts.file": self.hosts,
        }

    def _run(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> ServerProcess:
        server = ServerProcess(name, command, self.logs / f"{name}.log", environment)
        self._servers.append(server)
        return server

    # -- files -------------------------------------------------------------------------------------

    def _write_configuration(self) -> None:
        for folder in (*FOLDERS, "java/bin", "data/zookeeper", "data/kafka"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        assets = files("harness") / "assets" / "servers" / "storm"
        for name in ("cluster.xml", "worker.xml"):
            (self.home / "log4j2" / name).write_bytes((assets / "log4j2" / name).read_bytes())
        java = self.home / "java" / "bin" / "java"
        java.write_bytes((assets / "java-of-workers.sh").read_bytes())
        java.chmod(0o755)
        for jar in self.extlib:
            (self.home / "extlib" / jar.name).symlink_to(jar)
        self.hosts.write_text(config.hosts_file(platform.node(), len(self.possible_nodes)))
        conf = self.home / "conf"
        (conf / "zoo.cfg").write_text(config.zookeeper_cfg(self.home / "data" / "zookeeper", self.ports))
        (conf / "server.properties").write_text(
            config.kafka_properties(self.home / "data" / "kafka", self.ports)
        )
        self._write_storm_yaml("nimbus", LOOPBACK)

    def _write_storm_yaml(self, name: str, host: str, node: SupervisedNode | None = None) -> None:
        folder, data = self.home / "conf" / name, self.home / "data" / name
        for made in (folder, data):
            made.mkdir(exist_ok=True)  # a node may come back
        archive = class_archive(self.homes)
        options = config.worker_childopts(
            self._shape.worker_heap_mb, self._shape.worker_jit, self.hosts, self.logs, archive
        )
        folders = StormFolders(
            local=data,
            workers_artifacts=self.logs / "workers",
            log4j2=self.home / "log4j2",
            plans=self.plans if self._scheduler_jar and node is None else None,
        )
        secret = self._secret if self._loopback_jar else ""
        (folder / "storm.yaml").write_text(
            config.storm_yaml(host, folders, self.ports, self.heaps, options, node=node, secret=secret)
        )

    def _require_loopback_jar(self) -> Path:
        jar = config.jar_with(config.LOOPBACK_TRANSPORT, self.extlib)
        if jar is None:
            raise UsageError(
                "outside a sandbox nimbus would listen on every address of this machine",
                "give LocalCluster the instrumentation jar as extlib",
            )
        return jar

    def _ports_of(self, nodes: Sequence[WorkerNode]) -> dict[str, list[int]]:
        base = self.ports.supervisor_base
        return {n.name: [base + self._nodes.number(n), *n.slots] for n in nodes}

    def _require_free_ports(self, wanted: Mapping[str, Sequence[int]]) -> None:
        for name, ports in wanted.items():
            for port in ports:
                if not port_is_free("" if name.startswith("n") else LOOPBACK, port):
                    raise ClusterError(
                        f"port {port}, which {name} needs, is taken",
                        "is another cluster up? harness cluster status",
                    )
