"""A cluster that others run, on which a topology is left running: nothing is noted for removal."""

from __future__ import annotations

from pathlib import Path

from harness.backends.running.cluster import RunningElsewhere
from harness.errors import UsageError
from harness.plans import PhysicalPlan
from harness.storm.pinned_plans import write_plan
from harness.storm.running_cluster import Kind

PINNING = "harness.storm.cluster.PinnedScheduler"
"""The plug-in by which a Nimbus puts executors where a file says."""
SCHEDULER = "storm.scheduler"
FOLDER = "harness.plans.folder"


class StandingCluster(RunningElsewhere):
    """A cluster that is up, and what stays on it (``harness.storm.running_cluster.RunningCluster``).

    Its broker is not asked for anything: a topology that is left running has its own messages.
    """

    def check(self) -> None:
        """Raise ClusterError when Nimbus does not answer."""
        self.nimbus.cluster_summary()

    def remember(self, kind: Kind, name: str) -> None:
        """Do nothing: what is put there stays."""

    def clear(self) -> None:
        """Do nothing: what is there stays."""

    def require_pinning(self) -> Path:
        """Return the folder in which Nimbus' scheduler reads plans.

        Raises
        ------
        UsageError
            When its Nimbus has another scheduler, or a folder that is not on this machine.
        ClusterError
            When Nimbus does not answer.
        """
        settings, where = self.nimbus.settings(), f"nimbus at {self.nimbus.host}:{self.nimbus.port}"
        hint = "leave placement out, or see docs/service.md"
        if settings.get(SCHEDULER) != PINNING:
            has = settings.get(SCHEDULER) or "Storm's own scheduler"
            raise UsageError(f"{where} places no executor where a plan says: it has {has}", hint)
        folder = Path(str(settings.get(FOLDER) or ""))
        if not (settings.get(FOLDER) and folder.is_dir()):
            raise UsageError(f"{where} reads plans in a folder that is not on this machine", hint)
        return folder

    def require_room(self, topology: str, plan: PhysicalPlan, *, placed: bool) -> None:
        """Refuse a plan of a topology for whose workers the other topologies leave no slots.

        Parameters
        ----------
        placed : bool
            Whether the plan's own slots are asked for; else as many as it has.

        Raises
        ------
        UsageError
            Naming the slot and who has it, or how many are left.
        ClusterError
            When Nimbus does not answer.
        """
        state = self.nimbus.cluster_summary()
        users = {
            f"{address}:{port}": name
            for name in state.topologies
            if name != topology
            for address, port in self.nimbus.topology(name).slots()
        }
        asked = [worker.label for worker in plan.workers]
        if placed and (taken := next((label for label in asked if label in users), "")):
            raise UsageError(f"slot {taken} is in use by {users[taken]}", "place executors on other workers")
        left = sum(supervisor.slots for supervisor in state.supervisors) - len(users)
        if len(asked) > left:
            who = f"{', '.join(sorted(set(users.values())))} use the others" if users else "it has no more"
            raise UsageError(f"{left} slots of the cluster are left for {topology}, not {len(asked)}", who)

    def pinned(self, topology: str) -> bool:
        """Return True if Nimbus' scheduler places a topology by a file that was put on this machine."""
        try:
            return self._file(topology).is_file()
        except UsageError:  # it reads none, or elsewhere
            return False

    def pin(self, topology: str, text: str) -> None:
        """Put a topology's plan file where Nimbus' scheduler reads it."""
        write_plan(self.require_pinning(), topology, text)

    def unpin(self, topology: str) -> None:
        """Take a topology's plan file away, which an earlier command may have left."""
        if self.pinned(topology):
            self._file(topology).unlink(missing_ok=True)

    def _file(self, topology: str) -> Path:
        return self.require_pinning() / f"{topology}.json"
