"""Users' YAML files as trees; whatever is in one, reading it ends soon and in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from harness.errors import UsageError, shortened

MOST_BYTES = 1 << 20
MOST_NODES = 100_000
"""Keys and values, those behind an alias counted wherever it stands: ten lines can stand for a billion."""
MOST_DEPTH = 40
_UNREADABLE = (
    YAMLError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    AssertionError,
    RecursionError,
    NotImplementedError,
)
"""Errors that the library raises for text that is no YAML, beside its own."""


def read_tree(path: Path, kind: Literal["rt", "safe"]) -> object:
    """Read a YAML file.

    Parameters
    ----------
    path : Path
    kind : {'rt', 'safe'}
        ``rt`` keeps where everything stands.

    Raises
    ------
    UsageError
        When it cannot be read, is no YAML, or is larger than any file of settings.
    """
    try:
        with path.open("rb") as file:
            contents = file.read(MOST_BYTES + 1)
        text = contents.decode("utf-8")
    except (OSError, ValueError) as error:  # no UTF-8; a NUL in its name
        raise UsageError(f"{path}: cannot be read", str(error)) from None
    if len(contents) > MOST_BYTES:
        raise UsageError(f"{path}: larger than {MOST_BYTES} bytes", "that is no file of settings")
    try:
        tree: object = YAML(typ=kind).load(text)
    except _UNREADABLE as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{path}{line}: not readable as YAML", _problem(error)) from None
    if reason := _too_large(tree):
        raise UsageError(f"{path}: {reason}", "that is no file of settings")
    return tree


def read_value(text: str) -> object:
    """Read a value that was given on a command line.

    Raises
    ------
    ValueError
        When it is no YAML, or too large.
    """
    try:
        value: object = YAML(typ="safe").load(text)
    except _UNREADABLE as error:
        raise ValueError(_problem(error)) from None
    if reason := _too_large(value):
        raise ValueError(reason)
    return value


def _problem(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    lines = str(getattr(error, "problem", None) or error).splitlines()
    return shortened(lines[0]) if lines and lines[0] else type(error).__name__


def _too_large(tree: object) -> str:
    """Return why a tree is no settings'; empty where it may be."""
    waiting, nodes = [(tree, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if depth > MOST_DEPTH:
            return f"nested more than {MOST_DEPTH} deep"
        if nodes > MOST_NODES:
            return f"more than {MOST_NODES} keys and values"
        if isinstance(node, Mapping):
            waiting += [(inner, depth + 1) for inner in node.values()]
        elif isinstance(node, list | tuple | set):
            waiting += [(inner, depth + 1) for inner in node]
    return ""
