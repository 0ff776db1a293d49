"""What should come out of each message, computed back over the graph, against a walk forward."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from budgets import budget
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_graphs import ROLES, experiment, graphs

from harness.experiments import draws
from harness.experiments.config import Experiment
from harness.experiments.expected_members import expected_members
from harness.experiments.loading import load
from harness.topologies.ways import child_name

DRAWN = {"min": 1, "max": 3, "mean": 2, "sd": 1}
BEHIND_WINDOWS_NONE = tuple(role for role in ROLES if role not in ("window", "join"))
MOST_TUPLES = 20_000


def walked(made: Experiment, message: int) -> Counter[tuple[str, int]]:
    """Follow each tuple of a message forward: how often each child comes to each sink."""
    topology, seed = made.topology.own(), made.input.seed
    plan, one = topology.query_plan(), np.array([message])
    # two of three messages enter by the first of two spouts, and the second of each three by the other
    spout = "in-1" if len(made.shares) == 2 and message % 3 == 1 else "in-0"
    tuples, out, steps = [(spout, 0, 0)], Counter[tuple[str, int]](), 0
    while tuples:
        name, child, hop = tuples.pop()
        steps += 1
        assume(steps <= MOST_TUPLES)
        if name in plan.sinks:
            out[name, child] += 1
            continue
        children = [child]
        if name in topology.multipliers:
            multiplier = topology.multipliers[name]
            number = int(draws.children(multiplier, seed, one, hop, child)[0])
            children = [child_name(child, i, multiplier.max) for i in range(1, number + 1)]
        if name in topology.keeps and not draws.kept(topology.keeps[name], seed, name, one, child, hop)[0]:
            continue
        for stream in plan.outputs(name):
            copies = plan.component(stream.target).tasks if stream.grouping == "all" else 1
            tuples += [(stream.target, c, hop + 1) for c in children] * copies
    return out


@given(graphs(roles=(*BEHIND_WINDOWS_NONE, "filter"), children=DRAWN), st.integers(0, 1000))
@settings(max_examples=budget(100), deadline=None)
def test_members_and_copies_are_those_of_a_walk_through_the_graph(
    topology: dict[str, Any], first: int
) -> None:
    made = experiment(topology)
    expected, ids = expected_members(made), np.arange(first, first + 6)
    members = expected.members(ids)
    assert (members.least == members.most).all()
    for i, message in enumerate(ids.tolist()):
        out = walked(made, message)
        assert members.most[i] == len({child for _, child in out})
        for sink in expected.sinks:
            names = np.array(sorted({child for _, child in out} | {0, 1, 5}))
            copies = expected.copies(sink, np.full(names.size, message), names)
            assert (copies.least == copies.most).all()
            assert copies.most.tolist() == [out[sink, child] for child in names.tolist()]
    assert expected.copies("elsewhere", ids, ids).most.tolist() == [0] * ids.size


def test_behind_a_window_it_is_known_between_bounds() -> None:
    """By whose message a window's output draws is not known: 1 to 3 children, whatever is drawn."""
    components = {
        "in": {"role": "spout"},
        "win": {"role": "window", "window": {"kind": "count", "length": 5, "slide": 5}},
        "more": {"role": "multiplier", "multiplier": DRAWN},
        "out": {"role": "sender"},
    }
    ends = list(components)
    streams = [{"from": a, "to": b, "grouping": "shuffle"} for a, b in pairwise(ends)]
    made = experiment({"load_aware": False, "tasks": 2, "components": components, "streams": streams})
    expected, ids = expected_members(made), np.arange(10)
    assert (expected.members(ids).least == 1).all()
    assert (expected.members(ids).most == 3).all()
    first, third, fourth = (expected.copies("out", ids, np.full(10, n)) for n in (1, 3, 4))
    assert [int(x[0]) for x in (*first, *third, *fourth)] == [1, 1, 0, 1, 0, 0]


def test_ways_of_the_shipped_diamond_are_those_counted_by_hand() -> None:
    """Two ways by left and right meet at both; from there to a sender and, with children, to the join."""
    expected, ids = expected_members(load("diamond")), np.arange(50)
    none, child = np.zeros(50, dtype=np.int64), np.full(50, 1)
    assert [(expected.copies(s, ids, none).least == 2).all() for s in ("out-1", "out-2")] == [True, True]
    assert (expected.copies("out-1", ids, child).most == 0).all()
    assert (expected.copies("out-2", ids, child).least == 1).all()


def test_behind_a_join_that_chooses_no_sink_is_sure() -> None:
    expected, ids = expected_members(load("appendix-e/fish-2")), np.arange(5)
    for sink in expected.sinks:
        copies = expected.copies(sink, ids, np.zeros(5, dtype=np.int64))
        assert (copies.least == 0).all()
        assert (copies.most == 1).all()


def test_ways_through_and_past_a_join_that_chooses_are_those_counted_by_hand() -> None:
    """The join sends a window to one of two sinks, and messages of the first spout go past it, too.

    So of a message of in-0 one copy is sure at out-5, where a second may come, and at out-6 none is sure. Of
    a message of in-1 one copy may come to either. The shares are as in all experiments here.
    """
    components = {
        **{name: {"role": "spout"} for name in ("in-0", "in-1")},
        "meet": {"role": "join", "routing": "parity", "window": {"kind": "count", "length": 7, "slide": 7}},
        **{name: {"role": "sender"} for name in ("out-5", "out-6")},
    }
    streams = [
        *({"from": name, "to": "meet", "grouping": "fields"} for name in ("in-0", "in-1")),
        {"from": "in-0", "to": "out-5", "grouping": "shuffle"},
        *({"from": "meet", "to": f"out-{n}", "grouping": "shuffle", "stream": f"stream-{n}"} for n in (5, 6)),
    ]
    made = experiment({"load_aware": False, "tasks": 2, "components": components, "streams": streams})
    expected, ids = expected_members(made), np.arange(3)
    none = np.zeros(3, dtype=np.int64)
    five, six = (expected.copies(sink, ids, none) for sink in ("out-5", "out-6"))
    members = expected.members(ids)
    assert (five.least.tolist(), five.most.tolist()) == ([1, 0, 1], [2, 1, 2])
    assert (six.least.tolist(), six.most.tolist()) == ([0, 0, 0], [1, 1, 1])
    assert (members.least.tolist(), members.most.tolist()) == ([1, 0, 1], [1, 1, 1])


@pytest.mark.parametrize(
    ("name", "least"), [("fields-to-fields", 1), ("windowed", 1), ("all-in-one", 0), ("join-split", 1)]
)
def test_members_are_the_children_and_the_message_itself_where_it_goes_past_the_multiplier(
    name: str, least: int
) -> None:
    experiment_ = load(name)
    ids = np.arange(200)
    multiplier = experiment_.topology.multiplier
    children = 0 if multiplier is None else draws.children(multiplier, experiment_.workload.seed, ids)
    found = expected_members(experiment_).members(ids)
    assert (found.most == children + least).all()
    if name != "join-split":
        assert (found.least == found.most).all()
