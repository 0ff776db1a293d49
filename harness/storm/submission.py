"""Submission to the jar: the query plan and settings as JSON, every value resolved here.

The Java side has no defaults of its own, so a run's ``experiment.yaml`` has all settings that were in force.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Protocol

from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.machine.broker import Broker
from harness.plans import Batching, Relief, TopologyConfiguration
from harness.topologies.bounds import StormValue
from harness.topologies.test_topology import Topology


def topology_settings(
    experiment: Experiment,
    own: Topology,
    topology: str,
    configuration: TopologyConfiguration,
    *,
    broker: Broker,
    topics: TopicNames,
) -> dict[str, object]:
    """Return ``topology.json`` of the test topologies.

    Parameters
    ----------
    experiment : Experiment
        The experiment as loaded.
    own : Topology
        The experiment's.
    topology : str
        Storm's name for this submission.
    configuration : TopologyConfiguration
        Executors and workers to submit with.
    broker : Broker
        The Kafka broker, which is reached by TLS where it has that.
    topics : TopicNames
        An input topic for each spout, the output topic, and one for the routing tables of each component with
        key groups.
    """
    plan, workload, services = own.query_plan(), experiment.input, own.services
    components = {
        c.name: {
            "role": c.role,
            "executors": configuration.executors[c.name],
            "tasks": c.tasks,
            "service": services[c.name].model_dump(mode="json") if c.name in services else None,
            "window": c.window.model_dump(mode="json") if c.window else None,
            "topic": topics.inputs.get(c.name) or topics.tables.get(c.name),
            "multiplier": own.multipliers[c.name].model_dump(mode="json")
            if c.name in own.multipliers
            else None,
            "routing": own.routings.get(c.name),
            "keep": own.keeps.get(c.name),
            "output_bytes": own.output_bytes.get(c.name),
            "forwarded_share": own.forwarded_shares.get(c.name),
            "groups": own.key_groups.get(c.name),
            "key": own.row_keys.get(c.name),
            "aggregate": own.aggregates[c.name].model_dump(mode="json") if c.name in own.aggregates else None,
        }
        for c in plan.components
    }
    spout, security = own.spout.model_dump(mode="json"), broker.client_settings
    return {
        "name": topology,
        "components": components,
        "streams": [s.model_dump(mode="json") for s in plan.streams],
        "keys": {
            "names": list(workload.keys),
            "weights": list(workload.keys.values()),
        },
        "seed": workload.seed,
        "spout": {
            "bootstrap": broker.address,
            "group": topology,
            **spout,
            "consumer": {**spout["consumer"], **security},
        },
        "sink": {
            "bootstrap": broker.address,
            "topic": topics.output,
            "producer": {**own.producer, **security},
        },
        "storm": {**experiment.storm_settings(), "topology.workers": configuration.workers},
    }


LIVE_SIZES = "harness.batching"
"""The credential by which a running topology gets batch sizes (``LiveSizes.java``)."""


class MetricsTarget(Protocol):
    """Where a topology sends its metrics."""

    @property
    def url(self) -> str:
        """Address that lines are posted to, as to InfluxDB's write interface."""

    @property
    def token_file(self) -> str:
        """File that holds the token, on the workers' hosts; empty for none."""

    @property
    def ca_file(self) -> str:
        """File that holds the certificate of who vouches for the server, there; empty for plain HTTP."""

    @property
    def spool(self) -> str:
        """Folder for lines that are not delivered yet, on the workers' hosts; empty for none."""


@dataclass(frozen=True)
class MetricsAddress:
    """A ``MetricsTarget`` by its address and three paths; empty where nothing is there."""

    url: str
    _: KW_ONLY
    token_file: str = ""
    ca_file: str = ""
    spool: str = ""


@dataclass(frozen=True)
class MainOfAJar:
    """A program that submits a topology, and the parts of that topology that are replaced.

    Attributes
    ----------
    jar : Path
    main : str
        Its class.
    args : tuple of str
        Arguments of its main.
    components : mapping
        Executors and tasks of components that shall not have those of the jar.
    storm : mapping
        Settings in place of the topology's own.
    """

    jar: Path
    main: str
    args: tuple[str, ...] = ()
    components: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    storm: Mapping[str, StormValue] = field(default_factory=dict)


def submit_settings(
    experiment: Experiment,
    program: MainOfAJar,
    metrics: MetricsTarget,
    nimbus: tuple[str, int] | None,
    answer: Path,
    batching: Batching | None = None,
) -> dict[str, object]:
    """Return ``submit.json``: how what a jar's main submits is captured, instrumented and sent to Nimbus.

    Parameters
    ----------
    experiment : Experiment
    program : MainOfAJar
    metrics : MetricsTarget
        Where the wrappers report to.
    nimbus : (str, int), optional
        Host and port; None to have the topology described only.
    answer : Path
        File that gets what became of it.
    batching : mapping, optional
        What travels in batches; without it, what the topology says.
    """
    batches = experiment.topology.batching if batching is None else batching
    return {
        "answer": os.path.abspath(answer),
        "nimbus": {"host": nimbus[0], "port": nimbus[1]} if nimbus else None,
        "jar": os.path.abspath(program.jar),
        "main": program.main,
        "args": list(program.args),
        "patience_s": experiment.topology.main_patience_s,
        "instrument": experiment.measure.instrument,
        "metrics": {
            "url": metrics.url,
            "token_file": metrics.token_file,
            "ca_file": metrics.ca_file,
            "spool": metrics.spool,
            # the experiment's name, not the run's: the same series every night
            "topology": experiment.name,
            "bucket_s": experiment.measure.bucket_s,
            "consumers": experiment.topology.metrics_consumers,
        },
        "components": dict(program.components),
        "batching": {key: rule.model_dump() for key, rule in batches.items()},
        **relief_settings(experiment.topology.relief),
        "storm": dict(program.storm),
    }


def relief_settings(relief: Relief) -> dict[str, object]:
    """Return the keys of ``submit.json`` that say what is done about full queues.

    Examples
    --------
    >>> relief_settings(Relief())
    {'helping': {}, 'backpressure': None}
    """
    pausing = relief.backpressure
    return {
        "helping": {name: help_.model_dump() for name, help_ in relief.helping.items()},
        "backpressure": None if pausing is None else pausing.model_dump(exclude={"kind"}),
    }


def live_sizes(batching: Batching) -> str:
    """Return batch sizes by ``component:stream`` as the rewriting layer reads them.

    Examples
    --------
    >>> from harness.plans import BatchSize
    >>> live_sizes({"spout:default": BatchSize(size=5), "bolt:a:b": BatchSize(size=1)})
    '{"spout": {"default": {"size": 5, "flush_ms": 5}}, "bolt": {"a:b": {"size": 1, "flush_ms": 5}}}'
    """
    found: dict[str, dict[str, object]] = {}
    for name, size in batching.items():
        component, _, stream = name.partition(":")
        found.setdefault(component, {})[stream] = size.model_dump()
    return json.dumps(found)
