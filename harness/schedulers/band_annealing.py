"""Simulated annealing of an allocation towards a band of loads; a loop compiled to machine code.

A step takes one moved group back and moves another one, moves a group, or lets two groups change places. It
is kept if it brings loads nearer to the band, and else with a chance that falls with the temperature.
"""

from __future__ import annotations

import numpy as np

from harness.schedulers.band_moves import TINY, extra_cost, outside_of, put_group
from harness.schedulers.compiled import kept, part
from harness.schedulers.loads import FloatArray, IntArray


@part
def draw(state: np.ndarray, below: int) -> int:
    """Return a whole number from 0 to one less than asked for, and advance the generator (xorshift64*)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return int((x * np.uint64(2685821657736338717)) >> np.uint64(33)) % below


@part
def total_outside(node_load: FloatArray, top: FloatArray, bottom: FloatArray, capacity: FloatArray) -> float:
    """By how much all nodes together are outside of their bands."""
    total = 0.0
    for j in range(capacity.size):
        total += outside_of(node_load[j], top[j], bottom[j], capacity[j])
    return total


@part
def distance_of(node_load: FloatArray, mean: float, open_: np.ndarray) -> float:
    """Return the load distance; of a node that is leaving only upwards."""
    distance = 0.0
    for j in range(node_load.size):
        distance = max(distance, node_load[j] - mean)
        if open_[j]:
            distance = max(distance, mean - node_load[j])
    return distance


@part
def set_band(width: float, mean: float, open_: np.ndarray, top: FloatArray, bottom: FloatArray) -> None:
    """Write a band of that half-width; a node that is leaving is to be empty."""
    for j in range(open_.size):
        top[j] = mean + width if open_[j] else 0.0
        bottom[j] = mean - width if open_[j] else -np.inf


@part
def draw_step(
    state: np.ndarray,
    home: IntArray,
    place: IntArray,
    moved: IntArray,
    count: int,
    nodes: int,
    changed: IntArray,
    goes_to: IntArray,
) -> int:
    """Write the groups of a step, and where they go; return how many they are."""
    groups = home.size
    kind = draw(state, 3)
    if kind == 0 and count > 0:  # take one back, move another
        changed[0] = moved[draw(state, count)]
        goes_to[0] = home[changed[0]]
        changed[1] = draw(state, groups)
        goes_to[1] = draw(state, nodes)
        return 2
    if kind == 1:  # change places
        changed[0] = moved[draw(state, count)] if count > 0 else draw(state, groups)
        changed[1] = moved[draw(state, count)] if count > 1 and draw(state, 2) else draw(state, groups)
        goes_to[0], goes_to[1] = place[changed[1]], place[changed[0]]
        return 2
    changed[0] = moved[draw(state, count)] if count > 0 and draw(state, 2) else draw(state, groups)
    goes_to[0] = draw(state, nodes)
    return 1


@part
def put_weighed(
    group: int,
    node: int,
    load: FloatArray,
    place: IntArray,
    node_load: FloatArray,
    capacity: FloatArray,
    top: FloatArray,
    bottom: FloatArray,
) -> float:
    """Move a group and return by how much more nodes are outside of their bands."""
    a = place[group]
    if node == a:
        return 0.0
    before = outside_of(node_load[a], top[a], bottom[a], capacity[a])
    before += outside_of(node_load[node], top[node], bottom[node], capacity[node])
    put_group(group, node, load, place, node_load, capacity)
    after = outside_of(node_load[a], top[a], bottom[a], capacity[a])
    return after + outside_of(node_load[node], top[node], bottom[node], capacity[node]) - before


@part
def note_move(group: int, home: IntArray, place: IntArray, moved: IntArray, at: IntArray, count: int) -> int:
    """Keep the list of groups that are away from home; return their number."""
    if place[group] != home[group] and at[group] < 0:
        moved[count], at[group] = group, count
        return count + 1
    if place[group] == home[group] and at[group] >= 0:
        last = moved[count - 1]
        moved[at[group]], at[last] = last, at[group]
        at[group] = -1
        return count - 1
    return count


@kept
def anneal(
    load: FloatArray,
    cost: FloatArray,
    home: IntArray,
    start: IntArray,
    capacity: FloatArray,
    open_: np.ndarray,
    mean: float,
    budget: float,
    steps: int,
    hottest: float,
    narrower: float,
    seed: int,
) -> IntArray:
    """Return the allocation with the smallest load distance that was met; at worst the start.

    Parameters
    ----------
    hottest : float
        First temperature, in points of load; it falls to a thousandth of it.
    narrower : float
        Width of the band over the best load distance so far.
    """
    groups, nodes = load.size, capacity.size
    state = np.array([seed * 2 + 88172645463325252], dtype=np.uint64)
    best = start.copy()
    place = start.copy()
    node_load = np.zeros(nodes)
    moved, at = np.empty(groups, dtype=np.int64), np.full(groups, -1, dtype=np.int64)
    count, left = 0, budget
    for g in range(groups):
        node_load[place[g]] += load[g] / capacity[place[g]]
        count = note_move(g, home, place, moved, at, count)
        left -= cost[g] if place[g] != home[g] else 0.0
    nearest = distance_of(node_load, mean, open_)
    top, bottom = np.empty(nodes), np.empty(nodes)
    set_band(narrower * nearest, mean, open_, top, bottom)
    energy = total_outside(node_load, top, bottom, capacity)
    lowest = energy
    changed, came_from = np.empty(2, dtype=np.int64), np.empty(2, dtype=np.int64)
    goes_to = np.empty(2, dtype=np.int64)
    for step in range(steps):
        temperature = hottest * np.exp(-6.9 * step / steps)
        number = draw_step(state, home, place, moved, count, nodes, changed, goes_to)
        if number == 2 and changed[0] == changed[1]:
            continue
        price, possible = 0.0, True
        for k in range(number):
            g, j = changed[k], goes_to[k]
            possible = possible and (open_[j] or j == home[g])
            price += extra_cost(g, j, cost, home, place)
        if not possible or price > left + TINY:
            continue
        delta = 0.0
        for k in range(number):
            came_from[k] = place[changed[k]]
            delta += put_weighed(changed[k], goes_to[k], load, place, node_load, capacity, top, bottom)
        if delta > 0 and draw(state, 1 << 30) > (1 << 30) * np.exp(-delta / temperature):
            for k in range(number - 1, -1, -1):
                put_group(changed[k], came_from[k], load, place, node_load, capacity)
            continue
        left -= price
        energy += delta
        for k in range(number):
            count = note_move(changed[k], home, place, moved, at, count)
        if energy < lowest - TINY:
            lowest = energy
            distance = distance_of(node_load, mean, open_)
            if distance < nearest:
                nearest = distance
                best[:] = place
                set_band(narrower * nearest, mean, open_, top, bottom)
                energy = total_outside(node_load, top, bottom, capacity)
                lowest = energy
    return best
