"""Steps of an experiment's file, edited one by one: what the builder page does to its ``steps.plan``."""

from __future__ import annotations

from copy import deepcopy

from harness.errors import UsageError
from harness.service.building import Tree, below, listed, written_out
from harness.topologies.bounds import ALL_TASKS

PROPOSED = ("executors", "workers", "placement", "batching")
"""Keys that a tuner's step cannot have, as the tuner proposes them."""


def add_step(tree: Tree) -> None:
    """Add a step at the end, with one executor of each component."""
    _plan(tree).append({"executors": 1})


def copy_step(tree: Tree, index: int) -> None:
    """Put a copy of a step behind it; all steps go on reading those that they read.

    Raises
    ------
    UsageError
        When there is no such step.
    """
    copied = deepcopy(_step(tree, index))
    plan = _plan(tree)
    plan.insert(index + 1, copied)
    for step, read in _reading(plan):
        if read > index:
            step["from"] = read + 1


def remove_step(tree: Tree, index: int) -> None:
    """Take a step away; those that read it read none any more.

    Raises
    ------
    UsageError
        When there is no such step.
    """
    _step(tree, index)
    plan = _plan(tree)
    del plan[index]
    for step, read in _reading(plan):
        if read == index:
            del step["from"]
        elif read > index:
            step["from"] = read - 1


def set_counts(tree: Tree, index: int, how: str) -> None:
    """Let a step say the executors of each component (``each``), as many as tasks, or one number for all.

    Parameters
    ----------
    how : str
        ``each``, ``tasks`` or ``all``, for which the largest number that the step says is taken.

    Raises
    ------
    UsageError
        When there is no such step, or the graph is not known.
    """
    step = _step(tree, index)
    if how == ALL_TASKS:
        step["executors"] = ALL_TASKS
        return
    said = step.get("executors")
    numbers = list(said.values()) if isinstance(said, dict) else [said]
    most = max((n for n in numbers if isinstance(n, int)), default=1)
    if how != "each":
        step["executors"] = most
        return
    components = below(written_out(below(tree, "topology")), "components")
    if not components:
        raise UsageError("the graph of a jar is in the jar", "name its components in the file")
    tasks = {name: c.get("tasks") if isinstance(c, dict) else None for name, c in components.items()}
    step["executors"] = {name: tasks[name] or most if said == ALL_TASKS else most for name in components}


def set_planner(tree: Tree, index: int, planner: str) -> None:
    """Let a scheduler or tuner plan a step from the one before it.

    Parameters
    ----------
    planner : str
        ``scheduler NAME`` or ``tuner NAME``; empty where Storm places the executors that the step says.

    Raises
    ------
    UsageError
        When there is no such step, or the planner is neither.
    """
    step = _step(tree, index)
    kind, _, name = planner.partition(" ")
    if kind not in ("", "scheduler", "tuner"):
        raise UsageError(f"{kind[:20]!r}: neither a scheduler nor a tuner")
    read = step.get("from", index - 1)
    for key in ("scheduler", "tuner", "from", *(PROPOSED if kind == "tuner" else ("placement",))):
        step.pop(key, None)
    if kind != "tuner":
        step.setdefault("executors", 1)
    if kind:
        step[kind] = name
        step |= {"from": read} if index else {}


def _plan(tree: Tree) -> list[object]:
    return listed(below(tree, "steps"), "plan")


def _step(tree: Tree, index: int) -> Tree:
    plan = _plan(tree)
    step = plan[index] if index < len(plan) else None
    if not isinstance(step, dict):
        raise UsageError(f"steps.plan.{index}: there is no such step")
    return step


def _reading(plan: list[object]) -> list[tuple[Tree, int]]:
    """Return the steps that read another one, each with the position that it names."""
    steps = [step for step in plan if isinstance(step, dict)]
    return [(step, read) for step in steps if isinstance(read := step.get("from"), int)]
