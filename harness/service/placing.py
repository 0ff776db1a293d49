"""A placement that a client gives, as a plan of a topology."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import UsageError
from harness.plans import Executor, PhysicalPlan, Worker

_DIGITS = 10
"""A task's number of so many digits is none."""


class UnusablePlan(UsageError):
    """A placement that is no plan of the topology."""


def placed(plan: PhysicalPlan, placement: Mapping[str, str], key: str = "placement") -> PhysicalPlan:
    """Return a plan of the same query plan with executors where they are asked.

    Storm's own executors stay where they are if they are not named.

    Parameters
    ----------
    placement : mapping
        ``NODE:PORT`` by executor label.
    key : str
        By which a client gave it.

    Raises
    ------
    UnusablePlan
        When a label or a slot cannot be, a task is twice or nowhere.
    """
    tasks = {t: e.component for e in plan.executors for t in e.tasks}
    slots = {f"{n.name}:{port}": Worker(node=n.name, port=port) for n in plan.nodes for port in n.slots}
    executors: list[Executor] = []
    for label, slot in placement.items():
        component, _, span = label.removesuffix("]").rpartition("[")
        first, _, last = span.partition("-")
        if not (label.endswith("]") and first.isdecimal() and last.isdecimal()):
            raise UnusablePlan(f"{key}: {label!r} is no executor", "write COMPONENT[FIRST-LAST]")
        if slot not in slots:
            raise UnusablePlan(f"{key}: {label!r}: no slot {slot!r}", f"there are {', '.join(slots)}")
        ends = [int(end) for end in (first, last) if len(end) < _DIGITS]
        if len(ends) < 2 or not set(ends) <= tasks.keys() or ends[0] > ends[1]:
            raise UnusablePlan(f"{key}: {label[:80]!r} has no such tasks")
        executor = Executor(component=component, first_task=ends[0], last_task=ends[1], worker=slots[slot])
        if wrong := next((t for t in executor.tasks if tasks.get(t) != component), None):
            raise UnusablePlan(f"{key}: {label!r}: task {wrong} is not one of {component!r}")
        executors.append(executor)
    seen = [t for e in executors for t in e.tasks]
    if len(seen) != len(set(seen)):
        raise UnusablePlan(f"{key}: a task is in two executors")
    names = {c.name for c in plan.query_plan.components} | {tasks[t] for t in seen}
    if missing := sorted(t for t, c in tasks.items() if c in names and t not in set(seen)):
        raise UnusablePlan(f"{key}: task {missing[0]} of {tasks[missing[0]]!r} is nowhere")
    own = [e for e in plan.executors if e.component not in names]
    return plan.model_copy(update={"executors": tuple(executors + own)})
