"""A cluster's file: what is accepted, and what is said of what is not."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiments.cluster_file import DATA_SERVERS, ClusterFile, ExistingHosts, LocalHosts, load

ROOT = Path(__file__).resolve().parents[2]
MACHINES = """
  machines:
    - {name: control, roles: [zookeeper, nimbus, kafka]}
    - {name: node-1, roles: [supervisor]}
"""


def read(tmp_path: Path, text: str) -> ClusterFile:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    return load(path)


def test_the_shipped_file() -> None:
    cluster = load(ROOT / "configs" / "clusters" / "namespaces-3.yaml")
    assert cluster.name == "namespaces-3"
    assert isinstance(cluster.hosts, LocalHosts)
    assert cluster.hosts.gateway == "10.97.0.1"
    assert [m.name for m in cluster.having("supervisor")] == ["node-1", "node-2"]
    assert [[m.name for m in cluster.having(role)] for role in DATA_SERVERS] == [["control"], ["control"]]
    assert cluster.influxdb.retention_days == 400  # a year and a month, docs/metric-store.md
    assert (cluster.probes.period_s, cluster.probes.packets) == (10.0, 5)
    assert cluster.hosts.options() == {
        "network": "10.97.0.0/24",
        "disk_mb": {"small": 2048, "medium": 4096, "large": 8192},
    }


def test_the_shipped_example_of_hosts_that_exist_needs_only_a_key(tmp_path: Path) -> None:
    path = ROOT / "configs" / "clusters" / "existing-3.yaml"
    key = tmp_path / "key"
    text = path.read_text().replace("~/.ssh/id_ed25519", str(key))
    with pytest.raises(UsageError, match="there is no file"):
        read(tmp_path, text)
    key.touch()
    hosts = read(tmp_path, text).hosts
    assert isinstance(hosts, ExistingHosts)
    local = load(path.with_name("namespaces-3.yaml")).hosts.machines
    assert [(m.name, m.roles) for m in hosts.machines] == [(m.name, m.roles) for m in local]
    # addresses of no network (RFC 5737): whoever forgets to put in theirs reaches nobody
    addresses = [*hosts.controllers, *(str(m.address) for m in hosts.machines)]
    assert all(ip_address(a) in ip_network("192.0.2.0/24") for a in addresses)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name: c\nhosts:\n  kind: local\n  colour: red" + MACHINES, "unknown key 'hosts.colour'"),
        ("name: c\nhosts:\n  kind: lunar" + MACHINES, "lunar"),
        ("name: C\nhosts:\n  kind: local" + MACHINES, "name: "),
        ("name: c\nhosts:\n  kind: local\n  network: 10.0.0.0/30" + MACHINES, "no IPv4 network with room"),
        (
            "name: c\nhosts:\n  kind: local" + MACHINES.replace("kafka", "probes"),
            "exactly one has the role kafka",
        ),
        ("name: c\nhosts:\n  kind: local" + MACHINES.replace("node-1", "control"), "two have the same name"),
        (
            "name: c\nhosts:\n  kind: local" + MACHINES.replace("[supervisor]", "[probes]"),
            "none has the role supervisor",
        ),
        (
            "name: c\nhosts:\n  kind: local" + MACHINES.replace("node-1", "a-name-of-fifteen"),
            "hosts.machines.1.name",
        ),
        ("name: c\nhosts:\n  kind: local" + MACHINES.replace("[supervisor]", "[boss]"), "boss"),
        (
            "name: c\nhosts:\n  kind: local" + MACHINES.replace("]}", ", influxdb]}"),
            "at most one has the role influxdb",
        ),
        (
            "name: c\nhosts:\n  kind: local" + MACHINES.replace("]}", ", neo4j]}"),
            "at most one has the role neo4j",
        ),
        (
            "name: c\ninfluxdb: {retention_days: -1}\nhosts:\n  kind: local" + MACHINES,
            "influxdb.retention_days",
        ),
        (
            "name: c\nhosts:\n  kind: existing\n  ssh_user: u\n  ssh_key: k" + MACHINES,
            "control exists already, so it needs an address",
        ),
        ("name: c\nhosts:\n  kind: openstack" + MACHINES, "the key 'hosts.image' is missing"),
        ("name: c\nstorm: {slots_per_node: 0}\nhosts:\n  kind: local" + MACHINES, "storm.slots_per_node"),
        ("name: c\nprobes: {period_s: 0.5}\nhosts:\n  kind: local" + MACHINES, "probes.period_s"),
        ("name: c\nprobes: {packets: 0}\nhosts:\n  kind: local" + MACHINES, "probes.packets"),
        ("- a\n- b\n", "a cluster is a mapping of keys"),
        ("name: [\n", "not readable as YAML"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    assert complaint in str(raised.value)
    assert str(raised.value).startswith(f"{tmp_path / 'cluster.yaml'}:") or "not readable" in str(
        raised.value
    )
    assert "\n" not in str(raised.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none.yaml")


def test_a_key_that_is_not_there(tmp_path: Path) -> None:
    machines = MACHINES.replace("roles:", "address: 192.0.2.1, roles:")
    with pytest.raises(UsageError, match=r"hosts\.ssh_key: there is no file"):
        read(
            tmp_path, f"name: c\nhosts:\n  kind: existing\n  ssh_user: u\n  ssh_key: {tmp_path}/k" + machines
        )
