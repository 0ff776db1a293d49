"""A command of the harness as a user gives it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys


def harness(*arguments: str) -> tuple[int, dict[str, object], str]:
    """Run a command with ``--json``; return its status, its last line and all that it printed."""
    command = [sys.executable, "-m", "harness", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr
