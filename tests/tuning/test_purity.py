"""Tuners are pure: they import nothing that touches a clock, a disk, a network or a cluster."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TUNING = Path(__file__).resolve().parents[2] / "harness" / "tuning"
FORBIDDEN = ("time", "os", "pathlib", "socket", "subprocess", "random", "threading")
ALLOWED = ("harness.models", "harness.tuning", "harness.schedulers")
NOUNS = ("harness.plans", "harness.protocols", "harness.errors")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", sorted(TUNING.glob("*.py")), ids=lambda p: p.name)
def test_tuning_imports_models_and_nouns_only(path: Path) -> None:
    for name in imports(path):
        assert name.split(".")[0] not in FORBIDDEN
        if name.startswith("harness."):
            assert name.startswith(ALLOWED) or name in NOUNS, name
