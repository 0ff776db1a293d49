"""A topology as Aeolus sees it: nodes with a processing time, links with a fan-out and a tuple size.

Numbers are rationals. In doubles 0.3 ms times 10,000/s is 2.9999999999999996, and equation 2 would give
three executors where four are right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from typing import Self

from harness.models.contract.message_costs import MessageTimes

Number = Fraction | int | float | str


def rational(value: Number) -> Fraction:
    """Return a number as the rational that its shortest decimal notation names.

    Examples
    --------
    >>> rational(0.3), Fraction(0.3)
    (Fraction(3, 10), Fraction(5404319552844595, 18014398509481984))
    """
    return Fraction(Decimal(repr(value))) if isinstance(value, float) else Fraction(value)


@dataclass(frozen=True)
class MessageCost:
    """Time that one message takes its sender: ``overhead_s + bytes * per_byte_s``.

    Attributes
    ----------
    overhead_s : Fraction
        The paper's n.
    per_byte_s : Fraction
        The paper's s.
    origin : str
        Where the two come from.
    """

    overhead_s: Fraction
    per_byte_s: Fraction
    origin: str = "given"

    def __post_init__(self) -> None:
        if self.overhead_s < 0 or self.per_byte_s < 0:
            raise ValueError("a message's cost is not negative")

    @classmethod
    def of(cls, times: MessageTimes) -> Self:
        """Return n and s in seconds."""
        return cls(rational(times.n_us) / 10**6, rational(times.s_ns_per_byte) / 10**9, times.origin)


@dataclass(frozen=True)
class DataflowLink:
    """One component's subscription to a stream of another.

    Attributes
    ----------
    target : str
    fan_out : Fraction
        Tuples sent on the link for each tuple that its source processes, copies counted.
    tuple_bytes : Fraction
        The paper's t.
    key_shares : tuple of Fraction
        Share of the link's tuples that each batch buffer of a sending task gets. Where a grouping fixes the
        receiving task, each receiving task has a buffer; else one buffer gets all.
    bytes_origin : str
        Where ``tuple_bytes`` comes from.
    """

    target: str
    fan_out: Fraction
    tuple_bytes: Fraction
    key_shares: tuple[Fraction, ...] = (Fraction(1),)
    bytes_origin: str = "given"

    def __post_init__(self) -> None:
        if self.fan_out < 0 or self.tuple_bytes < 0:
            raise ValueError(f"link to {self.target}: fan-out and tuple bytes are not negative")
        if any(share < 0 for share in self.key_shares) or sum(self.key_shares) != 1:
            raise ValueError(f"link to {self.target}: key shares are not negative and add up to 1")


@dataclass(frozen=True)
class DataflowNode:
    """A component.

    Attributes
    ----------
    name : str
    ppt_s : Fraction
        Pure processing time of one tuple.
    links : tuple of DataflowLink
    executors : int
        As many as the component has; a source keeps them.
    tasks : int, optional
        More executors than tasks are impossible on Storm; None where tasks do not bound executors.
    rate_tps : Fraction
        Tuples a second that a source can fetch. 0 for other nodes, whose rate follows.
    ppt_origin : str
        Where ``ppt_s`` comes from.
    """

    name: str
    ppt_s: Fraction
    links: tuple[DataflowLink, ...] = ()
    executors: int = 1
    tasks: int | None = None
    rate_tps: Fraction = Fraction(0)
    ppt_origin: str = "given"

    def __post_init__(self) -> None:
        if self.ppt_s < 0 or self.rate_tps < 0:
            raise ValueError(f"{self.name}: processing time and rate are not negative")
        if self.executors < 1 or (self.tasks is not None and self.tasks < 1):
            raise ValueError(f"{self.name}: at least one executor and one task")

    @property
    def fan_out(self) -> Fraction:
        """Tuples sent for each tuple processed, over all links."""
        return sum((link.fan_out for link in self.links), Fraction(0))

    @property
    def bytes_sent(self) -> Fraction:
        """Bytes sent for each tuple processed, over all links."""
        return sum((link.fan_out * link.tuple_bytes for link in self.links), Fraction(0))

    def sending_s(self, message: MessageCost) -> Fraction:
        """Time that bytes take for each tuple processed: t s, times the fan-out."""
        return self.bytes_sent * message.per_byte_s

    @property
    def largest_tuple_bytes(self) -> Fraction:
        """Size of the largest tuple sent."""
        return max((link.tuple_bytes for link in self.links), default=Fraction(0))


class CyclicDataflow(ValueError):
    """Nodes feed one another in a circle; the message names them."""


def producers_first(nodes: Iterable[DataflowNode]) -> tuple[DataflowNode, ...]:
    """Return the nodes so that each comes after all that send to it.

    Raises
    ------
    CyclicDataflow
        Naming the nodes of one circle.
    ValueError
        When a link leads nowhere, or two nodes share a name.

    Examples
    --------
    >>> link = DataflowLink(target="a", fan_out=Fraction(1), tuple_bytes=Fraction(8))
    >>> sink, source = DataflowNode("a", Fraction(1)), DataflowNode("s", Fraction(0), (link,))
    >>> [n.name for n in producers_first([sink, source])]
    ['s', 'a']
    """
    given = tuple(nodes)
    by_name = {n.name: n for n in given}
    if len(by_name) != len(given):
        raise ValueError("two nodes share a name")
    before: dict[str, list[str]] = {name: [] for name in by_name}
    for node in given:
        for link in node.links:
            if link.target not in by_name:
                raise ValueError(f"{node.name} sends to {link.target!r}, which is no node")
            before[link.target].append(node.name)
    try:
        order = tuple(TopologicalSorter(before).static_order())
    except CycleError as why:
        circle = sorted(set(why.args[1]))
        raise CyclicDataflow(f"components form a cycle: {', '.join(circle)}") from None
    return tuple(by_name[name] for name in order)
