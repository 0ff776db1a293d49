"""Machine code is kept as long as nothing that it was made from changes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import pytest

import harness.models.simulator
from harness.models import compiling
from harness.models.simulator.compiled import MODULES


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    own = tmp_path / "made_for_this_test"
    own.mkdir()
    for name in ("__init__", "one", "other"):
        (own / f"{name}.py").write_text(f"# {name}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield own
    sys.modules.pop(own.name, None)


def test_the_folder_is_in_the_users_cache_and_named_after_the_code(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = Path(compiling.folder(package.name))
    assert before.is_relative_to(tmp_path / "cache")
    assert before.name.startswith(package.name)
    (package / "other.py").write_text('"""Another text."""  # and a comment\n\n')
    assert Path(compiling.folder(package.name)) == before
    (package / "other.py").write_text("mended = 1\n")
    assert Path(compiling.folder(package.name)) != before


def test_a_folder_below_where_a_command_was_started_is_not_used(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The specification of base directories: a relative path is ignored."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "NaN")
    assert Path(compiling.folder(package.name)).is_relative_to(tmp_path / ".cache" / "storm-harness")


def test_only_the_named_modules_count(package: Path) -> None:
    before = compiling.folder(package.name, ("one",))
    (package / "other.py").write_text("mended = 1\n")
    assert compiling.folder(package.name, ("one",)) == before
    (package / "one.py").write_text("mended = 1\n")
    assert compiling.folder(package.name, ("one",)) != before


def test_the_helper_is_part_of_the_name(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiling.folder(package.name)
    copy = package.parent / "compiling.py"
    copy.write_bytes(Path(compiling.__file__).read_bytes() + b"mended = 1\n")
    files = resources.files
    monkeypatch.setattr(
        resources, "files", lambda name: package.parent if name == "harness.models" else files(name)
    )
    assert compiling.folder(package.name) != before


TWICE = """
from harness.models import compiling

def called(x: float) -> float:
    return FACTOR * x

function = compiling.kept(called, compiling.folder("made_for_this_test"))
value = function(2.0)
for compile_one in compiling.noted:
    compile_one()
assert value == (1.0 if compiling.noted else 2.0 * FACTOR)
print(0 if compiling.noted else sum(function.stats.cache_hits.values()))
"""


def compiled_anew(package: Path, cache: Path) -> bool:
    """Whether the function of ``one`` had to be compiled by a process of its own."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", "import made_for_this_test.one"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return said.stdout.split() == ["0"]


@pytest.mark.deep
def test_a_mended_comment_compiles_nothing_anew_and_a_mended_constant_does(
    package: Path, tmp_path: Path
) -> None:
    (package / "one.py").write_text("FACTOR = 3.0\n" + TWICE)
    assert compiled_anew(package, tmp_path / "cache")
    (package / "one.py").write_text("# lines\n\n# move\nFACTOR = 3.0\n" + TWICE)
    assert not compiled_anew(package, tmp_path / "cache")
    (package / "one.py").write_text("FACTOR = 4.0\n" + TWICE)
    assert compiled_anew(package, tmp_path / "cache")


@pytest.mark.deep
def test_what_was_compiled_ahead_needs_no_compilation_when_it_is_carried_out(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that compiles ahead only notes the call; it answers 1 instead of 6."""
    (package / "one.py").write_text("FACTOR = 3.0\n" + TWICE)
    with monkeypatch.context() as patch:
        patch.setenv(compiling.AHEAD, "yes")
        assert compiled_anew(package, tmp_path / "cache")
    assert not compiled_anew(package, tmp_path / "cache")


@pytest.mark.deep
def test_of_processes_that_need_a_function_at_once_one_compiles_it(package: Path, tmp_path: Path) -> None:
    (package / "one.py").write_text("FACTOR = 3.0\n" + TWICE)
    with ThreadPoolExecutor(3) as pool:
        anew = list(pool.map(lambda _: compiled_anew(package, tmp_path / "cache"), range(3)))
    assert sorted(anew) == [False, False, True]


def test_the_simulator_names_all_of_its_modules_with_compiled_functions() -> None:
    """``kinds`` has the records that they work on, ``compiled`` the options."""
    found = {"kinds", "compiled"}
    for path in Path(harness.models.simulator.__file__).parent.glob("*.py"):
        imported = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom))
        if any(n.module == "harness.models.simulator.compiled" for n in imported):
            found.add(path.stem)
    assert set(MODULES) == found
