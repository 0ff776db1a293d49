"""What an experiment may say of each kind of cluster, and what older runs said of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiments.clusters import KINDS, MEASURED_KINDS, Local
from harness.experiments.loading import dump, load

ARCHIVED = sorted((Path(__file__).parents[2] / "reports" / "runs").glob("*/*/experiment.yaml"))


@pytest.mark.parametrize("path", ARCHIVED, ids=lambda p: f"{p.parts[-3]}-{p.parts[-2]}")
def test_the_experiments_of_archived_runs_are_read(path: Path) -> None:
    """Eighteen of them give a local cluster a name and a file, both empty."""
    experiment = load(path)
    assert isinstance(experiment.cluster, Local)
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
        ("cluster.kind=cloud", "cluster: kind: local or simulator, or give a provisioned cluster's file"),
        ("cluster.nodse=3", "unknown key 'cluster.nodse'"),
        ("cluster.nodes=0", "cluster.nodes: Input should be greater than or equal to 1"),
        ("cluster.cpu_quota_cores={node-9: 1}", "cluster.cpu_quota_cores: there is no node 'node-9' in"),
        ("cluster.cpu_quota_cores={node-1: 0}", "cluster.cpu_quota_cores.node-1: Input should be greater"),
        ("cluster={kind: remote, nodes: 1}", "cluster: give the file of a provisioned cluster"),
        ("cluster={name: x}", "unknown key 'cluster.name'"),
        (
            "cluster={kind: remote, name: x, file: y, cpu_quota_cores: {node-1: 1}}",
            "cluster.cpu_quota_cores: a provisioned cluster's nodes have all of their cores",
        ),
        (
            "cluster={kind: simulator, cpu_quota_cores: {node-1: 1}}",
            "cluster.cpu_quota_cores: the simulator's nodes share one host's cores",
        ),
    ],
)
def test_a_mistake_about_a_cluster_names_its_key_and_the_option(option: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        load("quick", [option])
    assert str(refused.value).startswith(f"--set {option}: {said}")


def test_kinds_say_whether_they_are_measured_and_whose_servers_they_use() -> None:
    assert {"local", "remote"} == MEASURED_KINDS
    assert [kind.starts_servers for kind in KINDS] == [True, False, False]
