"""Constants of the composite model, fitted to measured runs."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import FilePath, finish, json_option
from harness.commands.completing import RunFolder

split_option = click.option(
    "--split",
    type=FilePath,
    default=Path("reports/evaluation-split.yaml"),
    show_default=True,
    help="Names the experiments of the tuning set.",
)


@click.group()
def calibrate() -> None:
    """Fit constants of the model composite to runs of the tuning set; others are refused."""


@calibrate.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=RunFolder())
@split_option
@click.option("--out", type=FilePath, metavar="FILE", help="Instead of the file that the model reads.")
@json_option
def intervals(runs: tuple[Path, ...], split: Path, out: Path | None, as_json: bool) -> None:
    """Fit how wide the intervals of predictions are, and write the calibration.

    \b
    harness calibrate intervals runs/all-in-one/20260102T030405Z runs/loaded-cpu/20260102T040506Z
    """
    from harness.app.interval_fit import CALIBRATION, fit_intervals

    file = out or CALIBRATION
    fit_intervals(runs, split, file, click.echo)
    click.echo(f"calibration: {file}")
    finish(as_json, {"calibration": str(file)})


@calibrate.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=RunFolder())
@split_option
@json_option
def background(runs: tuple[Path, ...], split: Path, as_json: bool) -> None:
    """Fit the CPU time beside executors' own work, and print its costs.

    \b
    harness calibrate background reports/runs/all-in-one/20260102T030405Z
    """
    from harness.app.background_fit import fit_background

    fit_background(runs, split, click.echo)
    finish(as_json, {"runs": [str(run) for run in runs]})
