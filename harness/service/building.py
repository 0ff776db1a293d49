"""An experiment's file as a tree that is edited key by key: what the builder page does, without HTTP."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from pydantic import ValidationError
from ruamel.yaml import YAML

from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.experiments.preflight import findings
from harness.experiments.yaml_files import read_value
from harness.topologies.roles import ROLES
from harness.topologies.test_topology import Topology

Tree = dict[str, object]
"""A mapping of a file; what a key holds is looked at where the key is read."""
FILE = "experiment.yaml"
DEFAULTS: Mapping[str, object] = {
    "window": {"kind": "count", "length": 10, "slide": 10},
    "multiplier": {"min": 1, "max": 5, "mean": 3, "sd": 1},
    "routing": "one-per-window",
    "keep": 0.5,
    "groups": 60,
    "service": {"kind": "cpu", "distribution": "constant", "mean_ms": 1.0},
}
"""Values that a component gets where its role needs a key that it has not."""
DIGITS = 4
"""A position with more is none: a plan has at most a thousand steps."""
SHAPE = frozenset(
    {
        *("name", "components", "streams", "reference"),
        *("tasks", "window", "multiplier", "routing", "service", "groupings"),
    }
)
"""Keys of a topology that its graph is made of; all others are settings."""


def read(text: str) -> Tree:
    """Return a file's text as a tree.

    Raises
    ------
    UsageError
        When it is no YAML, or no mapping.
    """
    try:
        tree = read_value(text)
    except ValueError as error:
        raise UsageError(f"not readable as YAML: {error}") from None
    if not isinstance(tree, dict):
        raise UsageError("an experiment is a mapping of keys", "see docs/experiments.md")
    return tree


def write(tree: Tree) -> str:
    """Return a tree as the text of a file."""
    out = StringIO()
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.dump(tree, out)
    return out.getvalue()


def checked(text: str, settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment that a text is, by the rules of a file; its errors name the line.

    Raises
    ------
    UsageError
        When it is none.
    """
    with tempfile.TemporaryDirectory(prefix="harness-builder-") as folder:
        path = Path(folder) / FILE
        path.write_text(text, encoding="utf-8")
        try:
            return load(path, settings)
        except UsageError as error:
            raise UsageError(str(error).replace(f"{path}:", "line ", 1).replace(f"{path}: ", "")) from None


def warnings(experiment: Experiment) -> list[str]:
    """Return the findings of ``harness check`` on an experiment, a line each."""
    return [f"{f.severity}: {f.key}: {f.message}" for f in findings(experiment)]


def opened(path: Path) -> str:
    """Return a shipped experiment's text, its topology as a graph whose components can be edited."""
    tree = read(path.read_text(encoding="utf-8"))
    experiment = load(path)
    for spec, asked in zip(listed(below(tree, "steps"), "plan"), experiment.steps.plan, strict=True):
        if not isinstance(spec, dict):
            continue
        if asked.placement:
            spec["placement"] = str(asked.placement)
        if asked.adapt and asked.adapt.history:
            below(spec, "adapt")["history"] = str(asked.adapt.history)
    if experiment.trace is not None:
        below(tree, "workload")["trace"] = str(experiment.trace)
    cluster = tree.get("cluster")
    if isinstance(cluster, dict) and "file" in cluster:
        cluster["file"] = str(path.resolve().parent / Path(cluster["file"]).expanduser())
    topology = tree["topology"]
    assert isinstance(topology, dict)  # the experiment was loaded
    if "jar" in topology:
        topology["jar"] = str(path.resolve().parent / Path(topology["jar"]).expanduser())
    else:
        tree["topology"] = as_graph(topology, experiment.topology.own())
    return write(tree)


def as_graph(given: Tree, topology: Topology) -> Tree:
    """Return a topology's keys with its graph written out."""
    plan = topology.query_plan()
    components: Tree = {}
    for part in plan.components:
        made: Tree = {"role": part.role, "tasks": part.tasks}
        own = {
            "window": part.window,
            "multiplier": topology.multipliers.get(part.name),
            "service": topology.services.get(part.name),
            "aggregate": topology.aggregates.get(part.name),
        }
        made |= {key: value.model_dump(mode="json", exclude_none=True) for key, value in own.items() if value}
        plain: Mapping[str, Mapping[str, object]] = {
            "routing": topology.routings,
            "keep": topology.keeps,
            "output_bytes": topology.output_bytes,
            "forwarded_share": topology.forwarded_shares,
            "groups": topology.key_groups,
            "key": {name: list(fields) for name, fields in topology.row_keys.items()},
        }
        made |= {key: values[part.name] for key, values in plain.items() if part.name in values}
        components[part.name] = made
    streams = [
        {"from": s.source, "to": s.target, "grouping": s.grouping}
        | ({} if s.stream == "default" else {"stream": s.stream})
        for s in plan.streams
    ]
    settings = {key: value for key, value in given.items() if key not in SHAPE}
    return {"components": components, "streams": streams, **settings}


def written_out(given: Tree) -> Tree:
    """Return a topology's keys with the graph that its name or parameters stand for, if there is one."""
    if given.get("components") is not None:
        return given
    try:
        return as_graph(given, Topology.model_validate(given))
    except ValidationError:
        return given


def set_key(tree: Tree, key: Sequence[str], value: str) -> None:
    """Set a key of the tree, whose parts are given, to a value in YAML; an empty one takes the key away.

    A component that gets another role loses keys that the role has no use for, and gets those that it needs.

    Raises
    ------
    UsageError
        When there is no key or nothing at it, or the value is no YAML.
    """
    if not key:
        raise UsageError("no key is named")
    if key[:2] == ["topology", "components"]:
        tree["topology"] = written_out(below(tree, "topology"))
    node: object = tree
    for part in key[:-1]:
        if isinstance(node, list) and part.isdecimal() and len(part) <= DIGITS and int(part) < len(node):
            node = node[int(part)]
        elif isinstance(node, dict):
            if not isinstance(node.get(part), dict | list):
                usual = DEFAULTS.get(part)
                node[part] = dict(usual) if isinstance(usual, dict) else {}
            node = node[part]
        else:
            raise UsageError(f"{'.'.join(key)}: there is nothing")
    if not isinstance(node, dict):
        raise UsageError(f"{'.'.join(key)}: there is nothing")
    try:
        given = read_value(value) if value.strip() else None
    except ValueError as error:
        raise UsageError(f"{'.'.join(key)}: {error}") from None
    if given is None:
        node.pop(key[-1], None)
    else:
        node[key[-1]] = given
    if key[-1] == "role" and key[:-2] == ["topology", "components"]:
        _fit_role(node)


def add_component(tree: Tree, name: str, role: str) -> None:
    """Add a component, with one executor in steps that name each component's."""
    made: Tree = {"role": role}
    _fit_role(made)
    below(_graph(tree), "components")[name] = made
    for counts in _counts(tree):
        counts.setdefault(name, 1)


def remove_component(tree: Tree, name: str) -> None:
    """Take a component away, with its streams and executors."""
    graph = _graph(tree)
    below(graph, "components").pop(name, None)
    graph["streams"] = [
        s
        for s in listed(graph, "streams")
        if not isinstance(s, dict) or name not in (s.get("from"), s.get("to"))
    ]
    for counts in _counts(tree):
        counts.pop(name, None)
    if isinstance(batching := graph.get("batching"), dict):
        batching.pop(name, None)


def add_stream(tree: Tree, source: str, target: str, grouping: str, stream: str) -> None:
    """Let a component subscribe to another."""
    made = {"from": source, "to": target, "grouping": grouping}
    listed(_graph(tree), "streams").append(made if stream in ("", "default") else {**made, "stream": stream})


def remove_stream(tree: Tree, index: int) -> None:
    """Take a stream away."""
    streams = listed(_graph(tree), "streams")
    if index < len(streams):
        del streams[index]


def _fit_role(component: Tree) -> None:
    traits = next((row for role, row in ROLES.items() if role == component.get("role")), None)
    if traits is None:
        return
    useless = {key for row in ROLES.values() for key in row.keys} - set(traits.keys)
    useless |= {"service"} if traits.spout else set()
    useless |= {"output_bytes"} if traits.emits == "nothing" else set()
    useless |= set() if traits.forwards else {"forwarded_share", "key"}
    useless |= set() if traits.keyed else {"aggregate"}
    for key in useless:
        component.pop(key, None)
    for key in traits.keys:
        value = DEFAULTS[key]
        component.setdefault(key, dict(value) if isinstance(value, dict) else value)


def _graph(tree: Tree) -> Tree:
    graph = tree.setdefault("topology", {})
    if not isinstance(graph, dict) or "jar" in graph:
        raise UsageError("the graph of a jar is in the jar", "open another experiment to edit its graph")
    tree["topology"] = graph = written_out(graph)
    below(graph, "components")
    listed(graph, "streams")
    return graph


def below(tree: Tree, key: str) -> Tree:
    """Return the mapping at a key; an empty one is put there if need be."""
    found = tree.get(key)
    if not isinstance(found, dict):
        tree[key] = found = {}
    return found


def listed(tree: Tree, key: str) -> list[object]:
    """Return the list at a key; an empty one is put there if need be."""
    found = tree.get(key)
    if not isinstance(found, list):
        tree[key] = found = []
    return found


def _counts(tree: Tree) -> list[Tree]:
    """Return the mappings that name the executors of each component."""
    steps = tree.get("steps")
    plan = steps.get("plan") if isinstance(steps, dict) else None
    named = [s["executors"] for s in plan or [] if isinstance(s, dict) and "executors" in s]
    return [counts for counts in named if isinstance(counts, dict)]
