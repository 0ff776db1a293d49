"""The keys of a file as JSON Schema and as rows of a table, with meanings from the grammar's docstrings.

A file's grammar is pydantic classes whose field names are the keys (``Experiment``, ``ClusterFile``). Each
class explains its keys in the section *Attributes* of its docstring.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harness.plans import Frozen

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ENTRY = re.compile(r"^(?P<names>\w+(?:, \w+)*)(?: : .*)?$")
NAME = "NAME"
"""Stands in a key for a name that the file gives."""
POSITION = "N"
"""Stands in a key for a position in a list."""


@dataclass(frozen=True)
class KeyRow:
    """A key of a file.

    Attributes
    ----------
    key : str
        Dotted, with ``NAME`` and ``N`` for what the file names and counts.
    default : object
        The value where the key is left out; None where there is none, or where the meaning says it.
    required : bool
        Whether the file must have it.
    meaning : str
        What the key says, as Markdown.
    choices : tuple of str
        The words that may stand there, where only some may.
    """

    key: str
    default: object
    required: bool
    meaning: str
    choices: tuple[str, ...] = ()


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the meaning of each field, from the docstrings of a class and its bases.

    Examples
    --------
    >>> from harness.experiments.measure_settings import StealLimits
    >>> sorted(meanings(StealLimits))
    ['again', 'most']
    """
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel):
            found |= _attributes(base.__doc__ or "")
    return {name: found[name] for name in model.model_fields if name in found}


def _attributes(docstring: str) -> dict[str, str]:
    """Return the entries of a numpydoc docstring's section *Attributes*."""
    lines = inspect.cleandoc(docstring).splitlines()
    if "Attributes" not in lines:
        return {}
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for i in range(lines.index("Attributes") + 2, len(lines)):
        if i + 1 < len(lines) and lines[i + 1].startswith("---"):
            break
        if entry := ENTRY.match(lines[i]):
            names = entry["names"].split(", ")
        elif lines[i].strip():
            for name in names:
                found.setdefault(name, []).append(lines[i].strip())
    return {name: " ".join(words).replace("``", "`") for name, words in found.items()}


def schema(
    model: type[BaseModel],
    title: str,
    short_forms: Mapping[type[BaseModel], Mapping[str, object]] = {},
    hidden: frozenset[type[BaseModel]] = frozenset(),
) -> dict[str, object]:
    """Return the JSON Schema of a file; keys without a meaning are not the user's, and left out.

    Parameters
    ----------
    model : type
        The class of the whole file.
    title : str
        What the file is.
    short_forms : mapping, optional
        Schemas of values that stand for those of a class.
    hidden : frozenset, optional
        Classes that only the harness writes.

    Returns
    -------
    dict
        An object with ``properties``, each with its ``description``, here and in ``$defs``.
    """
    made = model.model_json_schema(by_alias=True)
    parts = made.pop("$defs", {})
    for part in models_of(model):
        place = made if part is model else parts[part.__name__]
        words = meanings(part)
        kept = {info.alias or name: words[name] for name, info in part.model_fields.items() if name in words}
        place["properties"] = {
            key: {**place["properties"][key], "description": said} for key, said in kept.items()
        }
        place["description"] = " ".join(inspect.cleandoc(part.__doc__ or "").split("\n\n")[0].split())
    for part, form in short_forms.items():
        parts[part.__name__] = {"anyOf": [parts[part.__name__], dict(form)]}
    names = {part.__name__ for part in hidden}
    whole, below = _kinds_open(made, names), _kinds_open(parts, names)
    return {"$schema": DIALECT, **whole, "title": title, "$defs": _reached(whole, below)}


def _kinds_open(node: Mapping[str, object], hidden: Collection[str]) -> dict[str, object]:
    """Let a value fit several kinds: which one is meant is decided by the grammar, not by the schema."""
    return {
        "anyOf" if key == "oneOf" else key: _any_of(value, hidden)
        for key, value in node.items()
        if key != "discriminator"
    }


def _any_of(node: object, hidden: Collection[str]) -> object:
    if isinstance(node, Mapping):
        return _kinds_open(node, hidden)
    if isinstance(node, list):
        return [_any_of(each, hidden) for each in node if not _refers(each, hidden)]
    return node


def _refers(node: object, names: Collection[str]) -> bool:
    return isinstance(node, Mapping) and str(node.get("$ref", "")).rpartition("/")[2] in names


def _reached(made: Mapping[str, object], parts: Mapping[str, object]) -> dict[str, object]:
    """Return the parts that a schema refers to, directly or through others."""
    names: set[str] = set()
    waiting: list[object] = [made]
    while waiting:
        new = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(waiting.pop()))) - names
        names |= new
        waiting += [parts[name] for name in new]
    return {name: parts[name] for name in sorted(names)}


def models_of(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Return a file's classes: the whole and all of its parts, each once."""
    found: list[type[BaseModel]] = []
    waiting = [model]
    while waiting:
        if (part := waiting.pop(0)) not in found:
            found.append(part)
            waiting += [each for info in part.model_fields.values() for each, _ in _parts(info.annotation)]
    return found


def rows(
    model: type[BaseModel], prefix: str = "", seen: frozenset[type[BaseModel]] = frozenset()
) -> Iterator[KeyRow]:
    """Yield the keys of a class, those of its bases last, and of its parts; a part is opened once.

    Examples
    --------
    >>> from harness.experiments.measure_settings import StealLimits
    >>> [(row.key, row.default) for row in rows(StealLimits, "steal_pct.")]
    [('steal_pct.again', 5), ('steal_pct.most', 10)]
    """
    words = meanings(model)
    direct = {part for info in model.model_fields.values() for part, _ in _parts(info.annotation)}
    own = inspect.get_annotations(model)
    for name, info in sorted(model.model_fields.items(), key=lambda field: field[0] not in own):
        key = f"{prefix}{info.alias or name}"
        parts = [(part, inside) for part, inside in _parts(info.annotation) if part not in seen]
        opened = len(parts) == 1
        if name in words:
            default = None if opened and isinstance(info.default, Frozen) else _default(info)
            yield KeyRow(key, default, info.is_required(), words[name], tuple(_choices(info.annotation)))
        if opened:
            ((part, inside),) = parts
            yield from rows(part, f"{key}.{inside}", seen | direct)
            seen |= {part}


def _choices(annotation: object) -> Iterator[str]:
    """Yield the words that a type allows."""
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
        return
    for each in get_args(annotation):
        yield from _choices(each)


def _default(info: FieldInfo) -> object:
    value = info.default
    if value is PydanticUndefined or value is None:
        return None
    return list(value) if isinstance(value, tuple) else value


def _parts(annotation: object) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the grammar's classes in a type, each with the parts of the key between."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ""
        return
    origin = get_origin(annotation)
    inside = ""
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inside = f"{NAME}."
    elif isinstance(origin, type) and issubclass(origin, (tuple, list)):
        inside = f"{POSITION}."
    for each in get_args(annotation):
        for part, below in _parts(each):
            yield part, inside + below
