"""Topologies of a jar as an experiment's file names them, and the one line that each mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import dump, expand_steps, load
from harness.topologies.jar import JarTopology

JAR = """\
name: of-a-jar
topology:
  jar: some.jar
  main: org.somebody.Topology
  args: ["{name}"]
steps:
  plan:
    - executors: {count: 1}
    - executors: 2
"""


def test_a_jar_is_beside_its_file_and_makes_its_own_messages(tmp_path: Path) -> None:
    path = tmp_path / "jar.yaml"
    path.write_text(JAR)
    experiment = load(path)
    assert isinstance(experiment.topology, JarTopology)
    assert experiment.topology.jar == tmp_path / "some.jar"
    assert [s.rate_tps for s in expand_steps(experiment)] == [None, None]
    assert load(path, ["topology.storm={topology.debug: false}"]).storm_settings()["topology.debug"] is False


def test_a_jar_between_topics_has_a_workload_and_its_main_is_told_where(tmp_path: Path) -> None:
    path = tmp_path / "jar.yaml"
    args = '["{name}", "{bootstrap}", "a={input_topic},b={output_topic}", "{}"]'
    more = "  topics: {header: id}\nworkload: {rate_tps: 3}\nsteps:"
    path.write_text(JAR.replace('["{name}"]', args).replace("steps:", more))
    experiment = load(path)
    assert isinstance(experiment.topology, JarTopology)
    assert experiment.topology.arguments("{bootstrap}", "h:1", "in", "out") == [
        "{bootstrap}",  # what a placeholder becomes is not looked at again
        "h:1",
        "a=in,b=out",
        "{}",
    ]
    assert [s.rate_tps for s in expand_steps(experiment)] == [3, 3]
    assert load_dumped(tmp_path, experiment) == experiment


def load_dumped(folder: Path, experiment: Experiment) -> Experiment:
    again = folder / "again.yaml"
    again.write_text(dump(experiment))
    return load(again)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("steps:", "workload: {rate_tps: 3}\nsteps:"), "workload: the topology of a jar makes its own"),
        (("- executors: 2", "- {executors: 2, rate_tps: 3}"), "rate_tps has no meaning"),
        (("main: org.somebody.Topology", "main: not a class"), "topology.main: String should match pattern"),
        (("  main: org.somebody.Topology\n", ""), "'topology.main' is missing"),
        (("  main:", "  load_ware: true\n  main:"), "unknown key 'topology.load_ware'"),
        (("  main:", "  storm: {topology.workers: 3}\n  main:"), "its key is workers of a step"),
        (("steps:", "measure: {instrument: false}\nsteps:"), "nothing of a jar's topology is measured"),
        (("steps:", "cluster: {kind: simulator}\nsteps:"), "the simulator plays no jar's topology"),
        (("  main:", "  topics: {}\n  main:"), "one of them has to give main {bootstrap}"),
        (
            ('["{name}"]', '["{name} {output_topic}"]'),
            "{output_topic} has a meaning only with the key 'topics' (topics: {} at least)",
        ),
        (("  main:", "  topics: {heade: a}\n  main:"), "unknown key 'topology.topics.heade'"),
        (
            ('["{name}"]', '["{bootstrap}/{input_topic}/{output_topic}"]\n  topics: {}'),
            "workload: the key is missing",
        ),
    ],
)
def test_a_mistake_about_a_jar_gets_one_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "jar.yaml"
    assert change[0] in JAR
    path.write_text(JAR.replace(*change))
    with pytest.raises(UsageError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)
