"""A cluster that others run, asked by the service what runs there; nothing is changed."""

from __future__ import annotations

from collections.abc import Collection

from harness.app.submitted.folder import KeptPlan, SubmittedTopology, now_ms
from harness.backends.running.cluster import nimbus_of
from harness.errors import ClusterError
from harness.experiments.clusters import Running
from harness.storm.topology_state import physical_plan

PATIENCE_S = 5.0
"""Who asks over HTTP hears soon that Nimbus does not answer."""


class AskedCluster:
    """A cluster's Nimbus.

    Parameters
    ----------
    shape : Running

    Raises
    ------
    ClusterError
        By every method but ``runs``, when Nimbus does not answer.
    """

    def __init__(self, shape: Running) -> None:
        self.address = shape.nimbus
        self._nimbus = nimbus_of(shape, PATIENCE_S)

    def topologies(self) -> Collection[str]:
        """Return the names of all topologies that it runs."""
        return self._nimbus.cluster_summary().topologies

    def runs(self, topology: SubmittedTopology) -> bool:
        """Return True if a topology was submitted to this cluster."""
        return topology.facts.cluster.nimbus == self.address

    def in_force(self, topology: SubmittedTopology) -> KeptPlan:
        """Return the plan in force of a topology that runs there, since its youngest worker started.

        Raises
        ------
        ClusterError
            Also when it has no plan.
        """
        kept, name = topology.plan.plan, topology.facts.topology
        state = self._nimbus.topology(name)
        plan = physical_plan(state, kept.query_plan, kept.nodes)
        if not plan.executors:
            raise ClusterError(f"nimbus at {self.address}: topology {name} has no plan", "storm activate it")
        at_ms = now_ms() - 1000 * min(state.uptimes_s().values(), default=0)
        return KeptPlan(at_epoch_ms=at_ms, seen="found", plan=plan)
