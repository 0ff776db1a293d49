"""The rules of docs/architecture.md, read from the sources' imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parent.parent / "harness"
ONE_FILE_OF_BACKENDS = ("thriftpy2", "kafka", "influxdb_client", "neo4j", "ansible_runner")
ONLY_ANALYSIS = ("pyspark", "matplotlib", "seaborn")
PRINTING = {"cli.py", "console.py"}


def sources() -> list[Path]:
    return sorted(HARNESS.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(package: str) -> list[Path]:
    return [
        p.relative_to(HARNESS)
        for p in sources()
        if any(name == package or name.startswith(f"{package}.") for name in imports(p))
    ]


@pytest.mark.parametrize("package", ONE_FILE_OF_BACKENDS)
def test_a_client_of_an_outside_system_lives_in_one_file_of_backends(package: str) -> None:
    found = importers(package)
    assert len(found) <= 1
    assert all(p.parts[0] == "backends" for p in found)


def test_the_two_clients_in_use_are_found_at_all() -> None:
    assert importers("thriftpy2")
    assert importers("kafka")


@pytest.mark.parametrize("package", ONLY_ANALYSIS)
def test_spark_and_plotting_stay_in_analysis(package: str) -> None:
    found = importers(package)
    assert found
    assert all(p.parts[0] == "analysis" for p in found)


@pytest.mark.parametrize("path", sorted((HARNESS / "models").rglob("*.py")), ids=lambda p: p.name)
def test_models_touch_nothing_outside(path: Path) -> None:
    forbidden = (
        "time",
        "os",
        "pathlib",
        "socket",
        "subprocess",
        "random",
        "harness.backends",
        "harness.runs",
    )
    allowed = ("harness.models", "harness.plans", "harness.protocols", "harness.errors")
    for name in imports(path):
        assert not any(name == f or name.startswith(f"{f}.") for f in forbidden), name
        if name.startswith("harness."):
            assert name.startswith(allowed), name


@pytest.mark.parametrize("path", sorted((HARNESS / "forecasts").glob("*.py")), ids=lambda p: p.name)
def test_forecasts_touch_nothing_outside(path: Path) -> None:
    forbidden = ("time", "os", "pathlib", "socket", "subprocess", "random", "tempfile")
    allowed = ("harness.forecasts", "harness.protocols", "harness.errors")
    for name in imports(path):
        assert not any(name == f or name.startswith(f"{f}.") for f in forbidden), name
        if name.startswith("harness."):
            assert name.startswith(allowed), name


def test_experiments_join_no_backend() -> None:
    for path in (HARNESS / "experiments").glob("*.py"):
        assert not any(n.startswith("harness.backends") for n in imports(path)), path.name


@pytest.mark.parametrize("path", [p for p in sources() if p.name not in PRINTING], ids=lambda p: p.name)
def test_only_the_console_prints(path: Path) -> None:
    calls = (n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call))
    assert not any(isinstance(c.func, ast.Name) and c.func.id == "print" for c in calls)
