"""Joins InfluxDB and Neo4j to runs and questions: metrics arrive in the one, plans are kept in the other."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Protocol, Self

from harness.app.store_events import events_of
from harness.app.store_sender import TOKEN, StoreSender
from harness.backends import optional_servers
from harness.backends.hosts import data_servers
from harness.backends.hosts.data_servers import HostedInflux, HostedNeo4j
from harness.backends.hosts.provision import network
from harness.backends.hosts.state import ProvisionedState, known
from harness.backends.influxdb import api as influxdb_api
from harness.backends.influxdb.server import InfluxServer
from harness.backends.influxdb.spool import MetricSpool
from harness.backends.influxdb.store import InfluxBucket, InfluxStore
from harness.backends.metrics.receiver import MetricsReceiver
from harness.backends.neo4j.server import Neo4jServer
from harness.backends.neo4j.store import PlanGraph, set_first_password
from harness.errors import ClusterError, HarnessError, MissingTool, UsageError
from harness.experiments.cluster_file import RETENTION_DAYS
from harness.experiments.clusters import Provisioned
from harness.experiments.config import Experiment
from harness.experiments.contracts import Metrics, Progress, Watcher
from harness.machine import secret_files
from harness.machine.companions import DataServer, data_folder
from harness.machine.trust import Trust
from harness.runs import Run
from harness.storm.submission import MetricsAddress, MetricsTarget

logger = logging.getLogger(__name__)

_require_intact_influxd = cache(optional_servers.require_intact_influxd)
_require_intact_neo4j = cache(optional_servers.require_intact_neo4j)
"""A run asks for its servers several times; they are read once, a fifth of a second for 100 MB."""

URI = "NEO4J_URI"
USERNAME = "NEO4J_USERNAME"
PASSWORD = "NEO4J_PASSWORD"

Take = Callable[[int], None]
"""Puts a finished step into a store."""


class Store(Protocol):
    """A server that is started again when it dies, by the cluster or by its host."""

    name: str

    def check(self) -> None:
        """Raise ClusterError when it is gone for good."""

    def wait(self) -> None:
        """Wait until it answers; raise ClusterError when that is in vain."""


class MetricServer(Store, Protocol):
    """InfluxDB, of this machine or of provisioned hosts."""

    @property
    def url(self) -> str:
        """Its address."""

    @property
    def write_url(self) -> str:
        """Where consumers post to."""

    @property
    def token_file(self) -> PurePath:
        """File that holds the token, where consumers are."""

    @property
    def trust(self) -> Trust | None:
        """Files by which its certificate is known on this machine; None where it speaks plain HTTP."""

    @property
    def ca_file(self) -> str:
        """File by which consumers know its certificate; empty where it speaks plain HTTP."""

    @property
    def spool(self) -> PurePath:
        """Where metrics wait for it, where consumers are."""

    @property
    def batches(self) -> MetricSpool:
        """Batches of metrics that wait for InfluxDB."""

    def token(self) -> str:
        """Return the token in use."""

    def in_use(self) -> AbstractContextManager[None]:
        """Let a run use it for a block: what waits from before it has by then."""


class PlanServer(Store, Protocol):
    """Neo4j, of this machine or of provisioned hosts."""

    @property
    def uri(self) -> str:
        """Its address."""

    @property
    def room(self) -> str:
        """Free space for its data, or the place where that is said."""

    def password(self) -> str:
        """Return its password."""


@dataclass(frozen=True)
class Stores:
    """The servers that an experiment names; None where it names none.

    Attributes
    ----------
    metrics, plans
        InfluxDB and Neo4j, of this machine or of the provisioned cluster.
    companions : tuple of DataServer
        Those of this machine, which start and end with the local cluster.
    """

    metrics: MetricServer | None
    plans: PlanServer | None
    companions: tuple[DataServer, ...] = ()

    @classmethod
    def here(cls, experiment: Experiment) -> Self:
        """Return the servers that an experiment names, of this machine; they are not started.

        Raises
        ------
        MissingTool
            When one is not installed.
        UsageError
            When the file that the environment names for the token cannot be used.
        """
        metrics, plans = experiment.metrics, experiment.plans
        here = (
            local_influxdb(metrics.data, metrics.retention_days) if metrics.of_the_cluster else None,
            local_neo4j(plans.data) if plans.store == "neo4j" else None,
        )
        return cls(*here, companions=tuple(server for server in here if server is not None))

    @classmethod
    def hosted(cls, experiment: Experiment, shape: Provisioned) -> Self:
        """Return the servers that an experiment names, of its provisioned cluster.

        Raises
        ------
        UsageError
            When the cluster has no such server.
        """
        if not data_servers.named(experiment):
            return cls(None, None)
        state = ProvisionedState(shape.name)
        record = state.record()
        data_servers.require_named(experiment, shape.file, record)
        return cls(
            HostedInflux(state, record.cluster) if experiment.metrics.of_the_cluster else None,
            HostedNeo4j(state, record.cluster) if experiment.plans.store == "neo4j" else None,
        )

    @property
    def servers(self) -> tuple[Store, ...]:
        """The servers that there are."""
        return tuple(server for server in (self.metrics, self.plans) if server is not None)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the servers that there are."""
        versions = {"influxdb": optional_servers.INFLUXDB_VERSION, "neo4j": optional_servers.NEO4J_VERSION}
        return {server.name: versions[server.name] for server in self.servers}

    @contextmanager
    def measuring(
        self, experiment: Experiment, run: Run, watch: Watcher, here: str, hand_out: Callable[[str], str]
    ) -> Iterator[tuple[MetricsTarget, Metrics, Watcher]]:
        """Give where metrics go, where they are read, and a watcher that hands finished steps on.

        The servers are up; at the end every finished step is in the stores. Workers reach this machine by the
        address ``here``; ``hand_out`` puts a secret where they can read it, and returns the file's path.

        Raises
        ------
        HarnessError
            When a store refuses us, or at the end has not taken a step.
        """
        if self.metrics is None:
            takers: dict[str, Take] = {}
            if experiment.metrics.given:
                sender = StoreSender.of(experiment.metrics, experiment.name)
                takers = {"influxdb": lambda step: sender.send(run, step)}
            with (
                MetricsReceiver(here, hand_out=hand_out) as receiver,
                self._recording(run, watch, takers) as watcher,
            ):
                yield receiver, receiver.store, watcher
            return
        with influx_store(self.metrics, experiment.name) as store:
            store.check()
            events = {"influxdb": lambda step: store.write_events(events_of(run, step))}
            with self.metrics.in_use(), self._recording(run, watch, events) as watcher:
                yield influx_target(self.metrics), store, watcher

    @contextmanager
    def _recording(self, run: Run, watch: Watcher, takers: Mapping[str, Take]) -> Iterator[Watcher]:
        if self.plans is not None:
            self.plans.wait()
            with PlanGraph(self.plans.uri, self.plans.password()):
                pass  # refused before anything is measured, when it is another schema's
            takers = {**takers, "neo4j": graph_taker(self.plans, run)}
        recorder = Recorder(run, watch, takers)
        yield recorder
        for server in self.servers:
            server.wait()
        recorder.finish()


class Recorder:
    """Hands each finished step on to the stores; what one does not take is offered again at the end.

    Measuring goes on meanwhile: the run directory has all of it.
    """

    def __init__(self, run: Run, watch: Watcher, takers: Mapping[str, Take]) -> None:
        self._run = run
        self._watch = watch
        self._takers = takers
        self._taken: set[tuple[str, int]] = set()

    def __call__(self, now: Progress) -> None:
        """Hand on a step that is finished, and tell the campaign's own watcher."""
        self._watch(now)
        if now.phase != "done":
            return
        for name, take in self._takers.items():
            try:
                take(now.step)
                self._taken.add((name, now.step))
            except HarnessError as error:
                logger.warning("step %d is not in %s yet: %s", now.step, name, error)

    def finish(self) -> None:
        """Hand on what was not taken, or was measured by an attempt before this one."""
        for name, take in self._takers.items():
            for step in self._run.finished_steps:
                if (name, step) not in self._taken:
                    take(step)


# -- InfluxDB -------------------------------------------------------------------------------------


def local_influxdb(data: Path | None = None, retention_days: int | None = None) -> InfluxServer:
    """Return an InfluxDB on this machine, not started, with the token of ``INFLUXDB_TOKEN`` if there is one.

    Raises
    ------
    MissingTool
        When it is not installed.
    """
    program = optional_servers.influxd()
    if program is None:
        raise MissingTool("InfluxDB is not installed", "make servers")
    _require_intact_influxd(program)
    return InfluxServer(
        program,
        data or data_folder("influxdb"),
        RETENTION_DAYS if retention_days is None else retention_days,
        secret_files.from_environment(TOKEN),
    )


def influx_target(server: MetricServer) -> MetricsAddress:
    """Return the facts about a server that metrics consumers need."""
    return MetricsAddress(
        server.write_url,
        token_file=str(server.token_file),
        ca_file=server.ca_file,
        spool=str(server.spool),
    )


def influx_store(server: MetricServer, topology: str) -> InfluxStore:
    """Return the store in a server of which can be seen what waits and whether it lives."""
    return InfluxStore(
        InfluxBucket(server.url, influxdb_api.ORG, influxdb_api.BUCKET, server.trust),
        server.token(),
        topology,
        spool=server.batches,
        attend=server.check,
    )


# -- Neo4j ----------------------------------------------------------------------------------------


def graph_taker(server: PlanServer, run: Run) -> Take:
    """Return a function that writes the plans of a run's step into a server's graph."""

    def take(step: int) -> None:
        try:
            with PlanGraph(server.uri, server.password()) as graph:
                graph.add_step(run, step)
        except ClusterError as error:
            error.hint = error.hint or server.room
            raise

    return take


def local_neo4j(data: Path | None = None) -> Neo4jServer:
    """Return a Neo4j on this machine, not started.

    Raises
    ------
    MissingTool
        When it is not installed.
    """
    home = optional_servers.neo4j_home()
    if home is None:
        raise MissingTool("Neo4j is not installed", "make servers")
    _require_intact_neo4j(home)
    return Neo4jServer(home, data or data_folder("neo4j"), set_first_password)


def given_graph() -> PlanGraph | None:
    """Return the graph that the environment names (``NEO4J_URI``), None when it names none.

    Raises
    ------
    UsageError
        When there is no password for it.
    """
    uri = os.environ.get(URI)
    if not uri:
        return None
    password = secret_files.from_environment(PASSWORD)
    if password is None:
        raise UsageError(f"{URI} is set, and no password for it", f"set {PASSWORD} or {PASSWORD}_FILE")
    return PlanGraph(uri, password, os.environ.get(USERNAME, "neo4j"))


@contextmanager
def hosted_graph(experiment: Experiment, shape: Provisioned) -> Iterator[PlanGraph | None]:
    """Give the graph of the provisioned cluster that a run's plans are on; None where it has none.

    Raises
    ------
    HarnessError
        When its host is there, and it does not answer.
    """
    if experiment.plans.store != "neo4j" or shape.name not in known():
        yield None
        return
    state = ProvisionedState(shape.name)
    try:
        record = state.record()
        data_servers.require_named(experiment, shape.file, record)
    except UsageError:  # made anew since, otherwise or by another version
        yield None
        return
    server = HostedNeo4j(state, record.cluster)
    if record.phase != "ready" or not server.has_host:
        yield None
        return
    with network(state, record.cluster):
        server.wait()
        with PlanGraph(server.uri, server.password()) as graph:
            yield graph


@contextmanager
def local_graph(folder: Path, progress: Callable[[str], None]) -> Iterator[PlanGraph]:
    """Start the user's own Neo4j for a block, with its log in a folder."""
    server = local_neo4j()
    server.start(folder, progress)
    try:
        with PlanGraph(server.uri, server.password()) as graph:
            yield graph
    finally:
        server.stop()
