"""The ways that a message takes through a test topology: how often each of its members comes to a component.

A member is the message itself or one of its numbered children. Behind a multiplier there are only children;
windows keep the names of what they gather, so a name holds as far as the sink.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from harness.plans import QueryPlan
from harness.topologies.roles import traits

UNNUMBERED = 0
"""In the place of a multiplier's hop: no multiplier was on the way."""


@dataclass(frozen=True)
class MemberWays:
    """The ways of a message's members to one component.

    Attributes
    ----------
    plain : int
        Copies of the message itself, by ways without a multiplier.
    numbered : mapping of int to int
        Copies of its children, by the hop of the multiplier: the components passed before it, which is part
        of the name of its draw.
    sure : bool
        Whether each copy comes here. Behind a join that chooses one of its streams it may not.
    """

    plain: int
    numbered: Mapping[int, int]
    sure: bool

    def tuples(self, children: float) -> float:
        """Return how many tuples of a message come here, for a mean number of children.

        Examples
        --------
        >>> MemberWays(plain=1, numbered={1: 2}, sure=True).tuples(5.0)
        11.0
        """
        return self.plain + children * sum(self.numbered.values())


def member_ways(plan: QueryPlan, choosing: frozenset[str] = frozenset()) -> dict[str, MemberWays]:
    """Return the ways to each component, in the order in which messages pass them.

    Parameters
    ----------
    plan : QueryPlan
        Without a loop. A stream to all tasks brings each of them a copy.
    choosing : frozenset of str
        Joins that emit on one of their streams for each window, so that a copy may be anywhere behind them.

    Examples
    --------
    Two ways to one sender:

    >>> from harness.plans import Component, Stream
    >>> roles = {"in": "spout", "a": "json", "b": "json", "out": "sender"}
    >>> plan = QueryPlan(
    ...     name="diamond",
    ...     components=tuple(Component(name=n, role=r, tasks=1) for n, r in roles.items()),
    ...     streams=tuple(
    ...         Stream(source=a, target=b, grouping="shuffle")
    ...         for a, b in (("in", "a"), ("in", "b"), ("a", "out"), ("b", "out"))
    ...     ),
    ... )
    >>> member_ways(plan)["out"]
    MemberWays(plain=2, numbered={}, sure=True)
    """
    # by multiplier's hop and components passed, how many copies of a tuple arrive
    arriving: dict[str, Counter[tuple[int, int]]] = {c.name: Counter() for c in plan.components}
    unsure: set[str] = set()
    for name in plan.spouts:
        arriving[name][UNNUMBERED, 0] = 1
    order = _forward(plan)
    for name in order:
        multiplies = traits(plan.component(name).role).multiplies
        for stream in plan.outputs(name):
            target = plan.component(stream.target)
            copies = target.tasks if stream.grouping == "all" else 1
            for (hop, passed), count in arriving[name].items():
                arriving[target.name][passed if multiplies else hop, passed + 1] += count * copies
            if name in choosing or name in unsure:
                unsure.add(target.name)
    return {name: _summed(arriving[name], sure=name not in unsure) for name in order}


def _summed(arriving: Counter[tuple[int, int]], *, sure: bool) -> MemberWays:
    numbered: Counter[int] = Counter()
    for (hop, _), count in arriving.items():
        numbered[hop] += count
    plain = numbered.pop(UNNUMBERED, 0)
    return MemberWays(plain=plain, numbered=dict(numbered), sure=sure)


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
