"""A cluster's file as one checked value; unknown keys, wrong types and impossible clusters are errors.

The models below are the file's grammar: their field names are the YAML keys.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from harness.errors import UsageError, describe_fault
from harness.experiments.yaml_files import read_tree
from harness.machine.named_paths import file_at
from harness.plans import Frozen
from harness.topologies.bounds import HeapMb, StormValue

ClusterRole = Literal["zookeeper", "nimbus", "supervisor", "kafka", "influxdb", "neo4j", "probes"]
Size = Literal["small", "medium", "large"]
ONE_OF = ("zookeeper", "nimbus", "kafka")
"""Roles that exactly one host has."""
DATA_SERVERS = ("influxdb", "neo4j")
"""Roles that at most one host has, and that are left out where the cache does not have their server."""
RETENTION_DAYS = 400
"""A year of nights, and a month to look at the same night of the year before."""


def _ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise PydanticCustomError("address", "not an IPv4 address such as 192.0.2.10") from None


def _ipv4_network(text: str) -> str:
    try:
        return str(ipaddress.IPv4Network(text))
    except ValueError:
        raise PydanticCustomError("network", "not an IPv4 network such as 192.0.2.0/24") from None


def _plain_path(path: Path) -> Path:
    if unfit := sorted(set(_NOT_IN_PATHS.findall(str(path)))):
        raise PydanticCustomError("path", "no path with {unfit} in it", {"unfit": " or ".join(unfit)})
    return path


_NOT_IN_PATHS = re.compile(r"""[\s'"`$%\\;&|<>(){}*?!#]""")
"""Characters that ssh, its option files or the shell of a jump would not take for a part of a path."""

Address = Annotated[str, AfterValidator(_ipv4)]
Network = Annotated[str, AfterValidator(_ipv4_network)]
User = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$")]
"""No name begins with what ssh would take for an option."""
CloudName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.:/()+-]{0,127}$")]
"""A cloud's name for an image, a size or a network."""
DiskMb = Annotated[int, Field(ge=64, le=1 << 30)]
StormKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]


class Machine(Frozen):
    """A host: its name, what runs there, how large it is; where it is when it exists already.

    Attributes
    ----------
    name : str
        Name of the host.
    roles : list
        Servers that run there.
    size : {'small', 'medium', 'large'}
        How large it is made.
    address : str
        IPv4 address; of an ``existing`` host, which must have one.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,11}$")]
    roles: Annotated[tuple[ClusterRole, ...], Field(min_length=1)]
    size: Size = "small"
    address: Address | None = None


class Sizes(Frozen):
    """A value for each size.

    Attributes
    ----------
    small, medium, large : int
        Value of that size.
    """

    small: DiskMb
    medium: DiskMb
    large: DiskMb


class Names(Frozen):
    """A cloud's name for each size.

    Attributes
    ----------
    small, medium, large : str
        The cloud's name of that size.
    """

    small: CloudName
    medium: CloudName
    large: CloudName


class _HostsOfKind(Frozen):
    machines: Annotated[tuple[Machine, ...], Field(min_length=1)]

    @property
    def port(self) -> int:
        """Where the hosts' ssh servers listen."""
        return 22

    def options(self) -> dict[str, object]:
        """Return the ``options`` of the Terraform module."""
        return self.model_dump(mode="json", exclude={"kind", "machines", "ssh_user"}, exclude_none=True)


class LocalHosts(_HostsOfKind):
    """Network namespaces of this machine.

    Attributes
    ----------
    kind : {'local'}
        Network namespaces of this machine (needs root).
    machines : list
        The hosts. New ones go to the end: addresses follow the order.
    network : str
        Private network of the hosts: it is no network of this machine, so it collides with none.
    disk_mb : Sizes
        Memory in MB that a host's files may take, by size.
    """

    kind: Literal["local"]
    network: Network = "10.97.0.0/24"
    disk_mb: Sizes = Sizes(small=2048, medium=4096, large=8192)

    @property
    def ssh_user(self) -> str:
        """Who logs in."""
        return "harness"

    @property
    def gateway(self) -> str:
        """Address of this machine in the hosts' network."""
        return str(next(ipaddress.ip_network(self.network).hosts()))

    @field_validator("network")
    @classmethod
    def _a_network(cls, text: str) -> str:
        network = ipaddress.ip_network(text)
        if network.prefixlen > 26:
            raise ValueError(f"{text} is no IPv4 network with room for hosts, such as 10.97.0.0/24")
        return text


class ExistingHosts(_HostsOfKind):
    """Hosts that are there already, reached with a key of the user's own.

    Attributes
    ----------
    kind : {'existing'}
        Hosts that are there already.
    machines : list
        The hosts, each with its address.
    ssh_user : str
        Who logs in; needs ``sudo`` without a password.
    ssh_key : Path
        The key that logs in.
    ssh_port : int
        Port of the hosts' ssh servers. A host that takes no connection there for 15 s is gone.
    controllers : list
        Addresses, beside the hosts', that may reach the servers.
    """

    kind: Literal["existing"]
    ssh_user: User
    ssh_key: Annotated[Path, AfterValidator(_plain_path)]
    ssh_port: Annotated[int, Field(ge=1, le=65535)] = 22
    controllers: tuple[Address, ...] = ()

    @property
    def port(self) -> int:
        """Where the hosts' ssh servers listen."""
        return self.ssh_port

    def options(self) -> dict[str, object]:
        """Return the ``options`` of the Terraform module: it has none."""
        return {}

    @model_validator(mode="after")
    def _addresses(self) -> Self:
        for machine in self.machines:
            if machine.address is None:
                raise ValueError(f"machines: {machine.name} exists already, so it needs an address")
        return self


class OpenstackHosts(_HostsOfKind):
    """Servers of an OpenStack cloud; its credentials are in the environment (OS_CLOUD or OS_AUTH_URL ...).

    Attributes
    ----------
    kind : {'openstack'}
        Servers of an OpenStack cloud, never tried for real.
    machines : list
        The hosts. New ones go to the end: addresses follow the order.
    image : str
        Image of the servers.
    flavors : Names
        Flavor of each size.
    external_network : str
        Network of the floating addresses.
    caller_cidr : str
        Network that may come in by ssh; everything else is closed.
    network : str
        Network of the hosts.
    dns : list
        Name servers of that network.
    ssh_user : str
        Who logs in.
    """

    kind: Literal["openstack"]
    image: CloudName
    flavors: Names
    external_network: CloudName
    caller_cidr: Network
    network: Network = "10.97.0.0/24"
    dns: tuple[Address, ...] = ()
    ssh_user: User = "debian"


class HetznerHosts(_HostsOfKind):
    """Servers of Hetzner Cloud; its token is in the environment (HCLOUD_TOKEN).

    Attributes
    ----------
    kind : {'hetzner'}
        Servers of Hetzner Cloud, never tried for real.
    machines : list
        The hosts. New ones go to the end: addresses follow the order.
    caller_cidr : str
        Network that may come in by ssh; everything else is closed.
    image : str
        Image of the servers.
    location : str
        Location of the servers.
    network_zone : str
        Zone of the hosts' network.
    server_types : Names
        Server type of each size.
    network : str
        Network of the hosts.
    ssh_user : str
        Who logs in.
    """

    kind: Literal["hetzner"]
    caller_cidr: Network
    image: CloudName = "debian-12"
    location: CloudName = "fsn1"
    network_zone: CloudName = "eu-central"
    server_types: Names = Names(small="cx23", medium="cx33", large="cx43")
    network: Network = "10.97.0.0/24"
    ssh_user: User = "root"


Hosts = Annotated[LocalHosts | ExistingHosts | OpenstackHosts | HetznerHosts, Field(discriminator="kind")]
KINDS = ("local", "existing", "openstack", "hetzner")
"""Stand in the places of errors."""


class StormSettings(Frozen):
    """Slots and heap of the workers, and settings of Storm's own.

    Attributes
    ----------
    slots_per_node : int
        Workers that a supervisor may run.
    worker_heap_mb : int
        Heap of a worker in MB.
    settings : mapping
        Settings of Storm's own, for all daemons.
    """

    slots_per_node: Annotated[int, Field(ge=1, le=80)] = 2
    worker_heap_mb: HeapMb = 256
    settings: Mapping[StormKey, StormValue] = {}


class Probes(Frozen):
    """Period of the measurements of round trips between hosts, and their packets (thesis 4.11).

    Attributes
    ----------
    period_s : float
        Seconds between measurements of the round trips, at least 1.
    packets : int
        Packets of a measurement, 20 ms apart.
    """

    period_s: Annotated[float, Field(ge=1, le=86_400)] = 10.0
    packets: Annotated[int, Field(ge=1, le=20)] = 5


class InfluxSettings(Frozen):
    """Retention of points in InfluxDB.

    Attributes
    ----------
    retention_days : int
        Days for which InfluxDB keeps points; 0 for ever.
    """

    retention_days: Annotated[int, Field(ge=0, le=36_500)] = RETENTION_DAYS


class ClusterFile(Frozen):
    """A cluster on hosts of its own.

    Attributes
    ----------
    name : str
        By which the other commands know the cluster.
    hosts : Hosts
        The hosts, by kind: ``local``, ``existing``, ``openstack`` or ``hetzner``.
    storm : StormSettings
        Slots and heap of the workers, and settings of Storm's own.
    probes : Probes
        How round trips between hosts are measured.
    influxdb : InfluxSettings
        How long metrics are kept.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    hosts: Hosts
    storm: StormSettings = StormSettings()
    probes: Probes = Probes()
    influxdb: InfluxSettings = InfluxSettings()

    def having(self, role: str) -> tuple[Machine, ...]:
        """Return the hosts with a role, in the file's order."""
        return tuple(m for m in self.hosts.machines if role in m.roles)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        names = [m.name for m in self.hosts.machines]
        if len(set(names)) < len(names):
            raise ValueError(f"hosts.machines: two have the same name in {', '.join(names)}")
        for role in ONE_OF:
            if len(self.having(role)) != 1:
                raise ValueError(
                    f"hosts.machines: exactly one has the role {role}, not {len(self.having(role))}"
                )
        for role in DATA_SERVERS:
            if len(self.having(role)) > 1:
                raise ValueError(f"hosts.machines: at most one has the role {role}")
        if not self.having("supervisor"):
            raise ValueError("hosts.machines: none has the role supervisor")
        return self


def load(path: Path) -> ClusterFile:
    """Read a cluster's file.

    Raises
    ------
    UsageError
        Missing or unreadable file, unknown key, wrong type, a cluster that cannot be.
    """
    tree = read_tree(path, "safe")
    if not isinstance(tree, dict):
        raise UsageError(f"{path}: a cluster is a mapping of keys", "see docs/clusters.md")
    try:
        cluster = ClusterFile.model_validate(tree)
    except ValidationError as error:
        raise UsageError(f"{path}: {describe_fault(error, KINDS)}") from None
    hosts = cluster.hosts
    if isinstance(hosts, ExistingHosts):
        key = file_at(hosts.ssh_key)
        if key is None:
            raise UsageError(f"{path}: hosts.ssh_key: there is no file {hosts.ssh_key}")
        if _NOT_IN_PATHS.search(str(key)):
            raise UsageError(f"{path}: hosts.ssh_key: ssh cannot be given the path {str(key)!r}")
    return cluster
