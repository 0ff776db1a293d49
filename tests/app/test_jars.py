"""The jars of a checkout are those of its Java sources, or nothing is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.app.jars import JARS, require_built
from harness.errors import UsageError

SOURCE = "storm-topologies/topologies/src/main/java/harness/storm/topologies/Role.java"
BUILT_S = 1_000_000.0


def checkout(root: Path) -> tuple[Path, Path]:
    """Return the folders of jars and of sources; all of it was written at the same time."""
    jars, test = [f"jars/{name}" for name in JARS], "storm-topologies/topologies/src/test/java/T.java"
    for name in (*jars, SOURCE, "storm-topologies/pom.xml", test):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (BUILT_S, BUILT_S))
    return root / "jars", root / "storm-topologies"


@pytest.mark.parametrize("changed", [SOURCE, "storm-topologies/pom.xml"])
def test_a_source_that_was_changed_since_is_named(tmp_path: Path, changed: str) -> None:
    folder, sources = checkout(tmp_path)
    require_built(folder, sources)
    os.utime(tmp_path / changed, (BUILT_S + 1, BUILT_S + 1))
    with pytest.raises(UsageError) as refused:
        require_built(folder, sources)
    assert str(refused.value) == (
        f"instrumentation.jar is older than {changed}: run make setup, which builds it with Maven"
    )


def test_a_jar_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder, sources = checkout(tmp_path)
    (folder / "topologies.jar").unlink()
    with pytest.raises(UsageError, match=r"topologies\.jar is missing: run make setup"):
        require_built(folder, sources)


def test_tests_of_the_sources_are_in_no_jar_and_a_package_has_no_sources(tmp_path: Path) -> None:
    folder, sources = checkout(tmp_path)
    os.utime(sources / "topologies/src/test/java/T.java", (BUILT_S + 1, BUILT_S + 1))
    require_built(folder, sources)
    require_built(folder, tmp_path / "nowhere")
