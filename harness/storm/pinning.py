"""A topology's plan on a cluster: put there, taken away, and compared with what is in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from harness.plans import AskedPlacement, PhysicalPlan
from harness.storm.pinned_plans import plan_status, plan_text


class PlanFolder(Protocol):
    """Where Nimbus' scheduler reads plan files, on this machine or on a host."""

    def pin(self, topology: str, text: str) -> None:
        """Put a topology's plan file (``harness.storm.pinned_plans``) where Nimbus' scheduler reads it."""

    def unpin(self, topology: str) -> None:
        """Take a topology's plan file away, if there is one; executors stay until something moves them."""


class Pinning:
    """The placement that is asked for one topology, each under a generation of its own.

    Parameters
    ----------
    folder : PlanFolder
    topology : str
        Storm's name for it.
    """

    def __init__(self, folder: PlanFolder, topology: str) -> None:
        self._folder = folder
        self._topology = topology
        self._generation = 0
        self._file_there = True  # for all that is known: a command before this one may have left it
        self.placement: AskedPlacement | None = None

    def ask(self, placement: AskedPlacement | None) -> None:
        """Put the plan's file in its place; without a placement take the one away that is there."""
        if placement is not None:
            self._generation += 1
            self._folder.pin(self._topology, plan_text(self._generation, placement.workers))
        elif self._file_there:
            self._folder.unpin(self._topology)
        self._file_there = placement is not None
        self.placement = placement

    def in_force(self, scheduling: str, plan: Callable[[], PhysicalPlan]) -> bool:
        """Return whether every executor is where it was asked for; so without a placement.

        Parameters
        ----------
        scheduling : str
            The topology's scheduling status. Nimbus sets it before the assignment is written.
        plan : callable
            Returns the plan that was read with that status.
        """
        if self.placement is None:
            return True
        status = plan_status(scheduling)
        if status is None or not status.whole(self._generation):
            return False
        return not self.placement.differences(plan())
