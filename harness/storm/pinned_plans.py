"""Plan files, by which Nimbus puts each executor on a worker, and Nimbus' status of them.

The other end is ``harness.storm.cluster.PinnedScheduler`` in the instrumentation jar. A plan names every
executor of the topology, Storm's own among them; a plan that does not fit changes nothing.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from harness.plans import PhysicalPlan

_STATUS = re.compile(
    r"plan (?P<generation>-?\d+): (?P<placed>\d+) of (?P<executors>\d+) executors placed(?P<rest>.*)"
)


class PlanStatus(NamedTuple):
    """A plan that is in force, as the topology's scheduling status names it.

    Attributes
    ----------
    generation : int
        The plan's number.
    placed, executors : int
        Executors that are where the plan says, and all of them.
    waits : str
        The reason of those that are not, or of a newer plan that is not in force; empty where there are
        no such.
    """

    generation: int
    placed: int
    executors: int
    waits: str

    def whole(self, generation: int) -> bool:
        """Return True if the plan of that number is in force with every executor placed."""
        return self.generation == generation and self.placed == self.executors and not self.waits


def placement(plan: PhysicalPlan) -> dict[str, str]:
    """Return the worker's label of each executor's label."""
    return {e.label: e.worker.label for e in plan.executors}


def plan_text(generation: int, workers: Mapping[str, str]) -> str:
    """Return the text of a plan file.

    Parameters
    ----------
    generation : int
        A number by which the plan is known again in the scheduling status.
    workers : mapping
        The worker's label of each executor's label, Storm's own executors included.

    Examples
    --------
    >>> plan_text(7, {"bolt-a[3-4]": "node-1:6700"})
    '{"generation": 7, "executors": {"bolt-a[3-4]": "node-1:6700"}}'
    """
    return json.dumps({"generation": generation, "executors": dict(workers)})


def write_plan(folder: Path, topology: str, text: str) -> None:
    """Put a topology's plan file in its place, whole at once."""
    new = folder / f"{topology}.new"
    new.write_text(text)
    new.replace(folder / f"{topology}.json")


def remove_command(folder: str, topology: str) -> str:
    """Return the shell command that takes a topology's plan file away on Nimbus' host.

    Examples
    --------
    >>> remove_command("/p", "t")
    'rm -f /p/t.json'
    """
    return f"rm -f {shlex.quote(f'{folder}/{topology}.json')}"


def write_command(folder: str, topology: str, text: str) -> str:
    """Return the shell command that puts a topology's plan file in its place on Nimbus' host.

    Examples
    --------
    >>> write_command("/p", "t", "{}")
    'echo e30= | base64 -d > /p/t.new && mv /p/t.new /p/t.json'
    """
    new, name = (shlex.quote(f"{folder}/{topology}.{end}") for end in ("new", "json"))
    return f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {new} && mv {new} {name}"


def plan_status(scheduling: str) -> PlanStatus | None:
    """Return the plan in force that a scheduling status names; None where it names none.

    Examples
    --------
    >>> plan_status("plan 7: 12 of 12 executors placed")
    PlanStatus(generation=7, placed=12, executors=12, waits='')
    >>> plan_status("plan 8 waits: there is no node node-9; plan 7: 12 of 12 executors placed").waits
    'plan 8 waits: there is no node node-9'
    >>> plan_status("plan 8 waits: there is no node node-9; nothing is moved") is None
    True
    """
    named = _STATUS.search(scheduling)
    if named is None:
        return None
    waits = scheduling[: named.start()] + named["rest"]
    return PlanStatus(
        int(named["generation"]), int(named["placed"]), int(named["executors"]), waits.strip("; ")
    )
