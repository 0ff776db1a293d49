"""Which provisioned clusters an experiment can run on; on real ones in tests/hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.errors import HarnessError, UsageError
from harness.experiments import loading
from harness.experiments.config import LocalCluster
from harness.provisioning.config import Cluster, load
from harness.provisioning.remote import require_provisioned
from harness.provisioning.state import State

SHIPPED = Path(__file__).resolve().parent.parent.parent / "configs" / "clusters" / "namespaces-3.yaml"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def shape() -> LocalCluster:
    return loading.load("quick", [f"cluster={SHIPPED}"]).cluster


def made(cluster: Cluster) -> None:
    state = State(cluster.name)
    with state.locked():
        state.write(cluster, "ready")


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_cluster_that_is_not_provisioned_is_refused_with_the_command(tmp_path: Path, command: str) -> None:
    runs = ["--runs", str(tmp_path / "runs")] if command == "run" else []
    done = CliRunner().invoke(main, [command, "quick", f"--set=cluster={SHIPPED}", *runs])
    assert done.exit_code == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    said = f"error: the cluster namespaces-3 is not provisioned: harness provision {SHIPPED}"
    assert "".join(lines) == said  # it wraps on a narrow terminal
    assert not (tmp_path / "runs").exists()


def test_a_half_provisioned_cluster_is_refused(shape: LocalCluster) -> None:
    state = State("namespaces-3")
    with state.locked():
        state.write(load(SHIPPED), "software")
    with pytest.raises(UsageError, match=r"namespaces-3 is half-provisioned: harness provision .* goes on"):
        require_provisioned(shape)


def test_a_cluster_of_another_shape_is_refused(shape: LocalCluster) -> None:
    made(load(SHIPPED))
    other = shape.model_copy(update={"slots_per_node": 3})
    with pytest.raises(UsageError, match=r"slots and heap \(2, 2, 256\), not \(2, 3, 256\) as its file says"):
        require_provisioned(other)


def test_hosts_of_another_kind_are_refused(tmp_path: Path, shape: LocalCluster) -> None:
    key = tmp_path / "key"
    key.touch()
    file = tmp_path / "far.yaml"
    file.write_text(f"""\
name: far
hosts:
  kind: existing
  ssh_user: somebody
  ssh_key: {key}
  machines:
    - {{ name: only, roles: [zookeeper, nimbus, kafka, supervisor], address: 192.0.2.1 }}
""")
    made(load(file))
    with pytest.raises(UsageError, match="the cluster far has hosts of kind existing: experiments need kind"):
        require_provisioned(shape.model_copy(update={"name": "far"}))


def test_hosts_that_are_gone_are_named(shape: LocalCluster) -> None:
    made(load(SHIPPED))  # and no hosts at all
    with pytest.raises(HarnessError, match=r"the hosts' sandbox of the cluster .* is gone") as raised:
        require_provisioned(shape)
    assert f"harness provision {SHIPPED} makes it anew" in raised.value.hint
