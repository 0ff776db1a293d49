"""Judges archived runs again with today's models; the README's figures are these.

    python scripts/rescore.py [reports/runs/windowed/20260102T030405Z ...]

Predicts and reports copies of the runs (all by default), and keeps the new summary.json and
verdict.json in the archive. What was measured does not change.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
KEPT = ("summary.json", "verdict.json")


@click.command()
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(runs: tuple[Path, ...]) -> None:
    """Judge the runs again."""
    for run in runs or sorted((ROOT / "reports" / "runs").glob("*/*")):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / run.parent.name / run.name
            shutil.copytree(run, copy)
            for command in ("predict", "report"):
                done = subprocess.run([sys.executable, "-m", "harness", command, str(copy)], check=False)
                if done.returncode not in (0, 3, 4):  # invalid and unknown are verdicts, too
                    raise click.ClickException(f"harness {command} {run} failed: exit {done.returncode}")
            for name in KEPT:
                shutil.copy(copy / name, run / name)
        click.echo(f"{run.parent.name}/{run.name}: judged again")


if __name__ == "__main__":
    main()
