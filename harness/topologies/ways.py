"""The ways of a message through a topology: how many tuples of it come to each component, and as whom.

A member is the message itself or one of its numbered children. Windows keep the names of what they gather, so
a name holds as far as the sink, or the next multiplier.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from harness.plans import QueryPlan, Stream


def copies_sent(plan: QueryPlan, stream: Stream) -> int:
    """Return how many tasks get each tuple that is emitted on a stream."""
    return plan.component(stream.target).tasks if stream.grouping == "all" else 1


def tuples_per_message(
    plan: QueryPlan, ratios: Mapping[str, float], shares: Mapping[str, float]
) -> dict[str, float]:
    """Return how many members' copies of a message come to each component, on average.

    Parameters
    ----------
    plan : QueryPlan
        Without a loop. A stream to all tasks brings each of them a copy.
    ratios : mapping
        Tuples that a component makes of one where that is not one. A window's output counts as all of its
        members.
    shares : mapping
        The share of the messages that each spout gets; others get none.

    Returns
    -------
    mapping of str to float
        In the order in which messages pass the components.

    Examples
    --------
    Two ways to one sender, one of them through a filter:

    >>> from harness.plans import Component
    >>> roles = {"in": "spout", "a": "json", "b": "filter", "out": "sender"}
    >>> plan = QueryPlan(
    ...     name="diamond",
    ...     components=tuple(Component(name=n, role=r, tasks=1) for n, r in roles.items()),
    ...     streams=tuple(
    ...         Stream(source=a, target=b, grouping="shuffle")
    ...         for a, b in (("in", "a"), ("in", "b"), ("a", "out"), ("b", "out"))
    ...     ),
    ... )
    >>> tuples_per_message(plan, {"b": 0.5}, {"in": 1.0})["out"]
    1.5
    """
    arriving = {c.name: shares.get(c.name, 0.0) for c in plan.components}
    order = _forward(plan)
    for name in order:
        for stream in plan.outputs(name):
            made = arriving[name] * ratios.get(name, 1.0)
            arriving[stream.target] += made * copies_sent(plan, stream)
    return {name: arriving[name] for name in order}


def numberings(plan: QueryPlan, most: Mapping[str, int]) -> dict[str, frozenset[tuple[int, ...]]]:
    """Return how members of a message may have been numbered on their ways to each component.

    Parameters
    ----------
    plan : QueryPlan
        Without a loop.
    most : mapping of str to int
        The most children that each multiplier makes of one tuple.

    Returns
    -------
    mapping of str to frozenset of tuple of int
        For each way that numbers members otherwise, the ``most`` of its multipliers, in their order.

    Examples
    --------
    >>> from harness.plans import Component
    >>> ends = {"in": "spout", "two": "multiplier", "three": "multiplier", "out": "sender"}
    >>> ways = zip(list(ends), list(ends)[1:], strict=False)
    >>> plan = QueryPlan(
    ...     name="twice",
    ...     components=tuple(Component(name=n, role=r, tasks=1) for n, r in ends.items()),
    ...     streams=tuple(Stream(source=a, target=b, grouping="shuffle") for a, b in ways),
    ... )
    >>> numberings(plan, {"two": 2, "three": 3})["out"]
    frozenset({(2, 3)})
    >>> child_names((2, 3))
    [5, 6, 7, 9, 10, 11]
    """
    found: dict[str, frozenset[tuple[int, ...]]] = {}
    for name in _forward(plan):
        sources = [(s.source, (most[s.source],) if s.source in most else ()) for s in plan.inputs(name)]
        ways = {(*way, *added) for source, added in sources for way in found[source]}
        found[name] = frozenset(ways) if sources else frozenset({()})
    return found


def child_names(numbering: tuple[int, ...]) -> list[int]:
    """Return the names that members may get by such a numbering; 0 where nothing is numbered."""
    names = [0]
    for most in numbering:
        names = [child_name(name, number, most) for name in names for number in range(1, most + 1)]
    return names


def child_name(child: int, number: int, most: int) -> int:
    """Return the name of a member's child of this number, as ``Children.java`` does.

    No two members and numbers have one in common.
    """
    return child * (most + 1) + number


def levels(plan: QueryPlan) -> dict[str, int]:
    """Return how many streams the longest way to each component has."""
    level: dict[str, int] = {}
    for name in _forward(plan):
        level[name] = reduce(max, (level[s.source] + 1 for s in plan.inputs(name)), 0)
    return level


def _forward(plan: QueryPlan) -> list[str]:
    """Return the components so that every stream runs from an earlier to a later one."""
    order: list[str] = []
    while left := [c.name for c in plan.components if c.name not in order]:
        order += [n for n in left if all(s.source in order for s in plan.inputs(n))]
    return order
