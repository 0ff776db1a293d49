"""A real Neo4j as a server of the local cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.machine import secret_files
from harness.machine.companions import DataServer
from harness.machine.server_config import C1_FLAG, LOOPBACK

PORT = 7687
HEAP_MB = 512
MAIN = "org.neo4j.server.CommunityEntryPoint"
JAVA_OPTIONS = (
    f"-Xms{HEAP_MB}m",
    f"-Xmx{HEAP_MB}m",
    "-XX:+UseSerialGC",
    C1_FLAG,
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    *(f"--add-opens=java.base/{p}=ALL-UNNAMED" for p in ("java.nio", "java.io", "sun.nio.ch")),
    "-Dio.netty.tryReflectionSetAccessible=true",
)
SETTINGS: Mapping[str, str] = {
    "server.http.enabled": "false",
    "server.https.enabled": "false",
    "dbms.security.auth_enabled": "true",
    "dbms.usage_report.enabled": "false",
    "server.memory.pagecache.size": "64m",
    "db.tx_log.preallocate": "false",
    "db.tx_log.rotation.size": "16M",
}
"""Settings that it gets wherever it runs."""
_MAGIC = bytes.fromhex("6060b017")
_NO_VERSION = bytes(16)


def shakes_hands(host: str, port: int = PORT) -> bool:
    """Return True if a server shakes hands: the driver's protocol, with no version that both could speak."""
    try:
        with socket.create_connection((host, port), timeout=2) as s:
            s.sendall(_MAGIC + _NO_VERSION)
            return len(s.recv(4)) == 4
    except OSError:
        return False


class Neo4jServer(DataServer):
    """Neo4j with a password that is made at its first start.

    Parameters
    ----------
    home : Path
        Folder whose ``lib`` has its jars.
    data : Path
        Its folder: database, settings, and the password (a 0600 file).
    first_password : callable
        Gives the server, which begins with a well-known password, its own one; told its address and
        the new password. Only a driver can do that.
    """

    def __init__(
        self, home: Path, data: Path, first_password: Callable[[str, str], None], port: int = PORT
    ) -> None:
        super().__init__("neo4j", data, LOOPBACK, port)
        self._home = home
        self._first_password = first_password

    @property
    def uri(self) -> str:
        """Its address."""
        return f"bolt://{self.host}:{self.port}"

    @property
    def password_file(self) -> Path:
        """File that holds the server's password."""
        return self.data / "password"

    def password(self) -> str:
        """Return its password."""
        return secret_files.read(self.password_file)

    def command(self) -> Sequence[str]:
        """Return its command line."""
        return (
            "java",
            *JAVA_OPTIONS,
            f"-Djava.io.tmpdir={self.data}/tmp",
            "-cp",
            f"{self._home}/lib/*",
            MAIN,
            f"--home-dir={self.data}",
            f"--config-dir={self.data}/conf",
        )

    def environment(self) -> Mapping[str, str]:
        """Return the variables added to its environment."""
        return {"NEO4J_HOME": str(self.data), "NEO4J_CONF": f"{self.data}/conf"}

    def prepare(self) -> None:
        """Write its settings."""
        for folder in ("conf", "data", "logs", "run", "tmp", "import", "plugins"):
            (self.data / folder).mkdir(exist_ok=True)
        settings = {
            "server.bolt.listen_address": f"{self.host}:{self.port}",
            "server.bolt.advertised_address": f"{self.host}:{self.port}",
            **SETTINGS,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.data / "conf" / "neo4j.conf").write_text(text)

    def answers(self) -> bool:
        """Return True if the server shakes hands."""
        return shakes_hands(self.host, self.port)

    def begin(self) -> None:
        """Give it its password at the first start."""
        if self.password_file.exists():
            return
        fresh = self.password_file.with_suffix(".new")
        self._first_password(self.uri, secret_files.read_or_make(fresh))
        os.rename(fresh, self.password_file)

    def stop(self) -> None:
        """End it as a crash would: asked to end it takes ten seconds, and its log has all it needs."""
        if self._process is not None:
            self._process.wait_ended(0)
            self._process = None
        super().stop()
