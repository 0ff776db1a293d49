"""The real deployment: joins a cluster and what submits a topology to the campaign."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, assert_never

from harness.errors import ClusterError
from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames, WorkerSeen
from harness.machine.broker import Broker
from harness.machine.masking import SecretMask
from harness.plans import (
    ACKER,
    METRICS_CONSUMER_PREFIX,
    AskedPlacement,
    Batching,
    PhysicalPlan,
    Relief,
    TopologyConfiguration,
)
from harness.storm.capturing import captured
from harness.storm.deployed_nodes import COMMIT_WAIT_S, NodesOfDeployment
from harness.storm.nimbus import Nimbus
from harness.storm.pinning import Pinning
from harness.storm.running_cluster import RunningCluster
from harness.storm.submission import (
    LIVE_SIZES,
    MainOfAJar,
    MetricsTarget,
    live_sizes,
    relief_settings,
    submit_settings,
    topology_settings,
)
from harness.storm.submitter import SubmitterAnswer, submit
from harness.storm.topology_state import Rebalance, TopologyState, WorkerStarts, physical_plan
from harness.topologies.jar import CAPTURED_AS, JarTopology
from harness.topologies.test_topology import Topology

METRICS_CONSUMER = f"{METRICS_CONSUMER_PREFIX}_harness.storm.instrument.LineProtocolConsumer"
"""Storm's name for the component of our metrics consumer."""
MAIN = "harness.storm.topologies.Main"
"""Builds the harness's own topologies."""


class Submitter(Protocol):
    """A jar whose main submits a topology, and what it has to be told for one submission."""

    @property
    def topology(self) -> str:
        """Storm's name for what it submits."""

    @property
    def jar(self) -> Path:
        """The jar that is uploaded."""

    def settings(
        self,
        configuration: TopologyConfiguration,
        metrics: MetricsTarget,
        nimbus: tuple[str, int],
        answer: Path,
        batching: Batching,
    ) -> dict[str, object]:
        """Return ``submit.json``; what it refers to is there, but for the file of the answer."""

    def check(self, answer: SubmitterAnswer) -> None:
        """Raise ClusterError when it submitted something else than it should."""


class OfTheHarness:
    """Submits one of the harness's topologies.

    Parameters
    ----------
    experiment : Experiment
    own : Topology
        The experiment's.
    topology : str
        Storm's name for it.
    broker : Broker
        The Kafka broker, which is reached by TLS where it has that.
    topics : TopicNames
        Inputs and output.
    jars : Path
        Folder of ``topologies.jar``.
    folder : Path
        Where ``topology.json`` is put.
    """

    def __init__(
        self,
        experiment: Experiment,
        own: Topology,
        topology: str,
        broker: Broker,
        topics: TopicNames,
        jars: Path,
        folder: Path,
    ) -> None:
        self.topology = topology
        self.jar = jars / "topologies.jar"
        self._experiment = experiment
        self._own = own
        self._broker = broker
        self._topics = topics
        self._folder = folder

    def settings(
        self,
        configuration: TopologyConfiguration,
        metrics: MetricsTarget,
        nimbus: tuple[str, int],
        answer: Path,
        batching: Batching,
    ) -> dict[str, object]:
        """Write ``topology.json``, and return ``submit.json``."""
        topology_json = self._folder / "topology.json"
        settings = topology_settings(
            self._experiment,
            self._own,
            self.topology,
            configuration,
            broker=self._broker,
            topics=self._topics,
        )
        topology_json.write_text(json.dumps(settings, indent=1))
        return submit_settings(
            self._experiment,
            MainOfAJar(self.jar, MAIN, (str(topology_json),)),
            metrics,
            nimbus,
            answer,
            batching,
        )

    def check(self, answer: SubmitterAnswer) -> None:
        """Check nothing: the plan is compared once it is in force."""


class OfAJar:
    """Submits what anybody's jar submits, with the executors of a step.

    Parameters
    ----------
    experiment : Experiment
    topology : JarTopology
        The experiment's, captured.
    name : str
        What ``{name}`` becomes in arguments.
    bootstrap : str
        The Kafka broker.
    topics : TopicNames
        Input and output, where the topology is told of them.
    """

    def __init__(
        self,
        experiment: Experiment,
        topology: JarTopology,
        name: str,
        bootstrap: str,
        topics: TopicNames,
    ) -> None:
        self.jar = topology.jar
        self._experiment = experiment
        self._of = topology
        self._args = topology.arguments(name, bootstrap, next(iter(topics.inputs.values())), topics.output)
        self.topology = topology.name.replace(CAPTURED_AS, name)

    def settings(
        self,
        configuration: TopologyConfiguration,
        metrics: MetricsTarget,
        nimbus: tuple[str, int],
        answer: Path,
        batching: Batching,
    ) -> dict[str, object]:
        """Return ``submit.json``."""
        tasks = self._of.task_counts()
        program = MainOfAJar(
            self.jar,
            self._of.main,
            tuple(self._args),
            components={
                name: {"executors": executors, "tasks": tasks[name]}
                for name, executors in configuration.executors.items()
            },
            storm={**self._experiment.overrides(), "topology.workers": configuration.workers},
        )
        return submit_settings(self._experiment, program, metrics, nimbus, answer, batching)

    def check(self, answer: SubmitterAnswer) -> None:
        """Compare what main submitted with what it was seen to submit when the run began.

        Raises
        ------
        ClusterError
            When main does not submit the same every time.
        """
        if answer.topology != self.topology:
            raise ClusterError(
                f"{self._of.main} submitted {answer.topology}, not {self.topology}: it makes names up",
                "let an argument with {name} give its name",
            )
        again = captured(self._of, answer)
        if again.plan.components != self._of.query_plan().components:
            raise ClusterError(
                f"{self._of.main} submits other components than when the run began",
                "its main must submit the same topology every time",
            )


def submitter_of(
    experiment: Experiment, name: str, broker: Broker, topics: TopicNames, jars: Path, folder: Path
) -> Submitter:
    """Return what submits an experiment's topology under a name: one of the harness's jars, or its own."""
    match experiment.topology:
        case Topology() as own:
            return OfTheHarness(experiment, own, name, broker, topics, jars, folder)
        case JarTopology() as brought:
            return OfAJar(experiment, brought, name, broker.bootstrap, topics)
        case unknown:
            assert_never(unknown)


class StormDeployment(NodesOfDeployment):
    """A topology on a cluster (``harness.experiments.contracts.Deployment``).

    Parameters
    ----------
    experiment : Experiment
    cluster : RunningCluster
        Started.
    submitter : Submitter
        What submits the topology.
    metrics : MetricsTarget
        Where its metrics go.
    jars : Path
        Folder of ``instrumentation.jar``.
    folder : Path
        Where the settings of each submission are kept; made when it is not there.
    """

    def __init__(
        self,
        experiment: Experiment,
        cluster: RunningCluster,
        submitter: Submitter,
        metrics: MetricsTarget,
        jars: Path,
        folder: Path,
    ) -> None:
        self._experiment = experiment
        self._mask = SecretMask.of(experiment.model_dump(mode="json"))
        self._cluster = cluster
        self._submitter = submitter
        self._name = submitter.topology
        self._metrics = metrics
        self._jars = jars
        self._folder = folder
        self._query_plan = experiment.topology.query_plan()
        self._change: Rebalance | None = None
        self._state: TopologyState | None = None
        self._starts = WorkerStarts()
        self._reports_every_s: float | None = None
        self._workers = 0
        self._configuration: TopologyConfiguration | None = None
        self._pinning = Pinning(cluster, submitter.topology)
        self.submitted: SubmitterAnswer | None = None

    def submit(
        self,
        configuration: TopologyConfiguration,
        placement: AskedPlacement | None = None,
        batching: Batching | None = None,
        relief: Relief | None = None,
    ) -> None:
        """Submit the topology anew, removing an earlier submission of it first.

        With a placement its executors go there from the start. Without batch sizes or relief it has the
        topology's own.

        Raises
        ------
        ClusterError
            Also when somebody else's topology has that name: it is left alone.
        """
        nimbus = self._cluster.nimbus
        if self.submitted is not None:
            nimbus.kill(self._name, wait_s=COMMIT_WAIT_S)
        else:
            self._take_name(nimbus)
        self._cluster.worker_output.mark()
        self._require_room(configuration.workers)
        self._pinning.ask(placement)
        self._folder.mkdir(parents=True, exist_ok=True)
        submit_json = self._folder / "submit.json"
        batches = self._experiment.topology.batching if batching is None else batching
        answer = self._folder / "answer.json"
        address = (nimbus.host, nimbus.port)
        settings = self._submitter.settings(configuration, self._metrics, address, answer, batches)
        if relief is not None:
            settings |= relief_settings(relief)
        jar = self._cluster.jar(self._submitter.jar, self._jars / "instrumentation.jar")
        settings["jar"] = str(jar)
        submit_json.write_text(json.dumps(settings, indent=1))
        self.submitted = submit(
            self._cluster.homes,
            submit_json,
            instrumentation=self._jars / "instrumentation.jar",
            topology_jar=jar,
            hosts=self._cluster.hosts,
            storm_conf=nimbus.java_settings,
            heap_mb=self._experiment.topology.main_heap_mb,
        )
        self._cluster.remember("topology", self.submitted.topology)  # main's own choice may be another
        self._submitter.check(self.submitted)
        self._configuration = configuration
        self._begin(None)

    def _take_name(self, nimbus: Nimbus) -> None:
        """Remember what will be submitted before it is: this process may be killed at any time."""
        if self._name in nimbus.cluster_summary().topologies:
            raise ClusterError(f"topology name {self._name} is in use", "kill that topology first")
        self._cluster.remember("topology", self._name)

    def rebalance(self, configuration: TopologyConfiguration) -> None:
        """Ask for another configuration, placed by Storm's own scheduler."""
        self._require_room(configuration.workers)
        self._cluster.worker_output.mark()
        self._pinning.ask(None)
        self._configuration = configuration
        self._begin(self._cluster.nimbus.rebalance(self._name, configuration))

    def place(self, configuration: TopologyConfiguration, placement: AskedPlacement) -> None:
        """Ask for a configuration with every executor on the worker that a placement says.

        Nimbus is asked for a rebalance only where executors' or workers' numbers change. The plan's file is
        there first, so the rebalance places executors by it and restarts each worker once.
        """
        self._require_room(configuration.workers)
        self._cluster.worker_output.mark()
        nimbus = self._cluster.nimbus
        before, started = nimbus.topology(self._name), time.monotonic()
        self._pinning.ask(placement)
        if configuration == self._configuration:
            change = Rebalance(before, configuration, started)
        else:
            change = nimbus.rebalance(self._name, configuration)
        self._configuration = configuration
        self._begin(change)

    def resize(self, batching: Batching) -> None:
        """Ask for batch sizes by ``component:stream``, while messages flow; no worker restarts for it."""
        self._cluster.nimbus.give(self._name, {LIVE_SIZES: live_sizes(batching)})

    def _begin(self, change: Rebalance | None) -> None:
        self._change, self._state, self._starts = change, None, WorkerStarts()

    def waits_for(self) -> str:
        """Return the status that Nimbus' scheduler gives; without a placement, who has not reported yet."""
        if self._pinning.placement is not None:
            return self._cluster.nimbus.topology(self._name).scheduling
        state = self._state
        if state is None:
            return ""
        unheard = state.not_up() if self._change is None else self._change.unheard(state)
        slots = " and ".join(f"{address}:{port}" for address, port in sorted(unheard))
        return f"no report of a new worker at {slots}" if slots else ""

    def plan(self) -> PhysicalPlan:
        """Read the physical plan now in force; one without executors while no plan is in force."""
        self._state = self._cluster.nimbus.topology(self._name)
        return self._read_plan()

    def _read_plan(self) -> PhysicalPlan:
        if self._state is None or not self._state.assigned(self._query_plan):
            return PhysicalPlan(query_plan=self._query_plan, nodes=self._cluster.nodes, executors=())
        return physical_plan(self._state, self._query_plan, self._cluster.nodes)

    def whole(self) -> bool:
        """Return True if every executor of the plan that was read last is up.

        Nimbus still has the last reports of a lost node until it has noticed the loss and moved the workers.
        """
        if self._state is None or not self._lost().isdisjoint(address for address, _ in self._state.slots()):
            return False
        if not self._pinning.in_force(self._state.scheduling, self._read_plan):
            return False  # which workers are new is told from states in which the placement is in force
        if self._change is not None:
            return self._change.whole(self._state)
        return self._state.status == "ACTIVE" and self._state.all_up

    def expected(self, configuration: TopologyConfiguration) -> TopologyConfiguration:
        """Return the configuration with Storm's own executors (ackers, metrics consumers) added."""
        return storms_own(self._experiment, configuration)

    def workers(self) -> Mapping[str, WorkerSeen]:
        """Return every worker in use; one whose node is gone is not."""
        lost = self._lost()
        state = self._cluster.nimbus.topology(self._name)
        starts, reported_s = self._starts.update(state.uptimes_s(), time.monotonic()), self._starts.reported_s
        return {
            f"{slot[0]}:{slot[1]}": WorkerSeen(round(start), reported_s[slot])
            for slot, start in starts.items()
            if slot[0] not in lost
        }

    def reports_every_s(self) -> float:
        """Return the time between two reports of a worker, which the cluster's own settings say."""
        if self._reports_every_s is None:
            settings = self._cluster.nimbus.settings()
            self._reports_every_s = float(str(settings.get("executor.metrics.frequency.secs", 60)))
        return self._reports_every_s

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
        errors = self._cluster.nimbus.topology(self._name, errors=True).errors
        return [self._mask.text(e.text) for e in errors if e.epoch_s >= since_epoch_ms // 1000]

    def check(self) -> None:
        """Raise ClusterError when a server has died, or so many nodes that the workers have no room."""
        self._cluster.check()
        self._require_room(self._workers)

    def _require_room(self, workers: int) -> None:
        self._workers, lost = workers, self._cluster.lost
        left = sum(len(node.slots) for node in self._cluster.nodes if node not in lost)
        if lost and left < workers:
            names = " and ".join(node.name for node in lost)
            raise ClusterError(
                f"{names} is gone, and the {left} slots left are too few for {workers} workers",
                "harness provision makes it anew, then resume the run",
            )

    def _lost(self) -> set[str]:
        return {node.address for node in self._cluster.lost}

    def check_start(self) -> None:
        """Raise ClusterError when a worker of the plan that was asked for cannot start."""
        slots = self._state.slots() if self._state is not None else {}
        self._cluster.worker_output.check((port for _, port in slots), time.monotonic())


def storms_own(experiment: Experiment, configuration: TopologyConfiguration) -> TopologyConfiguration:
    """Return a configuration with Storm's own executors (ackers, metrics consumers) added."""
    own = {ACKER: experiment.ackers} if experiment.ackers else {}
    if experiment.measure.instrument:
        own[METRICS_CONSUMER] = experiment.topology.metrics_consumers
    own |= experiment.topology.others
    return configuration.model_copy(update={"executors": {**configuration.executors, **own}})
