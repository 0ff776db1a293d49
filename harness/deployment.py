"""The real deployment and the whole local run: joins cluster, Kafka, load and metrics to the campaign."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness.backends.local import LocalCluster
from harness.backends.metrics_receiver import MetricsReceiver
from harness.backends.servers import ServerHomes
from harness.backends.submission import submit
from harness.backends.topology_state import WorkerStarts
from harness.errors import ClusterError
from harness.experiments.config import Experiment
from harness.experiments.submission import submit_settings, topology_settings
from harness.plans import ACKER, METRICS_CONSUMER_PREFIX, PhysicalPlan, TopologyConfiguration
from harness.workload.load import KafkaLoad

METRICS_CONSUMER = f"{METRICS_CONSUMER_PREFIX}_harness.storm.instrument.LineProtocolConsumer"
"""What Storm calls the component of our metrics consumer."""


class StormDeployment:
    """A test topology on a local cluster (``harness.experiments.contracts.Deployment``).

    Parameters
    ----------
    experiment : Experiment
    cluster : LocalCluster
        Started.
    name : str
        Storm's name for the topology.
    load : KafkaLoad
        Whose topics it reads and writes.
    metrics : MetricsReceiver
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
        load: KafkaLoad,
        metrics: MetricsReceiver,
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
        self._whole: Callable[[], bool] = lambda: False
        self._starts = WorkerStarts()
        self.wrapped: Mapping[str, object] = {}

    def submit(self, configuration: TopologyConfiguration) -> None:
        """Submit the topology anew, removing an earlier submission of it first."""
        nimbus = self._cluster.nimbus
        nimbus.kill(self._name)
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
        )
        submit_json.write_text(json.dumps(instructions, indent=1))
        self.wrapped = submit(
            self._cluster.homes,
            submit_json,
            instrumentation=self._jars / "instrumentation.jar",
            topology_jar=self._jars / "topologies.jar",
            hosts=self._cluster.hosts,
        )

        def whole() -> bool:
            state = nimbus.topology(self._name)
            return state.status == "ACTIVE" and state.all_up

        self._whole = whole
        self._starts = WorkerStarts()

    def rebalance(self, configuration: TopologyConfiguration) -> None:
        """Ask for another configuration."""
        nimbus = self._cluster.nimbus
        asked = nimbus.rebalance(self._name, configuration)
        self._whole = lambda: asked.whole(nimbus.topology(self._name))
        self._starts = WorkerStarts()

    def plan(self) -> PhysicalPlan:
        """Read the physical plan now in force; one without executors while there is none."""
        try:
            return self._cluster.nimbus.physical_plan(self._name, self._query_plan, self._cluster.nodes)
        except ClusterError as error:
            if "is assigned" in error.message:
                return PhysicalPlan(query_plan=self._query_plan, nodes=self._cluster.nodes, executors=())
            raise

    def whole(self) -> bool:
        """Whether every executor of the plan now in force is up."""
        return self._whole()

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

    def reported_errors(self) -> list[str]:
        """Return what the topology's tasks reported as errors, one line each."""
        return list(self._cluster.nimbus.topology(self._name).errors)

    def check(self) -> None:
        """Raise ClusterError when a server has died."""
        self._cluster.check()


@contextmanager
def local_cluster(
    experiment: Experiment, homes: ServerHomes, home: Path, jars: Path, progress: Callable[[str], None]
) -> Iterator[LocalCluster]:
    """Start the cluster that an experiment asks for, and end it with the block."""
    shape = experiment.cluster
    cluster = LocalCluster(
        homes,
        home,
        nodes=shape.nodes,
        slots_per_node=shape.slots_per_node,
        worker_heap_mb=shape.worker_heap_mb,
        extlib=(jars / "instrumentation.jar",),
        cpu_quota_cores=shape.cpu_quota_cores,
    )
    cluster.start(progress)
    try:
        yield cluster
    finally:
        cluster.stop()
