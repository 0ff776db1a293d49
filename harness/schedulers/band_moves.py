"""Moves and swaps of groups towards a band of loads, best first; loops compiled to machine code.

Arguments of each group that the functions share: ``load``, ``cost``, ``home`` (the group's node now) and
``place`` (the group's node in the allocation at hand). Arguments of each node: ``node_load``, ``capacity``,
``open_`` (takes groups), ``top`` and ``bottom``. Moves change ``place`` and ``node_load``; a function that
moves several groups returns the rest of the budget.
"""

from __future__ import annotations

import numpy as np

from harness.schedulers.compiled import kept, part
from harness.schedulers.loads import FloatArray, IntArray

TINY = 1e-9


@part
def outside_of(load: float, top: float, bottom: float, capacity: float) -> float:
    """Return how far a node is outside of its band, weighed by its capacity as groups' loads are."""
    if load > top:
        return (load - top) * capacity
    if load < bottom:
        return (bottom - load) * capacity
    return 0.0


@part
def put_group(
    group: int, node: int, load: FloatArray, place: IntArray, node_load: FloatArray, capacity: FloatArray
) -> None:
    """Move a group."""
    before = place[group]
    node_load[before] -= load[group] / capacity[before]
    node_load[node] += load[group] / capacity[node]
    place[group] = node


@part
def extra_cost(group: int, node: int, cost: FloatArray, home: IntArray, place: IntArray) -> float:
    """Return how much more a group's migration costs to another node than to the one at hand."""
    after = cost[group] if node != home[group] else 0.0
    before = cost[group] if place[group] != home[group] else 0.0
    return after - before


@part
def best_move(
    load: FloatArray,
    cost: FloatArray,
    home: IntArray,
    place: IntArray,
    node_load: FloatArray,
    capacity: FloatArray,
    open_: np.ndarray,
    top: FloatArray,
    bottom: FloatArray,
    left: float,
) -> tuple[int, int]:
    """Return the move, group and node, that gains most for its cost; -1 where none gains anything."""
    nodes = capacity.size
    off = np.empty(nodes)
    for j in range(nodes):
        off[j] = outside_of(node_load[j], top[j], bottom[j], capacity[j])
    best_rate, best_group, best_node = 0.0, -1, -1
    for g in range(load.size):
        a = place[g]
        after = node_load[a] - load[g] / capacity[a]
        leaves = off[a] - outside_of(after, top[a], bottom[a], capacity[a])
        for j in range(nodes):
            if j == a or not open_[j] or (off[a] <= TINY and off[j] <= TINY):
                continue
            price = extra_cost(g, j, cost, home, place)
            if price > left:
                continue
            comes = off[j] - outside_of(node_load[j] + load[g] / capacity[j], top[j], bottom[j], capacity[j])
            rate = (leaves + comes) / max(price, TINY)
            if leaves + comes > TINY and rate > best_rate:
                best_rate, best_group, best_node = rate, g, j
    return best_group, best_node


@part
def best_swap(
    load: FloatArray,
    cost: FloatArray,
    home: IntArray,
    place: IntArray,
    node_load: FloatArray,
    capacity: FloatArray,
    open_: np.ndarray,
    top: FloatArray,
    bottom: FloatArray,
    left: float,
) -> tuple[int, int]:
    """Return the two groups, one of them on the node furthest outside, that should change places; or -1."""
    nodes = capacity.size
    off = np.empty(nodes)
    for j in range(nodes):
        off[j] = outside_of(node_load[j], top[j], bottom[j], capacity[j])
    worst = int(np.argmax(off))
    best_gain, one, other = TINY, -1, -1
    if not open_[worst]:
        return one, other
    for g in range(load.size):
        if place[g] != worst:
            continue
        for h in range(load.size):
            b = place[h]
            if b == worst or not open_[b]:
                continue
            change = load[h] - load[g]
            here = node_load[worst] + change / capacity[worst]
            there = node_load[b] - change / capacity[b]
            gain = (
                off[worst]
                + off[b]
                - outside_of(here, top[worst], bottom[worst], capacity[worst])
                - outside_of(there, top[b], bottom[b], capacity[b])
            )
            if gain > best_gain:
                price = extra_cost(g, b, cost, home, place) + extra_cost(h, worst, cost, home, place)
                if price <= left:
                    best_gain, one, other = gain, g, h
    return one, other


@kept
def fill_band(
    load: FloatArray,
    cost: FloatArray,
    home: IntArray,
    place: IntArray,
    node_load: FloatArray,
    capacity: FloatArray,
    open_: np.ndarray,
    top: FloatArray,
    bottom: FloatArray,
    left: float,
    most_swaps: int,
) -> float:
    """Move groups until nothing gains, then swap and move on, so often as is allowed."""
    for step in range(most_swaps + 1):
        while True:
            g, j = best_move(load, cost, home, place, node_load, capacity, open_, top, bottom, left)
            if g < 0:
                break
            left -= extra_cost(g, j, cost, home, place)
            put_group(g, j, load, place, node_load, capacity)
        if step == most_swaps:
            break
        g, h = best_swap(load, cost, home, place, node_load, capacity, open_, top, bottom, left)
        if g < 0:
            break
        a, b = place[g], place[h]
        left -= extra_cost(g, b, cost, home, place) + extra_cost(h, a, cost, home, place)
        put_group(g, b, load, place, node_load, capacity)
        put_group(h, a, load, place, node_load, capacity)
    return left
