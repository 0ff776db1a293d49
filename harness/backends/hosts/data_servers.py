"""InfluxDB and Neo4j of a provisioned cluster, as stores (``harness.app.stores``).

Their hosts start them again when they die; here they are waited for. Whoever uses them is in the cluster's
network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from harness.backends.hosts.reach import reached
from harness.backends.hosts.state import ClusterRecord, ProvisionedState
from harness.backends.hosts.variables import AUTHORITY_FILE, SPOOL, TOKEN_FILE
from harness.backends.influxdb.api import InfluxApi
from harness.backends.influxdb.spool import HostFolder, MetricSpool
from harness.backends.neo4j import server as neo4j_server
from harness.errors import ClusterError, UsageError
from harness.experiments.cluster_file import DATA_SERVERS, ClusterFile
from harness.experiments.config import Experiment
from harness.machine.ssh import Login, Shell

ANSWERS_WITHIN_S = 60.0
POLL_S = 0.2


def named(experiment: Experiment) -> tuple[str, ...]:
    """Return the servers that an experiment names, as the roles of hosts are called."""
    metrics = "influxdb" if experiment.metrics.of_the_cluster else ""
    return tuple(store for store in (metrics, experiment.plans.store) if store in DATA_SERVERS)


def require_named(experiment: Experiment, file: str, record: ClusterRecord) -> None:
    """Raise UsageError when the cluster that was made of a file lacks a server that an experiment names."""
    cluster = record.cluster
    for role in named(experiment):
        if not cluster.having(role):
            raise UsageError(
                f"no host of the cluster {cluster.name} has the role {role}",
                f"give one that role in {file}, then harness provision {file}",
            )
        if role in record.left_out:
            raise UsageError(
                f"{role} was left out of the cluster {cluster.name}, as the cache did not have it",
                f"make servers, then harness provision {file}",
            )


class HostedServer:
    """A server on one of the hosts.

    Parameters
    ----------
    name : str
        Its role.
    state : ProvisionedState
        What is kept of the cluster.
    cluster : ClusterFile
        What was asked.
    answers : callable
        Whether it answers a request, given its address.
    """

    def __init__(
        self, name: str, state: ProvisionedState, cluster: ClusterFile, answers: Callable[[str], bool]
    ) -> None:
        self.name = name
        self.host = cluster.having(name)[0].name
        self.address = state.addresses()[self.host]
        self._network = reached(state, cluster)
        self._cluster = cluster
        self._answers = answers

    @property
    def has_host(self) -> bool:
        """True where the server's host is there."""
        return self._network.host_alive(self.host)

    @property
    def room(self) -> str:
        """Where to see how much room its data have."""
        return f"harness cluster status {self._cluster.name} says how much room {self.host} has"

    def check(self) -> None:
        """Raise ClusterError when its host is gone."""
        if not self.has_host:
            raise ClusterError(
                f"host {self.host} of the cluster {self._cluster.name} is gone, and {self.name} with it",
                "harness provision makes it anew; a run goes on with --resume",
            )

    def wait(self) -> None:
        """Wait until it answers, which it does not for a while after it has died.

        Raises
        ------
        ClusterError
            When its host is gone, or it does not answer in time.
        """
        deadline = time.monotonic() + ANSWERS_WITHIN_S
        while not self._answers(self.address):
            self.check()
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self.name} on {self.host} does not answer",
                    f"its log there is /var/log/harness/{self.name}.log",
                )
            time.sleep(POLL_S)


class HostedInflux(HostedServer):
    """InfluxDB on one of the hosts; metrics wait for it on those that run workers."""

    token_file = PurePosixPath(TOKEN_FILE)
    ca_file = AUTHORITY_FILE
    spool = PurePosixPath(SPOOL)

    def __init__(self, state: ProvisionedState, cluster: ClusterFile) -> None:
        self.trust = state.trust
        super().__init__("influxdb", state, cluster, lambda address: self._api(address).answers())
        api = self._api(self.address)
        self.url = api.url
        self.write_url = api.write_url
        self._state = state
        login, addresses = login_of(state, cluster), state.addresses()
        self._shells = [Shell(login, m.name, addresses[m.name]) for m in cluster.having("supervisor")]
        self.batches = MetricSpool([HostFolder(s, SPOOL, self._alive(s.host)) for s in self._shells])

    def _api(self, address: str) -> InfluxApi:
        return InfluxApi(address, trust=self.trust)

    def _alive(self, host: str) -> Callable[[], bool]:
        return lambda: self._network.host_alive(host)

    def token(self) -> str:
        """Return the token in use."""
        return self._state.secret("influxdb_token")

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give it what earlier runs left on the hosts, where none is at work, and hang up at the end."""
        api, token = self._api(self.address), self.token()
        try:
            self.batches.tidy()
            self.batches.deliver(lambda lines: api.post(lines, token))
            yield
        finally:
            self.close()

    def close(self) -> None:
        """Hang up; the hosts are called again when they are asked something."""
        for shell in self._shells:
            shell.close()


class HostedNeo4j(HostedServer):
    """Neo4j on one of the hosts."""

    def __init__(self, state: ProvisionedState, cluster: ClusterFile) -> None:
        super().__init__("neo4j", state, cluster, neo4j_server.shakes_hands)
        self.uri = f"bolt://{self.address}:{neo4j_server.PORT}"
        self._state = state

    def password(self) -> str:
        """Return its password."""
        return self._state.secret("neo4j_password")


def login_of(state: ProvisionedState, cluster: ClusterFile) -> Login:
    """Return who logs in to the hosts of a cluster."""
    return Login(cluster.hosts.ssh_user, state.key(cluster), state.known_hosts, cluster.hosts.port)
