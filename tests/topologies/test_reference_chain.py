"""The reference topology from its parameters: the graph once written by hand, slides' settings, mistakes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from budgets import budget
from changed_files import Change, line_of_mistake
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.experiments.config import Experiment
from harness.experiments.loading import dump, expand_steps, load
from harness.topologies.reference_chain import ReferenceChain, Replication
from harness.topologies.test_topology import Topology

GOOD = """\
name: chain
topology:
  load_aware: false
  reference:
    stages: 5
    replication: 2
    simple: {kind: cpu, distribution: exponential, mean_ms: 0.3}
workload: {rate_tps: 60, spread_pct: 20}
steps: {plan: [{executors: tasks, workers: 4}]}
"""
SLIDE_43 = (
    "topology.reference.stages=7",
    "topology.reference.replication={spout: 4, simple: 3, stateful: 2, ack: 2}",
)


def test_it_is_the_graph_that_was_written_by_hand() -> None:
    """schedulers-traffic has its components, streams, shares and executors written out."""
    made, by_hand = load("aniello-reference"), load("schedulers-traffic")
    mine, theirs = made.topology.own(), by_hand.topology.own()
    assert mine.query_plan() == theirs.query_plan()
    assert list(mine.roles) == list(theirs.roles)
    assert (mine.services, mine.forwarded_shares) == (theirs.services, theirs.forwarded_shares)
    assert made.shares == by_hand.shares == {"in-1": 2, "in-2": 3}
    assert expand_steps(made)[0].configuration == expand_steps(by_hand)[0].configuration


def test_the_settings_of_slide_43_are_options() -> None:
    """7 stages, replication factor of 4 for spout, 3 for simple bolts, 2 for stateful bolts; V is 20 %."""
    experiment = load("aniello-reference", [*SLIDE_43, "workload.rate_tps=400"])
    plan = experiment.topology.query_plan()
    tasks = {c.name: c.tasks for c in plan.components}
    assert tasks == {
        **{"in-1": 1, "in-2": 1, "in-3": 1, "in-4": 1},
        **{"simple-1": 3, "stateful-1": 2, "simple-2": 3, "stateful-2": 2, "simple-3": 3, "stateful-3": 2},
        "ack": 2,
    }
    assert [f"{s.source} {s.grouping} {s.target}" for s in plan.streams] == [
        *(f"in-{number} shuffle simple-1" for number in (1, 2, 3, 4)),
        *("simple-1 fields stateful-1", "stateful-1 shuffle simple-2"),
        *("simple-2 fields stateful-2", "stateful-2 shuffle simple-3"),
        *("simple-3 fields stateful-3", "stateful-3 shuffle ack"),
    ]
    assert all(step.configuration.executors == tasks for step in expand_steps(experiment))
    rates = [400 * share / sum(experiment.shares.values()) for share in experiment.shares.values()]
    assert rates == pytest.approx([80, 80 + 40 / 3, 120 - 40 / 3, 120])  # R is 100


@given(st.integers(1, 6), *(st.integers(1, 5) for _ in range(4)))
@settings(max_examples=budget(30), deadline=None)
def test_every_chain_is_a_topology_in_which_each_spout_takes_all_stages(
    pairs: int, spout: int, simple: int, stateful: int, ack: int
) -> None:
    replication = Replication(spout=spout, simple=simple, stateful=stateful, ack=ack)
    chain = ReferenceChain(stages=2 * pairs + 1, replication=replication)
    topology = Topology(load_aware=False, reference=chain)
    plan = topology.query_plan()
    assert len(topology.entrances) == spout
    (sink,) = plan.sinks
    way = [sink]
    while (sources := {s.source for s in plan.inputs(way[-1])}) != set(topology.entrances):
        (source,) = sources
        way.append(source)
    assert len(way) == chain.stages  # all but the spouts', and the acking bolt
    kinds = [name.partition("-")[0] for name in reversed(way)]
    assert kinds == ["simple", "stateful"] * pairs + ["ack"]
    assert [plan.inputs(b)[0].grouping for _, b in pairwise(reversed(way))] == [
        *(["fields", "shuffle"] * pairs),
    ]
    by_kind = {"in": 1, "simple": simple, "stateful": stateful, "ack": ack}
    assert all(c.tasks == by_kind[c.name.partition("-")[0]] for c in plan.components)


def test_a_number_is_the_replication_of_all_kinds_and_is_kept_written_out(tmp_path: Path) -> None:
    path = tmp_path / "chain.yaml"
    path.write_text(GOOD)
    experiment = load(path)
    chain = experiment.topology.own().reference
    assert chain is not None
    assert chain.replication == Replication(spout=2, simple=2, stateful=2, ack=2)
    path.write_text(dump(experiment))
    assert load(path) == experiment


def test_work_of_its_bolts_may_be_given_by_component_as_of_any_graph(tmp_path: Path) -> None:
    work = "  service: {stateful-2: {kind: cpu, distribution: constant, mean_ms: 1}}\n  load_aware: false\n"
    path = tmp_path / "chain.yaml"
    path.write_text(GOOD.replace("  load_aware: false\n", work))
    services = load(path).topology.own().services
    assert {name: service.mean_ms for name, service in services.items()} == {
        **{"simple-1": 0.3, "simple-2": 0.3},
        "stateful-2": 1,
    }


MISTAKES: dict[str, tuple[Change, str]] = {
    "an even number": (("stages: 5", "stages: 4"), "topology.reference: stages 4 is even"),
    "no pair": (
        ("stages: 5", "stages: 1"),
        "topology.reference.stages: Input should be greater than or equal to 3",
    ),
    "a kind without its number": (
        ("replication: 2", "replication: {spout: 4, simple: 3, stateful: 2}"),
        "the key 'topology.reference.replication.ack' is missing",
    ),
    "no spout": (("replication: 2", "replication: 0"), "topology.reference.replication.spout: Input should"),
    "yes as a number": (
        ("replication: 2", "replication: true"),
        "topology.reference.replication: Input should",
    ),
    "a share above one": (
        ("    stages: 5", "    stages: 5\n    forwarded_share: 1.5"),
        "topology.reference.forwarded_share: Input should be less than or equal to 1",
    ),
    "components beside it": (
        ("  reference:", "  components: {in-1: {role: spout}}\n  reference:"),
        "reference: it stands in place of components and streams",
    ),
    "streams beside it": (
        ("  reference:", "  streams: []\n  reference:"),
        "reference: it stands in place of",
    ),
    "tasks beside it": (("  reference:", "  tasks: 2\n  reference:"), "tasks: reference.replication says"),
    "the name of another": (
        ("  reference:", "  name: windowed\n  reference:"),
        "windowed is a shipped topology",
    ),
    "work said twice": (
        (
            "  reference:",
            "  service: {simple-1: {kind: cpu, distribution: constant, mean_ms: 1}}\n  reference:",
        ),
        "service: simple-1 has one in its component",
    ),
    "rates of one spout": (
        ("replication: 2", "replication: {spout: 1, simple: 2, stateful: 2, ack: 2}"),
        "workload.spread_pct: all messages come in by in-1: leave it out, or add a spout",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line(tmp_path: Path, mistake: str) -> None:
    change, line = MISTAKES[mistake]
    assert line in line_of_mistake(tmp_path / "chain.yaml", GOOD, change)


def test_in_python_it_is_a_topology_of_its_parameters() -> None:
    chain = ReferenceChain.model_validate({"stages": 3, "replication": 2})
    made = {
        "name": "chain",
        "topology": {"load_aware": False, "reference": chain},
        "workload": {"rate_tps": 10},
    }
    experiment = Experiment.model_validate({**made, "steps": {"plan": [{"executors": 1}]}})
    assert experiment.shares == {"in-1": 1, "in-2": 1}
