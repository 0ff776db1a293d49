"""What is kept of a cluster, and who may read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.backends.hosts import state
from harness.backends.hosts.state import ProvisionedState
from harness.errors import UsageError
from harness.experiments.cluster_file import load

SHIPPED = Path(__file__).resolve().parents[3] / "configs" / "clusters" / "namespaces-3.yaml"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_an_unknown_cluster_and_those_there_are() -> None:
    with pytest.raises(UsageError, match="there is no cluster mars: harness provision"):
        ProvisionedState("mars").record()
    there = ProvisionedState("namespaces-3")
    with there.locked():
        there.write(load(SHIPPED), "hosts")
    assert state.known() == ["namespaces-3"]
    with pytest.raises(UsageError, match="there is no cluster mars: there are: namespaces-3"):
        ProvisionedState("mars").record()


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    there = ProvisionedState("namespaces-3")
    with there.locked():
        there.write(load(SHIPPED), "software")
    assert there.record().cluster == load(SHIPPED)
    assert there.record().phase == "software"
    there.remove()
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_drawn_once_taken_from_the_environment_and_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_NEO4J_PASSWORD", "from-the-environment")
    there = ProvisionedState("c")
    with there.locked():
        there.make_secrets()
        first = json.loads(there.secrets.read_text())
        there.make_secrets()
    assert json.loads(there.secrets.read_text()) == first
    assert set(first) == set(state.SECRETS)
    assert first["neo4j_password"] == "from-the-environment"
    assert len(set(first.values())) == len(first)
    assert there.secrets.stat().st_mode & 0o777 == 0o600
    assert there.folder.stat().st_mode & 0o077 == 0


def test_a_secret_that_an_older_version_did_not_need_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ProvisionedState("c")
    with there.locked():
        there.make_secrets()
        before = json.loads(there.secrets.read_text())
        there.secrets.write_text(json.dumps({k: v for k, v in before.items() if k != "influxdb_token"}))
        monkeypatch.setenv("HARNESS_INFLUXDB_TOKEN", "from-the-environment")
        monkeypatch.setenv("HARNESS_NEO4J_PASSWORD", "too-late-for-this-one")
        there.make_secrets()
    after = json.loads(there.secrets.read_text())
    assert after == {**before, "influxdb_token": "from-the-environment"}
    assert there.secrets.stat().st_mode & 0o777 == 0o600


def test_a_role_that_was_left_out_is_none_of_its_data_servers() -> None:
    there = ProvisionedState("namespaces-3")
    with there.locked():
        there.write(load(SHIPPED), "ready", "digest", ("neo4j",))
    assert there.record().data_servers == ("influxdb",)


@pytest.mark.parametrize("given", ["short", 'quoted "twice"', "-e @file"])
def test_a_secret_that_some_server_would_misread_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("HARNESS_ZOOKEEPER_PASSWORD", given)
    there = ProvisionedState("c")
    with there.locked(), pytest.raises(UsageError, match="HARNESS_ZOOKEEPER_PASSWORD cannot be") as raised:
        there.make_secrets()
    assert given not in str(raised.value)
    assert not there.secrets.exists()


def test_one_command_at_a_time() -> None:
    with (
        ProvisionedState("c").locked(),
        pytest.raises(UsageError, match="another command uses"),
        ProvisionedState("c").locked(),
    ):
        pass
