"""What Ansible's roles are told: the settings of the local cluster, where they mean the same on hosts."""

from __future__ import annotations

from pathlib import Path

from harness.backends import server_config
from harness.backends.server_archive import Archive
from harness.provisioning.config import Cluster, LocalHosts
from harness.provisioning.optional_servers import OptionalServers


def variables(cluster: Cluster, archive: Archive, optional: OptionalServers, ssh: str) -> dict[str, object]:
    """Return the variables of ``infra/ansible`` for a cluster.

    Parameters
    ----------
    cluster : Cluster
        What was asked.
    archive : Archive
        The class paths of Storm and Kafka.
    optional : OptionalServers
        What there is of InfluxDB and Neo4j.
    ssh : str
        Options of ssh.
    """
    hosts = cluster.hosts
    if isinstance(hosts, LocalHosts):
        controllers = [hosts.gateway]
    else:
        controllers = list(getattr(hosts, "controllers", ()))
    ports = server_config.Ports()
    heaps = server_config.Heaps()
    left_out = [name for name, there in optional.there().items() if not there]
    return {
        "ssh_options": ssh,
        "controllers": controllers,
        "servers_archive": str(archive.path),
        "servers_version": archive.version,
        "servers_bytes": archive.size_bytes,
        "influxdb_binary": _path(optional.influxdb),
        "neo4j_archive": _path(optional.neo4j.path if optional.neo4j else None),
        "neo4j_version": optional.neo4j.version if optional.neo4j else "",
        "left_out": left_out,
        "slots": cluster.storm.slots_per_node,
        "ports": {
            "zookeeper": ports.zookeeper,
            "nimbus": ports.nimbus,
            "kafka": ports.kafka,
            "kafka_controller": ports.kafka_controller,
            "supervisor": ports.supervisor_base,
            "first_slot": ports.slot_base,
            "influxdb": 8086,
            "neo4j": 7687,
        },
        "heaps_mb": {
            "zookeeper": heaps.zookeeper,
            "nimbus": heaps.nimbus,
            "supervisor": heaps.supervisor,
            "kafka": heaps.kafka,
            "neo4j": 512,
        },
        "java_options": [*server_config.JVM_FLAGS, server_config.C1_FLAG],
        "storm_settings": {
            **server_config.PERIODS,
            **server_config.PATIENCE,
            "topology.worker.logwriter.childopts": server_config.log_writer_options(heaps),
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


def _path(path: Path | None) -> str:
    return str(path) if path else ""
