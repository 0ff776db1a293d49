"""Kinds are values: what kind a topology, its traffic or a cluster is, few modules ask, once each.

Read from the syntax trees of all sources. All other modules call methods of what they are given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

HARNESS = Path(__file__).resolve().parent.parent / "harness"
KINDS = {
    *("Topology", "JarTopology"),
    *("HopTraffic", "TopicTraffic", "OwnTraffic"),
    *("Local", "Provisioned", "Running", "Simulated", "ClusterShape"),
}
"""Classes of which one is one kind, and another another."""
FLAGS = {"of_a_jar": "JarTopology"}
"""Attributes that would say nothing but which class it is; there is none."""
CLUSTER_KINDS = {"local", "remote", "running", "simulator"}
JOINED = {
    "experiments/config.py": "an experiment's file is read as one kind of topology",
    "experiments/step_traffic.py": "traffic, to what a campaign does with it",
    "app/loads.py": "traffic, to generator and records",
    "app/clusters.py": "cluster, to what opens it",
    "storm/deployment.py": "topology, to what submits it",
    "storm/capturing.py": "topology, to what captures it",
}
"""Modules that join something of their room to each kind, in one place; values of their own rooms are made in
``topologies/`` and ``experiments/clusters.py``."""
MAY_BE_MISSING = {"topics", "workload", "rate_tps", "captured"}
DECIDING = {"topologies/jar.py", "experiments/config.py"}
"""Modules that may ask whether an experiment has one of these: they say it in other words to all others."""
OF_OTHERS = {
    ("commands/console.py", "rate_tps"): "a rate that was seen, or none yet",
    ("schedulers/plan_distance.py", "rate_tps"): "a proposed rate, and a recorded one, where they are known",
    ("app/opened_run.py", "rate_tps"): "an argument, left out for the measured rate",
    ("storm/capturing.py", "captured"): "a run that goes on has it from its experiment",
}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(HARNESS.rglob("*.py")):
        yield path.relative_to(HARNESS).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def last(node: ast.expr) -> str:
    """Return the last name of ``a.b.c``; empty for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def asked_by_class(tree: ast.Module) -> Iterator[str]:
    """Yield the kinds that ``isinstance``, ``issubclass``, patterns of ``match`` and flags ask for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass):
            yield last(node.cls)
        elif isinstance(node, ast.Attribute) and node.attr in FLAGS:
            yield FLAGS[node.attr]
        elif isinstance(node, ast.Call) and last(node.func) in ("isinstance", "issubclass"):
            yield from (last(n) for n in ast.walk(node.args[1]) if isinstance(n, ast.expr))


def compared(tree: ast.Module) -> Iterator[tuple[list[ast.expr], list[ast.cmpop], int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield [node.left, *node.comparators], node.ops, node.lineno


def clusters_kinds(tree: ast.Module) -> Iterator[int]:
    """Yield lines that compare a cluster's ``kind``, or ``cluster_kind``, with a literal or several.

    A ``match`` compares with the literals of its cases.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Match) and last(node.subject) in ("kind", "cluster_kind"):
            values = [
                v.value for c in node.cases for v in ast.walk(c.pattern) if isinstance(v, ast.MatchValue)
            ]
            if {v.value for v in values if isinstance(v, ast.Constant)} & CLUSTER_KINDS:
                yield node.lineno
    for sides, _, line in compared(tree):
        literals = {c.value for side in sides for c in ast.walk(side) if isinstance(c, ast.Constant)}
        named = {last(n) for side in sides for n in ast.walk(side) if isinstance(n, ast.expr)}
        if literals & {*CLUSTER_KINDS, "cluster_kind"} and (
            named & {"kind", "cluster_kind"} or "cluster_kind" in literals
        ):
            yield line


def missing(tree: ast.Module) -> Iterator[str]:
    """Yield what is compared with None of the things that some experiments lack."""
    for sides, ops, _ in compared(tree):
        none = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
        if none and any(isinstance(op, ast.Is | ast.IsNot) for op in ops):
            yield from (last(side).lstrip("_") for side in sides if last(side).lstrip("_") in MAY_BE_MISSING)


def test_classes_of_kinds_are_asked_for_only_where_they_are_joined_to_something() -> None:
    asked = {place: KINDS.intersection(asked_by_class(tree)) for place, tree in trees()}
    assert {place for place, kinds in asked.items() if kinds} == set(JOINED)


def test_no_cluster_is_asked_for_its_kind() -> None:
    """Give the kinds of ``harness/experiments/clusters.py`` an attribute instead."""
    known = {"analysis/spark/inputs.py", "analysis/judge/evaluation.py"}  # MEASURED_KINDS, of old runs too
    asked = {place: list(clusters_kinds(tree)) for place, tree in trees()}
    assert {place: lines for place, lines in asked.items() if lines and place not in known} == {}


def test_what_an_experiment_may_lack_is_asked_for_once() -> None:
    """Give the traffic of ``harness/topologies/traffic.py`` an attribute instead."""
    asked = [(place, name) for place, tree in trees() if place not in DECIDING for name in missing(tree)]
    assert [each for each in asked if each not in OF_OTHERS] == []


def test_the_questions_are_seen_at_all() -> None:
    """What was asked before, and how it could be asked: the tests find each."""
    was = ast.parse(
        "a = isinstance(x.topology, JarTopology)\n"
        "b = experiment.cluster.kind == 'remote'\n"
        "c = experiment.workload is None\n"
        "d = run.environment.get('cluster_kind') in ('local', 'remote')\n"
        "match t:\n    case harness.Topology():\n        pass\n"
        "match x.kind:\n    case 'local' | 'remote':\n        pass\n"
    )
    assert set(asked_by_class(was)) == {"JarTopology", "Topology"}
    assert sorted(clusters_kinds(was)) == [2, 4, 8]
    assert set(asked_by_class(ast.parse("if topology.of_a_jar: pass"))) == {"JarTopology"}
    assert list(missing(was)) == ["workload"]
