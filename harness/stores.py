"""Which Neo4j is asked about plans: the one that the environment names, or this machine's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import secret_files
from harness.backends import optional_servers
from harness.backends.companions import data_folder
from harness.backends.neo4j import PlanGraph, set_first_password
from harness.backends.neo4j_server import Neo4jServer
from harness.errors import MissingTool, UsageError

URI = "NEO4J_URI"
USERNAME = "NEO4J_USERNAME"
PASSWORD = "NEO4J_PASSWORD"


def local_neo4j(data: Path | None = None) -> Neo4jServer:
    """Return a Neo4j on this machine, not started.

    Raises
    ------
    MissingTool
        When it is not installed.
    """
    home = optional_servers.neo4j_home()
    if home is None:
        raise MissingTool("Neo4j is not installed", "make servers")
    return Neo4jServer(home, data or data_folder("neo4j"), set_first_password)


def given_graph() -> PlanGraph | None:
    """Return the graph that the environment names (``NEO4J_URI``), None when it names none.

    Raises
    ------
    UsageError
        When there is no password for it.
    """
    uri = os.environ.get(URI)
    if not uri:
        return None
    password = secret_files.from_environment(PASSWORD)
    if password is None:
        raise UsageError(f"{URI} is set, and no password for it", f"set {PASSWORD} or {PASSWORD}_FILE")
    return PlanGraph(uri, password, os.environ.get(USERNAME, "neo4j"))


@contextmanager
def local_graph(folder: Path, progress: Callable[[str], None]) -> Iterator[PlanGraph]:
    """Start the user's own Neo4j for a block, with its log in a folder."""
    server = local_neo4j()
    server.start(folder, progress)
    try:
        with PlanGraph(server.uri, secret_files.read(server.password_file)) as graph:
            yield graph
    finally:
        server.stop()
