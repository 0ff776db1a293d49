"""One start of the real servers for all system tests, inside the sandbox that ``make test`` enters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.backends import sandbox, servers
from harness.backends.local import LocalCluster
from harness.backends.servers import ServerHomes
from harness.campaigning import jars


@pytest.fixture(scope="session")
def server_homes() -> ServerHomes:
    if not sandbox.inside() and sandbox.obstacle() is None:
        pytest.fail("system tests start servers: run them in the sandbox, as make test does", pytrace=False)
    return servers.install()


@pytest.fixture(scope="session")
def cluster(server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("cluster")
    extlib = (jars() / "instrumentation.jar",)
    with LocalCluster(server_homes, home, nodes=2, slots_per_node=2, extlib=extlib) as started:
        yield started


@pytest.fixture(scope="session")
def kafka_bootstrap(cluster: LocalCluster) -> str:
    return cluster.bootstrap
