"""TLS towards a server: who vouches for its certificate, and with which one this machine shows who it is."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

OBJECTIONS = (
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_REQUIRED",
    "CERTIFICATE_EXPIRED",
    "HANDSHAKE_FAILURE",  # with TLS 1.2, for one that is missing
)
"""Endings of what OpenSSL calls a server's alert about our certificate."""
AGREE = "harness provision CLUSTER.yaml makes both sides agree; else another server has that address"


@dataclass(frozen=True)
class Trust:
    """Files by which servers of a cluster are known, and by which they know this machine.

    Attributes
    ----------
    authority : Path
        Certificate of the authority that signed the servers' certificates.
    certificate, key : Path, optional
        Shown to servers that want to know who asks.

    Examples
    --------
    >>> Trust(Path("nowhere.pem")).context()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    harness.errors.UsageError: nowhere.pem: no certificate can be read: harness provision CLUSTER.yaml ...
    """

    authority: Path
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return how a connection to such a server is made; it has to be the one at that address.

        Raises
        ------
        UsageError
            When a file is not there, or holds something else.
        """
        read = self.authority
        try:
            context = ssl.create_default_context(cafile=str(read))
            if self.certificate is not None:
                read = self.certificate
                context.load_cert_chain(read, self.key)
        except OSError:  # of OpenSSL's, too
            raise UsageError(
                f"{read}: no certificate can be read", "harness provision CLUSTER.yaml writes it"
            ) from None
        return context

    def objection(self, server: str, error: BaseException) -> UsageError | None:
        """Return the complaint about a certificate that a failure comes from, if it comes from one.

        Parameters
        ----------
        server : str
            What it is called, such as ``nimbus at HOST:PORT``.
        error : BaseException
            What a library raised.
        """
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                what = f"{server} shows a certificate for which {self.authority} does not vouch"
                return UsageError(f"{what}: {cause.verify_message}", AGREE)
            if isinstance(cause, ssl.SSLError) and (cause.reason or "").endswith(OBJECTIONS):
                ours = (
                    f"does not accept {self.certificate}"
                    if self.certificate
                    else "wants a certificate of ours"
                )
                return UsageError(f"{server} {ours}: {cause.reason}", AGREE)
        return None


def require_trusted(trust: Trust | None, server: str, error: BaseException) -> None:
    """Raise the complaint about a certificate that a failure comes from; of any other failure say nothing.

    Parameters
    ----------
    trust : Trust or None
        How the server is known; None where it was asked in plain text.
    server, error : str, BaseException
        As for ``Trust.objection``.

    Raises
    ------
    UsageError
        When one side does not accept the other's certificate.
    """
    if trust is not None and (objection := trust.objection(server, error)):
        raise objection from None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Give an exception and what it came from, whether its library says so or not."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
