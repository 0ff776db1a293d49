"""What a submission leaves on a provisioned cluster when its answer is lost: nothing."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hosts import Provisioned

from harness.app.jars import jars
from harness.backends.hosts.provision import nimbus_of
from harness.backends.hosts.remote import RemoteCluster, remote_cluster
from harness.backends.hosts.variables import PLANS_FOLDER
from harness.errors import ClusterError
from harness.experiments.contracts import TopicNames
from harness.experiments.loading import expand_steps, load
from harness.machine import servers
from harness.storm import deployment
from harness.storm.deployment import StormDeployment, submitter_of
from harness.storm.running_cluster import Left
from harness.storm.submitter import submit

pytestmark = pytest.mark.system


class Nowhere(NamedTuple):
    """Metrics that nobody takes."""

    url: str = "http://127.0.0.1:9/"
    token_file: str = ""
    ca_file: str = ""
    spool: str = ""


def test_a_topology_whose_submitter_gave_no_answer_is_removed(
    provisioned: Provisioned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*given: Any, **named: Any) -> None:
        submit(*given, **named)
        raise ClusterError("its answer was lost")

    monkeypatch.setattr(deployment, "submit", lost)
    experiment = load("quick", [f"cluster={provisioned.file}", "topology.tasks=4"])
    name = f"lost-{uuid.uuid4().hex[:8]}"
    topics = TopicNames.of(name, experiment.topology.entrances)
    cluster_of = remote_cluster(
        experiment.cluster, servers.install(), tmp_path / "home", jars(), lambda _: None
    )

    def submitting(cluster: RemoteCluster) -> None:
        folder = tmp_path / "submission"
        submitter = submitter_of(experiment, name, cluster.broker, topics, jars(), folder)
        there = StormDeployment(experiment, cluster, submitter, Nowhere(), jars(), folder)
        try:
            there.submit(expand_steps(experiment)[0].configuration)
        finally:
            assert set(cluster.nimbus.cluster_summary().topologies) == {name}
            assert provisioned.state.left() == Left(topology=(name,))

    with pytest.raises(ClusterError, match="its answer was lost"), cluster_of as cluster:
        submitting(cluster)
    with provisioned.network.entered():
        assert dict(nimbus_of(provisioned.cluster).cluster_summary().topologies) == {}
    assert provisioned.state.left() == Left()


def test_somebodys_topology_of_that_name_is_left_alone(provisioned: Provisioned, tmp_path: Path) -> None:
    """One that came after the run had found the cluster idle."""
    experiment = load("quick", [f"cluster={provisioned.file}", "topology.tasks=4"])
    name, configuration = f"taken-{uuid.uuid4().hex[:8]}", expand_steps(experiment)[0].configuration
    home = tmp_path / "home"
    with remote_cluster(experiment.cluster, servers.install(), home, jars(), lambda _: None) as cluster:
        folder = tmp_path / "submission"
        submitter = submitter_of(
            experiment, name, cluster.broker, TopicNames({"spout": "in"}, "out"), jars(), folder
        )

        def deployed() -> StormDeployment:
            return StormDeployment(experiment, cluster, submitter, Nowhere(), jars(), folder)

        deployed().submit(configuration)
        provisioned.state.write_left(Left())  # it is somebody else's
        try:
            with pytest.raises(ClusterError, match=f"topology name {name} is in use"):
                deployed().submit(configuration)
            assert provisioned.state.left() == Left()
        finally:
            cluster.nimbus.kill(name)


def test_a_plan_is_there_for_nimbus_and_goes_with_its_topology(
    provisioned: Provisioned, tmp_path: Path
) -> None:
    experiment = load("quick", [f"cluster={provisioned.file}", "topology.tasks=4"])
    name, text = f"planned-{uuid.uuid4().hex[:8]}", '{"generation": 1, "executors": {"it\'s[1-1]": "n:1"}}'
    (host,) = (m.name for m in provisioned.cluster.having("nimbus"))
    file, home = f"{PLANS_FOLDER}/{name}.json", tmp_path / "home"

    def there() -> str:
        return provisioned.on(host, f"sudo runuser -u storm -- cat {file}").stdout

    with remote_cluster(experiment.cluster, servers.install(), home, jars(), lambda _: None) as cluster:
        cluster.remember("topology", name)
        cluster.pin(name, text)
        assert there() == text
        cluster.unpin(name)
        assert there() == ""
        cluster.pin(name, text)
    assert there() == ""
