"""Runs that meet troubles one after another, in a sandbox of their own (``troubled_run.py``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.machine import sandbox

Ended = dict[str, Any]


def troubled(folder: Path, *troubles: str) -> dict[str, Ended]:
    """Let a run meet troubles, each after it was resumed from the last; return how each command ended."""
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    script = Path(__file__).parent / "troubled_run.py"
    enter = [sys.executable, "-m", "harness.machine.sandbox", "new"]
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK}
    done = subprocess.run(
        [*enter, sys.executable, str(script), str(folder), *troubles],
        capture_output=True,
        text=True,
        check=False,
        timeout=840,
        env=environment,
    )
    logs = "\n".join(p.read_text()[-2000:] for p in sorted(folder.glob("*.log")))
    assert done.returncode == 0, done.stderr + logs
    return {e["trouble"]: e for e in json.loads(done.stdout)}


def error_of(said: str) -> str:
    """Return the only line that says what is wrong."""
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    return line


def stopped_with_what_it_had(found: Ended, first: dict[str, str]) -> None:
    """Assert that a command stopped in its second step, kept the first, and said how to go on."""
    assert found["status"] == 1, found["said"]
    assert found["steps"] == ["00"]
    assert found["first"] == first
    assert found["left"] == []
    assert "Traceback" not in found["said"]
    said = found["said"].splitlines()
    how = f"1 of the run's 2 steps are finished and kept; go on with: harness run --resume {found['run']}"
    assert how in said
    assert said.index(how) > said.index(error_of(found["said"]))
    assert json.loads(said[-1])["status"] == "failed"
