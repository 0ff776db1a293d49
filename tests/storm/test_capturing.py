"""What is made of the submitter's answer: the query plan, Storm's own components apart from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ClusterError
from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.experiments.loading import completed, dump, expand_steps, load
from harness.experiments.preflight import findings
from harness.plans import ACKER
from harness.storm.capturing import captured
from harness.storm.deployment import OfAJar
from harness.storm.submitter import SubmitterAnswer
from harness.topologies.jar import Captured, JarTopology, added_by_settings


def component(kind: str, executors: int, tasks: int, **more: object) -> dict[str, object]:
    return {"kind": kind, "storms": False, "executors": executors, "tasks": tasks, "window": None, **more}


def stream(source: str, target: str, grouping: str, name: str = "default") -> dict[str, str]:
    return {"source": source, "stream": name, "target": target, "grouping": grouping}


ANSWER = SubmitterAnswer.model_validate(
    {
        "topology": "counted",
        "wrapped": ["count", "words"],
        "unwrapped": {
            "$checkpointspout": "Storm's own (checkpoint spout)",
            "split": "runs in a process of its own",
        },
        "description": {
            "components": {
                "$checkpointspout": component("spout", 1, 1, storms=True),
                "count": component("bolt", 2, 4, window={"kind": "count", "length": 30, "slide": 10}),
                "split": component("bolt", 1, 1, window={"kind": "count", "length": 3, "slide": 10}),
                "words": component("spout", 2, 2),
            },
            "streams": [
                stream("$checkpointspout", "count", "all", "$checkpoint"),
                stream("split", "count", "all", "$checkpoint"),
                stream("split", "count", "fields"),
                stream("words", "split", "shuffle"),
            ],
            "settings": {
                "topology.debug": True,
                "topology.metrics.consumer.register": [
                    {"class": "a.Logging", "parallelism.hint": 2},
                    {"class": "a.Logging"},
                ],
            },
            "defaults": {
                "topology.debug": False,
                "topology.max.spout.pending": None,
                "topology.eventlogger": 0,
            },
        },
    }
)


@pytest.fixture
def topology(tmp_path: Path) -> JarTopology:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"a jar")
    return JarTopology(jar=jar, main="a.Main", tasks={"split": 3})


@pytest.fixture
def found(topology: JarTopology) -> Captured:
    return captured(topology, ANSWER)


def test_the_query_plan_has_the_topologys_own_components_and_streams(found: Captured) -> None:
    assert [(c.name, c.role, c.tasks) for c in found.plan.components] == [
        ("words", "spout", 2),
        ("count", "window", 4),
        ("split", "other", 3),  # as the experiment asks
    ]
    assert [s.label for s in found.plan.streams] == ["split->count:default", "words->split:default"]
    assert found.storms == {"$checkpointspout": 1}
    assert found.unwrapped == {"split": "runs in a process of its own"}
    assert found.executors == {"words": 2, "count": 2, "split": 1}


def test_settings_in_force_are_the_topologys_over_storms(found: Captured) -> None:
    assert found.settings["topology.debug"] is True
    assert found.settings["topology.eventlogger"] == 0
    assert "topology.max.spout.pending" not in found.settings


def test_the_topologys_own_metrics_consumers_are_components_too(found: Captured) -> None:
    """Storm numbers those of one class from the second on (StormCommon.metricsConsumerBoltSpecs)."""
    added = added_by_settings(found.settings)
    assert added == {"__metrics_a.Logging": 2, "__metrics_a.Logging#2": 1}


def test_an_experiment_is_completed_kept_and_read_back(
    topology: JarTopology, found: Captured, tmp_path: Path
) -> None:
    asked = Experiment.model_validate(
        {
            "name": "jar",
            "topology": topology.model_dump(),
            "steps": {
                "plan": [{"executors": 1}, {"executors": {"count": 4}, "workers": 2}, {"executors": "tasks"}]
            },
        }
    )
    experiment = completed(asked, topology.model_copy(update={"captured": found}))
    first, second, third = expand_steps(experiment)
    assert first.configuration.executors == {"words": 1, "count": 1, "split": 1}
    assert second.configuration.executors == {"words": 2, "count": 4, "split": 1}
    assert third.configuration.executors == {"words": 2, "count": 4, "split": 3}
    assert ACKER not in second.configuration.executors
    assert experiment.ackers == experiment.slots
    said = " ".join(f.message for f in findings(experiment))
    for part in ("every tuple to their logs", "split is not instrumented"):
        assert part in said
    assert "max.spout.pending" not in said  # whether its spouts track what they emit is not known yet
    kept = tmp_path / "experiment.yaml"
    kept.write_text(dump(experiment))
    assert load(kept) == experiment


def test_a_main_that_makes_names_up_is_told_so(topology: JarTopology) -> None:
    """It submitted ``counted`` when it was captured."""
    asked = {"name": "e", "topology": topology.model_copy(update={"captured": captured(topology, ANSWER)})}
    experiment = Experiment.model_validate({**asked, "steps": {"plan": [{"executors": 1}]}})
    assert isinstance(experiment.topology, JarTopology)
    submitter = OfAJar(
        experiment, experiment.topology, "e-1", "127.0.0.1:9", TopicNames({"input": "in"}, "out")
    )
    submitter.check(ANSWER)
    with pytest.raises(ClusterError, match=r"a\.Main submitted counted-8341, not counted: it makes names up"):
        submitter.check(ANSWER.model_copy(update={"topology": "counted-8341"}))
