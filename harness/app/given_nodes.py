"""Worker nodes that a file describes: a step's plan, a cluster, or an experiment on one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness.errors import UsageError
from harness.experiments.cluster_keys import read_cluster
from harness.plans import WorkerNode
from harness.runs import read_plan
from harness.schemas.migrations import FIRST


class GivenNodes(NamedTuple):
    """Worker nodes of a file, and what it leaves open.

    Attributes
    ----------
    nodes : tuple of WorkerNode
    assumed : str
        One line; empty where nothing is.
    """

    nodes: tuple[WorkerNode, ...]
    assumed: str = ""


def read_nodes(file: Path, known: Sequence[WorkerNode]) -> GivenNodes:
    """Read worker nodes from a ``plan.json``, or a YAML file with a cluster.

    A cluster's file has names, slots and quotas. A node on a host of the known nodes has that host's cores;
    one on another host the fewest cores of a known node.

    Parameters
    ----------
    file : Path
    known : sequence of WorkerNode
        Nodes of the step that is read.

    Raises
    ------
    UsageError
        When the file is none of these, or nobody can say which nodes its cluster has.
    """
    if file.suffix == ".json":
        try:
            return GivenNodes(
                read_plan(file, FIRST).start.nodes
            )  # its age is not in it: what it lacks is added
        except UsageError:
            raise UsageError(f"--nodes {file}: not a step's plan.json") from None
    try:
        cluster = read_cluster(file)
    except UsageError as why:
        raise UsageError(f"--nodes {why.message}", why.hint) from None
    nodes = cluster.worker_nodes()
    if not nodes:
        raise UsageError(
            f"--nodes {file}: its worker nodes are not in the file", "give a plan.json of a step on it"
        )
    here = next((n.host for n in known if "/" not in n.host), "this-machine")
    placed = [_on_host(n, cluster.host_of(n.name) or here, known) for n in nodes]
    hosts = {n.host for n in known}
    assumed = [n for n in placed if n.host not in hosts]
    if not assumed:
        return GivenNodes(tuple(placed))
    names = ", ".join(n.name for n in assumed)
    said = f"{names}: {assumed[0].cores:g} cores are assumed, those of the step's smallest node"
    return GivenNodes(tuple(placed), said)


def _on_host(node: WorkerNode, host: str, known: Sequence[WorkerNode]) -> WorkerNode:
    """Return a node on its host: with that host's cores, and its address where it is a known node."""
    same = [n for n in known if n.host == host]
    cores = min(n.cores for n in same or known)
    address = next((n.address for n in same if n.name == node.name), node.address)
    return node.model_copy(update={"host": host, "cores": cores, "address": address})
