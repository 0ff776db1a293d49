"""A topology of the harness's own, submitted to the cluster that system tests share."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from waiting import until

from harness.app.jars import jars
from harness.backends.kafka.client import Topics
from harness.backends.local.cluster import LocalCluster
from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.plans import ACKER, TopologyConfiguration
from harness.storm.deployment import MAIN
from harness.storm.nimbus import Nimbus
from harness.storm.submission import MainOfAJar, MetricsAddress, submit_settings, topology_settings
from harness.storm.submitter import submit
from harness.storm.topology_state import TopologyState

WAIT_S = 120.0
NOBODY = "http://127.0.0.1:9/api/v2/write"  # the discard port: metrics are not looked at here


def rebalanced(
    nimbus: Nimbus, topology: str, configuration: TopologyConfiguration, within_s: float = WAIT_S
) -> TopologyState:
    """The state of a topology once a configuration that it is given is in force, every executor up."""
    states: list[TopologyState] = []
    rebalance = nimbus.rebalance(topology, configuration)

    def whole() -> bool:
        states.append(nimbus.topology(topology))
        return rebalance.whole(states[-1])

    until(whole, f"{topology} is rebalanced", within_s)
    return states[-1]


def asked(executors: int, workers: int, experiment: Experiment) -> TopologyConfiguration:
    names = [*experiment.topology.roles]
    return TopologyConfiguration(
        executors={**dict.fromkeys(names, executors), ACKER: experiment.ackers}, workers=workers
    )


def workers_of(topology: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "org.apache.storm.daemon.worker.Worker" in words and any(
            w.startswith(f"{topology}-") for w in words
        ):
            found.append(process)
    return found


@contextmanager
def submitted_topology(
    cluster: LocalCluster, experiment: Experiment, folder: Path, workers: int = 2
) -> Iterator[str]:
    """Yield the name of a topology that is up, with one executor a component."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    with Topics(cluster.bootstrap) as topics:
        names = TopicNames.of(name, experiment.topology.entrances)
        for topic in (*names.inputs.values(), names.output):
            topics.create(topic)
        settings = topology_settings(
            experiment,
            experiment.topology.own(),
            name,
            asked(1, workers, experiment),
            broker=cluster.broker,
            topics=names,
        )
        (folder / "topology.json").write_text(json.dumps(settings))
        instructions = submit_settings(
            experiment,
            MainOfAJar(jars() / "topologies.jar", MAIN, (str(folder / "topology.json"),)),
            MetricsAddress(NOBODY),
            nimbus=(cluster.nimbus.host, cluster.nimbus.port),
            answer=folder / "answer.json",
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
            for topic in (*names.inputs.values(), names.output):
                topics.delete(topic)
