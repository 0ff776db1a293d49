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
from harness.backends.hosts.provision import broker_of, influxdb_of
from harness.backends.influxdb.api import InfluxApi
from harness.backends.kafka.client import Topics
from harness.backends.optional_servers import influxd
from harness.errors import UsageError
from harness.machine.trust import Trust

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
    found = provisioned.on("control", "sudo find /etc/harness -name '*key*.pem' -printf '%P %u %m\\n'").stdout
    expected = {"kafka/key.pem kafka 400"} | ({"influxdb/key.pem influxdb 400"} if influxd() else set())
    assert set(found.splitlines()) == expected
    authority = provisioned.state.certificates.certificate().read_text()
    assert provisioned.on("node-1", "cat /etc/harness/ca.pem").stdout == authority


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
    told = harness("cluster", "status", provisioned.cluster.name)
    assert told.status == 1
    servers = [f"the server at {broker.address}"]
    if influxd():
        api: InfluxApi = influxdb_of(provisioned.cluster)
        servers.append(f"influxdb at {api.url}")
    for server in servers:
        assert any(p.startswith(f"{server} {said}") for p in told.result["problems"]), told.result["problems"]
