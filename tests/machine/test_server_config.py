"""The servers' configuration: what one key means is in the servers' manuals, not repeated here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.machine import server_config as config
from harness.machine.server_config import Heaps, Ports, StormFolders, SupervisedNode


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def storm_yaml(
    node: SupervisedNode | None = None, secret: str = "", plans: Path | None = None
) -> dict[str, Any]:
    folders = StormFolders(
        local=Path("/home/data/node-1"),
        workers_artifacts=Path("/home/logs/workers"),
        log4j2=Path("/home/log4j2"),
        plans=plans,
    )
    options = config.worker_childopts(300, "c1", Path("/home/hosts"), Path("/home/logs"), None)
    text = config.storm_yaml("127.0.0.2", folders, Ports(), Heaps(), options, node=node, secret=secret)
    settings = json.loads(text)
    assert isinstance(settings, dict)
    return settings


@given(nodes=st.integers(1, config.MOST_NODES), slots=st.integers(1, config.MOST_SLOTS))
def test_no_two_workers_share_a_port(nodes: int, slots: int) -> None:
    """Workers bind every address, so ports must differ across nodes too."""
    ports = Ports()
    used = [p for i in range(nodes) for p in ports.slots(i, slots)]
    used += [ports.supervisor_base + i for i in range(nodes)]
    used += [ports.zookeeper, ports.nimbus, ports.kafka, ports.kafka_controller, 8086]
    assert len(set(used)) == len(used)


@pytest.mark.parametrize(("node", "slots"), [(config.MOST_NODES, 1), (0, config.MOST_SLOTS + 1)])
def test_a_cluster_that_has_no_ports_is_refused(node: int, slots: int) -> None:
    with pytest.raises(UsageError, match="a local cluster has at most 20 nodes with 80 slots each"):
        Ports().slots(node, slots)


def test_everything_but_storm_listens_on_loopback_only() -> None:
    zookeeper = properties(config.zookeeper_cfg(Path("/z"), Ports()))
    assert zookeeper["clientPortAddress"] == "127.0.0.1"
    assert zookeeper["admin.enableServer"] == "false"
    kafka = properties(config.kafka_properties(Path("/k"), Ports()))
    assert kafka["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"


def test_a_single_broker_replicates_nothing() -> None:
    kafka = properties(config.kafka_properties(Path("/k"), Ports()))
    assert {v for k, v in kafka.items() if k.endswith(("replication.factor", "min.isr"))} == {"1"}
    assert kafka["auto.create.topics.enable"] == "false"


def test_a_node_has_its_own_address_slots_and_folders() -> None:
    node = storm_yaml(SupervisedNode(0, (6700, 6701)))
    assert node["storm.local.hostname"] == "127.0.0.2"
    assert node["supervisor.slots.ports"] == [6700, 6701]
    assert node["supervisor.thrift.port"] == Ports().supervisor_base
    assert node["storm.local.dir"] == "/home/data/node-1"
    assert "supervisor.slots.ports" not in storm_yaml()


def test_nothing_is_written_into_the_shared_storm_home() -> None:
    """Storm resolves relative folders against its home, which is the cache that all clusters share."""
    settings = storm_yaml(SupervisedNode(0, (6700,)))
    folders = [v for k, v in settings.items() if k.endswith((".dir", ".location"))]
    assert len(folders) == 4
    assert all(folder.startswith("/home/") for folder in folders)


def test_with_a_secret_daemons_stay_on_loopback_and_workers_ask_for_it() -> None:
    node = SupervisedNode(0, (6700,))
    for server, settings in (("nimbus", storm_yaml(secret="s")), ("supervisor", storm_yaml(node, "s"))):
        assert settings[f"{server}.thrift.transport"] == config.LOOPBACK_TRANSPORT
        assert settings["storm.messaging.netty.authentication"] is True
    assert "nimbus.thrift.transport" not in storm_yaml()  # a sandbox needs none of it


def test_plans_name_nodes_as_the_harness_does() -> None:
    assert storm_yaml(SupervisedNode(1, (6800,)))["supervisor.scheduler.meta"] == {"name": "node-2"}
    nimbus = storm_yaml(plans=Path("/home/plans"))
    assert nimbus["storm.scheduler"] == config.PINNED_SCHEDULER
    assert nimbus["harness.plans.folder"] == "/home/plans"
    assert "storm.scheduler" not in storm_yaml()  # a class that is not on its class path would end it


def test_periods_are_whole_seconds_above_zero() -> None:
    """Storm refuses any other."""
    for name, value in {**config.PERIODS, **config.PATIENCE}.items():
        assert isinstance(value, int), name
        assert value >= 1, name


def test_a_session_may_last_as_long_as_storm_asks() -> None:
    zookeeper = properties(config.zookeeper_cfg(Path("/z"), Ports()))
    assert int(zookeeper["maxSessionTimeout"]) == config.PATIENCE["storm.zookeeper.session.timeout"]


@pytest.mark.parametrize(("jit", "only_c1"), [("c1", True), ("full", False)])
def test_worker_options(jit: config.Jit, only_c1: bool) -> None:
    options = config.worker_childopts(300, jit, Path("/hosts"), Path("/logs"), Path("/a.jsa"))
    assert {"-Xms300m", "-Xmx300m", "-XX:+UseSerialGC", "-XX:SharedArchiveFile=/a.jsa"} <= set(options)
    assert (config.C1_FLAG in options) == only_c1
    assert not any(" " in option for option in options)  # Storm splits at blanks


@pytest.mark.parametrize("archive", [None, Path("/a.jsa")])
def test_a_daemon_is_told_of_an_archive_where_there_is_one(archive: Path | None) -> None:
    command = config.java(100, "lib/*", "Main", properties={}, class_archive=archive)
    assert [o for o in command if "jsa" in o] == ([f"-XX:SharedArchiveFile={archive}"] if archive else [])
    assert command[-3:] == ["-cp", "lib/*", "Main"]


def test_hosts_name_this_host_and_every_node() -> None:
    assert config.hosts_file("box", 2) == "127.0.0.1 localhost box\n127.0.0.2 node-1\n127.0.0.3 node-2\n"
