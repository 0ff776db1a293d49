"""From a sink's tuples back to the messages in them: the path of every member, hop by hop.

A tuple without a window behind it has one path, up its parents to the spout. A window's output stands for
the members that no window before has had, so its paths are theirs, and after a second window the members'
members'.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.simulator.compiled import compiled, inner
from harness.models.simulator.indices import links_of
from harness.models.simulator.kinds import NONE, Counters, Indices, Records, World


class Paths(NamedTuple):
    """Paths of members, as rows of different lengths in one array.

    Attributes
    ----------
    first : array (paths + 1)
        Where each path begins in ``visits``.
    visits : array
        Visits in the order of the path: the spout's first, the sink's last.
    """

    first: Counters
    visits: Indices


def paths(world: World) -> Paths:
    """Return the paths that ended at sinks."""
    sinks = world.components["sink"][world.tasks["component"][world.visits["task"]]] == 1
    return paths_to(world, np.flatnonzero(sinks & np.isfinite(world.visits["emitted"])))


def paths_to(world: World, ends: Counters) -> Paths:
    """Return the paths that ended at some visits, in their order; one a member."""
    done = ends.astype(np.int32)
    chain_first, chain_visit, chain_next = _chains(world.visits, world.firings)
    rows, steps = _size(world.visits, chain_first, chain_visit, chain_next, done)
    first, visits = np.zeros(rows + 1, dtype=np.int64), np.empty(steps, dtype=np.int32)
    _fill(world.visits, chain_first, chain_visit, chain_next, done, first, visits)
    return Paths(first, visits)


@inner
def top(visits: Records, visit: int) -> tuple[int, int]:
    """Return the uppermost visit before a spout or window, and the window's firing; ``NONE`` for a spout."""
    while visits[visit]["input"] != NONE:
        if visits[visit]["parent"] < 0:
            return visit, ~visits[visit]["parent"]
        visit = visits[visit]["parent"]
    return visit, NONE


@compiled
def _chains(visits: Records, firings: Records) -> tuple[Counters, Indices, Counters]:
    """Return, for each firing's fresh members, their paths as links: a visit and where the path goes on.

    A member that comes from another window has as many paths as that window has; its firing came
    before, so its links are there already.
    """
    size = 0
    first = np.zeros(firings.size + 1, np.int64)
    for firing in range(firings.size):
        member = firings[firing]["first"]
        for _ in range(firings[firing]["fresh"]):
            _, above = top(visits, member)
            size += 1 if above == NONE else first[above + 1] - first[above]
            member = visits[member]["link"]
        first[firing + 1] = size
    visit, following = np.empty(size, np.int32), np.empty(size, np.int64)
    at = 0
    for firing in range(firings.size):
        member = firings[firing]["first"]
        for _ in range(firings[firing]["fresh"]):
            _, above = top(visits, member)
            if above == NONE:
                visit[at] = member
                following[at] = NONE
                at += 1
            else:
                for link in links_of(first, above):
                    visit[at] = member
                    following[at] = link
                    at += 1
            member = visits[member]["link"]
    return first, visit, following


@inner
def _length(visits: Records, chain_visit: Indices, chain_next: Counters, visit: int, link: int) -> int:
    """Return the number of visits on a path from a sink up, through its links."""
    steps = 0
    while True:
        steps += 1
        while visits[visit]["input"] != NONE and visits[visit]["parent"] >= 0:
            visit = visits[visit]["parent"]
            steps += 1
        if link == NONE:
            return steps
        visit, link = chain_visit[link], chain_next[link]


@compiled
def _size(
    visits: Records, chain_first: Counters, chain_visit: Indices, chain_next: Counters, sinks: Indices
) -> tuple[int, int]:
    rows, steps = 0, 0
    for sink in sinks:
        _, window = top(visits, sink)
        if window == NONE:
            rows += 1
            steps += _length(visits, chain_visit, chain_next, sink, NONE)
        else:
            for link in links_of(chain_first, window):
                rows += 1
                steps += _length(visits, chain_visit, chain_next, sink, link)
    return rows, steps


@inner
def _write(
    visits: Records, chain_visit: Indices, chain_next: Counters, sink: int, link: int, out: Indices, end: int
) -> None:
    """Write a path so that it ends before ``end``."""
    visit = sink
    while True:
        end -= 1
        out[end] = visit
        while visits[visit]["input"] != NONE and visits[visit]["parent"] >= 0:
            visit = visits[visit]["parent"]
            end -= 1
            out[end] = visit
        if link == NONE:
            return
        visit, link = chain_visit[link], chain_next[link]


@compiled
def _fill(
    visits: Records,
    chain_first: Counters,
    chain_visit: Indices,
    chain_next: Counters,
    sinks: Indices,
    first: Counters,
    out: Indices,
) -> None:
    row = 0
    for sink in sinks:
        _, window = top(visits, sink)
        begin = NONE if window == NONE else chain_first[window]
        end = 0 if window == NONE else chain_first[window + 1]
        for link in range(begin, end):
            first[row + 1] = first[row] + _length(visits, chain_visit, chain_next, sink, link)
            _write(visits, chain_visit, chain_next, sink, link, out, first[row + 1])
            row += 1
