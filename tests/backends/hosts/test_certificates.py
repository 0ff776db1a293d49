"""A cluster's certificates, shown by a real TLS server to real clients."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from harness.backends.hosts import certificates
from harness.backends.hosts.certificates import Certificates, Holder
from harness.errors import UsageError
from harness.machine.trust import Trust

SERVER = Holder("server", ("node-1", "127.0.0.1"))
CLIENT = Holder("client")


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    there = Certificates(tmp_path / "tls", "mars")
    there.make((SERVER, CLIENT))
    return there


def contents(there: Certificates) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(there.certificate().parent.iterdir())}


@contextmanager
def serving(there: Certificates, *, asking: bool = False) -> Iterator[int]:
    """Listen on loopback for one handshake, after which a byte is sent; asking for a certificate or not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # as Nimbus; a refusal then comes within the handshake
    context.load_cert_chain(there.certificate("server"), there.key("server"))
    if asking:
        context.load_verify_locations(there.certificate())
        context.verify_mode = ssl.CERT_REQUIRED

    def serve() -> None:
        try:
            with context.wrap_socket(listening.accept()[0], server_side=True) as one:
                one.sendall(b"x")
        except OSError:  # it hung up
            pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(30)


def received(trust: Trust, port: int, name: str = "127.0.0.1") -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        trust.context().wrap_socket(plain, server_hostname=name) as s,
    ):
        return s.recv(1)


@pytest.mark.parametrize("name", SERVER.hosts)
def test_a_server_is_known_by_name_and_address(made: Certificates, name: str) -> None:
    with serving(made) as port:
        assert received(Trust(made.certificate()), port, name) == b"x"


@pytest.mark.parametrize(
    ("name", "said"), [("127.0.0.2", "IP address mismatch"), ("node-2", "Hostname mismatch")]
)
def test_it_is_known_by_no_other_one(made: Certificates, name: str, said: str) -> None:
    trust = Trust(made.certificate())
    with serving(made) as port, pytest.raises(ssl.SSLError) as refused:
        received(trust, port, name)
    assert said in str(trust.objection("server", refused.value))


def test_another_authority_is_refused_in_a_line_that_names_the_file(
    made: Certificates, tmp_path: Path
) -> None:
    other = Certificates(tmp_path / "other", "mars")
    other.make((CLIENT,))
    trust = Trust(other.certificate())
    with serving(made) as port, pytest.raises(ssl.SSLError) as refused:
        received(trust, port)
    objection = str(trust.objection("nimbus at h:1", refused.value))
    begins = f"nimbus at h:1 shows a certificate for which {other.certificate()} does not vouch: "
    assert objection.startswith(begins)
    assert objection.endswith(
        "harness provision CLUSTER.yaml makes both sides agree; else another server has that address"
    )
    assert "\n" not in objection


def test_a_server_that_wants_to_know_who_asks(made: Certificates, tmp_path: Path) -> None:
    ours = Trust(made.certificate(), made.certificate("client"), made.key("client"))
    with serving(made, asking=True) as port:
        assert received(ours, port) == b"x"
    other = Certificates(tmp_path / "other", "mars")
    other.make((CLIENT,))
    theirs = other.certificate("client")
    for trust, said in (
        (Trust(made.certificate()), "wants a certificate of ours: "),
        (Trust(made.certificate(), theirs, other.key("client")), f"does not accept {theirs}: "),
    ):
        with serving(made, asking=True) as port, pytest.raises(ssl.SSLError) as refused:
            received(trust, port)
        assert str(trust.objection("nimbus at h:1", refused.value)).startswith(f"nimbus at h:1 {said}")


def test_what_is_no_matter_of_certificates_is_no_objection(made: Certificates) -> None:
    trust = Trust(made.certificate())
    with pytest.raises(OSError, match="refused") as refused:  # port 1 of this machine
        received(trust, 1)
    assert trust.objection("server", refused.value) is None


def test_what_cannot_be_read_is_named(made: Certificates) -> None:
    made.certificate().write_text("not a certificate")
    with pytest.raises(UsageError, match=r"ca\.pem: no certificate can be read: harness provision"):
        Trust(made.certificate()).context()


def test_keys_are_for_their_owner_alone(made: Certificates) -> None:
    for name in ("ca", "server", "client"):
        assert made.key(name).stat().st_mode & 0o777 == 0o600
        assert made.store(name).stat().st_mode & 0o777 == 0o600
    assert made.certificate().parent.stat().st_mode & 0o777 == 0o700


def test_hosts_get_no_key_of_the_authority(made: Certificates) -> None:
    values = made.values((SERVER, CLIENT))
    assert set(values) == {"authority", "certificates", "stores"}
    assert made.key().read_text().split()[4] not in str(values)
    assert made.key("server").read_text().split()[4] in str(values)


def test_stores_for_java_hold_the_same(made: Certificates) -> None:
    password = certificates.STORE_PASSWORD.encode()
    authority = pkcs12.load_pkcs12(made.store().read_bytes(), password)
    assert authority.key is None  # it is for who trusts, anywhere
    (trusted,) = authority.additional_certs
    assert trusted.certificate.public_bytes(Encoding.PEM) == made.certificate().read_bytes()
    server = pkcs12.load_pkcs12(made.store("server").read_bytes(), password)
    assert server.cert is not None
    assert server.cert.certificate.public_bytes(Encoding.PEM) == made.certificate("server").read_bytes()
    assert server.key is not None


def test_what_is_there_stays(made: Certificates) -> None:
    before = contents(made)
    made.make((SERVER, CLIENT))
    assert contents(made) == before


def test_a_host_with_another_address_gets_another_certificate(made: Certificates) -> None:
    before = contents(made)
    made.make((Holder("server", ("node-1", "127.0.0.2")), CLIENT))
    after = contents(made)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {"server.pem", "server-key.pem", "server.p12"}


def test_what_ends_soon_is_made_anew(made: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(made)
    monkeypatch.setattr(certificates, "SOON", certificates.LASTING + datetime.timedelta(days=1))
    made.make((SERVER, CLIENT))  # the authority too, and so all that it has signed
    after = contents(made)
    assert all(after[name] != before[name] for name in before)


def test_another_authority_signs_all_anew(made: Certificates) -> None:
    made.key().unlink()
    before = contents(made)
    made.make((SERVER, CLIENT))
    assert all(contents(made)[name] != before[name] for name in before)
    with serving(made) as port:
        assert received(Trust(made.certificate()), port) == b"x"
