"""Which provisioned clusters an experiment can run on; on real ones in tests/hosts."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.app.clusters import access
from harness.backends.hosts.clocks import HostClock
from harness.backends.hosts.remote import _require_comparable, require_provisioned
from harness.backends.hosts.state import ProvisionedState
from harness.cli import main
from harness.errors import ClusterError, HarnessError, UsageError
from harness.experiments import loading
from harness.experiments.cluster_file import ClusterFile, load
from harness.experiments.clusters import Provisioned

SHIPPED = Path(__file__).resolve().parents[3] / "configs" / "clusters" / "namespaces-3.yaml"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


JAR = b"of this version"


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "instrumentation.jar").write_bytes(JAR)
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(shutil.copy(SHIPPED, tmp_path))


@pytest.fixture
def shape(file: Path) -> Provisioned:
    return loading.load("quick", [f"cluster={file}"]).cluster


def made(cluster: ClusterFile, jar: bytes = JAR) -> None:
    state = ProvisionedState(cluster.name)
    with state.locked():
        state.write(cluster, "ready", hashlib.sha256(jar).hexdigest())


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_cluster_that_is_not_provisioned_is_refused_with_the_command(tmp_path: Path, command: str) -> None:
    runs = ["--runs", str(tmp_path / "runs")] if command == "run" else []
    done = CliRunner().invoke(main, [command, "quick", f"--set=cluster={SHIPPED}", *runs])
    assert done.exit_code == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    said = f"error: the cluster namespaces-3 is not provisioned: harness provision {SHIPPED}"
    assert "".join(lines) == said  # it wraps on a narrow terminal
    assert not (tmp_path / "runs").exists()


def test_a_half_provisioned_cluster_is_refused(shape: Provisioned, jars: Path) -> None:
    state = ProvisionedState("namespaces-3")
    with state.locked():
        state.write(load(SHIPPED), "software")
    with pytest.raises(UsageError, match=r"namespaces-3 is half-provisioned: harness provision .* goes on"):
        require_provisioned(shape, jars)


@pytest.mark.parametrize("there", [True, False])
def test_a_cluster_of_another_shape_is_refused(
    shape: Provisioned, file: Path, jars: Path, there: bool
) -> None:
    """As of a run that is taken up again, when the cluster was changed since; its file may be gone."""
    made(load(file))
    if not there:
        file.unlink()
    other = shape.model_copy(update={"slots_per_node": 3})
    what = r"slots and heap \(2, 2, 256\), not the experiment's \(2, 3, 256\): harness provision"
    with pytest.raises(UsageError, match=what):
        require_provisioned(other, jars)


@pytest.mark.parametrize("more", ["probes: { period_s: 3 }", "storm: { settings: { logviewer.port: 8001 } }"])
def test_a_cluster_whose_file_was_changed_since_is_refused(
    shape: Provisioned, file: Path, jars: Path, more: str
) -> None:
    made(load(file))
    first, _, rest = file.read_text().partition("\nstorm:")
    assert rest  # the rest are defaults
    file.write_text(f"{first}\n{more}\n")
    with pytest.raises(UsageError, match=rf"namespaces-3 is not as {file} says: .* changes it"):
        require_provisioned(shape, jars)


@pytest.mark.parametrize("before", [True, False])
def test_a_cluster_of_another_version_is_refused(shape: Provisioned, jars: Path, before: bool) -> None:
    if before:  # when no jar was recorded
        state = ProvisionedState("namespaces-3")
        with state.locked():
            state.write(load(SHIPPED), "ready")
    else:
        made(load(SHIPPED), b"of another version")
    with pytest.raises(UsageError, match="namespaces-3 is of another version of the harness: harness provi"):
        require_provisioned(shape, jars)


def test_hosts_in_a_network_of_their_own_are_refused(tmp_path: Path, shape: Provisioned, jars: Path) -> None:
    file = tmp_path / "far.yaml"
    file.write_text("""\
name: far
hosts:
  kind: hetzner
  caller_cidr: 192.0.2.1/32
  machines:
    - { name: only, roles: [zookeeper, nimbus, kafka, supervisor] }
""")
    made(load(file))
    with pytest.raises(
        UsageError, match="the cluster far has hosts of kind hetzner, in a network of their o"
    ):
        require_provisioned(shape.model_copy(update={"name": "far"}), jars)


def test_an_existing_host_that_takes_no_connection_is_named(tmp_path: Path, jars: Path) -> None:
    """Port 1 of this machine, which refuses."""
    key = tmp_path / "key"
    key.touch()
    file = tmp_path / "near.yaml"
    file.write_text(f"""\
name: near
hosts:
  kind: existing
  ssh_user: somebody
  ssh_key: {key}
  ssh_port: 1
  machines:
    - {{ name: only, roles: [zookeeper, nimbus, kafka, supervisor], address: 127.0.0.1 }}
""")
    made(load(file))
    ProvisionedState("near").write_addresses({"only": "127.0.0.1"})
    shape = loading.load("quick", [f"cluster={file}", "steps.plan=[{executors: 1, workers: 1}]"]).cluster
    with pytest.raises(HarnessError, match="host only of the cluster near is gone"):
        require_provisioned(shape, jars)


CLOCK = HostClock(offset_ms=50.2, uncertainty_ms=0.3, shared=False)


@pytest.mark.parametrize(
    ("clock", "one_machine", "said"),
    [
        (CLOCK, True, "a clock of its own, not this machine's"),
        (CLOCK._replace(offset_ms=50.4), False, r"its time of day is \+50 ms from this machine's"),
        (CLOCK._replace(offset_ms=-50.4), False, "its time of day is -50 ms from this machine's"),
        (CLOCK, False, ""),
        (CLOCK._replace(offset_ms=0.0, shared=True), True, ""),
    ],
)
def test_clocks_that_are_not_what_times_are_taken_for_are_refused(
    clock: HostClock, one_machine: bool, said: str
) -> None:
    refused = pytest.raises(ClusterError, match=f"node-1: {said}") if said else nullcontext()
    with refused:
        _require_comparable({"node-1": clock}, one_machine)


STORES = ("metrics.store=influxdb", "plans.store=neo4j")


@pytest.mark.parametrize(("role", "key"), [("influxdb", "metrics.store"), ("neo4j", "plans.store")])
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_store_that_no_host_has_the_role_of_is_refused(
    file: Path, tmp_path: Path, role: str, key: str, command: str
) -> None:
    file.write_text(file.read_text().replace(f"{role}, ", ""))
    runs = ["--runs", str(tmp_path / "runs")] if command == "run" else []
    given = [f"--set={key}={role}", f"--set=cluster={file}"]
    done = CliRunner().invoke(main, [command, "quick", *given, *runs], env={"COLUMNS": "500"})
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"error: {key}: {role}: no host of the cluster namespaces-3 has that role:"
        f" give one the role {role} in {file}, then harness provision {file}"
    ]
    assert not (tmp_path / "runs").exists()


def test_a_store_that_was_left_out_is_refused(file: Path) -> None:
    state = ProvisionedState("namespaces-3")
    with state.locked():
        state.write(load(file), "ready", "digest", ("influxdb",))
    with pytest.raises(
        UsageError, match=r"influxdb was left out of the cluster namespaces-3.*: make servers"
    ):
        access(loading.load("quick", [f"cluster={file}", *STORES])).stores()


@pytest.mark.parametrize("key", ["metrics.data=x", "metrics.retention_days=3", "plans.data=x"])
def test_what_the_clusters_file_says_is_not_said_by_the_experiment(file: Path, key: str) -> None:
    name = key.partition("=")[0].replace(".", r"\.")
    with pytest.raises(UsageError, match=rf"{name}: leave it out; a provisioned cluster has its own"):
        loading.load("quick", [f"cluster={file}", *STORES, key])


def test_hosts_that_are_gone_are_named(shape: Provisioned, file: Path, jars: Path) -> None:
    made(load(SHIPPED))  # and no hosts at all
    with pytest.raises(HarnessError, match=r"the hosts' sandbox of the cluster .* is gone") as raised:
        require_provisioned(shape, jars)
    assert f"harness provision {file} makes it anew" in raised.value.hint
