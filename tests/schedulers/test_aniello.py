"""Aniello's schedulers against the slides' pictures: executors by slot as transcribed below."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling import SLIDES, by_worker, nodes_of, observation, one_each, placed, topology

from harness.errors import SchedulerDeclined, UsageError
from harness.schedulers import make_scheduler
from harness.schedulers.conformance import SchedulingQuestion, answer_faults
from harness.schedulers.loads import last_window, overload_notes, task_cores
from harness.schedulers.plan_costs import cost_plan, crossing_traffic_tps

SIX = topology(SLIDES)
TWO_NODES = nodes_of([2, 2])
HOTTEST_FIRST = (("C5", "C6"), ("C4", "C6"), ("C1", "C4"), ("C2", "C5"), ("C1", "C3"))
"""Slides 31 to 38: pairs of communicating executors, most traffic first."""


def groups(plan: object) -> set[frozenset[str]]:
    return {frozenset(held) for held in by_worker(plan).values()}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aniello-offline", [{"C1", "C3"}, {"C2", "C5"}, {"C4", "C6"}]),  # slides 15 to 26
        ("aniello-offline-code", [{"C1", "C2"}, {"C3", "C5"}, {"C4", "C6"}]),  # OfflineScheduler.java
    ],
)
def test_offline_places_the_slides_topology_as_its_picture(name: str, expected: list[set[str]]) -> None:
    asked = {"name": name, "alpha": 0, "beta": 0.5}
    proposal = make_scheduler(asked).propose(SIX, one_each(SIX, 3), TWO_NODES)
    assert groups(proposal.plan) == {frozenset(g) for g in expected}
    nodes = Counter(w.node for w in proposal.plan.workers)
    assert sorted(nodes.values()) == [1, 2]
    assert proposal.notes == ()


@pytest.mark.parametrize(
    ("beta", "expected", "notes"),
    [
        # never forced to use an empty slot: two executors fit a slot, and c goes to the next slot without b
        (1, ["ab", "cd"], ("1 of the workers asked for get no executor: a lower beta uses them",)),
        # forced from the first component on: a, b and c open slots, and d joins c, which feeds it
        (0, ["a", "b", "cd"], ()),
    ],
)
def test_beta_forces_empty_slots(beta: float, expected: list[str], notes: tuple[str, ...]) -> None:
    chain = topology((("a", "b"), ("b", "c"), ("c", "d")))
    asked = {"name": "aniello-offline", "alpha": 1, "beta": beta}
    proposal = make_scheduler(asked).propose(chain, one_each(chain, 3), TWO_NODES)
    assert groups(proposal.plan) == {frozenset(g) for g in expected}
    assert proposal.notes == notes


def test_the_codes_spread_uses_few_or_many_nodes() -> None:
    chain = topology((("a", "b"), ("b", "c")), 2)
    nodes = nodes_of([3, 3, 3])
    used = []
    for spread in (0.0, 1.0):
        asked = {"name": "aniello-offline-code", "spread": spread}
        plan = make_scheduler(asked).propose(chain, one_each(chain, 3), nodes).plan
        used.append(len({w.node for w in plan.workers}))
    assert used == [1, 3]


def test_a_cycle_is_declined_by_name() -> None:
    loop = topology((("a", "b"), ("b", "c"), ("c", "b")))
    with pytest.raises(SchedulerDeclined, match="components form a cycle: b, c"):
        make_scheduler("aniello-offline").propose(loop, one_each(loop, 2), TWO_NODES)


def running(slots: str, traffic: dict[tuple[str, str], float], cores: float = 0.1) -> object:
    """The slides' topology; for each component the number of its worker, on two nodes of four slots."""
    nodes = nodes_of([4, 4])
    places = [f"node-{1 + k // 4}:{6700 + k % 4}" for k in map(int, slots)]
    labels = [f"C{i}[{i}-{i}]" for i in range(1, 7)]
    plan = placed(SIX, nodes, dict(zip(labels, places, strict=True)))
    tasks = {(int(a[1]), int(b[1])): tps for (a, b), tps in traffic.items()}
    return observation(plan, tasks, dict.fromkeys(range(1, 7), cores))


TRAFFIC = {pair: 50.0 - 10 * k for k, pair in enumerate(HOTTEST_FIRST)}


def test_online_places_the_slides_topology_as_its_pictures() -> None:
    """Slides 31 to 39: four workers, two executors at most in each, loads equal."""
    source = running("024613", TRAFFIC)  # anywhere else
    asked = {"name": "aniello-online", "alpha": 0}
    proposal = make_scheduler(asked).propose(SIX, one_each(SIX, 4), source.plan.nodes, source)  # type: ignore[attr-defined]
    expected = [{"C5", "C6"}, {"C4", "C1"}, {"C2"}, {"C3"}]
    assert groups(proposal.plan) == {frozenset(g) for g in expected}
    # Phase II: slot pairs C5C6-C4C1 (40) and C5C6-C2 (20), C4C1-C3 (10); two slots a node.
    # The two lighter pairs are left between nodes, since C5C6 and C4C1 share one.
    assert crossing_traffic_tps(proposal.plan, source) == pytest.approx((40 + 20 + 10, 20 + 10))  # type: ignore[arg-type]


def test_online_keeps_a_plan_that_is_as_good_and_says_so() -> None:
    first = running("024613", TRAFFIC)
    scheduler = make_scheduler("aniello-online")
    plan = scheduler.propose(SIX, one_each(SIX, 4), first.plan.nodes, first).plan  # type: ignore[attr-defined]
    source = observation(
        plan, {(int(a[1]), int(b[1])): t for (a, b), t in TRAFFIC.items()}, dict.fromkeys(range(1, 7), 0.1)
    )
    again = scheduler.propose(SIX, one_each(SIX, 4), plan.nodes, source)
    assert again.plan == plan
    assert again.notes == ("the plan in force stays: traffic between nodes would change by +0.0 %",)
    assert cost_plan(again.plan, source).workers_restarted == 0


@pytest.mark.parametrize(("improvement_pct", "moves"), [(5.0, True), (90.0, False)])
def test_online_moves_only_for_the_improvement_asked_for(improvement_pct: float, moves: bool) -> None:
    source = running("041526", TRAFFIC)
    asked = {"name": "aniello-online", "improvement_pct": improvement_pct}
    configuration = one_each(SIX, len(source.plan.workers))  # type: ignore[attr-defined]
    proposal = make_scheduler(asked).propose(SIX, configuration, source.plan.nodes, source)  # type: ignore[attr-defined]
    assert (proposal.plan.executors != source.plan.executors) == moves  # type: ignore[attr-defined]


def test_online_relieves_an_overloaded_node_though_traffic_grows() -> None:
    """All on node-1, which has 0.5 of 0.6 cores too few: traffic between nodes is 0 and must grow."""
    source = running("001122", TRAFFIC, cores=0.1)
    nodes = tuple(n.model_copy(update={"cpu_quota_cores": 0.5}) for n in source.plan.nodes)  # type: ignore[attr-defined]
    asked = {"name": "aniello-online", "improvement_pct": 50.0}
    proposal = make_scheduler(asked).propose(SIX, one_each(SIX, 3), nodes, source)  # type: ignore[arg-type]
    assert len({w.node for w in proposal.plan.workers}) == 2
    assert proposal.notes == ()


@pytest.mark.parametrize(
    ("window_s", "read_s"), [(1.0, 2.0), (4.0, 4.0), (5.0, 6.0), (9.5, 10.0), (60.0, 10.0)]
)
def test_a_window_is_read_in_whole_buckets_and_rates_stay_as_they_are(window_s: float, read_s: float) -> None:
    """Five buckets of 2 s in which all is even: a rate is the same over any number of them."""
    whole = running("024613", TRAFFIC)
    rows = whole.metrics.assign(value=whole.metrics["value"] / 5)  # type: ignore[attr-defined]
    buckets = pd.concat([rows.assign(bucket_end_ms=2000 * i) for i in range(1, 6)])
    source = replace(whole, metrics=buckets)  # type: ignore[type-var]
    recent = last_window(source, window_s)  # type: ignore[arg-type]
    assert recent.interval_s == pytest.approx(read_s)
    assert task_cores(recent) == pytest.approx(task_cores(whole))  # type: ignore[arg-type]


def test_online_says_which_bound_it_could_not_keep() -> None:
    source = running("001122", TRAFFIC, cores=0.1)
    nodes = tuple(n.model_copy(update={"cpu_quota_cores": 0.2}) for n in source.plan.nodes)  # type: ignore[attr-defined]
    proposal = make_scheduler("aniello-online").propose(SIX, one_each(SIX, 3), nodes, source)  # type: ignore[arg-type]
    assert "a node has more than 100 % of its capacity: no other placement fits" in proposal.notes
    assert any("is overloaded" in note for note in proposal.notes)


def test_parameters_outside_their_range_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="scheduler 'aniello-online': gamma: Input should be greater"):
        make_scheduler({"name": "aniello-online", "gamma": 0.5})
    with pytest.raises(UsageError, match="has no parameter 'alfa'"):
        make_scheduler({"name": "aniello-offline", "alfa": 0.5})


DISJOINT = {("C1", "C3"): 90.0, ("C2", "C5"): 80.0, ("C4", "C6"): 70.0}


@pytest.mark.parametrize(
    ("name", "slots_used"),
    [
        ("aniello-online", {"node-1": 2, "node-2": 2, "node-3": 2}),  # each pair to the least loaded node
        ("aniello-online-code", {"node-1": 4, "node-2": 2}),  # Node.java: node-1's load is 0 until it is full
    ],
)
def test_nodes_never_fill_in_the_published_code(name: str, slots_used: dict[str, int]) -> None:
    """Six slots in three pairs. Two nodes are to be used, 3 + (6 - 2 + 1 - 3) = 5 slots at most on one."""
    source, nodes = running("012345", DISJOINT), nodes_of([6, 6, 6])
    asked = {"name": name, "beta": 0.0, "delta": 1.0}
    plan = make_scheduler(asked).propose(SIX, one_each(SIX, 6), nodes, source).plan  # type: ignore[arg-type]
    assert Counter(w.node for w in plan.workers) == slots_used
    assert crossing_traffic_tps(plan, source)[1] == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "most"), [("aniello-online", 2), ("aniello-online-code", 3)])
def test_ackers_count_in_the_published_code(name: str, most: int) -> None:
    """Six executors on three workers are 2 each, with three ackers 3 (Topology.java)."""
    nodes, configuration = nodes_of([3]), one_each(SIX, 3, acker=3)
    plan = make_scheduler("even").propose(SIX, configuration, nodes).plan
    tasks = {(int(a[1]), int(b[1])): tps for (a, b), tps in TRAFFIC.items()}
    source = observation(plan, tasks, dict.fromkeys(range(1, 10), 0.1))
    found = make_scheduler(name).propose(SIX, configuration, nodes, source).plan
    assert max(len(held - {"__acker"}) for held in by_worker(found).values()) == most


def test_the_published_code_gives_up_where_a_slot_is_more_than_a_node_has() -> None:
    """Two executors of 0.1 cores a slot; a slot of another pair does not count (Node.java)."""
    source = running("001122", TRAFFIC, cores=0.1)
    for quota, plans in ((0.2, True), (0.15, False)):
        nodes = tuple(n.model_copy(update={"cpu_quota_cores": quota}) for n in source.plan.nodes)  # type: ignore[attr-defined]
        asked = make_scheduler("aniello-online-code")
        if plans:
            assert asked.propose(SIX, one_each(SIX, 3), nodes, source)  # type: ignore[arg-type]
            continue
        with pytest.raises(SchedulerDeclined, match="no node within capacity_pct takes the next pair"):
            asked.propose(SIX, one_each(SIX, 3), nodes, source)  # type: ignore[arg-type]


def test_the_published_code_changes_a_plan_for_one_that_is_as_good() -> None:
    """The threshold is met by equal traffic; only less will do by the slides."""
    source = running("012345", DISJOINT)
    plan = make_scheduler("aniello-online").propose(SIX, one_each(SIX, 6), source.plan.nodes, source).plan  # type: ignore[attr-defined,arg-type]
    tasks = {(int(a[1]), int(b[1])): tps for (a, b), tps in DISJOINT.items()}
    again = observation(plan, tasks, dict.fromkeys(range(1, 7), 0.1))
    notes = {
        name: make_scheduler(name).propose(SIX, one_each(SIX, 6), plan.nodes, again).notes
        for name in ("aniello-online", "aniello-online-code")
    }
    assert notes == {
        "aniello-online": ("the plan in force stays: traffic between nodes would change by +0.0 %",),
        "aniello-online-code": (),
    }


@given(
    tasks=st.integers(1, 5),
    slots=st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any),
    workers=st.integers(1, 8),
    alpha=st.floats(0, 1),
    beta=st.floats(0, 1),
    delta=st.floats(0, 1),
    gamma=st.none() | st.floats(1, 3),
    rates=st.lists(st.integers(0, 50), min_size=25, max_size=25),
    cores=st.lists(st.floats(0.01, 1), min_size=20, max_size=20),
)
def test_online_places_any_traffic_within_its_bound_of_executors(
    tasks: int,
    slots: list[int],
    workers: int,
    alpha: float,
    beta: float,
    delta: float,
    gamma: float | None,
    rates: list[int],
    cores: list[float],
) -> None:
    chain = topology((("a", "b"), ("b", "c")), tasks)
    nodes = nodes_of(slots)
    configuration = one_each(chain, workers, acker=2)
    plan = make_scheduler("even").propose(chain, configuration, nodes).plan
    first = {c: 3 + k * tasks for k, c in enumerate("abc")}
    pairs = [
        (first[s] + i, first[t] + j) for s, t in ("ab", "bc") for i in range(tasks) for j in range(tasks)
    ]
    traffic = {pair: float(rates[k % 25]) for k, pair in enumerate(pairs)}
    traffic[pairs[0]] = 1.0
    used = {t: cores[t % 20] for t in range(1, 3 + 3 * tasks)}
    source = observation(plan, traffic, used)
    keys = {"name": "aniello-online", "alpha": alpha, "beta": beta, "delta": delta, "gamma": gamma}
    proposal = make_scheduler(keys).propose(chain, configuration, nodes, source)
    assert not answer_faults(proposal, SchedulingQuestion(chain, configuration, nodes, source))
    wanted = min(workers, sum(slots), 3 * tasks)
    if not any("stays" in note for note in proposal.notes):
        assert len(proposal.plan.workers) == wanted
        before, after = (crossing_traffic_tps(p, source)[1] for p in (plan, proposal.plan))
        relieved = any("is overloaded" in note for note in overload_notes(plan, source))
        assert after < before or relieved or len(plan.workers) != wanted
