"""Judgement whether models or measurements became worse, and sealed archives of runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from harness.commands.common import FilePath, RunPath, err, finish, json_option, relative
from harness.commands.completing import ModelName, RunFolder
from harness.errors import UsageError


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=RunFolder())
@click.option(
    "--baseline",
    "baseline_path",
    type=FilePath,
    default=Path("reports/baseline.json"),
    show_default=True,
    help="What to compare with.",
)
@click.option(
    "--update", is_flag=True, help="Make these runs part of the baseline, in place of older scores."
)
@click.option(
    "--model", "models", type=ModelName(), multiple=True, metavar="NAME", help="Only this model (repeatable)."
)
@click.option("--time", "timed", is_flag=True, help="Time the models too; needs an idle machine.")
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Probability that an unchanged night has any finding.",
)
@click.option(
    "--edited", is_flag=True, help="Let runs pass whose files were changed after they were measured."
)
@click.option("--junit", type=FilePath, metavar="FILE", help="Write JUnit XML too.")
@click.option("--markdown", type=FilePath, metavar="FILE", help="Write a Markdown summary too.")
@json_option
def regress(  # noqa: PLR0913 (an argument an option)
    runs: tuple[Path, ...],
    baseline_path: Path,
    update: bool,
    models: tuple[str, ...],
    timed: bool,
    alpha: float,
    edited: bool,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> None:
    """Score RUNs from their raw data with today's models, and compare with the baseline.

    Runs whose files were changed after they were measured are scored as they are, and named; they fail the
    comparison unless --edited is given.

    Exit status: 0 no worse than noise explains; 1 worse; 4 not enough data to say.

    \b
    harness regress reports/runs/*/*
    harness regress runs/all-in-one/20260102T030405Z --junit regress.xml
    """
    from harness.analysis.judge.rescoring import NIGHTS, rescore
    from harness.machine.whole_files import write_atomically
    from harness.regression import baseline, outputs
    from harness.regression.outcomes import Limits
    from harness.regression.regress import regress as compare

    for file in (junit, markdown, baseline_path):
        if file is not None and not file.resolve().parent.is_dir():
            raise UsageError(f"{file}: there is no folder {file.parent}")
    if update and models:
        raise UsageError("--update needs all models", "leave --model out")
    if update:
        runs = _valid(runs)
    usual = () if update and not baseline_path.exists() else baseline.read(baseline_path)
    scored = rescore(
        runs,
        models,
        lambda line: err.print(line, highlight=False),
        timed=timed,
        nights=NIGHTS if update else 0,
    )
    if update:
        nights = baseline.updated(usual, scored)
        baseline.write(baseline_path, nights)
        click.echo(f"{baseline_path}: {len(nights)} runs, {len(scored)} of them new or scored again")
        finish(as_json, {"baseline": str(baseline_path), "runs": len(nights)})
    found = compare(usual, scored, Limits(alpha=alpha), baseline_path, edited=edited)
    table = Table(title=f"compared with {baseline_path}")
    for column in outputs.COLUMNS:
        table.add_column(column)
    for row in outputs.table(found):
        table.add_row(*row)
    Console(width=min(100, err.width)).print(table)
    for line in outputs.lines(found):
        click.echo(line)
    click.echo(outputs.verdict(found))
    for file, text in ((junit, outputs.junit), (markdown, outputs.markdown)):
        if file is not None:
            write_atomically(file, text(found))
    finish(as_json, {"findings": [o.line for o in found.worse], "tested": found.tested}, found.status)


def _valid(runs: Iterable[Path]) -> tuple[Path, ...]:
    """Return the runs that a baseline can be made of, and name the others; none is a mistake."""
    from harness.regression import baseline
    from harness.runs import Run

    verdicts = {path: Run(path).verdict for path in runs}
    for path, verdict in verdicts.items():
        if verdict != "valid":
            err.print(f"{path}: left out, its verdict is {verdict}", highlight=False)
    valid = tuple(path for path, verdict in verdicts.items() if verdict == "valid")
    if not valid:
        baseline.refuse_invalid((path.parent.name, path.name, of) for path, of in verdicts.items())
    return valid


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@click.option("--out", type=FilePath, metavar="FILE", help="The archive to write.")
@json_option
def bundle(run_path: Path, out: Path | None, as_json: bool) -> None:
    """Seal RUN into one file that shows when any byte of it was changed.

    \b
    harness bundle runs/quick/20260102T030405Z --out quick.harness.zip
    """
    from harness.regression.bundle import bundle as seal

    file, found = seal(run_path, out)
    click.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB, seal sha256:{found}")
    finish(as_json, {"bundle": str(file), "seal": found})


@click.command()
@click.argument("bundle_path", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--extract", type=RunPath, metavar="DIR", help="Put the run into DIR/EXPERIMENT/RUN if intact.")
@json_option
def verify(bundle_path: Path, extract: Path | None, as_json: bool) -> None:
    """Check a BUNDLE (or the folder that one was extracted to), and name what was changed.

    \b
    harness verify quick.harness.zip --extract runs
    """
    from harness.regression import bundle

    checked = bundle.verify(bundle_path)
    for problem in checked.problems:
        click.echo(f"{bundle_path}: {problem}")
    if not checked.problems:
        sealed = f", seal sha256:{checked.seal}" if checked.seal else ""
        click.echo(f"{bundle_path}: intact: {checked.name}, {checked.files} files{sealed}")
        if extract is not None:
            click.echo(f"extracted: {relative(bundle.extract(bundle_path, extract))}")
    result = {"problems": list(checked.problems), "seal": checked.seal}
    finish(as_json, result, 1 if checked.problems else 0)
