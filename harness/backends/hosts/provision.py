"""``harness provision``, ``deprovision`` and ``cluster status NAME``.

Terraform makes the hosts, and Ansible installs the servers on them. Each part can be repeated, since whatever
is there already stays as it is. So a command that failed or was ended goes on where it was when it is given
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.backends import optional_servers
from harness.backends.hosts import ansible, host_network, terraform
from harness.backends.hosts.ansible import PlaybookResult, TaskDone, Watcher
from harness.backends.hosts.certificates import Holder
from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.state import ProvisionedState
from harness.backends.hosts.terraform import Terraform
from harness.backends.hosts.variables import AUTHORITY_FILE, variables
from harness.backends.influxdb.api import InfluxApi
from harness.backends.neo4j import server as neo4j_server
from harness.errors import ClusterError, HarnessError, MissingTool, UsageError
from harness.experiments.cluster_file import DATA_SERVERS, ClusterFile, ClusterRole, ExistingHosts, LocalHosts
from harness.machine import server_archive, servers
from harness.machine.broker import Broker
from harness.machine.machine_lock import coming_up
from harness.machine.server_archive import ServerArchive, digest, jars_of, storm_and_kafka
from harness.machine.server_config import Ports
from harness.machine.server_process import kafka_answers
from harness.storm.nimbus import Nimbus

Say = Callable[[str], None]
POLL_S = 0.5
REGISTERED_WITHIN_S = 90.0
SERVERS_WITH_TLS: tuple[ClusterRole, ...] = ("influxdb", "kafka", "nimbus")
STORM_CLIENT = "storm"
"""Name of the certificate that supervisors and workers show to Nimbus."""


@dataclass(frozen=True)
class HostStatus:
    """A host: whether it could be asked, and which of its services run."""

    name: str
    reachable: bool
    message: str
    services: dict[str, bool]
    disk_free_mb: int | None


@dataclass(frozen=True)
class ClusterStatus:
    """A cluster as its hosts and servers describe it.

    Attributes
    ----------
    phase : str
        ``ready``; anything else is half-provisioned.
    problems : tuple of str
        What is not as it should be, one line each; none when all is well.
    """

    name: str
    phase: str
    hosts: tuple[HostStatus, ...]
    storm: str
    supervisors: int
    topologies: dict[str, str]
    problems: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return asdict(self)


def provision(cluster: ClusterFile, instrumentation: Path, say: Say, watch: Watcher) -> PlaybookResult:
    """Make a cluster, complete one, or change one to what is asked.

    Parameters
    ----------
    cluster : ClusterFile
        What is asked.
    instrumentation : Path
        Jar for the class path of workers.
    say, watch : callable
        Told what is being done, and what every task on every host came to.

    Returns
    -------
    PlaybookResult
        Tasks done and changed by host.

    Raises
    ------
    UsageError
        When this machine cannot make such hosts, or a cluster of that name is of another kind.
    ClusterError
        When a host or a task failed; given again, the command goes on.
    """
    _require_tools(cluster)
    state = ProvisionedState(cluster.name)
    homes = servers.install(progress=say)
    here = isinstance(cluster.hosts, LocalHosts)
    with state.locked(), coming_up() if here else nullcontext():
        _require_same_kind(state, cluster)
        try:
            state.write(cluster, "hosts")
            state.make_secrets()
            say(f"making {len(cluster.hosts.machines)} hosts of kind {cluster.hosts.kind}")
            _make_hosts(state, cluster)
            state.write(cluster, "software")
            archives = servers.cache_folder() / "archives"
            archive = storm_and_kafka(homes, instrumentation, archives)
            data = _data_servers(cluster, archives)
            state.write_variables(variables(cluster, archive, data, _ssh_options(state, cluster)))
            state.make_certificates(_subjects(cluster))
            say("installing software")
            with network(state, cluster):
                files = (state.variables, state.secrets, state.certificate_values)
                played = ansible.play("site.yml", state.inventory, files, state.ansible, watch)
                played.require_success()
                _await_supervisors(cluster)
                if "influxdb" in data:
                    influxdb = influxdb_of(cluster)
                    influxdb.set_up(state.secret("influxdb_token"), cluster.influxdb.retention_days)
                    influxdb.keep_for(state.secret("influxdb_token"), cluster.influxdb.retention_days)
                if "neo4j" in data:
                    from harness.backends.neo4j import store as neo4j  # noqa: PLC0415 (takes a second)

                    neo4j.set_first_password(neo4j_of(cluster), state.secret("neo4j_password"))
            left_out = tuple(role for role in DATA_SERVERS if cluster.having(role) and role not in data)
            state.write(cluster, "ready", digest(instrumentation), left_out)
        except (HarnessError, KeyboardInterrupt, OSError) as error:
            error.add_note(
                f"the cluster {cluster.name} is half-provisioned: give the command again to go on,"
                f" or harness deprovision {cluster.name}"
            )
            raise
    return played


def deprovision(name: str, say: Say, watch: Watcher) -> None:
    """Take a cluster down, whole or half-provisioned, and forget it.

    Raises
    ------
    UsageError
        When there is none of that name.
    ClusterError
        When a host could not be taken down; the cluster is not forgotten then.
    """
    state = ProvisionedState(name)
    cluster = state.record().cluster
    with state.locked():
        if isinstance(cluster.hosts, ExistingHosts) and state.variables.exists():
            say("removing software")
            files = (state.variables, state.secrets)
            try:
                ansible.play("remove.yml", state.inventory, files, state.ansible, watch).require_success()
            except ClusterError as error:
                error.add_note(f"{name} is not forgotten; to leave its hosts alone, delete {state.folder}")
                raise
        say(f"taking down {len(cluster.hosts.machines)} hosts of kind {cluster.hosts.kind}")
        Terraform(state.terraform, cluster.hosts.kind).destroy()
        state.remove()


def status(name: str) -> ClusterStatus:
    """Ask every host and server of a cluster.

    Raises
    ------
    UsageError
        When there is none of that name.
    """
    state = ProvisionedState(name)
    record = state.record()
    cluster = record.cluster
    if not state.variables.exists():
        return ClusterStatus(name, record.phase, (), "", 0, {}, ("its hosts are not made yet",))
    if isinstance(cluster.hosts, LocalHosts) and not HostNetwork(state.hosts).alive:
        return ClusterStatus(name, record.phase, (), "", 0, {}, ("the hosts' sandbox is gone",))
    with network(state, cluster):
        hosts = _ask_hosts(state, cluster)
        problems = [f"{h.name} is unreachable: {h.message}" for h in hosts if not h.reachable]
        problems += [
            f"{h.name}: {s} does not run" for h in hosts for s, runs in h.services.items() if not runs
        ]
        nimbus = nimbus_of(cluster)
        try:
            summary = nimbus.cluster_summary()
        except (ClusterError, UsageError) as error:
            problems.append(str(error))
            storm, registered, topologies = "", 0, {}
        else:
            storm, registered, topologies = (
                summary.version,
                len(summary.supervisors),
                dict(summary.topologies),
            )
            wanted = {address(cluster, m.name) for m in cluster.having("supervisor")}
            missing = sorted(wanted - {s.address for s in summary.supervisors})
            problems += [f"no supervisor at {a} has registered with nimbus" for a in missing]
        problems += _silent(cluster, record.data_servers)
    if record.phase != "ready":
        problems.insert(0, f"it is half-provisioned: harness provision goes on ({record.phase})")
    return ClusterStatus(name, record.phase, hosts, storm, registered, topologies, tuple(problems))


@contextmanager
def network(state: ProvisionedState, cluster: ClusterFile) -> Iterator[None]:
    """Let this thread reach the cluster's hosts within the block."""
    local = isinstance(cluster.hosts, LocalHosts)
    with HostNetwork(state.hosts).entered() if local else nullcontext():
        yield


def address(cluster: ClusterFile, name: str) -> str:
    """Return a host's address within the cluster, as the hosts' module gave it."""
    return ProvisionedState(cluster.name).addresses()[name]


def nimbus_of(cluster: ClusterFile) -> Nimbus:
    """Return a client of the cluster's Nimbus."""
    state, host = ProvisionedState(cluster.name), cluster.having("nimbus")[0].name
    return Nimbus(state.addresses()[host], Ports().nimbus, state.trust, state.storm_settings)


def broker_of(cluster: ClusterFile) -> Broker:
    """Return the cluster's Kafka broker."""
    state, ports = ProvisionedState(cluster.name), Ports()
    host = state.addresses()[cluster.having("kafka")[0].name]
    return Broker(f"{host}:{ports.kafka}", f"{host}:{ports.kafka_tls}", state.trust, AUTHORITY_FILE)


def broker_answers(broker: Broker) -> bool:
    """Return True if a broker answers, where the harness itself asks it.

    Raises
    ------
    UsageError
        When its certificate is not one that is trusted.
    """
    host, _, port = broker.address.rpartition(":")
    return kafka_answers(host, int(port), broker.trust)


def influxdb_of(cluster: ClusterFile) -> InfluxApi:
    """Return a client of the cluster's InfluxDB."""
    state, host = ProvisionedState(cluster.name), cluster.having("influxdb")[0].name
    return InfluxApi(state.addresses()[host], trust=state.trust)


def neo4j_of(cluster: ClusterFile) -> str:
    """Return the address of the cluster's Neo4j."""
    return f"bolt://{address(cluster, cluster.having('neo4j')[0].name)}:{neo4j_server.PORT}"


def _silent(cluster: ClusterFile, data_servers: tuple[str, ...]) -> Iterator[str]:
    """Give a line for each server beside Nimbus that does not answer, or shows another certificate."""
    broker = broker_of(cluster)
    there = {role: cluster.having(role)[0].name for role in data_servers}
    asked: dict[str, Callable[[], bool]] = {
        f"kafka at {broker.address}": lambda: broker_answers(broker),
    }
    if "influxdb" in there:
        asked[f"influxdb on {there['influxdb']}"] = lambda: influxdb_of(cluster).answers()
    if "neo4j" in there:
        host = address(cluster, there["neo4j"])
        asked[f"neo4j on {there['neo4j']}"] = lambda: neo4j_server.shakes_hands(host)
    for name, answers in asked.items():
        try:
            if not answers():
                yield f"{name} does not answer"
        except UsageError as error:
            yield str(error)


def _data_servers(cluster: ClusterFile, archives: Path) -> dict[str, ServerArchive]:
    """Return the archives of the data servers by role; a role whose server the cache lacks is left out."""
    found = {}
    if cluster.having("influxdb") and (program := optional_servers.influxd()):
        found["influxdb"] = server_archive.program(program, archives)
    if cluster.having("neo4j") and (home := optional_servers.neo4j_home()):
        found["neo4j"] = jars_of("neo4j", home / "lib", archives)
    return found


def _subjects(cluster: ClusterFile) -> tuple[Holder, ...]:
    """Return who gets a certificate: servers that speak TLS, with their hosts' names, and Nimbus' clients."""
    servers = (
        Holder(role, (machine.name, address(cluster, machine.name)))
        for role in SERVERS_WITH_TLS
        for machine in cluster.having(role)
    )
    return (*servers, Holder(STORM_CLIENT))


def _require_tools(cluster: ClusterFile) -> None:
    terraform.tool()
    ansible.search_path()
    if not isinstance(cluster.hosts, LocalHosts):
        return
    if missing := host_network.missing_packages():
        what = f"hosts of kind local need {', '.join(missing)}"
        raise MissingTool(what, f"apt-get install {' '.join(missing)}")
    if reason := host_network.obstacle():
        raise UsageError(
            f"hosts of kind local need {reason}", "give the command as root, outside any sandbox"
        )


def _require_same_kind(state: ProvisionedState, cluster: ClusterFile) -> None:
    if not (state.folder / "cluster.json").exists():
        return
    kind = state.record().cluster.hosts.kind
    if kind != cluster.hosts.kind:
        what = f"there is a cluster {cluster.name} of kind {kind} already"
        raise UsageError(what, f"harness deprovision {cluster.name}")


def _make_hosts(state: ProvisionedState, cluster: ClusterFile) -> None:
    module = Terraform(state.terraform, cluster.hosts.kind)
    hosts = cluster.hosts
    key = state.key(cluster)
    options = hosts.options()
    replace: list[str] = []
    if isinstance(hosts, LocalHosts):
        host_key = state.host_key()
        options |= {"folder": str(state.hosts), "host_key": str(host_key)}
        if module.made:
            there = module.resources()
            dead = HostNetwork(state.hosts).dead([m.name for m in hosts.machines])
            replace = [name for name in dead if name in there]
    public_key = key.with_name(f"{key.name}.pub")
    inputs = {
        "cluster": cluster.name,
        "machines": [m.model_dump(mode="json", exclude_none=True) for m in hosts.machines],
        "ssh": {
            "user": hosts.ssh_user,
            "public_key": public_key.read_text(encoding="utf-8").strip() if public_key.exists() else "",
            "port": hosts.port,
        },
        "options": options,
    }
    module.apply(inputs, replace)
    outputs = module.outputs()
    state.write_inventory(outputs["inventory"])
    state.write_addresses({name: host["address"] for name, host in outputs["hosts"].items()})
    if isinstance(hosts, LocalHosts):
        public = " ".join(host_key.with_name(f"{host_key.name}.pub").read_text().split()[:2])
        lines = [f"{host['ssh_address']} {public}\n" for host in outputs["hosts"].values()]
        state.known_hosts.write_text("".join(lines))


def _await_supervisors(cluster: ClusterFile) -> None:
    """Wait until every supervisor has registered with Nimbus, which takes some seconds more than a start."""
    wanted = {address(cluster, m.name) for m in cluster.having("supervisor")}
    nimbus = nimbus_of(cluster)
    deadline = time.monotonic() + REGISTERED_WITHIN_S
    while missing := sorted(wanted - {s.address for s in nimbus.cluster_summary().supervisors}):
        if time.monotonic() > deadline:
            what = f"no supervisor at {', '.join(missing)} has registered with nimbus"
            raise ClusterError(f"{what} after {REGISTERED_WITHIN_S:g} s", "its logs are in /var/log/harness")
        time.sleep(POLL_S)


def _ssh_options(state: ProvisionedState, cluster: ClusterFile) -> str:
    # a host that is met for the first time is remembered; one that has changed since is refused
    options = {
        "IdentityFile": state.key(cluster),
        "UserKnownHostsFile": state.known_hosts,
        "StrictHostKeyChecking": "accept-new",
    }
    return " ".join(f"-o {name}={value}" for name, value in options.items())


def _ask_hosts(state: ProvisionedState, cluster: ClusterFile) -> tuple[HostStatus, ...]:
    told: dict[str, TaskDone] = {}

    def watch(done: TaskDone) -> None:
        told[done.host] = done

    files = (state.variables, state.secrets)
    ansible.play("status.yml", state.inventory, files, state.ansible, watch)
    return tuple(_host_status(m.name, told.get(m.name)) for m in cluster.hosts.machines)


def _host_status(name: str, done: TaskDone | None) -> HostStatus:
    if done is None or done.outcome in ("failed", "unreachable"):
        return HostStatus(name, False, done.message if done else "it was not asked", {}, None)
    values = dict(line.split(maxsplit=1) for line in done.output.splitlines() if " " in line)
    free = values.pop("disk_free_mb", None)
    services = {service: said == "active" for service, said in values.items()}
    return HostStatus(name, True, "", services, int(free) if free else None)
