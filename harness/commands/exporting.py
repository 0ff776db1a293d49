"""A run in the formats of other tools."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import finish, json_option, relative
from harness.commands.completing import RunFolder
from harness.errors import UsageError

FORMATS = {
    "hgrm": "One step's ground-truth latencies as HdrHistogram's percentile text (a new file).",
    "junit": "The verdict's checks as JUnit XML (a new file).",
    "csv": "Latencies, predictions and errors as CSV (a new folder).",
    "ro-crate": "The whole run with RO-Crate metadata (a new folder).",
}


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@click.option("--hgrm", "formats", flag_value="hgrm", multiple=True, help=FORMATS["hgrm"])
@click.option("--junit", "formats", flag_value="junit", multiple=True, help=FORMATS["junit"])
@click.option("--csv", "formats", flag_value="csv", multiple=True, help=FORMATS["csv"])
@click.option("--ro-crate", "formats", flag_value="ro-crate", multiple=True, help=FORMATS["ro-crate"])
@click.option("--step", type=int, metavar="N", help="The step of --hgrm, where the run has several.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="PATH", help="What is made.")
@json_option
def export(run_path: Path, formats: tuple[str, ...], step: int | None, out: Path, as_json: bool) -> None:
    """Write RUN in a format that other tools read; nothing in RUN is changed.

    A histogram holds the latencies of one step:

    \b
    harness export runs/quick/20260102T030405Z --hgrm --step 0 --out step-0.hgrm

    The other formats hold the whole run:

    \b
    harness export runs/quick/20260102T030405Z --junit --out checks.xml
    harness export runs/quick/20260102T030405Z --csv --out tables
    harness export runs/quick/20260102T030405Z --ro-crate --out crate
    """
    from harness.app import exports
    from harness.app.opened_run import load_run

    if len(formats) != 1:
        given = " and ".join(f"--{f}" for f in formats) or "no format"
        raise UsageError(given, f"give one of {', '.join(f'--{f}' for f in FORMATS)}")
    (format_,) = formats
    if step is not None and format_ != "hgrm":
        raise UsageError(f"--step {step}: --{format_} takes the whole run", "leave it out")
    opened = load_run(run_path)
    run, result = opened.run, dict[str, object](format=format_, out=str(out))
    if format_ == "hgrm":
        step = opened.one_step(step)
        result |= {"step": step, "latencies": exports.write_histogram(run, step, out)}
    elif format_ == "junit":
        result["checks"] = exports.write_junit(run, opened.name, out)
    elif format_ == "csv":
        result["files"], missing = exports.write_csv(run, out)
        for name in missing:
            click.echo(f"left out: {name}.csv; {name}.parquet is made with: {exports.TABLES[name]}")
        result["missing"] = missing
    else:
        result["files"] = exports.write_crate(run, opened.name, out)
    click.echo(f"written: {relative(out)}")
    finish(as_json, result)
