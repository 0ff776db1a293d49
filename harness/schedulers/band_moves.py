"""Moves and swaps of groups towards a band of loads, best first; loops compiled to machine code."""

from __future__ import annotations

from typing import NamedTuple

from harness.schedulers.compiled import kept, part
from harness.schedulers.loads import BoolArray, FloatArray, IntArray

TINY = 1e-9


class Balancing(NamedTuple):
    """Groups that are to be moved between nodes: what moves do not change.

    Attributes
    ----------
    load, cost : array (groups)
        Of a group, and of its migration.
    home : array of int (groups)
        Its node now.
    capacity : array (nodes)
    takes : array of bool (nodes)
        Whether groups may be moved there; a node that is leaving takes none.
    """

    load: FloatArray
    cost: FloatArray
    home: IntArray
    capacity: FloatArray
    takes: BoolArray


class Placed(NamedTuple):
    """The allocation at hand, which moves change.

    Attributes
    ----------
    node : array of int (groups)
    load : array (nodes)
    """

    node: IntArray
    load: FloatArray


class LoadBand(NamedTuple):
    """The loads that nodes may have.

    Attributes
    ----------
    top, bottom : array (nodes)
    outside : array (nodes)
        Filled in when moves are looked for: how far nodes are outside.
    """

    top: FloatArray
    bottom: FloatArray
    outside: FloatArray


@part
def outside_of(problem: Balancing, band: LoadBand, node: int, load: float) -> float:
    """Return how far a node is outside of its band with a load, weighed by its capacity as groups' are."""
    if load > band.top[node]:
        return float((load - band.top[node]) * problem.capacity[node])
    if load < band.bottom[node]:
        return float((band.bottom[node] - load) * problem.capacity[node])
    return 0.0


@part
def put_group(problem: Balancing, placed: Placed, group: int, node: int) -> None:
    """Move a group."""
    before = placed.node[group]
    placed.load[before] -= problem.load[group] / problem.capacity[before]
    placed.load[node] += problem.load[group] / problem.capacity[node]
    placed.node[group] = node


@part
def extra_cost(problem: Balancing, placed: Placed, group: int, node: int) -> float:
    """Return how much more a group's migration costs to another node than to the one at hand."""
    after = problem.cost[group] if node != problem.home[group] else 0.0
    before = problem.cost[group] if placed.node[group] != problem.home[group] else 0.0
    return after - before


@part
def _note_outside(problem: Balancing, placed: Placed, band: LoadBand) -> None:
    """Fill in how far each node is outside of its band."""
    for node in range(band.outside.size):
        band.outside[node] = outside_of(problem, band, node, placed.load[node])


@part
def best_move(problem: Balancing, placed: Placed, band: LoadBand, left: float) -> tuple[int, int]:
    """Return the move, group and node, that gains most for its cost; -1 where none gains anything.

    Parameters
    ----------
    left : float
        What it may cost.
    """
    _note_outside(problem, placed, band)
    off = band.outside
    best_rate, best_group, best_node = 0.0, -1, -1
    for group in range(problem.load.size):
        here, load = placed.node[group], problem.load[group]
        after = placed.load[here] - load / problem.capacity[here]
        leaves = off[here] - outside_of(problem, band, here, after)
        for there in range(off.size):
            if there == here or not problem.takes[there] or (off[here] <= TINY and off[there] <= TINY):
                continue
            price = extra_cost(problem, placed, group, there)
            if price > left:
                continue
            after = placed.load[there] + load / problem.capacity[there]
            comes = off[there] - outside_of(problem, band, there, after)
            rate = (leaves + comes) / max(price, TINY)
            if leaves + comes > TINY and rate > best_rate:
                best_rate, best_group, best_node = rate, group, there
    return best_group, best_node


@part
def best_swap(problem: Balancing, placed: Placed, band: LoadBand, left: float) -> tuple[int, int]:
    """Return the two groups, one of them on the node furthest outside, that should change places; or -1."""
    _note_outside(problem, placed, band)
    off, worst = band.outside, 0
    for node in range(1, off.size):
        if off[node] > off[worst]:
            worst = node
    best_gain, one, other = TINY, -1, -1
    if not problem.takes[worst]:
        return one, other
    for leaves in range(problem.load.size):
        if placed.node[leaves] != worst:
            continue
        for comes in range(problem.load.size):
            there = placed.node[comes]
            if there == worst or not problem.takes[there]:
                continue
            change = problem.load[comes] - problem.load[leaves]
            here_after = placed.load[worst] + change / problem.capacity[worst]
            there_after = placed.load[there] - change / problem.capacity[there]
            gain = (
                off[worst]
                + off[there]
                - outside_of(problem, band, worst, here_after)
                - outside_of(problem, band, there, there_after)
            )
            if gain > best_gain:
                price = extra_cost(problem, placed, leaves, there) + extra_cost(problem, placed, comes, worst)
                if price <= left:
                    best_gain, one, other = gain, leaves, comes
    return one, other


@kept
def fill_band(problem: Balancing, placed: Placed, band: LoadBand, left: float, most_swaps: int) -> float:
    """Move groups until nothing gains, then swap and move on, so often as is allowed.

    Parameters
    ----------
    left : float
        What all that may cost.

    Returns
    -------
    float
        What is left of it.
    """
    for step in range(most_swaps + 1):
        while True:
            group, node = best_move(problem, placed, band, left)
            if group < 0:
                break
            left -= extra_cost(problem, placed, group, node)
            put_group(problem, placed, group, node)
        if step == most_swaps:
            break
        one, other = best_swap(problem, placed, band, left)
        if one < 0:
            break
        here, there = placed.node[one], placed.node[other]
        left -= extra_cost(problem, placed, one, there) + extra_cost(problem, placed, other, here)
        put_group(problem, placed, one, there)
        put_group(problem, placed, other, here)
    return left
