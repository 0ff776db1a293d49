"""A command of the harness as a user gives it, in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def harness(*arguments: str) -> tuple[int, dict[str, object], str]:
    """Run a command with ``--json``; return its status, its last line and all that it printed."""
    command = [sys.executable, "-m", "harness", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


def started(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Start ``harness serve``; return the process and its address."""
    process, url, _ = _started(*arguments)
    return process, url


def started_with_token(
    runs: Path, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[str], str, str]:
    """Start ``harness serve`` for a folder of runs; return the process, its address and its token."""
    return _started("--runs", str(runs), environment=environment)


def _started(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[str], str, str]:
    command = [sys.executable, "-m", "harness", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)", line)
    assert found, line + process.stderr.read()
    return process, found[1], found[2]


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Give the address of ``harness serve``, which ends with the block."""
    process, url = started(*arguments)
    try:
        yield url
    finally:
        process.terminate()
        process.communicate(timeout=60)
