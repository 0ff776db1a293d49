"""The random numbers that the test topologies draw, drawn again: who has how many children, who is kept.

The topologies draw as a pure function of the seed and of what names a tuple, so whoever knows the
identifiers knows what should come out. Mirrors ``Draw``, ``Children`` and ``FilterBolt`` of storm-topologies,
whose documentation defines them; the same vectors are tested on both sides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.topologies.component_settings import Multiplier
from harness.topologies.java_text import string_hash

Ids = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

CHILDREN, KEPT = 2, 6
"""Codes of the purposes, part of the definition."""
_ALL = 0xFFFF_FFFF_FFFF_FFFF
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_POSITIVE = 0x7FFF_FFFF


def bits(seed: int, purpose: int, message_id: Ids, child: Ids | int, hop: int, index: int) -> Bits:
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


def uniform(seed: int, purpose: int, message_id: Ids, child: Ids | int, hop: int, index: int) -> Floats:
    """Return a number from [0, 1) for each message."""
    return np.asarray((bits(seed, purpose, message_id, child, hop, index) >> np.uint64(11)) * 2.0**-53)


def normal(seed: int, purpose: int, message_id: Ids, child: Ids | int, hop: int, index: int) -> Floats:
    """Return a standard normal number for each message (Box-Muller)."""
    u, v = (uniform(seed, purpose, message_id, child, hop, i) for i in (2 * index, 2 * index + 1))
    return np.asarray(np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v))


def children(multiplier: Multiplier, seed: int, message_id: Ids, hop: int = 1, child: Ids | int = 0) -> Ids:
    """Return how many children a multiplier gives each member.

    A rounded normal number, redrawn until it is within the bounds.

    Parameters
    ----------
    hop : int
        Components that the member passed before it.
    child : ndarray of int64, or int
        The members' names.
    """
    out = np.zeros(message_id.shape, dtype=np.int64)
    names = np.broadcast_to(child, message_id.shape)
    open_ = np.arange(message_id.size)
    index = 0
    while open_.size:
        z = normal(seed, CHILDREN, message_id[open_], child=names[open_], hop=hop, index=index)
        drawn = np.rint(multiplier.mean + multiplier.sd * z)
        fits = (drawn >= multiplier.min) & (drawn <= multiplier.max)
        out[open_[fits]] = drawn[fits].astype(np.int64)
        open_, index = open_[~fits], index + 1
    return out


def kept(
    keep: float, seed: int, component: str, message_id: Ids, child: Ids | int, hop: int
) -> npt.NDArray[np.bool_]:
    """Return which members a filter passes on.

    Parameters
    ----------
    keep : float
        The share that it keeps.
    component : str
        Its name: two filters draw apart.
    """
    index = string_hash(component) & _POSITIVE
    return np.asarray(uniform(seed, KEPT, message_id, child, hop, index) < keep)
