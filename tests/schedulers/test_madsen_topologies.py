"""Both topologies of Madsen et al. by their rows alone: load, traffic, and what schedulers do then."""

from __future__ import annotations

import numpy as np
import pytest

from harness.experiments.datasets import dataset_of, wikipedia_edits
from harness.experiments.loading import load
from harness.schedulers import make_scheduler
from harness.schedulers.collocation import collocation_factor
from harness.schedulers.groups import SendingGroups, equal_nodes
from harness.schedulers.key_groups import GroupMover
from harness.schedulers.loads import IntArray
from harness.topologies.dataset_rows import row_key
from harness.topologies.key_groups import first_table, key_group

NODES = 4


def first_period(name: str) -> SendingGroups:
    """Return the groups of an experiment's first period, where they are at first.

    Executor i of each component is on node i. A tuple is a millisecond of work at each component.
    """
    made = load(name)
    dataset, topology, adapt = dataset_of(made.input), made.topology.own(), made.steps.plan[0].adapt
    assert dataset is not None
    assert adapt is not None
    groups, tasks = topology.key_groups, topology.task_counts()
    sources = {s.target: s.source for s in topology.query_plan().streams}
    keys = {target: topology.row_keys[sources[target]] for target in groups}
    begins = dict(zip(groups, np.cumsum([0, *groups.values()]).tolist(), strict=False))
    home = [task * NODES // tasks[name] for name in groups for task in first_table(groups[name], tasks[name])]
    loads, sent = np.zeros(len(home)), np.zeros((len(home), len(home)))
    for message_id in range(round(made.input.rate_tps * adapt.period_s)):
        row = dataset.row(message_id)
        way = [begins[to] + key_group(row_key(row, fields), groups[to]) for to, fields in keys.items()]
        loads[way] += 0.1 / adapt.period_s
        sent[way[:-1], way[1:]] += 1 / adapt.period_s
    receivers = [*list(groups.values())[1:], 0]
    downstream = np.repeat(receivers, list(groups.values()))
    problem = equal_nodes(loads, np.array(home), NODES, 10.0)
    return SendingGroups(problem, sent, downstream, tuple(f"group {i}" for i in range(len(home))))


def moved(name: str, seen: SendingGroups) -> IntArray:
    """Return the allocation of the experiment's own scheduler."""
    adapt = load(name).steps.plan[0].adapt
    assert adapt is not None
    mover = make_scheduler(adapt.scheduler)
    assert isinstance(mover, GroupMover)
    return mover.move_groups(seen).allocation


def test_half_of_the_streams_of_airline_delays_can_be_local() -> None:
    """Each group of delays sends to one of planes alone: half of all tuples, and a quarter of the others.

    At first a quarter is local: groups 0, 7, 8, 15 and 16 of the 20, and of the streams to routes by chance.
    """
    seen = first_period("airline-delays")
    between = seen.traffic_tps[:20, 20:40]
    assert (between == np.diag(np.diag(between))).all()
    assert between.sum() == pytest.approx(100)
    home = seen.problem.allocation
    beside = np.flatnonzero(home[:20] == home[20:40])
    assert beside.tolist() == [0, 7, 8, 15, 16]
    assert collocation_factor(seen.traffic_tps, home) == pytest.approx(0.25, abs=0.05)
    together = np.concatenate((home[:20], home[:20], home[40:]))
    assert collocation_factor(seen.traffic_tps, together) == pytest.approx(0.5 + 0.25 / 2, abs=0.03)


def test_albic_brings_groups_of_planes_to_their_senders() -> None:
    seen = first_period("airline-delays")
    home, allocation = seen.problem.allocation, moved("airline-delays", seen)
    assert 0 < (allocation != home).sum() <= 10
    before, after = (collocation_factor(seen.traffic_tps, a) for a in (home, allocation))
    assert after > before


def test_a_bots_edits_are_in_one_group_and_the_others_make_up_for_it() -> None:
    """The first user's share is 1 / H of 50,000 and 1.2, within three standard errors of 1,000 edits."""
    seen = first_period("wikipedia-edits")
    harmonic = (np.arange(1, wikipedia_edits.USERS + 1) ** -wikipedia_edits.USER_EXPONENT).sum()
    users = seen.problem.loads[:20]
    assert users.sum() == pytest.approx(10)
    assert users.max() / users.sum() >= 1 / harmonic - 0.04
    home, allocation = seen.problem.allocation, moved("wikipedia-edits", seen)
    assert (allocation != home).sum() <= 10
    before, after = (seen.problem.load_distance(a) for a in (home, allocation))
    assert after < 0.2 * before
