"""The real deployment and the whole local run: joins cluster, Kafka, load and metrics to the campaign."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from harness.backends.companions import Companion
from harness.backends.local import LocalCluster
from harness.backends.servers import ServerHomes
from harness.backends.submission import submit
from harness.backends.topology_state import TopologyState, WorkerStarts, physical_plan
from harness.experiments.config import Experiment
from harness.experiments.submission import submit_settings, topology_settings
from harness.plans import ACKER, METRICS_CONSUMER_PREFIX, PhysicalPlan, TopologyConfiguration

METRICS_CONSUMER = f"{METRICS_CONSUMER_PREFIX}_harness.storm.instrument.LineProtocolConsumer"
"""What Storm calls the component of our metrics consumer."""
COMMIT_WAIT_S = 1
"""How long the spouts of an earlier submission are deactivated before it ends, as in a rebalance."""


class TopicNames(Protocol):
    """Which topics a topology reads and writes."""

    @property
    def input_topic(self) -> str:
        """Where messages come from."""

    @property
    def output_topic(self) -> str:
        """Where the sinks send to."""


class MetricsTarget(Protocol):
    """Where a topology sends its metrics."""

    @property
    def url(self) -> str:
        """What lines are posted to, as InfluxDB's write interface."""

    @property
    def token_file(self) -> str:
        """What holds the token, on the workers' hosts; empty for none."""

    @property
    def spool(self) -> str:
        """Folder for lines that are not delivered yet, on the workers' hosts; empty for none."""


class StormDeployment:
    """A test topology on a local cluster (``harness.experiments.contracts.Deployment``).

    Parameters
    ----------
    experiment : Experiment
    cluster : LocalCluster
        Started.
    name : str
        Storm's name for the topology.
    load : TopicNames
        Whose topics it reads and writes.
    metrics : MetricsTarget
        Where its metrics go.
    jars : Path
        Folder of ``instrumentation.jar`` and ``topologies.jar``.
    folder : Path
        Where the settings of each submission are kept.
    """

    def __init__(
        self,
        experiment: Experiment,
        cluster: LocalCluster,
        name: str,
        load: TopicNames,
        metrics: MetricsTarget,
        jars: Path,
        folder: Path,
    ) -> None:
        self._experiment = experiment
        self._cluster = cluster
        self._name = name
        self._load = load
        self._metrics = metrics
        self._jars = jars
        self._folder = folder
        self._query_plan = experiment.topology.query_plan()
        self._whole: Callable[[TopologyState], bool] = _is_up
        self._state: TopologyState | None = None
        self._starts = WorkerStarts()
        self.wrapped: Mapping[str, object] = {}

    def submit(self, configuration: TopologyConfiguration) -> None:
        """Submit the topology anew, removing an earlier submission of it first."""
        nimbus = self._cluster.nimbus
        nimbus.kill(self._name, wait_s=COMMIT_WAIT_S)
        self._cluster.worker_output.mark()
        self._folder.mkdir(parents=True, exist_ok=True)
        topology_json, submit_json = self._folder / "topology.json", self._folder / "submit.json"
        settings = topology_settings(
            self._experiment,
            self._name,
            configuration,
            bootstrap=self._cluster.bootstrap,
            input_topic=self._load.input_topic,
            output_topic=self._load.output_topic,
        )
        topology_json.write_text(json.dumps(settings, indent=1))
        instructions = submit_settings(
            self._experiment,
            self._jars / "topologies.jar",
            topology_json,
            metrics_url=self._metrics.url,
            nimbus=(nimbus.host, nimbus.port),
            token_file=self._metrics.token_file,
            spool=self._metrics.spool,
        )
        submit_json.write_text(json.dumps(instructions, indent=1))
        self.wrapped = submit(
            self._cluster.homes,
            submit_json,
            instrumentation=self._jars / "instrumentation.jar",
            topology_jar=self._jars / "topologies.jar",
            hosts=self._cluster.hosts,
        )
        self._begin(_is_up)

    def rebalance(self, configuration: TopologyConfiguration) -> None:
        """Ask for another configuration."""
        self._cluster.worker_output.mark()
        self._begin(self._cluster.nimbus.rebalance(self._name, configuration).whole)

    def _begin(self, whole: Callable[[TopologyState], bool]) -> None:
        self._whole, self._state, self._starts = whole, None, WorkerStarts()

    def plan(self) -> PhysicalPlan:
        """Read the physical plan now in force; one without executors while there is none."""
        self._state = self._cluster.nimbus.topology(self._name)
        if not self._state.assigned(self._query_plan):
            return PhysicalPlan(query_plan=self._query_plan, nodes=self._cluster.nodes, executors=())
        return physical_plan(self._state, self._query_plan, self._cluster.nodes)

    def whole(self) -> bool:
        """Whether every executor of the plan that was read last is up."""
        return self._state is not None and self._whole(self._state)

    def expected(self, configuration: TopologyConfiguration) -> TopologyConfiguration:
        """Return the configuration with Storm's own executors (ackers, metrics consumers) added."""
        own = {ACKER: self._experiment.ackers}
        if self._experiment.measure.instrument:
            own[METRICS_CONSUMER] = self._experiment.topology.metrics_consumers
        return configuration.model_copy(update={"executors": {**configuration.executors, **own}})

    def generation(self) -> Mapping[str, int]:
        """Return the start time of every worker in use, which changes when one is restarted."""
        state = self._cluster.nimbus.topology(self._name)
        starts = self._starts.update(state.uptimes_s(), time.monotonic())
        return {f"{address}:{port}": round(start) for (address, port), start in starts.items()}

    def complete_latency(self) -> Mapping[str, tuple[float, int]]:
        """Return mean (ms) and number of complete latencies of every spout executor, since its start."""
        state = self._cluster.nimbus.topology(self._name)
        return {
            e.label: (e.complete_latency_ms or 0.0, e.acked)
            for e in state.executors
            if e.is_spout and e.component in self._query_plan.spouts
        }

    def reported_errors(self, since_epoch_ms: int) -> list[str]:
        """Return what the topology's tasks reported as errors since then, one line each, newest last.

        Nimbus keeps them for as long as the topology lives, to the second.
        """
        errors = self._cluster.nimbus.topology(self._name).errors
        return [e.text for e in errors if e.epoch_s >= since_epoch_ms // 1000]

    def check(self) -> None:
        """Raise ClusterError when a server has died."""
        self._cluster.check()

    def check_start(self) -> None:
        """Raise ClusterError when a worker of the plan that was asked for cannot start."""
        slots = self._state.slots() if self._state is not None else {}
        self._cluster.worker_output.check((port for _, port in slots), time.monotonic())


def _is_up(state: TopologyState) -> bool:
    return state.status == "ACTIVE" and state.all_up


@contextmanager
def local_cluster(
    experiment: Experiment,
    homes: ServerHomes,
    home: Path,
    jars: Path,
    progress: Callable[[str], None],
    companions: Sequence[Companion] = (),
) -> Iterator[LocalCluster]:
    """Start the cluster that an experiment asks for, and end it with the block."""
    shape = experiment.cluster
    cluster = LocalCluster(
        homes,
        home,
        nodes=shape.nodes,
        slots_per_node=shape.slots_per_node,
        worker_heap_mb=shape.worker_heap_mb,
        jit=shape.worker_jit,
        extlib=(jars / "instrumentation.jar",),
        cpu_quota_cores=shape.cpu_quota_cores,
        companions=companions,
    )
    cluster.start(progress)
    try:
        yield cluster
    finally:
        cluster.stop()
