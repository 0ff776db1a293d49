"""What servers on hosts speak: TLS, with certificates of the cluster's own authority, and nothing else."""

from __future__ import annotations

import http.client
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Provisioned, harness

from harness.backends.hosts.certificates import Certificates
from harness.backends.hosts.provision import broker_of, influxdb_of, nimbus_of
from harness.backends.influxdb.api import InfluxApi
from harness.backends.kafka.client import Topics
from harness.backends.optional_servers import influxd
from harness.errors import ClusterError, UsageError
from harness.machine.trust import Trust
from harness.storm.nimbus import Nimbus

pytestmark = pytest.mark.system

without_influxdb = pytest.mark.skipif(
    influxd() is None, reason="InfluxDB is not installed: make servers builds it"
)
OTHERS_SAID = "does not vouch: "


@pytest.fixture
def other(provisioned: Provisioned, tmp_path: Path) -> Iterator[Path]:
    """Let this machine trust another authority than the cluster's, and return the file."""
    stranger = Certificates(tmp_path / "tls", provisioned.cluster.name)
    stranger.make(())
    there, kept = provisioned.state.certificates.certificate(), tmp_path / "kept"
    shutil.copy(there, kept)
    shutil.copy(stranger.certificate(), there)
    yield there
    shutil.copy(kept, there)


def certificate_of(provisioned: Provisioned, port: int) -> str:
    """What a server on host control shows: its verified certificate's names and addresses."""
    address = provisioned.address("control")
    context = Trust(provisioned.state.certificates.certificate()).context()
    with (
        provisioned.network.entered(),
        socket.create_connection((address, port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=address) as s,
    ):
        return str(dict(s.getpeercert() or {})["subjectAltName"])


def names(provisioned: Provisioned) -> str:
    return str((("DNS", "control"), ("IP Address", provisioned.address("control"))))


def test_keys_are_for_their_servers_alone(provisioned: Provisioned) -> None:
    find = "sudo find /etc/harness -name key.pem -printf '%P %u %m\\n' -o -name '*.p12' -printf '%P %u %m\\n'"
    of_storm = {"storm/ca.p12 root 644", "storm/client.p12 storm 400"}  # the first has no key in it
    servers = {"kafka/key.pem kafka 400", "storm/nimbus.p12 storm 400"}
    servers |= {"influxdb/key.pem influxdb 400"} if influxd() else set()
    assert set(provisioned.on("control", find).stdout.splitlines()) == servers | of_storm
    assert set(provisioned.on("node-1", find).stdout.splitlines()) == of_storm
    authority = provisioned.state.certificates.certificate().read_text()
    assert provisioned.on("node-1", "cat /etc/harness/ca.pem").stdout == authority


def test_nimbus_refuses_plain_thrift_and_whoever_has_no_certificate(provisioned: Provisioned) -> None:
    """That it answers who has one is in test_cluster.py, and that topologies run in test_experiment.py."""
    ours = nimbus_of(provisioned.cluster)
    unknown = Trust(provisioned.state.certificates.certificate())
    with provisioned.network.entered():
        with pytest.raises(ClusterError, match=f"nimbus at {ours.host}:6627"):
            Nimbus(ours.host)._ask(lambda nimbus: nimbus.getClusterInfo(), most_ms=5_000)
        with pytest.raises(UsageError, match=f"nimbus at {ours.host}:6627 wants a certificate of ours: "):
            Nimbus(ours.host, trust=unknown).cluster_summary()
    (listens,) = (
        line.split()[3]
        for line in provisioned.on("control", "ss -ltn").stdout.splitlines()
        if ":6627" in line
    )
    assert listens.removeprefix("[::ffff:").replace("]", "") == f"{provisioned.address('control')}:6627"


def test_supervisors_listen_to_nimbus_only(provisioned: Provisioned) -> None:
    connect = f"timeout 5 bash -c 'exec 3<> /dev/tcp/{provisioned.address('node-1')}/6631'"
    assert {host: provisioned.on(host, connect).returncode == 0 for host in ("control", "node-2")} == {
        "control": True,
        "node-2": False,
    }


def test_kafka_answers_by_tls(provisioned: Provisioned) -> None:
    """That records go there and back is in test_cluster.py."""
    assert certificate_of(provisioned, 9094) == names(provisioned)


def test_kafkas_plain_listener_is_for_workers_only(provisioned: Provisioned) -> None:
    """The broker's own controller is for nobody else."""
    address = provisioned.address("control")
    with provisioned.network.entered():
        for port in (9092, 9093):
            with pytest.raises(TimeoutError):
                socket.create_connection((address, port), timeout=1)
    tried = "exec 3<> /dev/tcp/{}/{}"
    for port, there in ((9092, True), (9093, False)):
        connect = f"timeout 5 bash -c '{tried.format(address, port)}'"
        assert (provisioned.on("node-1", connect).returncode == 0) == there, port


@without_influxdb
def test_influxdb_answers_by_tls_only(provisioned: Provisioned) -> None:
    assert certificate_of(provisioned, 8086) == names(provisioned)
    with provisioned.network.entered():
        assert influxdb_of(provisioned.cluster).answers()
        plain = http.client.HTTPConnection(provisioned.address("control"), 8086, timeout=10)
        plain.request("GET", "/health")
        answer = plain.getresponse()
        assert answer.status == 400
        assert b"HTTP request to an HTTPS server" in answer.read()
        plain.close()


def test_a_client_with_another_authority_is_told_which_file(provisioned: Provisioned, other: Path) -> None:
    broker = broker_of(provisioned.cluster)
    with provisioned.network.entered(), pytest.raises(UsageError) as refused:
        Topics(broker.address, broker.trust)
    said = f"shows a certificate for which {other} {OTHERS_SAID}"
    assert str(refused.value).startswith(f"kafka at {broker.address} {said}")
    nimbus = nimbus_of(provisioned.cluster)
    with provisioned.network.entered(), pytest.raises(UsageError) as refused:
        nimbus.cluster_summary()
    assert str(refused.value).startswith(f"nimbus at {nimbus.host}:{nimbus.port} {said}")
    told = harness("cluster", "status", provisioned.cluster.name)
    assert told.status == 1
    servers = [f"the server at {broker.address}", f"nimbus at {nimbus.host}:{nimbus.port}"]
    if influxd():
        api: InfluxApi = influxdb_of(provisioned.cluster)
        servers.append(f"influxdb at {api.url}")
    for server in servers:
        assert any(p.startswith(f"{server} {said}") for p in told.result["problems"]), told.result["problems"]
