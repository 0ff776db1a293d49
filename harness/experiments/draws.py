"""The random numbers that the test topologies draw, drawn again: what comes out of each message, and where.

The topologies draw as a pure function of the seed and of what names a tuple, so whoever knows the
identifiers knows what should come out. Mirrors ``Draw`` and ``Children`` of storm-topologies, whose
documentation defines both; the same vectors are tested on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from harness.experiments.config import Experiment
from harness.topologies.component_settings import Multiplier
from harness.topologies.ways import MemberWays, member_ways

Ids = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

CHILDREN = 2
"""Code of the purpose, part of the definition."""
_ALL = 0xFFFF_FFFF_FFFF_FFFF
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def bits(seed: int, purpose: int, message_id: Ids, child: int, hop: int, index: int) -> Bits:
    """Return 64 uniform bits for each message.

    Examples
    --------
    >>> hex(bits(1, 1, np.array([42]), 0, 0, 0)[0])
    '0x7505ad55b97e5846'
    """
    ids = message_id.astype(np.uint64)
    mixed = _mix(np.full_like(ids, seed & _ALL) + _GAMMA)
    for name in (purpose, ids, child, hop, index):
        mixed = _mix((mixed ^ np.asarray(name, dtype=np.uint64)) + _GAMMA)
    return mixed


def _mix(z: Bits) -> Bits:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def normal(seed: int, purpose: int, message_id: Ids, child: int, hop: int, index: int) -> Floats:
    """Return a standard normal number for each message (Box-Muller)."""
    u, v = (
        (bits(seed, purpose, message_id, child, hop, i) >> np.uint64(11)) * 2.0**-53
        for i in (2 * index, 2 * index + 1)
    )
    return np.asarray(np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v))


def children(multiplier: Multiplier, seed: int, message_id: Ids, hop: int = 1) -> Ids:
    """Return how many children a multiplier gives each message.

    A rounded normal number, redrawn until it is within the bounds.

    Parameters
    ----------
    hop : int
        Components that the message passed before it.
    """
    out = np.zeros(message_id.shape, dtype=np.int64)
    open_ = np.arange(message_id.size)
    index = 0
    while open_.size:
        z = normal(seed, CHILDREN, message_id[open_], child=0, hop=hop, index=index)
        drawn = np.rint(multiplier.mean + multiplier.sd * z)
        fits = (drawn >= multiplier.min) & (drawn <= multiplier.max)
        out[open_[fits]] = drawn[fits].astype(np.int64)
        open_, index = open_[~fits], index + 1
    return out


@dataclass(frozen=True)
class ExpectedMembers:
    """What should come out of each message, over the graph.

    Attributes
    ----------
    sinks : mapping of str to MemberWays
        The ways to each sink.
    drawn : callable
        Given the hop of a multiplier and message identifiers, how many children each message has there.
    """

    sinks: Mapping[str, MemberWays]
    drawn: Callable[[int, Ids], Ids]

    def members(self, ids: Ids) -> Ids:
        """Return how many members of each message come out, at any sink.

        A message is one member for all ways that no multiplier is on (child 0). Children of one number are
        one member, by however many ways they come, so the largest of the multipliers' numbers counts.
        """
        plain = int(any(w.plain for w in self.sinks.values()))
        hops = sorted({hop for w in self.sinks.values() for hop in w.numbered})
        none = np.zeros(ids.shape, dtype=np.int64)
        return plain + reduce(np.maximum, (self.drawn(hop, ids) for hop in hops), none)

    def copies(self, sink: str, ids: Ids, child: Ids) -> Ids:
        """Return how often members come to a sink, or may come where a join chooses a stream.

        Parameters
        ----------
        sink : str
            Its name; of an unknown one nothing is expected.
        ids, child : ndarray of int64, shape (n,)
            The members' names.
        """
        ways = self.sinks.get(sink)
        if ways is None:
            return np.zeros(ids.shape, dtype=np.int64)
        out = np.where(child == 0, ways.plain, 0)
        for hop, count in ways.numbered.items():
            out += np.where((child > 0) & (child <= self.drawn(hop, ids)), count, 0)
        return out

    @property
    def sure(self) -> frozenset[str]:
        """Sinks that every copy comes to."""
        return frozenset(name for name, ways in self.sinks.items() if ways.sure)


def expected_members(experiment: Experiment) -> ExpectedMembers:
    """Return what should come out of each message of an experiment, whatever the physical plan."""
    topology, seed = experiment.topology.own(), experiment.input.seed
    plan = topology.query_plan()
    choosing = frozenset(name for name, routing in topology.routings.items() if routing == "parity")
    ways = member_ways(plan, choosing)
    multiplier = next(iter(topology.multipliers.values()), None)

    def drawn(hop: int, ids: Ids) -> Ids:
        return np.zeros(ids.shape, np.int64) if multiplier is None else children(multiplier, seed, ids, hop)

    return ExpectedMembers({name: ways[name] for name in plan.sinks}, drawn)
