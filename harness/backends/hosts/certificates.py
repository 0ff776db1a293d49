"""Certificates of a cluster's servers, and the authority that signs them.

The only module that imports ``cryptography``. The authority is the cluster's own: made with it, kept with it,
and known to nobody else. What is there already stays, until a server has other names or addresses, or its
certificate ends soon.
"""

from __future__ import annotations

import base64
import datetime
import importlib.util
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MissingTool
from harness.machine import secret_files

if importlib.util.find_spec("cryptography"):  # what only who provisions needs
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LASTING = datetime.timedelta(days=3650)
SOON = datetime.timedelta(days=30)
"""A certificate that ends within this time is made anew."""
CLOCKS_APART = datetime.timedelta(days=1)
"""By so much a host's time of day may be behind, and the certificate is valid there."""
AUTHORITY = "ca"
STORE_PASSWORD = "harness"
"""Password of key stores, which Java does not open without one. Who may read the file is what keeps others
out."""


@dataclass(frozen=True)
class Holder:
    """Whose certificate it is.

    Attributes
    ----------
    name : str
        Of its files: what a server is called.
    hosts : tuple of str
        Names and IPv4 addresses by which it is reached; none for one that only asks others.
    """

    name: str
    hosts: tuple[str, ...] = ()


class Certificates:
    """The certificates of a cluster, in a folder: ``NAME.pem`` and, mode 0600, ``NAME-key.pem``.

    Java's key stores of the same, ``NAME.p12``, are beside them, and ``ca.p12``, which holds no key.

    Parameters
    ----------
    folder : Path
        Where they are; made when it is not there.
    cluster : str
        The cluster's name, which the authority has too.
    """

    def __init__(self, folder: Path, cluster: str) -> None:
        self._folder = folder
        self._cluster = cluster

    def certificate(self, name: str = AUTHORITY) -> Path:
        """Return the file of a certificate: the authority's, unless another is asked for."""
        return self._folder / f"{name}.pem"

    def key(self, name: str = AUTHORITY) -> Path:
        """Return the file of the key that belongs to a certificate."""
        return self._folder / f"{name}-key.pem"

    def store(self, name: str = AUTHORITY) -> Path:
        """Return the file of a key store for Java: a key with its certificate, or whom Java shall trust."""
        return self._folder / f"{name}.p12"

    def make(self, subjects: tuple[Holder, ...]) -> None:
        """Make the authority and a certificate for each subject, where they are not there as asked.

        Raises
        ------
        MissingTool
            When the package that makes them is not installed.
        """
        if not importlib.util.find_spec("cryptography"):
            raise MissingTool("cryptography is not installed", "pip install 'storm-harness[hosts]'")
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = Holder(AUTHORITY)
        if not self._lasts(authority):
            self._write(authority, ec.generate_private_key(ec.SECP256R1()))
        for subject in subjects:
            if not (self._lasts(subject) and self._signed(subject)):
                self._write(subject, ec.generate_private_key(ec.SECP256R1()))

    def values(self, subjects: tuple[Holder, ...]) -> dict[str, object]:
        """Return Ansible's variables: the authority's certificate, and each subject's with its key."""
        return {
            "authority": self.certificate().read_text(encoding="ascii"),
            "certificates": {
                s.name: {
                    "certificate": self.certificate(s.name).read_text(encoding="ascii"),
                    "key": secret_files.read(self.key(s.name)) + "\n",
                }
                for s in subjects
            },
            "stores": {
                name: base64.b64encode(self.store(name).read_bytes()).decode("ascii")
                for name in (AUTHORITY, *(s.name for s in subjects))
            },
        }

    def _read(self, name: str) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate(name).read_bytes())

    def _lasts(self, subject: Holder) -> bool:
        """Return True if a subject has a certificate with its names that does not end soon."""
        files = (self.certificate(subject.name), self.key(subject.name), self.store(subject.name))
        if not all(file.exists() for file in files):
            return False
        there = self._read(subject.name)
        if there.not_valid_after_utc < datetime.datetime.now(datetime.UTC) + SOON:
            return False
        try:
            names = there.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return not subject.hosts
        return list(names) == list(_names(subject))

    def _signed(self, subject: Holder) -> bool:
        """Return True if a certificate is of today's authority."""
        authority = self._read(AUTHORITY).extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        signer = self._read(subject.name).extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
        return signer.value.key_identifier == authority.value.digest

    def _write(self, subject: Holder, key: ec.EllipticCurvePrivateKey) -> None:
        """Write a subject's key and certificate, signed by the authority; the authority signs its own."""
        own = subject.name == AUTHORITY
        signer = key if own else self._authority_key()
        issuer = _called(f"authority of {self._cluster}") if own else self._read(AUTHORITY).subject
        now = datetime.datetime.now(datetime.UTC)
        identifier = x509.SubjectKeyIdentifier.from_public_key
        made = (
            x509.CertificateBuilder()
            .subject_name(issuer if own else _called(subject.name))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCKS_APART)
            .not_valid_after(now + LASTING)
            .add_extension(x509.BasicConstraints(ca=own, path_length=0 if own else None), critical=True)
            .add_extension(_usage(own), critical=True)
            .add_extension(identifier(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    identifier(signer.public_key())
                ),
                critical=False,
            )
        )
        if not own:
            purpose = ExtendedKeyUsageOID.SERVER_AUTH if subject.hosts else ExtendedKeyUsageOID.CLIENT_AUTH
            made = made.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if subject.hosts:
            made = made.add_extension(x509.SubjectAlternativeName(_names(subject)), critical=False)
        certificate = made.sign(signer, hashes.SHA256())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.certificate(subject.name).unlink(missing_ok=True)  # of another key, should this end half-way
        secret_files.replace(self.key(subject.name), pem.decode("ascii").strip())
        self._write_store(subject.name, None if own else key, certificate)
        self.certificate(subject.name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _write_store(
        self, name: str, key: ec.EllipticCurvePrivateKey | None, certificate: x509.Certificate
    ) -> None:
        encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode("ascii"))
        if key is None:
            trusted = [pkcs12.PKCS12Certificate(certificate, name.encode("ascii"))]
            made = pkcs12.serialize_java_truststore(trusted, encryption)
        else:
            made = pkcs12.serialize_key_and_certificates(
                name.encode("ascii"), key, certificate, None, encryption
            )
        self.store(name).unlink(missing_ok=True)
        self.store(name).touch(mode=0o600)
        self.store(name).write_bytes(made)

    def _authority_key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(secret_files.read(self.key()).encode("ascii"), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)  # as it was written here
        return key


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _names(subject: Holder) -> Iterator[x509.GeneralName]:
    for host in subject.hosts:
        try:
            yield x509.IPAddress(ipaddress.IPv4Address(host))
        except ValueError:
            yield x509.DNSName(host)


def _usage(own: bool) -> x509.KeyUsage:
    """Return what a key may be used for: the authority's signs certificates, all others sign handshakes."""
    return x509.KeyUsage(
        digital_signature=not own,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=own,
        crl_sign=own,
        encipher_only=False,
        decipher_only=False,
    )
