"""Answers about plans: by hand on a small plan, and against listing every path on drawn ones."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from made_runs import PLAN, placed, write_run

from harness.analysis.plan_answers import (
    Connection,
    End,
    Ends,
    Moved,
    RunPlans,
    answers,
    count_paths,
    difference,
    list_paths,
)
from harness.cli import main
from harness.errors import UsageError
from harness.plans import Stream


@pytest.fixture
def run_plans(tmp_path: Path) -> RunPlans:
    # two nodes with one worker each; executors are dealt acker, acker, spout, spout, a, a, sink, sink
    plans = [placed(PLAN, n, nodes=2, slots=1) for n in (1, 2, 2)]
    plans[2] = placed(PLAN, 2, nodes=2, slots=1, first=1)
    return RunPlans(write_run(tmp_path, plans))


def test_executors_on_workers(run_plans: RunPlans) -> None:
    found = {w.worker: (w.node, w.executors) for w in run_plans.workers(0)}
    assert found == {
        "node-1:6700": ("node-1", ("__acker[1-1]", "sink[7-8]", "spout[3-4]")),
        "node-2:6800": ("node-2", ("__acker[2-2]", "a[5-6]")),
    }


def test_streams_that_cross_workers_and_nodes(run_plans: RunPlans) -> None:
    found = {
        s.stream: (s.connections, s.between_workers, s.between_nodes)
        for step in (0, 1)
        for s in run_plans.streams(step)
        if step == 0 or s.stream == "spout->a:default"
    }
    assert found == {
        "spout->a:default": (4, 2, 2),  # of step 1, where each node has one of either
        "a->sink:default": (1, 1, 1),
        "spout->sink:side": (1, 0, 0),
    }


def test_paths_and_their_changes_of_node(run_plans: RunPlans) -> None:
    (first,) = answers(run_plans, 0).paths
    # spout (node 1) -> a (node 2) -> sink (node 1); spout -> sink
    assert (first.spout, first.sink, first.paths, first.by_node_crossings) == (
        "spout",
        "sink",
        2,
        {0: 1, 2: 1},
    )
    (second,) = answers(run_plans, 1).paths
    # 2 x 2 x 2 over a: of the 8 sequences of two nodes 2 never change, 4 once, 2 twice; and 2 x 2 direct
    assert (second.paths, second.by_node_crossings) == (12, {0: 2 + 2, 1: 4 + 2, 2: 2})


def test_paths_are_listed_only_when_asked_and_so_many(run_plans: RunPlans) -> None:
    assert answers(run_plans, 1).listed is None
    listed = answers(run_plans, 1, 3).listed
    assert listed is not None
    assert [(p.path, p.node_crossings) for p in listed] == [
        ("spout[3-3] -default-> a[5-5] -default-> sink[7-7]", 0),
        ("spout[3-3] -default-> a[5-5] -default-> sink[8-8]", 1),
        ("spout[3-3] -default-> a[6-6] -default-> sink[7-7]", 2),
    ]
    assert len(answers(run_plans, 1, 100).listed or ()) == 12


def test_difference(run_plans: RunPlans) -> None:
    grown = difference(run_plans, 0, 1)
    assert grown.executors == {"a": (1, 2), "sink": (1, 2), "spout": (1, 2)}
    assert grown.only_first == ("a[5-6]", "sink[7-8]", "spout[3-4]")
    assert grown.only_second == ("a[5-5]", "a[6-6]", "sink[7-7]", "sink[8-8]", "spout[3-3]", "spout[4-4]")
    assert grown.moved == ()
    turned = difference(run_plans, 1, 2)
    assert turned.executors == {}
    assert turned.moved[0] == Moved(executor="__acker[1-1]", first="node-1:6700", second="node-2:6800")
    assert len(turned.moved) == 8
    assert difference(run_plans, 1, 1) == turned.model_copy(update={"second": 1, "moved": ()})


def test_a_step_that_is_not_there_is_named(run_plans: RunPlans) -> None:
    with pytest.raises(UsageError, match="no finished step 7: finished are: 0, 1, 2"):
        answers(run_plans, 7)


def test_a_cycle_has_no_count_and_is_not_listed(tmp_path: Path) -> None:
    loop = PLAN.model_copy(
        update={"streams": (*PLAN.streams, Stream(source="sink", target="a", grouping="shuffle"))}
    )
    plans = RunPlans(write_run(tmp_path, [placed(loop, 1)]))
    found = answers(plans, 0)
    assert (found.cyclic, found.paths) == (True, ())
    assert len(found.streams) == 4
    with pytest.raises(UsageError, match="cycle"):
        answers(plans, 0, 5)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[list[Connection], Ends]:
    """Layers of executors on nodes; each next pair of layers connected wholly or in part, some skipping."""
    layers = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=2, max_size=4))
    ends = [[(End(f"c{i}", t, t), node) for t, node in enumerate(layer)] for i, layer in enumerate(layers)]
    connections = []
    for i, layer in enumerate(ends[1:], start=1):
        j = draw(st.integers(0, i - 1))
        for (a, a_node), (b, b_node) in product(ends[j], layer):
            if draw(st.booleans()):
                connections.append(Connection(a, "s", b, a_node != b_node))
    components = {f"c{i}" for i in range(len(layers))}
    sources = {c.source.component for c in connections}
    targets = {c.target.component for c in connections}
    return connections, Ends(tuple(components - targets), tuple(components - sources))


def every_path(connections: list[Connection], ends: Ends) -> list[tuple[str, str, int]]:
    def walk(start: End, at: End, crossings: int) -> list[tuple[str, str, int]]:
        if at.component in ends.sinks:
            return [(start.component, at.component, crossings)]
        return [
            path
            for c in connections
            if c.source == at
            for path in walk(start, c.target, crossings + c.between_nodes)
        ]

    firsts = {c.source for c in connections if c.source.component in ends.spouts}
    return [path for first in firsts for path in walk(first, first, 0)]


@given(drawn())
def test_counting_by_propagation_is_counting_the_listed(plan: tuple[list[Connection], Ends]) -> None:
    connections, ends = plan
    expected = Counter(every_path(connections, ends))
    counted = {
        (p.spout, p.sink, crossings): n
        for p in count_paths(connections, ends)
        for crossings, n in p.by_node_crossings.items()
    }
    assert counted == dict(expected)
    listed = list_paths(connections, ends, 10_000)
    assert Counter(p.node_crossings for p in listed) == Counter(
        c for _, _, c in every_path(connections, ends)
    )
    assert len({p.path for p in listed}) == len(listed)


def test_the_command_shows_and_gives_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEO4J_URI", raising=False)
    run = write_run(tmp_path, [placed(PLAN, 1), placed(PLAN, 2)])
    done = CliRunner().invoke(main, ["plans", str(run.path), "--difference", "0", "1"])
    assert done.exit_code == 0
    assert "spout: 1 to 2 executors" in done.output
    done = CliRunner().invoke(main, ["plans", str(run.path), "--step", "1", "--list-paths", "2", "--json"])
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["exit_status"], said["from"], len(said["steps"])) == (0, "run directory", 1)
    assert len(said["steps"][0]["listed"]) == 2
    assert "paths spout to sink: 12; changes of node: " in done.output
    done = CliRunner().invoke(main, ["plans", str(run.path), "--step", "5"])
    assert done.exit_code == 2
