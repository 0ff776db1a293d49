"""Joins the optional stores that an experiment names, InfluxDB and Neo4j, to a run on the local cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness import secret_files
from harness.backends import influxdb_server, optional_servers
from harness.backends.companions import Companion, data_folder
from harness.backends.influxdb import Event, InfluxStore
from harness.backends.influxdb_server import InfluxServer
from harness.backends.metrics_receiver import MetricsReceiver
from harness.backends.neo4j import PlanGraph, set_first_password
from harness.backends.neo4j_server import Neo4jServer
from harness.deployment import MetricsTarget
from harness.errors import HarnessError, MissingTool, UsageError
from harness.experiments.config import Experiment
from harness.experiments.contracts import Metrics, Progress, Watcher
from harness.runs import Run

logger = logging.getLogger(__name__)

RETENTION_DAYS = 400
"""A year of nights, and a month to look at the same night of the year before."""
URI = "NEO4J_URI"
USERNAME = "NEO4J_USERNAME"
PASSWORD = "NEO4J_PASSWORD"

Taker = Callable[[int], None]
"""Hands a finished step on to a store."""


@dataclass(frozen=True)
class Stores:
    """The servers beside the local cluster that an experiment names; None where it names none."""

    metrics: InfluxServer | None
    plans: Neo4jServer | None

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """Return the servers that an experiment names, not started.

        Raises
        ------
        MissingTool
            When one is not installed.
        """
        metrics = plans = None
        if experiment.metrics.store == "influxdb":
            program = optional_servers.influxd()
            if program is None:
                raise MissingTool("metrics.store: InfluxDB is not installed", "make servers")
            days = experiment.metrics.retention_days
            metrics = InfluxServer(
                program,
                experiment.metrics.data or data_folder("influxdb"),
                RETENTION_DAYS if days is None else days,
            )
        if experiment.plans.store == "neo4j":
            plans = local_neo4j(experiment.plans.data)
        return cls(metrics, plans)

    @property
    def companions(self) -> tuple[Companion, ...]:
        """The servers that there are."""
        return tuple(server for server in (self.metrics, self.plans) if server is not None)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the servers that there are."""
        found = {}
        if self.metrics:
            found["influxdb"] = optional_servers.INFLUXDB_VERSION
        if self.plans:
            found["neo4j"] = optional_servers.NEO4J_VERSION
        return found

    @contextmanager
    def measuring(
        self, experiment: Experiment, run: Run, watch: Watcher
    ) -> Iterator[tuple[MetricsTarget, Metrics, Watcher]]:
        """Give where metrics go, where they are read, and a watcher; the servers are up.

        At the end every finished step is in the stores.

        Raises
        ------
        HarnessError
            When a store refuses us, or at the end has not taken a step.
        """
        if self.metrics is None:
            with MetricsReceiver() as receiver, self._recording(run, watch, {}) as watcher:
                yield receiver, receiver.store, watcher
            return
        with influx_store(self.metrics, experiment.name) as store:
            store.check()
            takers: dict[str, Taker] = {"influxdb": lambda step: store.write_events(events(run, step))}
            with self._recording(run, watch, takers) as watcher:
                yield influx_target(self.metrics), store, watcher

    @contextmanager
    def _recording(self, run: Run, watch: Watcher, takers: Mapping[str, Taker]) -> Iterator[Watcher]:
        def into_graph(step: int) -> None:
            assert self.plans is not None, "asked below"
            with PlanGraph(self.plans.uri, secret_files.read(self.plans.password_file)) as graph:
                graph.add_step(run, step)

        recorder = Recorder(run, watch, {**takers, **({"neo4j": into_graph} if self.plans else {})})
        yield recorder
        recorder.finish()


class Recorder:
    """Hands each finished step on to the stores; what one does not take is offered again at the end.

    Measuring goes on meanwhile: the run directory has all of it.
    """

    def __init__(self, run: Run, watch: Watcher, takers: Mapping[str, Taker]) -> None:
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


def events(run: Run, step: int) -> list[Event]:
    """Return when a step's configuration was asked for, and when its measured interval began and ended."""
    interval = run.interval(step)
    before_ms = (interval.start_ns - interval.rebalance_start_ns) / 1e6
    name = f"{run.path.parent.name}/{run.path.name}"
    times = {
        "rebalance" if interval.submission == "rebalance" else "submit": round(
            interval.start_epoch_ms - before_ms
        ),
        "start": interval.start_epoch_ms,
        "stop": interval.end_epoch_ms,
    }
    return [Event(kind, at_ms, name, step, interval.configuration) for kind, at_ms in times.items()]


@dataclass(frozen=True)
class InfluxTarget:
    """Where consumers post to (``harness.deployment.MetricsTarget``)."""

    url: str
    token_file: str
    spool: str


def influx_target(server: InfluxServer) -> InfluxTarget:
    """Return what metrics consumers have to know of a server."""
    return InfluxTarget(server.write_url, str(server.token_file), str(server.spool))


def influx_store(server: InfluxServer, topology: str) -> InfluxStore:
    """Return the store in a server of the local cluster, where it can be seen what waits."""
    return InfluxStore(
        server.url,
        influxdb_server.ORG,
        influxdb_server.BUCKET,
        secret_files.read(server.token_file),
        topology,
        waiting=lambda: sum(1 for _ in server.spool.glob("*.lines")),
    )


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
def local_graph(folder: Path, progress: Callable[[str], None]) -> Iterator[PlanGraph]:
    """Start the user's own Neo4j for a block, with its log in a folder."""
    server = local_neo4j()
    server.start(folder, progress)
    try:
        with PlanGraph(server.uri, secret_files.read(server.password_file)) as graph:
            yield graph
    finally:
        server.stop()
