"""The keys below an experiment's ``cluster``: a provisioned cluster is known by its file's path alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.errors import UsageError, describe_fault
from harness.experiments.cluster_file import ClusterFile, load
from harness.experiments.clusters import CLUSTER_TAGS, ClusterSpec
from harness.experiments.yaml_files import read_tree
from harness.machine.named_paths import file_at

BESIDE_FILE = {"file", "cpu_quota_cores", "links"}
"""Keys that an experiment may give of a provisioned cluster."""
OF_EXPERIMENTS = {"cluster", "steps"}
"""An experiment's file has one of these keys, a cluster's has none."""


def named_file(found: object) -> str | None:
    """Return the path that stands below ``cluster``; None where its keys do.

    Examples
    --------
    >>> named_file("four.yaml"), named_file({"file": "four.yaml", "links": {}}), named_file({"nodes": 2})
    ('four.yaml', 'four.yaml', None)
    """
    beside = found if isinstance(found, Mapping) and set(found) <= BESIDE_FILE else {}
    given = beside.get("file", found)
    return given if isinstance(given, str) else None


def near(named: str, beside: Path) -> Path | None:
    """Return a file that is named from the working directory, or from another file's folder."""
    return next((f for f in (Path(named), beside.resolve().parent / named) if file_at(f) is not None), None)


def keys_of(cluster: ClusterFile, file: Path, found: object) -> dict[str, object]:
    """Return a provisioned cluster's keys: name and shape from its file, and what is given beside that."""
    beside = found if isinstance(found, Mapping) else {}
    return {
        "kind": "remote",
        "name": cluster.name,
        "file": str(file),
        "nodes": len(cluster.having("supervisor")),
        "slots_per_node": cluster.storm.slots_per_node,
        "worker_heap_mb": cluster.storm.worker_heap_mb,
        **{str(key): value for key, value in beside.items() if key != "file"},
    }


def read_cluster(path: Path) -> ClusterSpec:
    """Read the cluster that a file describes.

    Parameters
    ----------
    path : Path
        A cluster's file, an experiment's, of which only ``cluster`` is read, or a file with the keys that
        stand below that.

    Raises
    ------
    UsageError
        When it is none of them, or describes a cluster that cannot be.
    """
    tree = read_tree(path, "safe")
    if not isinstance(tree, Mapping):
        raise UsageError(f"{path}: no cluster: it is no mapping of keys", "see docs/clusters.md")
    found = tree.get("cluster", {}) if OF_EXPERIMENTS & set(tree) else tree
    file = path if "hosts" in tree else None
    if file is None and (named := named_file(found)) is not None:
        file = near(named, path)
        if file is None:
            raise UsageError(f"{path}: cluster: there is no file {named}")
    keys = found if file is None else keys_of(load(file), file, {} if file == path else found)
    try:
        adapter: TypeAdapter[ClusterSpec] = TypeAdapter(ClusterSpec)
        return adapter.validate_python(keys)
    except ValidationError as error:
        raise UsageError(f"{path}: {describe_fault(error, CLUSTER_TAGS)}") from None
