"""Fixtures of the real servers, one start of each for all tests of a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_port

from harness.app.jars import jars
from harness.backends import optional_servers
from harness.backends.influxdb.server import InfluxServer
from harness.backends.local.cluster import LocalCluster
from harness.backends.neo4j.server import Neo4jServer
from harness.backends.neo4j.store import set_first_password
from harness.experiments.clusters import Local
from harness.machine import sandbox, servers
from harness.machine.servers import ServerHomes, quiet


@pytest.fixture(scope="session")
def server_homes() -> ServerHomes:
    if not sandbox.inside() and sandbox.obstacle() is None:
        pytest.fail("system tests start servers: run them in the sandbox, as make test does", pytrace=False)
    return servers.install()


@pytest.fixture(scope="session")
def cluster(server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("cluster")
    extlib = (jars() / "instrumentation.jar",)
    with LocalCluster(server_homes, home, Local(nodes=2, slots_per_node=2), extlib=extlib) as started:
        yield started


@pytest.fixture(scope="session")
def kafka_bootstrap(cluster: LocalCluster) -> str:
    return cluster.bootstrap


@pytest.fixture(scope="session")
def influxd_program() -> Path:
    program = optional_servers.influxd()
    if program is None:
        obstacle = optional_servers.influxdb_obstacle()
        pytest.skip(f"InfluxDB is left out: {obstacle.reason if obstacle else 'make servers builds it'}")
    return program


@pytest.fixture(scope="session")
def influx_server(influxd_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InfluxServer]:
    server = InfluxServer(influxd_program, tmp_path_factory.mktemp("influxdb"), port=free_port())
    server.start(tmp_path_factory.mktemp("influxdb-logs"), quiet)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def neo4j_home() -> Path:
    home = optional_servers.neo4j_home()
    if home is None:
        obstacle = optional_servers.neo4j_obstacle()
        pytest.skip(f"Neo4j is left out: {obstacle.reason if obstacle else 'make servers fetches it'}")
    return home


@pytest.fixture(scope="session")
def neo4j_server(neo4j_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    data = tmp_path_factory.mktemp("neo4j")
    server = Neo4jServer(neo4j_home, data, set_first_password, free_port())
    server.start(tmp_path_factory.mktemp("neo4j-logs"), quiet)
    yield server
    server.stop()
