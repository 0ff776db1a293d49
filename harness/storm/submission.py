"""Submission to the jar: the query plan and settings as JSON, every value resolved here.

The Java side has no defaults of its own, so a run's ``experiment.yaml`` has all settings that were in force.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.plans import Batching, Relief, TopologyConfiguration
from harness.topologies.bounds import StormValue
from harness.topologies.test_topology import Topology


def topology_settings(
    experiment: Experiment,
    own: Topology,
    topology: str,
    configuration: TopologyConfiguration,
    *,
    bootstrap: str,
    topics: TopicNames,
) -> dict[str, Any]:
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
    bootstrap : str
        The Kafka broker.
    topics : TopicNames
        An input topic for each spout, and the output topic.
    """
    plan, workload, services = own.query_plan(), experiment.input, own.services
    components = {
        c.name: {
            "role": c.role,
            "executors": configuration.executors[c.name],
            "tasks": c.tasks,
            "service": services[c.name].model_dump(mode="json") if c.name in services else None,
            "window": c.window.model_dump(mode="json") if c.window else None,
            "topic": topics.inputs.get(c.name),
            "multiplier": own.multipliers[c.name].model_dump(mode="json")
            if c.name in own.multipliers
            else None,
            "routing": own.routings.get(c.name),
            "keep": own.keeps.get(c.name),
            "output_bytes": own.output_bytes.get(c.name),
            "forwarded_share": own.forwarded_shares.get(c.name),
        }
        for c in plan.components
    }
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
            "bootstrap": bootstrap,
            "group": topology,
            **own.spout.model_dump(mode="json"),
        },
        "sink": {"bootstrap": bootstrap, "topic": topics.output, "producer": dict(own.producer)},
        "storm": {**experiment.storm_settings(), "topology.workers": configuration.workers},
    }


def submit_settings(
    experiment: Experiment,
    jar: Path,
    main: str,
    args: Sequence[str],
    *,
    answer: Path,
    metrics_url: str,
    token_file: str = "",
    spool: str = "",
    nimbus: tuple[str, int] | None,
    batching: Batching | None = None,
    components: Mapping[str, Mapping[str, int]] | None = None,
    storm: Mapping[str, StormValue] | None = None,
) -> dict[str, Any]:
    """Return ``submit.json``: how what a jar's main submits is captured, instrumented and sent to Nimbus.

    Parameters
    ----------
    jar, main, args
        The jar, its class, and the arguments of its main.
    answer : Path
        File that gets what became of it.
    metrics_url : str
        Where the wrappers report to.
    token_file, spool : str
        On the workers' hosts: what holds the token for it, and the folder for metrics that could not be
        delivered; empty where there is no such thing.
    nimbus : (str, int), optional
        Host and port; None to have the topology described only.
    batching : mapping, optional
        What travels in batches; without it, what the topology says.
    components : mapping, optional
        Executors and tasks of components that shall not have those of the jar.
    storm : mapping, optional
        Settings in place of the topology's own.
    """
    batches = experiment.topology.batching if batching is None else batching
    return {
        "answer": os.path.abspath(answer),
        "nimbus": {"host": nimbus[0], "port": nimbus[1]} if nimbus else None,
        "jar": os.path.abspath(jar),
        "main": main,
        "args": list(args),
        "patience_s": experiment.topology.main_patience_s,
        "instrument": experiment.measure.instrument,
        "metrics": {
            "url": metrics_url,
            "token_file": token_file,
            "spool": spool,
            # the experiment's name, not the run's: the same series every night
            "topology": experiment.name,
            "bucket_s": experiment.measure.bucket_s,
            "consumers": experiment.topology.metrics_consumers,
        },
        "components": dict(components or {}),
        "batching": {key: rule.model_dump() for key, rule in batches.items()},
        **relief_settings(experiment.topology.relief),
        "storm": dict(storm or {}),
    }


def relief_settings(relief: Relief) -> dict[str, Any]:
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
