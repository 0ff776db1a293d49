"""A plan's file, as ``harness apply`` takes it: numbers of executors and workers, or a placement."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from harness.errors import ModelDeclined, SchedulerDeclined, UsageError, describe_fault
from harness.experiments.placement_file import count_executors, placement_text
from harness.experiments.yaml_files import read_tree
from harness.plans import AskedPlacement, Frozen, PhysicalPlan, Positive, TopologyConfiguration
from harness.schedulers.by_hand import place_by_hand
from harness.tuning.placement import deal_evenly

EXAMPLE = "executors: {split: 2, count: 4} and workers: 2, or placement: {'split[3-4]': 'node-1:6700'}"


class AskedPlan(Frozen):
    """A plan that is asked for.

    Attributes
    ----------
    executors : mapping
        Executors by component; those that are left out keep theirs.
    workers : int, optional
        As now by default.
    placement : mapping
        In their place: the worker's label of each executor's label.
    source : mapping
        ``from``: the same of the plan that it was predicted from; empty where nobody says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    executors: Mapping[str, Positive] = {}
    workers: Positive | None = None
    placement: Mapping[str, str] = {}
    source: Mapping[str, str] = Field(default={}, alias="from")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.placement and (self.executors or self.workers):
            raise ValueError("placement says executors and workers by itself: leave these out")
        if not (self.placement or self.executors or self.workers):
            raise ValueError("it asks for nothing")
        return self

    def proposed(self, running: PhysicalPlan) -> PhysicalPlan:
        """Return the plan that would run.

        Without a placement executors are where Storm's own scheduler would put them on an empty cluster.

        Raises
        ------
        UsageError
            When the topology has no such components, executors, tasks or workers.
        """
        own = {c.name for c in running.query_plan.components}
        counts = count_executors(self.placement) if self.placement else self.executors
        if unknown := sorted(set(counts) - own):
            raise UsageError(f"there is no component {unknown[0]}", f"there are {', '.join(sorted(own))}")
        now = running.configuration()
        configuration = TopologyConfiguration(
            executors={**now.executors, **counts}, workers=self.workers or now.workers
        )
        try:
            if self.placement:
                return place_by_hand(self.placement, running.query_plan, configuration, running.nodes)
            plan = deal_evenly(running, configuration)
        except (ModelDeclined, SchedulerDeclined) as why:
            raise UsageError(str(why)) from None
        if len(plan.workers) < configuration.workers:
            slots = sum(len(node.slots) for node in running.nodes)
            most = min(slots, len(plan.executors))
            raise UsageError(f"{configuration.workers} workers are more than the {most} that there can be")
        return plan


def read_plan(path: Path) -> AskedPlan:
    """Read a plan's file; one that holds a placement only, as ``harness schedule --write`` makes it, too.

    Raises
    ------
    UsageError
        When it cannot be read, or is no plan.
    """
    tree = read_tree(path, "safe")
    if not isinstance(tree, Mapping) or not tree:
        raise UsageError(f"{path}: holds no plan", f"write {EXAMPLE}")
    if all(isinstance(key, str) and key.endswith("]") for key in tree):
        tree = {"placement": tree}
    try:
        return AskedPlan.model_validate(tree)
    except ValidationError as error:
        raise UsageError(f"{path}: {describe_fault(error)}", f"write {EXAMPLE}") from None


def plan_text(asked: AskedPlan) -> str:
    """Return the text of a plan's file.

    Examples
    --------
    >>> print(plan_text(AskedPlan(executors={"b": 2}, source={"b[1-2]": "n:1"})), end="")
    executors:
      "b": 2
    from:
      "b[1-2]": "n:1"
    """
    lines = [f"workers: {asked.workers}\n"] if asked.workers else []
    if asked.executors:
        lines.append("executors:\n")
        lines += [f"  {json.dumps(name)}: {count}\n" for name, count in asked.executors.items()]
    for key, workers in (("placement", asked.placement), ("from", asked.source)):
        if workers:
            lines.append(f"{key}:\n")
            lines += [f"  {line}\n" for line in placement_text(workers).splitlines()]
    return "".join(lines)


def labels(plan: PhysicalPlan) -> dict[str, str]:
    """Return the worker's label of each executor's label."""
    return {e.label: e.worker.label for e in plan.executors}


def differences(workers: Mapping[str, str], plan: PhysicalPlan) -> str:
    """Say how a plan differs from an earlier one; empty where it does not."""
    found = AskedPlacement(by="kept", workers=workers).differences(plan)
    return "" if not found else f"{len(found)} executors, as {found[0].replace('asked', 'then')}"
