"""Build hook: the wheel carries the topologies' jars, so they are built with Maven when missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

JARS = ("instrumentation", "topologies")


class JarsHook(BuildHookInterface[Any]):
    """Run Maven unless ``harness/assets/jars`` already holds the jars."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (hatchling calls it)
        """Build and copy the jars before files are collected."""
        root = Path(self.root)
        target = root / "harness" / "assets" / "jars"
        if version == "editable" or all((target / f"{name}.jar").exists() for name in JARS):
            return
        if shutil.which("mvn") is None:
            raise SystemExit("mvn not found: install Maven and a JDK 17 or newer (apt-get install maven)")
        source = root / "storm-topologies"
        subprocess.run(["mvn", "-q", "-f", str(source), "-DskipTests", "package"], check=True)
        target.mkdir(parents=True, exist_ok=True)
        for name in JARS:
            shutil.copy(source / name / "target" / f"{name}-1.0.0.jar", target / f"{name}.jar")
