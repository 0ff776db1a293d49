"""``harness forecast`` as tests ask it."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from harness.cli import main


def ask(*typed: object) -> Result:
    """Ask with ``--json``."""
    return CliRunner().invoke(main, ["forecast", *map(str, typed), "--json"])


def last_line(done: Result) -> dict[str, Any]:
    """Return the line for programs, which is the last."""
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
