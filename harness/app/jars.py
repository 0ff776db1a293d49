"""The jars of the harness's own topologies and of the instrumentation."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from harness.errors import UsageError

JARS = ("instrumentation.jar", "topologies.jar")


def jars() -> Path:
    """Return the folder of the topologies' jars.

    Raises
    ------
    UsageError
        When they were not built, or, in a checkout, before their sources were last changed.
    """
    package = Path(str(resources.files("harness")))
    folder = package / "assets" / "jars"
    require_built(folder, package.parent / "storm-topologies")
    return folder


def require_built(folder: Path, sources: Path) -> None:
    """Check that a folder has all jars, none older than the sources; an installed package has no sources.

    Raises
    ------
    UsageError
        Naming the first jar that is missing or old.
    """
    last = max(_made_of(sources), key=_changed_s, default=None)
    for name in JARS:
        if not (folder / name).is_file():
            raise UsageError(f"{name} is missing", "run make setup, which builds it with Maven")
        if last is not None and _changed_s(folder / name) < _changed_s(last):
            what = f"{name} is older than {last.relative_to(sources.parent)}"
            raise UsageError(what, "run make setup, which builds it with Maven")


def _made_of(sources: Path) -> list[Path]:
    """Return the files that jars are built from, as ``scripts/setup.sh`` lists them."""
    return [*sources.glob("**/pom.xml"), *(p for p in sources.glob("*/src/main/**/*") if p.is_file())]


def _changed_s(path: Path) -> float:
    return path.stat().st_mtime
