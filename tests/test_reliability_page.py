"""Figures of the reliability page are its tests': each row has one that keeps a figure, and all passed."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_good(record_property, n):
    record_property("figure", f"{n} ms")

def test_silent():
    pass

@pytest.mark.parametrize("n", [3, 4])
def test_bad(record_property, n):
    record_property("figure", f"{n} ms")
    assert n == 3

def test_left_out(record_property):
    record_property("figure", "5 ms")
    pytest.skip("no hosts here")

@pytest.fixture
def server():
    yield
    raise RuntimeError("it does not end")

def test_broken_afterwards(record_property, server):
    record_property("figure", "6 ms")
"""


@pytest.fixture(scope="module")
def reliability() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reliability", ROOT / "scripts" / "reliability.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reliability"] = module
    spec.loader.exec_module(module)
    return module


def test_only_figures_of_rows_whose_tests_all_passed_are_written(
    reliability: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    results = tmp_path / "results.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    found = reliability.outcomes(results)
    row = "| {} | `tests/test_it.py::test_{}`, `tests/test_it.py::test_silent` | old |".format
    page = [row(name, name) for name in ("good", "bad", "left_out", "broken_afterwards", "not_run")]
    assert reliability.written("\n".join(page), found).split("\n") == [
        page[0].replace("old", "1 ms; 2 ms"),
        *page[1:],
    ]
    assert reliability.counted(found, 60.0).startswith(
        "2 tests passed, 2 failed and 1 skipped, in 1.0 minutes"
    )


def test_clusters_at_the_same_ports_are_not_in_one_process(reliability: ModuleType) -> None:
    elsewhere, inside, outside = reliability.groups([])
    assert not [test for test in elsewhere.tests if test.startswith("tests/reliability")]
    assert inside.tests == ["tests/reliability", "--ignore=tests/reliability/test_host_faults.py"]
    assert (outside.tests, outside.sandboxed) == (["tests/reliability/test_host_faults.py"], False)
    (only,) = reliability.groups(["test_host_faults", "slow"])
    assert only.tests == [
        "tests/reliability/test_host_faults.py::test_tuples_took_the_slow_link_while_it_was_slow"
    ]
    assert reliability.groups(["no such test"]) == []


def recording(file: str, name: str) -> bool:
    """Whether a test keeps a figure."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    (test,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    called = (node.func for node in ast.walk(test) if isinstance(node, ast.Call))
    return any(isinstance(of, ast.Name) and of.id == "figure" for of in called)


def test_each_row_of_the_page_has_a_test_that_records_its_figure(reliability: ModuleType) -> None:
    lines = reliability.PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and reliability.TEST.search(line)]
    assert len(rows) > 35
    for row in rows:
        tests = reliability.TEST.findall(row)
        assert any(recording(*test.split("::")) for test in tests), row
        figure = row.removesuffix("|").rpartition("|")[2]
        assert re.search(r"\w", figure), f"no figure was measured: {row}"


def test_a_whole_run_has_its_place_in_the_page(reliability: ModuleType) -> None:
    text = reliability.PAGE.read_text(encoding="utf-8")
    told = reliability.replaced(text, reliability.WHOLE_RUN, "All passed.\n")
    assert [line for line in told.splitlines() if line not in text.splitlines()] == ["All passed."]
