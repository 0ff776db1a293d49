"""A placement's file: the worker's label of each executor's label, as YAML."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from harness.errors import UsageError, shortened
from harness.experiments.yaml_files import read_tree

_EXECUTOR = re.compile(r"(?P<component>.+)\[\d+-\d+\]")
_WORKER = re.compile(r".+:\d+")
OWN_PREFIX = "__"
"""Names of Storm's own components begin with it."""


def read_placement(path: Path) -> dict[str, str]:
    """Return the worker's label of each executor's label.

    Raises
    ------
    UsageError
        When the file cannot be read, names an executor twice, or holds something else than labels.
    """
    tree = read_tree(path, "safe")
    hint = "a placement is a mapping like bolt-a[3-4]: node-1:6700"
    if not isinstance(tree, Mapping) or not tree:
        raise UsageError(f"{path}: holds no placement", hint)
    for executor, worker in tree.items():
        if not isinstance(executor, str) or _EXECUTOR.fullmatch(executor) is None:
            raise UsageError(f"{path}: {shortened(repr(executor))} is no executor's label", hint)
        if not isinstance(worker, str) or _WORKER.fullmatch(worker) is None:
            raise UsageError(f"{path}: {executor}: {shortened(repr(worker))} is no worker's label", hint)
    return dict(tree)


def placement_text(workers: Mapping[str, str]) -> str:
    """Return the text of a placement's file.

    Examples
    --------
    >>> print(placement_text({"bolt-a[3-4]": "node-1:6700"}), end="")
    "bolt-a[3-4]": "node-1:6700"
    """
    return "".join(f"{_quoted(executor)}: {_quoted(worker)}\n" for executor, worker in workers.items())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a text of JSON is one of YAML


def count_executors(workers: Mapping[str, str]) -> dict[str, int]:
    """Return the executors of each component of the query plan that a placement names.

    Examples
    --------
    >>> count_executors({"b[2-3]": "n:1", "b[4-4]": "n:2", "__acker[1-1]": "n:1"})
    {'b': 2}
    """
    matches = [_EXECUTOR.fullmatch(label) for label in workers]
    named = Counter(match["component"] for match in matches if match is not None)
    return {name: count for name, count in named.items() if not name.startswith(OWN_PREFIX)}
