"""Access to the cluster of an experiment, by its kind: its description, its stores, its opening, its plans.

The one place where kinds of ``harness.experiments.clusters`` meet the backends that carry them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, assert_never

from pydantic import ValidationError

from harness.app.jars import jars
from harness.app.stores import Stores, hosted_graph
from harness.backends import worker_clocks
from harness.backends.hosts import remote
from harness.backends.local.opened import local_cluster
from harness.backends.neo4j.store import PlanGraph
from harness.backends.running import cluster as running
from harness.errors import UsageError, describe_fault
from harness.experiments.clusters import Local, Provisioned, Running, Simulated
from harness.experiments.config import TAGS, Experiment
from harness.experiments.loading import expand_steps, load
from harness.machine import sandbox
from harness.machine.servers import ServerHomes
from harness.runs import Run
from harness.storm.running_cluster import RunningCluster


class ClusterAccess(Protocol):
    """A way to the cluster of an experiment."""

    def describe(self) -> Mapping[str, object]:
        """Return the part of ``environment.json`` on the cluster, beside the servers' versions."""

    def check(self) -> None:
        """Raise HarnessError where it is not there, or not as the experiment says."""

    def stores(self) -> Stores:
        """Return the stores that the experiment names, of this machine or of the cluster."""

    def open(
        self, homes: ServerHomes, home: Path, say: Callable[[str], None], stores: Stores
    ) -> AbstractContextManager[RunningCluster]:
        """Give the running cluster for a block."""

    def use(self) -> str:
        """Return, in words, the parts of an existing cluster that a run uses; empty for a new cluster."""

    def graph(self) -> AbstractContextManager[PlanGraph | None]:
        """Give the graph that the experiment's plans were written to, where the cluster keeps it."""


@dataclass(frozen=True)
class LocalAccess:
    """Starts a cluster on this machine (a ``ClusterAccess``)."""

    experiment: Experiment
    shape: Local

    def describe(self) -> Mapping[str, object]:
        """Return how its servers are kept from others."""
        return {"isolation": isolation()}

    def check(self) -> None:
        """Raise MissingTool where clocks shall be moved, and nothing here does: the rest is made later."""
        _require_clocks(self.experiment)

    def stores(self) -> Stores:
        """Return the stores of this machine."""
        return Stores.here(self.experiment)

    def open(
        self, homes: ServerHomes, home: Path, say: Callable[[str], None], stores: Stores
    ) -> AbstractContextManager[RunningCluster]:
        """Start it, and end it with the block."""
        return local_cluster(self.shape, homes, home, jars(), say, stores.companions)

    def use(self) -> str:
        """Return nothing: each run has a new one."""
        return ""

    def graph(self) -> AbstractContextManager[PlanGraph | None]:
        """Give none: it ended with the run."""
        return _no_graph()


@dataclass(frozen=True)
class ProvisionedAccess:
    """Goes to a cluster that ``harness provision`` made (a ``ClusterAccess``)."""

    experiment: Experiment
    shape: Provisioned

    def describe(self) -> Mapping[str, object]:
        """Return what was asked for, and its clocks by now."""
        return remote.describe(self.shape, jars())

    def check(self) -> None:
        """Raise HarnessError where it is not provisioned, or otherwise than the experiment's file says."""
        remote.require_provisioned(self.shape, jars())
        _require_clocks(self.experiment)

    def stores(self) -> Stores:
        """Return the stores of its hosts."""
        return Stores.hosted(self.experiment, self.shape)

    def open(
        self, homes: ServerHomes, home: Path, say: Callable[[str], None], stores: Stores
    ) -> AbstractContextManager[RunningCluster]:
        """Go there, and come back with the block."""
        del stores  # they are there
        return remote.remote_cluster(self.shape, homes, home, jars(), say)

    def use(self) -> str:
        """Return its nodes, slots and stores in a line."""
        return remote.use_of(self.experiment, self.shape, jars())

    def graph(self) -> AbstractContextManager[PlanGraph | None]:
        """Give that of its Neo4j, where it still has it."""
        return hosted_graph(self.experiment, self.shape)


@dataclass(frozen=True)
class RunningAccess:
    """Uses a cluster that others run (a ``ClusterAccess``)."""

    experiment: Experiment
    shape: Running

    def describe(self) -> Mapping[str, object]:
        """Return its version of Storm, and the topologies that share it."""
        found = running.look(self.shape)
        return {"storm": found.version, "nimbus": self.shape.nimbus, "other_topologies": list(found.others)}

    def check(self) -> None:
        """Raise HarnessError where it does not answer, or too few of its slots are free."""
        found = running.look(self.shape)
        running.require_free(found, self.shape, most_workers(self.experiment))

    def stores(self) -> Stores:
        """Return the stores of this machine."""
        return Stores.here(self.experiment)

    def open(
        self, homes: ServerHomes, home: Path, say: Callable[[str], None], stores: Stores
    ) -> AbstractContextManager[RunningCluster]:
        """Use it, and leave it as it was."""
        del stores  # they are there
        say(f"using the cluster of nimbus at {self.shape.nimbus}")
        return running.running_cluster(self.shape, homes, home, most_workers(self.experiment))

    def use(self) -> str:
        """Return its nodes, slots and other topologies in a line."""
        found = running.look(self.shape)
        running.warn_untried(found)
        nodes = ", ".join(f"{node.name} ({len(node.slots)} slots)" for node in found.nodes)
        others = f"; beside {', '.join(found.others)}" if found.others else ""
        where = f"on the Storm {found.version} cluster at {self.shape.nimbus}"
        return f"{where}: {nodes}, {found.free_slots} free{others}"

    def graph(self) -> AbstractContextManager[PlanGraph | None]:
        """Give none: this machine's keeps the plans."""
        return _no_graph()


def most_workers(experiment: Experiment) -> int:
    """Return the most workers that a step of an experiment has."""
    return max(step.configuration.workers for step in expand_steps(experiment))


def as_found(experiment: Experiment) -> Experiment:
    """Return the experiment with its cluster's nodes, where only the cluster itself can tell them.

    Raises
    ------
    HarnessError
        When it does not answer, or steps ask for more than it has.
    """
    match experiment.cluster:
        case Running(found=()) as shape:
            nodes = running.look(shape).nodes
            given = experiment.model_dump(mode="json")
            given["cluster"] |= {
                "nodes": len(nodes),
                "found": [node.model_dump(mode="json") for node in nodes],
            }
            try:
                return Experiment.model_validate(given)
            except ValidationError as error:
                raise UsageError(describe_fault(error, TAGS)) from None
        case _:
            return experiment


def access(experiment: Experiment) -> ClusterAccess:
    """Return the way to an experiment's cluster.

    Raises
    ------
    UsageError
        When it is simulated: there is nothing to go to.
    """
    match experiment.cluster:
        case Local() as shape:
            return LocalAccess(experiment, shape)
        case Provisioned() as shape:
            return ProvisionedAccess(experiment, shape)
        case Running() as shape:
            return RunningAccess(experiment, shape)
        case Simulated():
            raise UsageError(f"{experiment.name}: cluster.kind: there are no servers in a simulation")
        case unknown:
            assert_never(unknown)


def _require_clocks(experiment: Experiment) -> None:
    if experiment.skewed_nodes:
        worker_clocks.library()


def isolation() -> str:
    """Return how the servers of this process are kept from others, in words."""
    return "private network and process namespaces" if sandbox.inside() else "loopback addresses only"


def cluster_graph(run: Run) -> AbstractContextManager[PlanGraph | None]:
    """Give the graph of the cluster that a run's plans are on; None where the cluster is gone or has none.

    Raises
    ------
    HarnessError
        When its host is there, and it does not answer.
    """
    return _GRAPHS.get(run.environment.get("cluster_kind", ""), _no_graph_of)(run)


@contextmanager
def _no_graph() -> Iterator[PlanGraph | None]:
    yield None


def _no_graph_of(_: Run) -> AbstractContextManager[PlanGraph | None]:
    return _no_graph()


def _graph_of_experiment(run: Run) -> AbstractContextManager[PlanGraph | None]:
    return access(load(run.path / "experiment.yaml")).graph()


_GRAPHS: Mapping[object, Callable[[Run], AbstractContextManager[PlanGraph | None]]] = {
    "remote": _graph_of_experiment
}
"""By the kind that a run's environment names; the experiment is read only where there may be a graph."""
