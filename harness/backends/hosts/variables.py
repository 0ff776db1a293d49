"""Variables of Ansible's roles: the settings of the local cluster, where they mean the same on hosts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from harness.backends.hosts.certificates import STORE_PASSWORD
from harness.backends.influxdb import api as influxdb_api
from harness.backends.influxdb import server as influxdb_server
from harness.backends.neo4j import server as neo4j_server
from harness.experiments.cluster_file import ClusterFile, LocalHosts
from harness.machine import server_config
from harness.machine.niceness import NICENESS
from harness.machine.server_archive import ServerArchive

NOTICING: Mapping[str, object] = {
    "storm.zookeeper.session.timeout": 30_000,
    "nimbus.supervisor.timeout.secs": 60,
    "nimbus.task.launch.secs": 90,  # so long after its assignment no worker is missed, even one that was up
    "nimbus.task.timeout.secs": 60,
}
"""A host may be gone, as no node of a local cluster can be. Nimbus moves its workers after a minute, when its
supervisor's session, which ends sooner, no longer offers their slots; a campaign waits three for what spouts
have not taken (``harness.experiments.campaign.DRAIN_MOST_S``)."""

HEARTBEATS: Mapping[str, object] = {"worker.heartbeat.frequency.secs": 5}
"""Default 1. At each a supervisor connects to Nimbus anew, which by TLS is some 0.14 s of CPU time."""


TOKEN_FILE = "/etc/harness/storm/influxdb.token"
"""On every host that runs workers: what their metrics consumers show to InfluxDB; only they read it."""
METRICS_TOKEN_FILE = "/etc/harness/storm/metrics.token"
"""There, too: what they show to the run's own metrics receiver, another for each run."""
STORES = "/etc/harness/storm"
"""On every host of Storm's: key stores of its daemons and workers."""
AUTHORITY_FILE = "/etc/harness/ca.pem"
"""On every host: who vouches for the certificates of the cluster's servers."""
CLOCK_FOLDER = "/var/lib/harness/clock"
"""Folder on a host with workers, while a run may move their clocks (``infra/ansible/roles/storm``)."""
PLANS_FOLDER = "/var/lib/harness/plans"
"""On Nimbus' host: where its scheduler finds which executors go where."""
SPOOL = "/var/lib/harness/metrics"
"""There, too: where metrics wait that InfluxDB has not taken yet."""


def nimbus_client(trusted: str, own: str, password: str) -> dict[str, object]:
    """Return settings of Storm's by which a client reaches Nimbus: by TLS, both sides showing a certificate.

    Parameters
    ----------
    trusted, own : str
        Key stores: who vouches for Nimbus, and what the client shows.
    password : str
        Of both.
    """
    prefix = "nimbus.thrift.tls.client"
    return {
        "nimbus.thrift.client.use.tls": True,
        f"{prefix}.auth.required": True,
        **_key_stores(prefix, trusted, own, password),
    }


def nimbus_server(trusted: str, own: str, password: str, port: int) -> dict[str, object]:
    """Return settings of Storm's by which Nimbus and workers speak TLS to each other, and nothing else.

    Parameters
    ----------
    trusted, own : str
        Key stores: who vouches for Nimbus' clients, and what Nimbus shows.
    password : str
        Of both.
    port : int
        Where it listens, and where a plain one would.
    """
    prefix = "nimbus.thrift.tls.server"
    return {
        "nimbus.thrift.tls.port": port,
        f"{prefix}.only": True,
        **_key_stores(prefix, trusted, own, password),
        "topology.worker.nimbus.thrift.client.use.tls": True,
    }


def _key_stores(prefix: str, trusted: str, own: str, password: str) -> dict[str, object]:
    """Return the settings by which one side finds whom it trusts and what it shows."""
    return {
        f"{prefix}.truststore.path": trusted,
        f"{prefix}.truststore.password": password,
        f"{prefix}.keystore.path": own,
        f"{prefix}.keystore.password": password,
    }


def variables(
    cluster: ClusterFile, archive: ServerArchive, data_servers: Mapping[str, ServerArchive], ssh: str
) -> dict[str, object]:
    """Return the variables of ``infra/ansible`` for a cluster.

    Parameters
    ----------
    cluster : ClusterFile
        What was asked.
    archive : ServerArchive
        The class paths of Storm and Kafka.
    data_servers : mapping
        Role -> InfluxDB's program, Neo4j's class path; without those that are left out.
    ssh : str
        Options of ssh.
    """
    hosts = cluster.hosts
    influxdb, neo4j = data_servers.get("influxdb"), data_servers.get("neo4j")
    if isinstance(hosts, LocalHosts):
        controllers = [hosts.gateway]
    else:
        controllers = list(getattr(hosts, "controllers", ()))
    ports = server_config.Ports()
    heaps = server_config.Heaps()
    return {
        "ssh_options": ssh,
        "controllers": controllers,
        "servers_archive": str(archive.path),
        "servers_version": archive.version,
        "servers_bytes": archive.size_bytes,
        "influxdb_archive": str(influxdb.path) if influxdb else "",
        "influxdb_version": influxdb.version if influxdb else "",
        "influxdb_options": list(influxdb_server.OPTIONS),
        "influxdb_token_file": TOKEN_FILE,
        "authority_file": AUTHORITY_FILE,
        "metrics_spool": SPOOL,
        "neo4j_archive": str(neo4j.path) if neo4j else "",
        "neo4j_version": neo4j.version if neo4j else "",
        "neo4j_java_options": list(neo4j_server.JAVA_OPTIONS),
        "neo4j_settings": dict(neo4j_server.SETTINGS),
        "niceness": NICENESS,
        "probes_period_s": cluster.probes.period_s,
        "probes_packets": cluster.probes.packets,
        "slots": cluster.storm.slots_per_node,
        "ports": {
            "zookeeper": ports.zookeeper,
            "nimbus": ports.nimbus,
            "kafka": ports.kafka,
            "kafka_controller": ports.kafka_controller,
            "kafka_tls": ports.kafka_tls,
            "supervisor": ports.supervisor_base,
            "first_slot": ports.slot_base,
            "influxdb": influxdb_api.PORT,
            "neo4j": neo4j_server.PORT,
        },
        "heaps_mb": {
            "zookeeper": heaps.zookeeper,
            "nimbus": heaps.nimbus,
            "supervisor": heaps.supervisor,
            "kafka": heaps.kafka,
        },
        "java_options": [*server_config.JVM_FLAGS, server_config.C1_FLAG],
        "storm_settings": {
            **server_config.PERIODS,
            **server_config.PATIENCE,
            **NOTICING,
            **HEARTBEATS,
            "topology.worker.logwriter.childopts": server_config.log_writer_options(heaps),
            **nimbus_client(f"{STORES}/ca.p12", f"{STORES}/client.p12", STORE_PASSWORD),
            **nimbus_server(f"{STORES}/ca.p12", f"{STORES}/nimbus.p12", STORE_PASSWORD, ports.nimbus),
            **cluster.storm.settings,
        },
        "worker_java_options": [
            f"-Xms{cluster.storm.worker_heap_mb}m",
            f"-Xmx{cluster.storm.worker_heap_mb}m",
            *server_config.JVM_FLAGS,
            server_config.C1_FLAG,
            "-Xrs",  # as in server_config.worker_childopts
        ],
        "zookeeper_settings": dict(server_config.ZOOKEEPER),
        "kafka_settings": dict(server_config.KAFKA),
    }


_SHORT_KEY = 1_000


def literal_yaml(values: Mapping[str, object]) -> str:
    """Return YAML of which Ansible takes no text for a template, nor for anything else than a text.

    A cluster's file is data, and a template of Ansible's can start any program of this machine. A tag stands
    before all: before a single text, Ansible would look for a number or a nothing in it again.

    Examples
    --------
    >>> literal_yaml({"slots": 2, "settings": {"topology.x": "{{ 1 }}"}})
    '!unsafe {"slots": 2, "settings": {"topology.x": "{{ 1 }}"}}'
    """
    return f"!unsafe {_flow(values)}"


def _flow(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(str(key))}: {_flow(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, str):
        return _quoted(value)
    return _number(value) if isinstance(value, float) else json.dumps(value)


def _key(text: str) -> str:
    """Quote a key; YAML's short form ends at 1,024 characters, escapes included."""
    quoted = _quoted(text)
    return quoted if len(quoted) < _SHORT_KEY else f"? {quoted} "


def _number(value: float) -> str:
    """Return a float as YAML 1.1 has it: with a point, whatever its exponent."""
    if math.isnan(value) or math.isinf(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    digits, e, exponent = repr(value).partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{e}{exponent}"


def _quoted(text: str) -> str:
    plain = (c if " " <= c <= "~" and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{"".join(plain)}"'
