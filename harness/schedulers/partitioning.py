"""Balanced partitions of a weighted graph with little weight between them, by METIS.

Karypis and Kumar, *Multilevel algorithms for multi-constraint graph partitioning*, through pymetis.
"""

from __future__ import annotations

import numpy as np
import pymetis

from harness.schedulers.loads import FloatArray, IntArray

SCALE = 100_000
"""METIS takes whole numbers: the largest weight becomes this."""


def whole_weights(weights: FloatArray) -> IntArray:
    """Return weights as whole numbers in proportion, at least 1.

    >>> whole_weights(np.array([0.5, 1.0, 0.0])).tolist()
    [50000, 100000, 1]
    """
    largest = float(weights.max(initial=0.0))
    scaled = np.rint(weights * (SCALE / largest)) if largest > 0 else np.zeros(weights.size)
    return np.maximum(scaled, 1).astype(np.int64)


def partition_graph(
    traffic: FloatArray, weights: FloatArray, parts: int, *, seed: int = 0, shares: FloatArray | None = None
) -> IntArray:
    """Return the part of each vertex.

    Parameters
    ----------
    traffic : array (vertices, vertices)
        Weight between two vertices, in either direction.
    weights : array (vertices)
        To be even over the parts.
    shares : array (parts), optional
        Share of the whole weight that each part is to have. None: the same.

    Examples
    --------
    Two pairs with much between them:

    >>> traffic = np.array([[0, 9, 0, 1], [0, 0, 1, 0], [0, 0, 0, 9], [0, 0, 0, 0.0]])
    >>> part = partition_graph(traffic, np.ones(4), 2)
    >>> bool(part[0] == part[1] != part[2] == part[3])
    True
    """
    number = weights.size
    if parts >= number:
        return np.arange(number, dtype=np.int64)
    if parts <= 1:
        return np.zeros(number, dtype=np.int64)
    both = traffic + traffic.T
    np.fill_diagonal(both, 0.0)
    row, column = np.nonzero(both > 0)
    edges = whole_weights(both[row, column])
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=number))])
    options = pymetis.Options(seed=seed)
    result = pymetis.part_graph(
        parts,
        adjacency=pymetis.CSRAdjacency(starts.tolist(), column.tolist()),
        vweights=whole_weights(weights).tolist(),
        eweights=edges.tolist(),
        tpwgts=None if shares is None else (shares / shares.sum()).tolist(),
        recursive=parts <= 8,
        options=options,
    )
    return np.array(result[1], dtype=np.int64)
