"""The power of both choices (PoTC), with which 003 compares its program: Nasir and others, ICDE 2015."""

from __future__ import annotations

import numpy as np

from harness.schedulers.loads import FloatArray


def both_choices_node_loads(
    loads: FloatArray, merge_loads: FloatArray, nodes: int, *, quanta: int = 20, seed: int = 0
) -> FloatArray:
    """Return node loads under the power of both choices, in points: a cost model, since nothing migrates.

    Each key group has two nodes, drawn once. Its tuples go to the less loaded of both as they come: here in
    ``quanta`` equal portions, groups taking turns. A group that both nodes have got tuples of must be
    merged, which loads its first node.

    Parameters
    ----------
    loads : array (groups)
    merge_loads : array (groups)
        Load of merging a group's two states.
    """
    rng = np.random.default_rng(seed)
    first = rng.integers(nodes, size=loads.size)
    second = (first + rng.integers(1, max(nodes, 2), size=loads.size)) % nodes
    used = np.zeros(nodes)
    got = np.zeros((loads.size, 2), dtype=bool)
    for _ in range(quanta):
        for group in range(loads.size):
            a, b = int(first[group]), int(second[group])
            one = used[a] <= used[b]
            used[a if one else b] += loads[group] / quanta
            got[group, 0 if one else 1] = True
    merged = got.all(axis=1)
    np.add.at(used, first[merged], merge_loads[merged])
    return used
