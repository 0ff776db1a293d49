"""From a YAML file and ``--set`` options to a checked experiment; errors name file, line and key."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources
from io import StringIO
from pathlib import Path

import numpy as np
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from harness.errors import UsageError, describe_fault
from harness.experiments.cluster_file import load as load_cluster
from harness.experiments.cluster_keys import keys_of, named_file, near
from harness.experiments.config import TAGS, Experiment, Step
from harness.experiments.placement_file import placement_text
from harness.experiments.step_settings import StepSpec
from harness.experiments.yaml_files import read_tree, read_value
from harness.machine.masking import SecretMask, masked_keys
from harness.machine.named_paths import file_at
from harness.topologies.jar import JarTopology

TRACE = "trace.txt"
"""The name of a trace's copy in a run directory."""
PLACEMENT = "placement-{}.yaml"
"""The name of a placement's copy in a run directory, by position in ``steps.plan``."""

HISTORY = "history-{}.txt"
"""The same of the earlier traffic that a step's forecasts know."""

NAMED_BY_OTHERS = ("topology.storm", "topology.producer", "topology.spout.consumer")
"""Keys below which Storm's and Kafka's own names stand."""


def load(source: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment's file.

    Parameters
    ----------
    source : path or name
        A YAML file, or the name of one of the shipped experiments (``quick``).
    overrides : sequence of str
        ``KEY=VALUE`` with a dotted key; the value is YAML.

    Raises
    ------
    UsageError
        Missing or unreadable file, unknown key, wrong type, a plan that does not fit.
    """
    path = find(source)
    tree = _tree(path, overrides)
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        where = [part for part in first["loc"] if part not in TAGS]
        if not where:  # a check over the whole experiment starts its message with the key it is about
            key = str(first["msg"]).removeprefix("Value error, ").split(":")[0]
            where = [int(part) if part.isdigit() else part for part in key.split(".")]
        place = _place(path, overrides, tree, where)
        raise UsageError(f"{place}: {describe_fault(error, TAGS)}") from None


def _tree(path: Path, overrides: Sequence[str]) -> CommentedMap:
    """Return a file's contents with options in the place of what it says."""
    tree = _read(path)
    _beside(tree, path)
    for option in overrides:
        _override(tree, option)
    _provisioned(tree, path, overrides)
    return tree


def _place(path: Path, overrides: Sequence[str], tree: object, where: Sequence[int | str]) -> str:
    """Return what an error at a key comes from: an option, or a line of the file.

    It is the last option that gave the key, or else the first with which the file no longer is an experiment.
    """
    if option := _giving(overrides, where):
        return f"--set {option}"
    for count in range(len(overrides) + 1):
        try:
            Experiment.model_validate(_tree(path, overrides[:count]))
        except ValidationError:
            if count:
                return f"--set {overrides[count - 1]}"
            break
    return f"{path}:{_line(tree, where)}"


def _giving(overrides: Sequence[str], where: Sequence[int | str]) -> str:
    """Return the last option that gave a key; empty when none did."""
    keys = [str(part) for part in where]
    for option in reversed(overrides):
        given = _parts(option.partition("=")[0])
        if keys[: len(given)] == given:
            return option
    return ""


def find(source: str | os.PathLike[str]) -> Path:
    """Return the file that a path or the name of a shipped experiment stands for."""
    path = Path(source)
    if file_at(path) is not None:
        return path
    if path.suffix == "" and len(path.parts) <= 2:
        for folder in shipped_folders():
            candidate = folder / f"{source}.yaml"
            if file_at(candidate) is not None:
                return candidate
    raise UsageError(f"{source}: no such experiment", "give a YAML file, or a name that 'harness list' shows")


def shipped_folders() -> list[Path]:
    """Return the folders of shipped experiments: of the checkout, or of the installed package."""
    package = Path(str(resources.files("harness")))
    candidates = [package.parent / "configs" / "experiments", package / "assets" / "experiments"]
    return [c for c in candidates if c.is_dir()]


def expand_steps(experiment: Experiment) -> tuple[Step, ...]:
    """Return the steps in the order in which they are measured.

    Repeats follow one another as whole rounds, so that a slow change of the machine does not fall on one
    configuration alone. In the order ``shuffled``, the order of each round is drawn from the seed.
    """
    rng = np.random.default_rng(experiment.steps.seed)
    specs: list[int] = []
    for _ in range(experiment.steps.repeats):
        round_ = np.arange(len(experiment.steps.plan))
        if experiment.steps.order == "shuffled":
            rng.shuffle(round_)
        specs.extend(_sources_first([int(i) for i in round_], experiment.steps.plan))
    return tuple(
        Step(
            index=index,
            configuration=experiment.configuration(experiment.steps.plan[spec]),
            rate_tps=experiment.rate_tps(experiment.steps.plan[spec]),
            fresh=experiment.steps.plan[spec].fresh,
            spec=spec,
            placed_by=experiment.steps.plan[spec].placed_by,
            faults=experiment.steps.plan[spec].faults,
            evidence=experiment.steps.plan[spec].judge or not experiment.steps.plan[spec].faults,
            tuned_by=experiment.steps.plan[spec].tuned_by,
            batching=experiment.batching(experiment.steps.plan[spec]),
            relief=experiment.relief(experiment.steps.plan[spec]),
            changes=experiment.changes(experiment.steps.plan[spec]),
        )
        for index, spec in enumerate(specs)
    )


def _sources_first(order: Sequence[int], plan: Sequence[StepSpec]) -> list[int]:
    """Return positions of a plan in an order, each with the steps that it reads before it.

    Examples
    --------
    >>> plan = [StepSpec(executors=1), StepSpec(**{"executors": 1, "scheduler": "even", "from": 0})]
    >>> _sources_first([1, 0], plan)
    [0, 1]
    """
    ordered: list[int] = []
    for position in order:
        chain = [position]
        while (source := plan[chain[-1]].source) is not None:  # each is before the one that reads it
            chain.append(source)
        ordered += [p for p in reversed(chain) if p not in ordered]
    return ordered


def completed(experiment: Experiment, topology: JarTopology) -> Experiment:
    """Return an experiment with its topology as captured, checked once more.

    Raises
    ------
    UsageError
        When steps ask for what the topology has not.
    """
    try:
        return Experiment.model_validate(experiment.model_dump() | {"topology": topology.model_dump()})
    except ValidationError as error:
        raise UsageError(f"{experiment.name}: {describe_fault(error, TAGS)}", "see: harness check") from None


def require_secrets(path: Path, overrides: Sequence[str], needed: bool) -> None:
    """Check that what was masked in a run's experiment, and nothing else, is given again.

    Parameters
    ----------
    path : Path
        The run's ``experiment.yaml``.
    overrides : sequence of str
        ``KEY=VALUE``.
    needed : bool
        Whether anything is still to be measured.

    Raises
    ------
    UsageError
        When a key is missing, or one that was not masked is given.
    """
    tree = _read(path)
    found = masked_keys(tree, whole_below=NAMED_BY_OTHERS)
    masked = [key for key in found if not key.startswith("topology.captured.")]
    given = [option.partition("=")[0] for option in overrides]
    if other := next((key for key in given if key not in masked), ""):
        raise UsageError(f"--set cannot change a run that has begun ({other})", "start a new run instead")
    if needed and (missing := [key for key in masked if key not in given]):
        what = f"{path}: {missing[0]} was not kept, because it looks like a secret"
        raise UsageError(what, f"give it again, with --set {missing[0]}=VALUE")


def files(experiment: Experiment) -> dict[str, str]:
    """Return the files that a run keeps of its experiment, by name: enough to go on on another machine."""
    copies: dict[str, str] = {}
    names = {i: PLACEMENT.format(i) for i in experiment.placements}
    for i, name in names.items():
        copies[name] = placement_text(experiment.steps.plan[i].placed)
    kept = experiment.with_placements({i: Path(name) for i, name in names.items()})
    for i, path in experiment.histories.items():
        copies[HISTORY.format(i)] = path.read_text(encoding="utf-8")
    kept = kept.with_histories({i: Path(HISTORY.format(i)) for i in experiment.histories})
    if (trace := experiment.trace) is not None:
        copies[TRACE] = trace.read_text(encoding="utf-8")
        kept = kept.with_trace(Path(TRACE))
    return {**copies, "experiment.yaml": dump(kept)}


def dump(experiment: Experiment) -> str:
    """Return the experiment as YAML with every default written out, and what looks like a secret masked."""
    out = StringIO()
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.dump(SecretMask().tree(experiment.model_dump(mode="json")), out)
    return out.getvalue()


def _read(path: Path) -> CommentedMap:
    tree = read_tree(path, "rt")
    if not isinstance(tree, CommentedMap):
        raise UsageError(f"{path}:1: an experiment is a mapping of keys", "see docs/experiments.md")
    return tree


def _beside(tree: CommentedMap, path: Path) -> None:
    """Make relative paths lie beside the experiment's file, wherever the command is given."""
    for part, key in (("workload", "trace"), ("metrics", "data"), ("plans", "data"), ("topology", "jar")):
        found = tree.get(part)
        if isinstance(found, CommentedMap) and isinstance(named := found.get(key), str):
            found[key] = str(path.resolve().parent / _at_home(named))
    steps = tree.get("steps")
    plan = steps.get("plan") if isinstance(steps, CommentedMap) else None
    for step in plan if isinstance(plan, CommentedSeq) else ():
        for node, name in ((step, "placement"), (_below(step, "adapt"), "history")):
            if isinstance(node, CommentedMap) and isinstance(named := node.get(name), str):
                node[name] = str(path.resolve().parent / _at_home(named))


def _below(node: object, key: str) -> object:
    return node.get(key) if isinstance(node, CommentedMap) else None


def _at_home(named: str) -> Path:
    try:
        return Path(named).expanduser()
    except RuntimeError:  # of a user that there is not
        return Path(named)


def _provisioned(tree: CommentedMap, path: Path, overrides: Sequence[str]) -> None:
    """Put a provisioned cluster's name and shape in the place of its file's path."""
    found = tree.get("cluster")
    given = named_file(found)
    if given is None:
        return
    file = near(given, path)
    if file is None:
        option = _giving(overrides, ["cluster"])
        place = f"--set {option}" if option else f"{path}:{_line(tree, ['cluster'])}"
        raise UsageError(f"{place}: cluster: there is no file {given}")
    cluster = load_cluster(file)
    for part, role in (("metrics", "influxdb"), ("plans", "neo4j")):
        store = tree.get(part)
        if (
            isinstance(store, Mapping)
            and store.get("store") == role
            and "url" not in store
            and not cluster.having(role)
        ):
            what = f"{part}.store: {role}: no host of the cluster {cluster.name} has that role"
            raise UsageError(what, f"give one the role {role} in {file}, then harness provision {file}")
    tree["cluster"] = keys_of(cluster, file, found)


def _override(tree: CommentedMap, option: str) -> None:
    key, equals, text = option.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {option}: expected KEY=VALUE", "e.g. --set workload.rate_tps=100")
    *parents, last = _parts(key)
    node: object = tree
    for part in parents:
        node = _child(node, part, option)
    try:
        value = read_value(text)
    except ValueError:
        raise UsageError(f"--set {option}: {text!r} is not readable as YAML", "quote it") from None
    if isinstance(node, CommentedSeq):
        node[_index(node, last, option)] = value
    elif isinstance(node, CommentedMap):
        node[last] = value
    else:
        raise UsageError(f"--set {option}: {'.'.join(parents)} has no keys below it")


def _parts(key: str) -> list[str]:
    of_others = next((name for name in NAMED_BY_OTHERS if key.startswith(f"{name}.")), "")
    if of_others:  # the names below it have dots of their own
        return [*of_others.split("."), key.removeprefix(f"{of_others}.")]
    return key.split(".")


def _child(node: object, part: str, option: str) -> object:
    if isinstance(node, CommentedSeq):
        return node[_index(node, part, option)]
    if isinstance(node, CommentedMap):
        if node.get(part) is None:
            node[part] = CommentedMap()
        return node[part]
    raise UsageError(f"--set {option}: {part!r} is below a value that has no keys")


def _index(node: CommentedSeq, part: str, option: str) -> int:
    if not part.isdigit() or int(part) >= len(node):
        raise UsageError(f"--set {option}: {part!r} is not one of the list's {len(node)} positions")
    return int(part)


def _line(tree: object, where: Sequence[int | str]) -> int:
    """Return the line of the deepest part of the key that is in the file."""
    node, line = tree, 1
    for part in where:
        try:
            if isinstance(node, CommentedMap) and part in node:
                line = node.lc.key(part)[0] + 1
                node = node[part]
            elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
                line = node.lc.item(part)[0] + 1
                node = node[part]
            else:
                break
        except (AttributeError, KeyError, TypeError):  # a value that --set put in has no line
            break
    return line
