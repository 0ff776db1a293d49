"""What an experiment may say of each kind of cluster, and what older runs said of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiments.clusters import KINDS, MEASURED_KINDS, Local
from harness.experiments.loading import dump, load

SLOW, SLOWER = "{delay_ms: 3}", "{delay_ms: 0}"
FOUR = Path(__file__).parents[2] / "configs" / "clusters" / "namespaces-4.yaml"
ARCHIVED = sorted((Path(__file__).parents[2] / "reports" / "runs").glob("*/*/experiment.yaml"))


@pytest.mark.parametrize("path", ARCHIVED, ids=lambda p: f"{p.parts[-3]}-{p.parts[-2]}")
def test_the_experiments_of_archived_runs_are_read(path: Path) -> None:
    """Eighteen of them give a local cluster a name and a file, both empty; some ran on provisioned hosts."""
    experiment = load(path)
    assert experiment.cluster.kind in MEASURED_KINDS
    assert experiment.name == path.parts[-3]


def test_a_cluster_is_local_where_no_kind_is_given(tmp_path: Path) -> None:
    given = load("quick").model_dump(mode="json")
    del given["cluster"]
    assert type(load("quick").model_validate(given).cluster) is Local
    given["cluster"] = {"nodes": 3}
    assert load("quick").model_validate(given).cluster == Local(nodes=3)


def test_what_is_written_of_a_kind_is_read_as_that_kind(tmp_path: Path) -> None:
    for option in ("cluster.kind=local", "cluster.kind=simulator", "cluster.worker_jit=full"):
        experiment = load("quick", [option])
        again = tmp_path / "again.yaml"
        again.write_text(dump(experiment))
        assert load(again) == experiment


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("cluster.kind=cloud", "cluster: kind: local, running or simulator, or give a provisioned cluster's"),
        ("cluster={kind: running, nimbus: h:6627}", "the key 'cluster.kafka' is missing"),
        ("cluster={kind: running, nimbus: h, kafka: h:9092}", "cluster.nimbus: String should match"),
        (
            "cluster={kind: running, nimbus: h:6627, kafka: h:9092, nodes: 3}",
            "cluster: nodes: leave it out; they are as the cluster has them",
        ),
        ("cluster.nodse=3", "unknown key 'cluster.nodse'"),
        ("cluster.nodes=0", "cluster.nodes: Input should be greater than or equal to 1"),
        ("cluster.cpu_quota_cores={node-9: 1}", "cluster: cpu_quota_cores: there is no node 'node-9' in"),
        ("cluster.cpu_quota_cores={node-1: 0}", "cluster.cpu_quota_cores.node-1: Input should be greater"),
        ("cluster={kind: remote, nodes: 1}", "cluster: give the file of a provisioned cluster"),
        ("cluster={name: x}", "unknown key 'cluster.name'"),
        (
            "cluster.links={node-1~node-2: {delay_ms: 3}}",
            "cluster.links: a local cluster has no links; name a provisioned cluster's file",
        ),
        (
            "cluster={kind: simulator, links: {node-1~node-2: {delay_ms: 3}}}",
            "cluster.links: the simulator's nodes share one host",
        ),
        ("cluster={file: nowhere.yaml, links: {}}", "cluster: there is no file nowhere.yaml"),
        (
            f"cluster={{file: {FOUR}, links: {{node-1~node-1: {SLOW}}}}}",
            "cluster: links: 'node-1~node-1' is not two nodes, as in node-1~node-3",
        ),
        (
            f"cluster={{file: {FOUR}, links: {{node-1~control: {SLOW}}}}}",
            "cluster: links: there is no node 'control' in ['node-1', 'node-2', 'node-3']",
        ),
        (
            f"cluster={{file: {FOUR}, links: {{node-1~node-2: {SLOW}, node-2~node-1: {SLOW}}}}}",
            "cluster: links: 'node-1~node-2' is there twice",
        ),
        (
            f"cluster={{file: {FOUR}, links: {{node-1~node-2: {SLOWER}}}}}",
            "cluster.links.node-1~node-2.delay_ms: Input should be greater than 0",
        ),
        (
            f"cluster={{file: {FOUR}, cpu_quota_cores: {{node-9: 1}}}}",
            "cluster: cpu_quota_cores: there is no node 'node-9' in ['node-1', 'node-2', 'node-3']",
        ),
    ],
)
def test_a_mistake_about_a_cluster_names_its_key_and_the_option(option: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        load("quick", [option])
    assert str(refused.value).startswith(f"--set {option}: {said}")


def test_a_provisioned_clusters_nodes_are_unequal_as_the_experiment_says(tmp_path: Path) -> None:
    given = f"cluster={{file: {FOUR}, cpu_quota_cores: {{node-1: 0.3}}, links: {{node-1~node-3: {SLOW}}}}}"
    experiment = load("quick", [given])
    nodes = {n.name: n.cpu_quota_cores for n in experiment.cluster.worker_nodes()}
    assert nodes == {"node-1": 0.3, "node-2": None, "node-3": None}
    assert experiment.cluster.links["node-1~node-3"].delay_ms == 3
    kept = tmp_path / "kept.yaml"
    kept.write_text(dump(experiment))
    assert load(kept) == experiment


def test_kinds_say_whether_they_are_measured_and_whose_servers_they_use() -> None:
    assert {"local", "remote", "running"} == MEASURED_KINDS
    assert [kind.starts_servers for kind in KINDS] == [True, False, False, False]
