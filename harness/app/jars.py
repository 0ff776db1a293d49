"""The jars of the harness's own topologies and of the instrumentation."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from harness.errors import UsageError


def jars() -> Path:
    """Return the folder of the topologies' jars.

    Raises
    ------
    UsageError
        When they were not built.
    """
    folder = Path(str(resources.files("harness"))) / "assets" / "jars"
    for name in ("instrumentation.jar", "topologies.jar"):
        if not (folder / name).is_file():
            raise UsageError(f"{name} is missing", "run make setup, which builds it with Maven")
    return folder
