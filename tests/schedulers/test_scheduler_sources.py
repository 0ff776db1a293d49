"""Schedulers touch no clock, disk, network or unseeded randomness, and their examples run."""

from __future__ import annotations

import ast
import doctest
from importlib import import_module
from pathlib import Path

import pytest

import harness

FOLDER = Path(harness.__file__).parent / "schedulers"
MODULES = sorted(FOLDER.glob("*.py"))
FORBIDDEN = {
    "time",
    "datetime",
    "os",
    "pathlib",
    "socket",
    "subprocess",
    "random",
    "io",
    "tempfile",
    "shutil",
}
ROOMS = ("schedulers", "models", "plans", "protocols", "schemas", "errors")
"""Rooms of the harness that schedulers may import from; its example of a step is for doctests alone."""
REGISTRY = {("__init__", "harness.machine.plug_ins")}
"""Where the package finds schedulers by name."""


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_a_scheduler_imports_nothing_that_reaches_outside(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            assert name.split(".")[0] not in FORBIDDEN, name
            if name.startswith("harness"):
                assert name.split(".")[1] in ROOMS or (path.stem, name) in REGISTRY, name


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_examples_in_docstrings_run(path: Path) -> None:
    name = "harness.schedulers" + ("" if path.stem == "__init__" else f".{path.stem}")
    assert not doctest.testmod(import_module(name)).failed


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_no_generator_is_made_without_a_seed(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np.random."):
            assert ast.unparse(node) in {"np.random.default_rng", "np.random.Generator"}
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng"):
            assert node.args
