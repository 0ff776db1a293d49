"""The random numbers that the test topologies draw, drawn again: how many children each message has.

The topologies draw as a pure function of the seed and of what names a tuple, so whoever knows the
identifiers knows what should come out. Mirrors ``Draw`` and ``Children`` of storm-topologies, whose
documentation defines both; the same vectors are tested on both sides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from harness.experiments.config import Experiment
from harness.topologies.roles import traits
from harness.topologies.test_topology import Multiplier

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


def children(multiplier: Multiplier, seed: int, message_id: Ids) -> Ids:
    """Return how many children the multiplier, right after the spout, gives each message.

    A rounded normal number, redrawn until it is within the bounds.
    """
    out = np.zeros(message_id.shape, dtype=np.int64)
    open_ = np.arange(message_id.size)
    index = 0
    while open_.size:
        z = normal(seed, CHILDREN, message_id[open_], child=0, hop=1, index=index)
        drawn = np.rint(multiplier.mean + multiplier.sd * z)
        fits = (drawn >= multiplier.min) & (drawn <= multiplier.max)
        out[open_[fits]] = drawn[fits].astype(np.int64)
        open_, index = open_[~fits], index + 1
    return out


def members(experiment: Experiment) -> Callable[[Ids], Ids]:
    """Return what says how many members of each message reach a sink, whatever the plan.

    A message is one member for each way from the spout that no multiplier is on (they all join in
    one: child 0), and one for each child.
    """
    topology, seed = experiment.topology.own(), experiment.input.seed
    multiplier = topology.multiplier
    if multiplier is None:
        return lambda ids: np.ones(ids.shape, dtype=np.int64)
    plan = topology.query_plan()
    first = {s.target for s in plan.streams if s.source in plan.spouts}
    past = any(not traits(plan.component(name).role).multiplies for name in first)
    return lambda ids: children(multiplier, seed, ids) + int(past)
