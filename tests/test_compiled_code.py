"""Rules that keep compiled code readable, read from the sources (docs/architecture.md, Compiled code).

Compiled functions are those that a decorator of ``harness.models.compiling`` is put on, or of a module named
``compiled`` that hands these on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parent.parent / "harness"
MOST_ARGUMENTS = 7
INDICES = {"i", "j", "k"}
"""Names of one letter that a loop may count by."""
WALKS = [HARNESS / "models" / room / "indices.py" for room in ("simulator", "solver")]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def decorators(tree: ast.Module) -> set[str]:
    """The names by which a module has what compiles."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith("harness.")
        and node.module.endswith((".compiled", ".compiling"))
        for alias in node.names
    }


def compiled_functions() -> dict[str, ast.FunctionDef]:
    """Every compiled function by where it is."""
    found = {}
    for path in sorted(HARNESS.rglob("*.py")):
        if not re.search(r"\.compil(ed|ing)\b", path.read_text(encoding="utf-8")):
            continue
        tree = parsed(path)
        compiling = decorators(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(d, ast.Name) and d.id in compiling for d in node.decorator_list
            ):
                found[f"{path.relative_to(HARNESS).as_posix()}:{node.name}"] = node
    return found


def arguments(function: ast.FunctionDef) -> list[str]:
    every = function.args
    named = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
    return [a.arg for a in named if a is not None]


def counting(function: ast.FunctionDef) -> Iterator[ast.Name]:
    """The variables of a function's loops."""
    for node in ast.walk(function):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            yield node.target


def one_letter_names(function: ast.FunctionDef) -> set[str]:
    """Names of one letter that the function binds, but for indices of its loops."""
    indices = {id(name) for name in counting(function) if name.id in INDICES}
    bound = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in indices
    }
    return {name for name in {*bound, *arguments(function)} if len(name.strip("_")) == 1}


FUNCTIONS = compiled_functions()


def test_compiled_functions_are_found_in_every_room_that_has_some() -> None:
    rooms = {place.rpartition("/")[0] for place in FUNCTIONS}
    assert rooms == {"models/solver", "models/simulator", "schedulers"}
    importing = {
        path.parent.relative_to(HARNESS).as_posix()
        for path in HARNESS.rglob("*.py")
        if any(isinstance(n, ast.Import | ast.ImportFrom) and "numba" in ast.unparse(n)
               for n in ast.walk(parsed(path)))
    }  # fmt: skip
    assert importing == {"models"}  # compiling.py; so a decorator of numba's own is nowhere


def test_no_compiled_function_has_many_arguments() -> None:
    many = {place: len(arguments(f)) for place, f in FUNCTIONS.items()}
    assert {place: number for place, number in many.items() if number > MOST_ARGUMENTS} == {}


def test_no_name_in_a_compiled_function_is_one_letter_but_a_loop_s_index() -> None:
    short = {place: one_letter_names(f) for place, f in FUNCTIONS.items()}
    assert {place: names for place, names in short.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(net, c): ...", {"c"}),
        ("def f(net):\n  for i in net: j = i", {"j"}),
        ("def f(net):\n  for e in net: ...", {"e"}),
        ("def f(net):\n  for i, p in net: ...", {"i", "p"}),
        ("def f(net, *, w): _x = w", {"w", "_x"}),
        ("def f(net):\n  for i in net:\n    for j in net: net[i, j] += 1", set()),
    ],
)
def test_the_rule_on_names_finds_what_it_is_for(source: str, found: set[str]) -> None:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert one_letter_names(function) == found


def from_place_to_place(call: ast.Call) -> bool:
    """Say whether both ends of a range are read from records or arrays that say where things begin."""
    return len(call.args) > 1 and all(
        any(
            isinstance(node, ast.Subscript)
            or (isinstance(node, ast.Attribute) and node.attr.startswith("first_"))
            for node in ast.walk(end)
        )
        for end in call.args[:2]
    )


@pytest.mark.parametrize("helpers", WALKS, ids=lambda p: p.parent.name)
def test_a_thing_s_own_things_are_walked_over_by_the_helpers_alone(helpers: Path) -> None:
    walks = {
        path: [
            node.lineno
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
            and from_place_to_place(node)
        ]
        for path in sorted(helpers.parent.glob("*.py"))
    }
    assert walks.pop(helpers)
    assert {path.name: lines for path, lines in walks.items() if lines} == {}
