"""Addresses of a Kafka broker: one for anybody, and one by TLS where it has that."""

from __future__ import annotations

from dataclasses import dataclass

from harness.machine.trust import Trust


@dataclass(frozen=True)
class Broker:
    """A broker, as the harness and the harness's own topologies reach it, and as anybody's jar does.

    Attributes
    ----------
    bootstrap : str
        ``host:port`` in plain text, for jars that know no better.
    secured : str
        ``host:port`` by TLS; empty where there is only the plain one.
    trust : Trust, optional
        How its certificate is known on this machine, where it has one.
    ca_file : str
        The same on workers' hosts: the file of the certificate of who vouches for it.
    """

    bootstrap: str
    secured: str = ""
    trust: Trust | None = None
    ca_file: str = ""

    @property
    def address(self) -> str:
        """``host:port`` for who knows both: by TLS where it has that."""
        return self.secured or self.bootstrap

    @property
    def client_settings(self) -> dict[str, str]:
        """Settings of Kafka's Java clients for ``address``; none in plain text.

        Examples
        --------
        >>> Broker("h:9092").client_settings
        {}
        >>> Broker("h:9092", "h:9094", ca_file="/ca.pem").client_settings["ssl.truststore.location"]
        '/ca.pem'
        """
        if not self.secured:
            return {}
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca_file,
        }
