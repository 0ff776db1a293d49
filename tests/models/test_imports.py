"""Models get data, never a client: what their modules may import, and no draw without a seed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import harness.models

MODULES = sorted(Path(harness.models.__file__).parent.rglob("*.py"))
ALLOWED = {
    *("__future__", "collections.abc", "dataclasses", "functools", "itertools", "math", "typing", "weakref"),
    *("numpy", "numpy.typing", "scipy.optimize", "scipy.special", "pandas"),
    *("harness.errors", "harness.plans", "harness.protocols", "harness.schemas"),
}
REGISTRY = {"harness.machine.plug_ins", "inspect"}  # the package itself finds models by name
COMPILER = {"ast", "contextlib", "fcntl", "hashlib", "importlib.resources", "os", "pathlib"}
COMPILER |= {"numba", "numba.core.caching", "numba.core.compiler_lock"}
"""Keeps compiled code on disk, named after the package's code, and made by one process at a time."""
RESOURCES = {"json", "importlib.resources"}
"""The one file that a model reads: its calibration (``calibration.json``), which is part of the package."""

SEEDED = ("np.random.SeedSequence(", "np.random.default_rng(")
SPECIAL = {"__init__": REGISTRY, "uncertainty": RESOURCES, "compiling": COMPILER}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_imports_and_draws(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            module = node.module or ""
            names = [f"importlib.{a.name}" for a in node.names] if module == "importlib" else [module]
        for name in names:
            own = name.startswith("harness.models")
            special = SPECIAL.get(path.stem, set())
            assert own or name in ALLOWED or name in special, name
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"open", "print", "input", "exec", "eval"}
            seeded = called in {"np.random.default_rng", "np.random.SeedSequence"} and node.args
            of_a_seeded = called.startswith(SEEDED)  # which is looked at itself, too
            assert not called.startswith("np.random.") or seeded or of_a_seeded
