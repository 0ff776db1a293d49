"""What is written for the submitter, which has no defaults of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.experiments.loading import expand_steps, load
from harness.machine.broker import Broker
from harness.storm.submission import (
    MainOfAJar,
    MetricsAddress,
    relief_settings,
    submit_settings,
    topology_settings,
)
from harness.topologies import TOPOLOGIES

PLAIN = Broker("b:1")
JAVA_RESOURCES = Path(__file__).parents[2] / "storm-topologies" / "topologies" / "src" / "test" / "resources"


def _experiment(batching: object) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "e",
            "topology": {"name": "fields-to-fields", "load_aware": False, "batching": batching},
            "workload": {"rate_tps": 10},
            "steps": {"plan": [{"executors": 1, "workers": 1}]},
        }
    )


def described(experiment: Experiment) -> Mapping[str, object]:
    program = MainOfAJar(Path("a.jar"), "a.Main")
    return submit_settings(experiment, program, MetricsAddress(""), None, Path("answer.json"))


def _batching(batching: object) -> object:
    experiment = _experiment(batching)
    return described(experiment)["batching"]


def test_batch_sizes_are_whole() -> None:
    assert _batching({}) == {}
    assert _batching({"spout": 50, "bolt-a:default": {"size": 2, "flush_ms": 1}}) == {
        "spout": {"size": 50, "flush_ms": 5},
        "bolt-a:default": {"size": 2, "flush_ms": 1},
    }


def test_what_is_done_about_full_queues_is_whole() -> None:
    experiment = load("helping")
    steps = expand_steps(experiment)
    marks = {"high_pct": 50.0, "low_pct": 10.0}
    assert relief_settings(steps[0].relief) == {"helping": {}, "backpressure": None}
    assert relief_settings(steps[1].relief) == {"helping": {}, "backpressure": marks}
    whole = {"helping": {"exclam1": {"delta": 0.1, **marks}}, "backpressure": marks}
    assert relief_settings(steps[2].relief) == whole
    made = described(experiment)
    assert {key: made[key] for key in whole} == whole


def submitted(name: str, broker: Broker = PLAIN) -> dict[str, Any]:
    experiment = load(name)
    return topology_settings(
        experiment,
        experiment.topology.own(),
        "t",
        experiment.configuration(experiment.steps.plan[0]),
        broker=broker,
        topics=TopicNames(dict.fromkeys(experiment.topology.entrances, "in"), "out"),
    )


def test_topologies_of_the_harness_go_to_a_broker_by_tls_where_it_has_that() -> None:
    plain, secured = submitted("diamond"), submitted("diamond", Broker("b:1", "b:2", ca_file="/etc/ca.pem"))
    tls = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
    }
    for end, clients in (("spout", "consumer"), ("sink", "producer")):
        assert plain[end]["bootstrap"] == "b:1"
        assert secured[end] == {
            **plain[end],
            "bootstrap": "b:2",
            clients: {**plain[end][clients], **tls},
        }


BEFORE = json.loads((Path(__file__).parent / "submitted/thesis.json").read_text())
"""What the forms of appendix E submitted, written by the code that knew nothing but the five."""


@pytest.mark.parametrize("name", BEFORE)
def test_the_topologies_of_the_thesis_are_submitted_as_they_were_before_graphs_could_be_given(
    name: str,
) -> None:
    """Their experiments are as printed, so that they never change.

    What one multiplier, join or spout had for all is now in its component, and nothing else.
    """
    made = json.loads(json.dumps(submitted(f"appendix-e/{name}")))
    moved = {"topic": "spout", "multiplier": "multiplier", "routing": "join"}
    found: dict[str, object] = {}
    for component in made["components"].values():
        for key, role in moved.items():
            value = component.pop(key)
            assert (value is not None) == (component["role"] == role)
            found[key] = value if value is not None else found.get(key)
        later = ("keep", "output_bytes", "forwarded_share", "groups", "key", "aggregate")
        assert {component.pop(key) for key in later} == {None}
    made["spout"]["topic"] = found.pop("topic")
    assert made | found == BEFORE[name]


def test_keys_and_aggregates_of_rows_are_those_that_the_jars_tests_read() -> None:
    experiment = load("wikipedia-edits")
    own, plain = experiment.topology.own(), Broker("127.0.0.1:9092")
    made = topology_settings(
        experiment,
        own,
        "run",
        experiment.configuration(experiment.steps.plan[0]),
        broker=plain,
        topics=TopicNames.of("run", own.entrances, own.key_groups),
    )
    read = json.loads((JAVA_RESOURCES / "wikipedia-edits.json").read_text())
    assert json.loads(json.dumps(made)) == read


def test_each_topology_of_the_thesis_is_among_them() -> None:
    assert {load(f"appendix-e/{name}").topology.name for name in BEFORE} == set(TOPOLOGIES)


def test_a_graph_is_submitted_component_by_component() -> None:
    made = submitted("diamond")
    assert isinstance(made, dict)
    assert made["components"]["left"]["service"]["mean_ms"] == 0.4
    assert made["components"]["meet"]["window"] == {"kind": "count", "length": 7, "slide": 7}
    assert made["components"]["in"]["tasks"] == 2
    assert made["components"]["spread"]["multiplier"] == {"min": 1, "max": 4, "mean": 2.0, "sd": 1.0}
    assert made["components"]["meet"]["routing"] == "one-per-window"
    assert {"source": "both", "target": "out-1", "grouping": "local-or-shuffle", "stream": "default"} in made[
        "streams"
    ]
