"""A real cluster on three namespace hosts: what works on it, and that a second run changes nothing.

Tests run in this order; the one that takes the cluster down is in test_hosts_zz_end.py.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from pathlib import Path

import pytest
from hosts import Provisioned, harness
from neo4j import GraphDatabase
from neo4j.exceptions import AuthError

from harness.backends.hosts.provision import broker_of, neo4j_of, nimbus_of
from harness.backends.hosts.variables import TOKEN_FILE
from harness.backends.kafka.client import Consumer, Producer, Topics
from harness.backends.optional_servers import influxd, neo4j_home
from harness.machine.niceness import NICENESS

pytestmark = pytest.mark.system

SESSION_CLOSED_REQUIRE_SASL_AUTH = -124
"""ZooKeeper's own number, KeeperException.Code."""


def test_a_second_run_changes_nothing(provisioned: Provisioned) -> None:
    again = provisioned.provision()
    assert again.status == 0, again.err
    assert again.result["changed"] == 0, again.err


def test_status(provisioned: Provisioned) -> None:
    told = harness("cluster", "status", provisioned.cluster.name)
    assert told.status == 0, told.out + told.err
    assert told.result["phase"] == "ready"
    assert told.result["problems"] == []
    services = {h["name"]: {s for s, runs in h["services"].items() if runs} for h in told.result["hosts"]}
    data_servers = {name for name, there in (("influxdb", influxd()), ("neo4j", neo4j_home())) if there}
    assert {"zookeeper", "nimbus", "kafka", "probes"} | data_servers == services["control"]
    assert {"supervisor", "probes"} == services["node-1"] == services["node-2"]


def test_nimbus_lists_topologies_and_both_supervisors(provisioned: Provisioned) -> None:
    with provisioned.network.entered():
        summary = nimbus_of(provisioned.cluster).cluster_summary()
    assert summary.version == "2.8.3"
    assert dict(summary.topologies) == {}
    addresses = {provisioned.address(name) for name in ("node-1", "node-2")}
    assert {s.address: s.slots for s in summary.supervisors} == dict.fromkeys(addresses, 2)


def test_servers_give_way_to_who_measures(provisioned: Provisioned) -> None:
    """Also where the kernel weighs sessions first: each server's has its niceness, as proc(5) shows it."""
    hosts = ("control", "node-1", "node-2")
    for host in hosts if Path("/proc/self/autogroup").exists() else ():
        told = provisioned.on(host, "for p in $(pgrep -x java); do cat /proc/$p/autogroup; done").stdout
        assert {line.partition(" ")[2] for line in told.splitlines()} == {f"nice {NICENESS}"}
    if (lower := os.nice(0) + NICENESS) > 19:
        pytest.skip("this was started with so much niceness that nobody can give way to it")
    for host in hosts:
        told = provisioned.on(host, "for p in $(pgrep -x java); do cut -d' ' -f19 /proc/$p/stat; done").stdout
        assert set(told.split()) == {str(lower)}


def test_kafka_takes_a_record_and_gives_it_back(provisioned: Provisioned) -> None:
    broker = broker_of(provisioned.cluster)
    with provisioned.network.entered():
        with Topics(broker.address, broker.trust) as topics:
            topics.create("round-trip")
        producer = Producer(broker.address, "round-trip", trust=broker.trust)
        producer.send(3, b"there and back", 7)
        sent = producer.flush(30)
        producer.close()
        assert [(d.tag, d.error) for d in sent] == [(7, None)]
        consumer = Consumer(broker.address, "round-trip", trust=broker.trust)
        deadline = time.monotonic() + 30
        while not (records := consumer.poll(500)):
            assert time.monotonic() < deadline
        consumer.close()
    assert [(r.partition, r.value) for r in records] == [(3, b"there and back")]


def test_a_stranger_in_the_network_reaches_no_server(provisioned: Provisioned) -> None:
    address = provisioned.address("control")
    stranger = "10.96.7.200"
    provisioned.in_sandbox("ip", "address", "add", f"{stranger}/24", "dev", "hosts0")
    try:
        with provisioned.network.entered():
            optional = {8086: influxd(), 7687: neo4j_home()}
            for port in (2181, 6627, 9094, *(port for port, there in optional.items() if there)):
                socket.create_connection((address, port), timeout=5).close()  # we may
                with pytest.raises(TimeoutError):
                    socket.create_connection((address, port), timeout=1, source_address=(stranger, 0))
            # and it is not the way that is missing
            socket.create_connection((address, 22), timeout=5, source_address=(stranger, 0)).close()
    finally:
        provisioned.in_sandbox("ip", "address", "delete", f"{stranger}/24", "dev", "hosts0")


def test_zookeeper_gives_nothing_without_the_password(provisioned: Provisioned) -> None:
    """A client that does not log in asks for the children of /; Storm's do, or nimbus would know nobody."""
    connect = struct.pack(">iqiq", 0, 0, 30_000, 0) + struct.pack(">i16s?", 16, b"", False)
    children = struct.pack(">iii1s?", 1, 8, 1, b"/", False)  # request 1: getChildren, watch: no
    with (
        provisioned.network.entered(),
        socket.create_connection((provisioned.address("control"), 2181), timeout=10) as s,
    ):
        for message in (connect, children):
            s.sendall(struct.pack(">i", len(message)) + message)
        answers = []
        while size := s.recv(4, socket.MSG_WAITALL):
            answers.append(s.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL))
    assert len(answers) == 2  # a session, one refusal, and the end
    xid, _, error = struct.unpack(">iqi", answers[1][:16])
    assert (xid, error) == (1, SESSION_CLOSED_REQUIRE_SASL_AUTH)


def test_probes_measure_round_trips(provisioned: Provisioned) -> None:
    deadline = time.monotonic() + 60
    while "round_trip,source=node-1,target=node-2 ms=" not in (
        told := provisioned.on("node-1", "sudo cat /var/log/harness/probes.log").stdout
    ):
        assert time.monotonic() < deadline, told


def test_secrets_are_in_their_file_only(provisioned: Provisioned) -> None:
    secrets = json.loads(provisioned.state.secrets.read_text())
    assert provisioned.state.secrets.stat().st_mode & 0o077 == 0
    for path in provisioned.state.folder.rglob("*"):
        if path.is_file() and path != provisioned.state.secrets:
            text = path.read_bytes()
            for name, value in secrets.items():
                assert value.encode() not in text, f"{name} is in {path}"
    for host in ("control", "node-1", "node-2"):
        processes = provisioned.on(host, "sudo ps axww").stdout
        assert "runsvdir" in processes
        assert not any(value in processes for value in secrets.values())
        search = "sudo grep -rlFf - /etc /var/log /opt/harness"
        found = provisioned.on(host, search, "".join(f"{value}\n" for value in secrets.values())).stdout
        expected = {"/etc/harness/storm/jaas.conf"}  # every host here has some daemon of Storm
        expected |= {"/etc/harness/zookeeper/jaas.conf"} if host == "control" else {TOKEN_FILE}
        assert set(found.split()) == expected


@pytest.mark.skipif(neo4j_home() is None, reason="Neo4j is not installed: make servers fetches it")
def test_neo4j_takes_its_own_password_only(provisioned: Provisioned) -> None:
    with provisioned.network.entered():
        uri = neo4j_of(provisioned.cluster)
        with GraphDatabase.driver(uri, auth=("neo4j", provisioned.state.secret("neo4j_password"))) as driver:
            driver.verify_connectivity()
        with (
            GraphDatabase.driver(uri, auth=("neo4j", "neo4j")) as driver,
            pytest.raises(AuthError),
        ):
            driver.verify_connectivity()
