"""A cluster's file as one checked value; unknown keys, wrong types and impossible clusters are errors.

The models below are the file's grammar: their field names are the YAML keys.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from harness.errors import UsageError
from harness.plans import Frozen, Positive

ClusterRole = Literal["zookeeper", "nimbus", "supervisor", "kafka", "influxdb", "neo4j", "probes"]
Size = Literal["small", "medium", "large"]
ONE_OF = ("zookeeper", "nimbus", "kafka")
"""Roles that exactly one host has."""
DATA_SERVERS = ("influxdb", "neo4j")
"""Roles that at most one host has, and that are left out where the cache does not have their server."""
RETENTION_DAYS = 400
"""A year of nights, and a month to look at the same night of the year before."""


class Machine(Frozen):
    """A host: its name, what runs there, how large it is; where it is when it exists already."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,11}$")]
    roles: Annotated[tuple[ClusterRole, ...], Field(min_length=1)]
    size: Size = "small"
    address: str | None = None


class Sizes(Frozen):
    """A value for each size."""

    small: Positive
    medium: Positive
    large: Positive


class Names(Frozen):
    """A cloud's name for each size."""

    small: str
    medium: str
    large: str


class _HostsOfKind(Frozen):
    machines: Annotated[tuple[Machine, ...], Field(min_length=1)]

    @property
    def port(self) -> int:
        """Where the hosts' ssh servers listen."""
        return 22

    def options(self) -> dict[str, Any]:
        """Return the ``options`` of the Terraform module."""
        return self.model_dump(mode="json", exclude={"kind", "machines", "ssh_user"}, exclude_none=True)


class LocalHosts(_HostsOfKind):
    """Network namespaces of this machine."""

    kind: Literal["local"]
    network: str = "10.97.0.0/24"
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
        if network.version != 4 or network.prefixlen > 26:
            raise ValueError(f"{text} is no IPv4 network with room for hosts, such as 10.97.0.0/24")
        return text


class ExistingHosts(_HostsOfKind):
    """Hosts that are there already, reached with a key of the user's own."""

    kind: Literal["existing"]
    ssh_user: str
    ssh_key: Path
    ssh_port: Annotated[int, Field(ge=1, le=65535)] = 22
    controllers: tuple[str, ...] = ()

    @property
    def port(self) -> int:
        """Where the hosts' ssh servers listen."""
        return self.ssh_port

    def options(self) -> dict[str, Any]:
        """Return the ``options`` of the Terraform module: it has none."""
        return {}

    @model_validator(mode="after")
    def _addresses(self) -> Self:
        for machine in self.machines:
            if machine.address is None:
                raise ValueError(f"machines: {machine.name} exists already, so it needs an address")
        return self


class OpenstackHosts(_HostsOfKind):
    """Servers of an OpenStack cloud; its credentials are in the environment (OS_CLOUD or OS_AUTH_URL ...)."""

    kind: Literal["openstack"]
    image: str
    flavors: Names
    external_network: str
    caller_cidr: str
    network: str = "10.97.0.0/24"
    dns: tuple[str, ...] = ()
    ssh_user: str = "debian"


class HetznerHosts(_HostsOfKind):
    """Servers of Hetzner Cloud; its token is in the environment (HCLOUD_TOKEN)."""

    kind: Literal["hetzner"]
    caller_cidr: str
    image: str = "debian-12"
    location: str = "fsn1"
    network_zone: str = "eu-central"
    server_types: Names = Names(small="cx23", medium="cx33", large="cx43")
    network: str = "10.97.0.0/24"
    ssh_user: str = "root"


Hosts = Annotated[LocalHosts | ExistingHosts | OpenstackHosts | HetznerHosts, Field(discriminator="kind")]


class StormSettings(Frozen):
    """What the supervisors offer, and settings of Storm's own."""

    slots_per_node: Annotated[int, Field(ge=1, le=80)] = 2
    worker_heap_mb: Annotated[int, Field(ge=64)] = 256
    settings: Mapping[str, str | int | float | bool | list[object] | None] = {}


class Probes(Frozen):
    """How often round trips between hosts are measured, and with how many packets (thesis 4.11)."""

    period_s: Annotated[float, Field(ge=1)] = 10.0
    packets: Annotated[int, Field(ge=1, le=20)] = 5


class InfluxSettings(Frozen):
    """How long InfluxDB keeps points; 0 for ever."""

    retention_days: Annotated[int, Field(ge=0)] = RETENTION_DAYS


class ClusterFile(Frozen):
    """A cluster on hosts of its own."""

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
    try:
        tree = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UsageError(f"{path}{line}: not readable as YAML", str(problem)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read", str(error)) from None
    if not isinstance(tree, dict):
        raise UsageError(f"{path}: a cluster is a mapping of keys", "see docs/clusters.md")
    try:
        cluster = ClusterFile.model_validate(tree)
    except ValidationError as error:
        raise UsageError(f"{path}: {_complaint(error)}") from None
    hosts = cluster.hosts
    if isinstance(hosts, ExistingHosts) and not hosts.ssh_key.expanduser().is_file():
        raise UsageError(f"{path}: hosts.ssh_key: there is no file {hosts.ssh_key}")
    return cluster


def _complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    kinds = ("local", "existing", "openstack", "hetzner")
    key = ".".join(str(part) for part in first["loc"] if part not in kinds)
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    if first["type"] == "missing":
        return f"the key {key!r} is missing"
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message
    value = "" if isinstance(first["input"], dict) else f" (it is {first['input']!r})"
    return f"{key}: {message}{value}"
