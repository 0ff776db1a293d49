"""Simulated annealing of an allocation towards a band of loads; a loop compiled to machine code.

A step takes one moved group back and moves another one, moves a group, or lets two groups change places. It
is kept if it brings loads nearer to the band, and else with a chance that falls with the temperature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.schedulers.band_moves import TINY, Balancing, LoadBand, Placed, extra_cost, outside_of, put_group
from harness.schedulers.compiled import kept, part
from harness.schedulers.loads import IntArray


class Cooling(NamedTuple):
    """Length and temperature of one annealing, and the band that it goes for.

    Attributes
    ----------
    steps : int
    hottest : float
        First temperature, in points of load; it falls to a thousandth of it.
    narrower : float
        Width of the band over the best load distance so far.
    seed : int
    """

    steps: int
    hottest: float
    narrower: float
    seed: int


class Away(NamedTuple):
    """List of the groups that are away from home; others keep its length.

    Attributes
    ----------
    group : array of int (groups)
        Those groups first.
    at : array of int (groups)
        Where each group is in the list; -1 for those at home.
    """

    group: IntArray
    at: IntArray


class AnnealingStep(NamedTuple):
    """One or two groups, where they go, and where they came from.

    Attributes
    ----------
    group, to, back : array of int (2)
    """

    group: IntArray
    to: IntArray
    back: IntArray


class AtHand(NamedTuple):
    """All that an annealing has at hand, and changes.

    Attributes
    ----------
    best : array of int (groups)
        The allocation with the smallest load distance so far.
    state : array of uint64 (1)
        Of the generator.
    """

    placed: Placed
    band: LoadBand
    away: Away
    step: AnnealingStep
    best: IntArray
    state: NDArray[np.uint64]


@part
def draw(state: NDArray[np.uint64], below: int) -> int:
    """Return a whole number from 0 to one less than asked for, and advance the generator (xorshift64*)."""
    word = state[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    state[0] = word
    return int((word * np.uint64(2685821657736338717)) >> np.uint64(33)) % below


@part
def total_outside(problem: Balancing, placed: Placed, band: LoadBand) -> float:
    """By how much all nodes together are outside of their bands."""
    total = 0.0
    for node in range(problem.capacity.size):
        total += outside_of(problem, band, node, placed.load[node])
    return total


@part
def distance_of(problem: Balancing, placed: Placed, mean: float) -> float:
    """Return the load distance; of a node that is leaving only upwards."""
    distance = 0.0
    for node in range(placed.load.size):
        distance = max(distance, placed.load[node] - mean)
        if problem.takes[node]:
            distance = max(distance, mean - placed.load[node])
    return distance


@part
def set_band(problem: Balancing, band: LoadBand, width: float, mean: float) -> None:
    """Write a band of that half-width; a node that is leaving is to be empty."""
    for node in range(problem.takes.size):
        band.top[node] = mean + width if problem.takes[node] else 0.0
        band.bottom[node] = mean - width if problem.takes[node] else -np.inf


@part
def draw_step(problem: Balancing, search: AtHand, count: int) -> int:
    """Write the groups of a step, and where they go; return how many they are.

    Parameters
    ----------
    count : int
        Groups that are away.
    """
    state, step, away = search.state, search.step, search.away
    groups, nodes = problem.load.size, problem.capacity.size
    kind = draw(state, 3)
    if kind == 0 and count > 0:  # take one back, move another
        step.group[0] = away.group[draw(state, count)]
        step.to[0] = problem.home[step.group[0]]
        step.group[1] = draw(state, groups)
        step.to[1] = draw(state, nodes)
        return 2
    if kind == 1:  # change places
        step.group[0] = away.group[draw(state, count)] if count > 0 else draw(state, groups)
        again = count > 1 and draw(state, 2) == 1
        step.group[1] = away.group[draw(state, count)] if again else draw(state, groups)
        node = search.placed.node
        step.to[0], step.to[1] = node[step.group[1]], node[step.group[0]]
        return 2
    again = count > 0 and draw(state, 2) == 1
    step.group[0] = away.group[draw(state, count)] if again else draw(state, groups)
    step.to[0] = draw(state, nodes)
    return 1


@part
def put_weighed(problem: Balancing, placed: Placed, band: LoadBand, group: int, node: int) -> float:
    """Move a group and return by how much more nodes are outside of their bands."""
    here = placed.node[group]
    if node == here:
        return 0.0
    before = outside_of(problem, band, here, placed.load[here])
    before += outside_of(problem, band, node, placed.load[node])
    put_group(problem, placed, group, node)
    after = outside_of(problem, band, here, placed.load[here])
    return after + outside_of(problem, band, node, placed.load[node]) - before


@part
def note_move(problem: Balancing, placed: Placed, away: Away, count: int, group: int) -> int:
    """Keep the list of groups that are away from home; return their number."""
    at_home = placed.node[group] == problem.home[group]
    if not at_home and away.at[group] < 0:
        away.group[count], away.at[group] = group, count
        return count + 1
    if at_home and away.at[group] >= 0:
        last = away.group[count - 1]
        away.group[away.at[group]], away.at[last] = last, away.at[group]
        away.at[group] = -1
        return count - 1
    return count


def anneal(problem: Balancing, start: IntArray, mean: float, budget: float, cooling: Cooling) -> IntArray:
    """Return the allocation with the smallest load distance that was met; at worst the start."""
    groups, nodes = problem.load.size, problem.capacity.size
    search = AtHand(
        Placed(start.copy(), np.zeros(nodes)),
        LoadBand(np.empty(nodes), np.empty(nodes), np.empty(nodes)),
        Away(np.empty(groups, dtype=np.int64), np.full(groups, -1, dtype=np.int64)),
        AnnealingStep(*(np.empty(2, dtype=np.int64) for _ in range(3))),
        start.copy(),
        np.array([cooling.seed * 2 + 88172645463325252], dtype=np.uint64),
    )
    _anneal(problem, search, mean, budget, cooling)
    return search.best


@kept
def _anneal(problem: Balancing, search: AtHand, mean: float, left: float, cooling: Cooling) -> None:
    placed, band, step = search.placed, search.band, search.step
    count = 0
    for group in range(problem.load.size):
        node = placed.node[group]
        placed.load[node] += problem.load[group] / problem.capacity[node]
        count = note_move(problem, placed, search.away, count, group)
        left -= problem.cost[group] if node != problem.home[group] else 0.0
    nearest = distance_of(problem, placed, mean)
    set_band(problem, band, cooling.narrower * nearest, mean)
    energy = total_outside(problem, placed, band)
    lowest = energy
    for turn in range(cooling.steps):
        temperature = cooling.hottest * np.exp(-6.9 * turn / cooling.steps)
        number = draw_step(problem, search, count)
        if number == 2 and step.group[0] == step.group[1]:
            continue
        price, possible = 0.0, True
        for k in range(number):
            group, node = step.group[k], step.to[k]
            possible = possible and (problem.takes[node] or node == problem.home[group])
            price += extra_cost(problem, placed, group, node)
        if not possible or price > left + TINY:
            continue
        delta = 0.0
        for k in range(number):
            step.back[k] = placed.node[step.group[k]]
            delta += put_weighed(problem, placed, band, step.group[k], step.to[k])
        if delta > 0 and draw(search.state, 1 << 30) > (1 << 30) * np.exp(-delta / temperature):
            for k in range(number - 1, -1, -1):
                put_group(problem, placed, step.group[k], step.back[k])
            continue
        left -= price
        energy += delta
        for k in range(number):
            count = note_move(problem, placed, search.away, count, step.group[k])
        if energy < lowest - TINY:
            lowest = energy
            distance = distance_of(problem, placed, mean)
            if distance < nearest:
                nearest = distance
                for group in range(search.best.size):
                    search.best[group] = placed.node[group]
                set_band(problem, band, cooling.narrower * nearest, mean)
                energy = total_outside(problem, placed, band)
                lowest = energy
