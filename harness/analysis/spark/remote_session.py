"""A session on a Spark Connect server: what ``SPARK_REMOTE`` names.

The server is somebody else's, with its own master, memory and start; only what a session may choose about
its queries is set. It reads the run's files itself, so they are where it sees them under the same path.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from harness.errors import HarnessError, MissingTool, UsageError

PORT = 15002
"""Where Spark Connect listens unless told otherwise."""
ANSWER_S = 10.0
_PACKAGES = ("grpc", "grpc_status", "google.rpc", "zstandard")


@contextmanager
def remote_session(url: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Give a session on the server, and end it (not the server) with the block.

    Parameters
    ----------
    url : str
        ``sc://HOST``, ``sc://HOST:PORT``, ``sc://HOST:PORT/;NAME=VALUE``.
    settings : mapping of str to str
        Of queries (``spark.sql.*``); others belong to the server.

    Raises
    ------
    UsageError
        When it is no such address, or the packages that speak to a server are not installed.
    HarnessError
        When no server answers there.
    """
    host, port = address(url)
    if not all(_installed(name) for name in _PACKAGES):
        raise MissingTool(
            "SPARK_REMOTE needs the packages of Spark Connect", "pip install 'storm-harness[connect]'"
        )
    try:
        # Spark's own client would try for many minutes before it says so.
        socket.create_connection((host, port), timeout=ANSWER_S).close()
    except OSError as error:
        raise HarnessError(
            f"no Spark Connect server answers at {host}:{port}: {error.strerror or error}",
            "SPARK_REMOTE names it; unset, Spark runs on this machine",
        ) from error
    session = SparkSession.builder.remote(url).getOrCreate()
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield session
    finally:
        session.stop()
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)  # or no other kind of session could follow


def address(url: str) -> tuple[str, int]:
    """Return the host and the port of a Spark Connect server's address.

    Raises
    ------
    UsageError
        When it is none.

    Examples
    --------
    >>> address("sc://analysis.example/;token=abc")
    ('analysis.example', 15002)
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme != "sc":
        raise UsageError(f"SPARK_REMOTE={url}: no Spark Connect server", "give sc://HOST:PORT")
    return host, PORT if port is None else port


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package within one that is not there
        return False
