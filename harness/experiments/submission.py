"""What is sent to the jar: the query plan and settings as JSON, every value resolved here.

The Java side has no defaults of its own, so what ``experiment.yaml`` of a run says is what ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.experiments.config import Experiment, StormValue
from harness.plans import TopologyConfiguration


def topology_settings(
    experiment: Experiment,
    topology: str,
    configuration: TopologyConfiguration,
    *,
    bootstrap: str,
    input_topic: str,
    output_topic: str,
) -> dict[str, Any]:
    """Return ``topology.json`` of the test topologies.

    Parameters
    ----------
    experiment : Experiment
        The experiment as loaded.
    topology : str
        Storm's name for this submission.
    configuration : TopologyConfiguration
        Executors and workers to submit with.
    bootstrap, input_topic, output_topic : str
        The Kafka broker and topics.
    """
    t = experiment.topology
    plan = t.query_plan()
    components = {
        c.name: {
            "role": c.role,
            "executors": configuration.executors[c.name],
            "tasks": c.tasks,
            "service": t.service[c.name].model_dump(mode="json") if c.name in t.service else None,
            "window": c.window.model_dump(mode="json") if c.window else None,
        }
        for c in plan.components
    }
    return {
        "name": topology,
        "components": components,
        "streams": [s.model_dump(mode="json") for s in plan.streams],
        "multiplier": t.multiplier.model_dump(mode="json") if t.multiplier else None,
        "routing": t.routing,
        "keys": {
            "names": list(experiment.workload.keys),
            "weights": list(experiment.workload.keys.values()),
        },
        "seed": experiment.workload.seed,
        "spout": {
            "bootstrap": bootstrap,
            "topic": input_topic,
            "group": topology,
            **t.spout.model_dump(mode="json"),
        },
        "sink": {"bootstrap": bootstrap, "topic": output_topic, "producer": dict(t.producer)},
        "storm": {**experiment.storm_settings(), "topology.workers": configuration.workers},
    }


def submit_settings(
    experiment: Experiment,
    jar: Path,
    topology_json: Path,
    *,
    metrics_url: str,
    nimbus: tuple[str, int],
    token_file: str = "",
    spool: str = "",
) -> dict[str, Any]:
    """Return ``submit.json``: how the jar is captured, instrumented and sent to Nimbus.

    ``token_file`` and ``spool`` are on the workers' hosts: what holds the token for ``metrics_url``, and
    the folder for metrics that could not be delivered; empty where there is no such thing.
    """
    storm: Mapping[str, StormValue] = {}
    return {
        "nimbus": {"host": nimbus[0], "port": nimbus[1]},
        "jar": str(jar),
        "main": "harness.storm.topologies.Main",
        "args": [str(topology_json)],
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
        "storm": storm,
    }
