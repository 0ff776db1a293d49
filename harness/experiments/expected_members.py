"""Members that should come out of each message, and where.

They are computed over the graph, from sinks back to spouts. A member's name at a sink says which child it is
of whom. So the member is followed back: through a multiplier to the member that was multiplied, through a
filter where that was kept, to the spout that the message enters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt

from harness.experiments.config import Experiment
from harness.experiments.draws import Ids, children, kept
from harness.experiments.ledger import AtLeastAtMost
from harness.experiments.turns import Turns
from harness.plans import QueryPlan
from harness.topologies.component_settings import Multiplier
from harness.topologies.ways import child_names, copies_sent, levels, numberings

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ExpectedMembers:
    """Members that should come out of each message (an ``ExpectedOutputs``).

    Attributes
    ----------
    plan : QueryPlan
        Components and streams.
    shares : mapping of str to int
        The share of the messages that each spout gets.
    multipliers : mapping of str to Multiplier
        How many tuples each multiplier makes of one.
    keeps : mapping of str to float
        The share of the tuples that each filter passes on; none is behind a window.
    choosing : frozenset of str
        Joins that emit on one of their streams for each window, so that a member may be anywhere behind them.
    seed : int
        Of the draws.
    """

    plan: QueryPlan
    shares: Mapping[str, int]
    multipliers: Mapping[str, Multiplier]
    keeps: Mapping[str, float]
    choosing: frozenset[str]
    seed: int

    @property
    def sinks(self) -> tuple[str, ...]:
        """The components that write to the output topic."""
        return self.plan.sinks

    def members(self, ids: Ids) -> AtLeastAtMost:
        """Return how many members of each message come out, at any sink.

        A message is one member for all ways that no multiplier is on (child 0). Children of one name are one
        member, by however many ways they come. A filter may leave out all.
        """
        memo: _Memo = {}
        least, most = np.zeros(ids.shape, np.int64), np.zeros(ids.shape, np.int64)
        for name in self._names:
            at_sinks = [self._walk(ids, name, memo).arriving(sink) for sink in self.sinks]
            least += reduce(np.maximum, (copies.least for copies in at_sinks)) > 0
            most += reduce(np.maximum, (copies.most for copies in at_sinks)) > 0
        return AtLeastAtMost(least, most)

    def copies(self, sink: str, ids: Ids, child: Ids) -> AtLeastAtMost:
        """Return how often members come to a sink.

        Parameters
        ----------
        sink : str
            Its name; of an unknown one nothing is expected.
        ids, child : ndarray of int64, shape (n,)
            The members' names.
        """
        if sink not in self.sinks:
            return AtLeastAtMost(np.zeros(ids.shape, np.int64), np.zeros(ids.shape, np.int64))
        return self._walk(ids, child, {}).arriving(sink)

    def _walk(self, ids: Ids, child: Ids | int, memo: _Memo) -> _Walk:
        return _Walk(self, ids, child, memo)

    @cached_property
    def _names(self) -> Collection[int]:
        """The names that members may have at sinks."""
        ways = numberings(self.plan, {name: m.max for name, m in self.multipliers.items()})
        return sorted({name for sink in self.sinks for way in ways[sink] for name in child_names(way)})

    @cached_property
    def levels(self) -> Mapping[str, int]:
        """Number of streams on the longest way to each component."""
        return levels(self.plan)

    @cached_property
    def gathered(self) -> frozenset[str]:
        """The components behind a window: nobody else knows by whose message their tuples draw."""
        found: set[str] = set()
        for name in self.levels:
            before = [s.source for s in self.plan.inputs(name)]
            if any(b in found or self.plan.component(b).window is not None for b in before):
                found.add(name)
        return frozenset(found)

    @cached_property
    def entered_by(self) -> Turns:
        """Which spout each message enters."""
        return Turns(list(self.shares.values()))


_Memo = dict[tuple[str, int, int], Ids]
"""Children drawn, by multiplier, hop and child."""


@dataclass
class _Walk:
    """Members followed back from a component.

    Attributes
    ----------
    of : ExpectedMembers
    ids : ndarray of int64, shape (n,)
        Their messages.
    child : ndarray of int64, shape (n,), or int
        Their names; one number where all have the same.
    drawn : dict
        Children of members that all have the same name.
    """

    of: ExpectedMembers
    ids: Ids
    child: Ids | int
    drawn: _Memo = field(default_factory=dict)

    def arriving(self, name: str) -> AtLeastAtMost:
        """Return how many copies of each member come to a component, by ways of any length."""
        return _sum(self.ids, [self._arriving(name, hop, self.child) for hop in self._lengths(name)])

    def _lengths(self, name: str) -> range:
        return range(1, self.of.levels[name] + 1)

    def _arriving(self, name: str, hop: int, child: Ids | int) -> AtLeastAtMost:
        """Return the copies that have passed so many components before."""
        parts = []
        for stream in self.of.plan.inputs(name):
            least, most = self._emitted(stream.source, hop - 1, child)
            copies = copies_sent(self.of.plan, stream)
            parts.append(AtLeastAtMost(copies * least, copies * most))
        return _sum(self.ids, parts)

    def _emitted(self, name: str, hop: int, child: Ids | int) -> AtLeastAtMost:
        """Return the copies that a component emits on each stream, having passed so many others before it."""
        of = self.of
        if name in of.shares:
            mine = of.entered_by.input_of(self.ids) == list(of.shares).index(name)
            here = (mine & np.equal(child, 0) & (hop == 0)).astype(np.int64)
            return AtLeastAtMost(here, here)
        if not 0 < hop <= of.levels[name]:
            return _sum(self.ids, [])
        if name in of.multipliers:
            return self._multiplied(name, hop, child)
        least, most = self._arriving(name, hop, child)
        if name in of.keeps:
            passed = kept(of.keeps[name], of.seed, name, self.ids, child, hop)
            return AtLeastAtMost(passed * least, passed * most)
        return AtLeastAtMost(0 * least, most) if name in of.choosing else AtLeastAtMost(least, most)

    def _multiplied(self, name: str, hop: int, child: Ids | int) -> AtLeastAtMost:
        multiplier = self.of.multipliers[name]
        before, number = divmod(child, multiplier.max + 1)
        least, most = self._arriving(name, hop, before)
        if name in self.of.gathered:
            fewest: Ids | int = multiplier.min if multiplier.sd else round(multiplier.mean)
            greatest: Ids | int = multiplier.max if multiplier.sd else round(multiplier.mean)
        else:
            fewest = greatest = self._children(name, multiplier, hop, before)
        named = np.greater(number, 0)
        return AtLeastAtMost(
            least * (named & np.less_equal(number, fewest)), most * (named & np.less_equal(number, greatest))
        )

    def _children(self, name: str, multiplier: Multiplier, hop: int, child: Ids | int) -> Ids:
        if not isinstance(child, int):
            return children(multiplier, self.of.seed, self.ids, hop, child)
        if (name, hop, child) not in self.drawn:
            self.drawn[name, hop, child] = children(multiplier, self.of.seed, self.ids, hop, child)
        return self.drawn[name, hop, child]


def _sum(ids: Ids, parts: list[AtLeastAtMost]) -> AtLeastAtMost:
    none = np.zeros(ids.shape, dtype=np.int64)
    return AtLeastAtMost(sum((p.least for p in parts), none), sum((p.most for p in parts), none))


def expected_members(experiment: Experiment) -> ExpectedMembers:
    """Return the members that should come out of an experiment's messages, whatever the physical plan."""
    topology = experiment.topology.own()
    return ExpectedMembers(
        plan=topology.query_plan(),
        shares=experiment.shares,
        multipliers=topology.multipliers,
        keeps=topology.keeps,
        choosing=frozenset(name for name, routing in topology.routings.items() if routing == "parity"),
        seed=experiment.input.seed,
    )
