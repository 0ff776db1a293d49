"""Key groups: a keyed component's state in parts that move between its tasks, and who may send to it.

The bolts are in ``harness.storm.keygroups`` of storm-topologies, which says how a group moves.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import QueryPlan
from harness.topologies.java_text import JAVA_INT, string_hash
from harness.topologies.roles import traits


def key_group(key: str, groups: int) -> int:
    """Return the group of a key: Java's hash of the text, mixed as MurmurHash3 does last, modulo ``groups``.

    Examples
    --------
    >>> [key_group(key, 60) for key in ("A", "storm", "polygenelubricants")]
    [51, 47, 40]
    """
    mixed = string_hash(key) % JAVA_INT
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B % JAVA_INT
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 % JAVA_INT
    return (mixed ^ mixed >> 16) % groups


def first_table(groups: int, tasks: int) -> tuple[int, ...]:
    """Return the position of each group's task in the table that a topology begins with: dealt in turn.

    Examples
    --------
    >>> first_table(5, 2)
    (0, 1, 0, 1, 0)
    """
    return tuple(group % tasks for group in range(groups))


def goes_by_table(plan: QueryPlan, name: str) -> bool:
    """Return whether a component has key groups, or sends to one that has: routing tables keep their place.

    Batches and helpers would let tuples and tables overtake each other.
    """
    concerned = {name, *(s.target for s in plan.outputs(name))}
    return any(traits(plan.component(each).role).keyed for each in concerned)


def require_key_groups(plan: QueryPlan, groups: Mapping[str, int]) -> None:
    """Require that components with key groups can be sent to by a table.

    Parameters
    ----------
    plan : QueryPlan
    groups : mapping of str to int
        Groups of each component that has them.

    Raises
    ------
    ValueError
        Naming the component or stream.
    """
    for name, count in groups.items():
        if count < plan.component(name).tasks:
            raise ValueError(
                f"components.{name}: {count} groups are fewer than its {plan.component(name).tasks} tasks:"
                " give it as many groups or more"
            )
        for stream in plan.inputs(name):
            if stream.grouping != "fields":
                raise ValueError(f"streams: {name} has key groups: {stream.label} must have grouping fields")
            if not traits(plan.component(stream.source).role).routing:
                raise ValueError(
                    f"streams: {stream.source} cannot send to {name}, which has key groups: put a json"
                    " component between them"
                )
