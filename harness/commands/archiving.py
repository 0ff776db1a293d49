"""Runs of an archive: made small, and judged again."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import RunPath, err, finish, json_option, master_option, relative
from harness.commands.completing import RunFolder


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@click.option(
    "--out", type=RunPath, required=True, help="The archive: the copy is DIR/<experiment>/<start> in it."
)
@json_option
def archive(run_path: Path, out: Path, as_json: bool) -> None:
    """Copy RUN into an archive, with only what models and judges read.

    \b
    harness archive runs/quick/20260102T030405Z --out reports/runs
    """
    from harness.app import archiving
    from harness.runs import Run

    made = archiving.archive(Run(run_path), out)
    size_bytes = sum(p.stat().st_size for p in made.rglob("*") if p.is_file())
    click.echo(f"{relative(made)}: {size_bytes / 1e6:.2f} MB")
    finish(as_json, {"run": str(made), "size_bytes": size_bytes})


@click.command()
@click.argument("run_paths", metavar="RUN...", type=RunFolder(), nargs=-1, required=True)
@master_option
@json_option
def rescore(run_paths: tuple[Path, ...], master: str | None, as_json: bool) -> None:
    """Judge archived RUNs with today's models: their summary.json and verdict.json are written anew.

    Nothing else in them changes, and what was measured never does.

    \b
    harness rescore reports/runs/*/*
    """
    from harness.app import archiving

    verdicts = {}
    for path in run_paths:
        err.print(f"{relative(path)}: predicting and judging", highlight=False)
        verdicts[str(path)] = archiving.judge_again(path, master)
        click.echo(f"{relative(path)}: {verdicts[str(path)]}")
    finish(as_json, {"verdicts": verdicts})
