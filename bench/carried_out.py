"""An experiment carried out by ``harness run`` for a bench."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

JUDGED = (0, 3, 4)
"""Exit statuses of a run that was measured and judged, whatever its verdict."""


def carry_out_experiment(source: str, runs: Path, settings: Sequence[str] = (), *, simulated: bool) -> Path:
    """Measure an experiment, or play it; return its run directory."""
    given = [*settings, *(["cluster.kind=simulator"] if simulated else [])]
    command = [sys.executable, "-m", "harness", "run", source, "--runs", str(runs), "--json"]
    done = subprocess.run(
        [*command, *(part for setting in given for part in ("--set", setting))],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in JUDGED:
        raise click.ClickException(f"the run ended with status {done.returncode}: see above")
    return Path(json.loads(done.stdout.splitlines()[-1])["run"])
