"""Figures, comparisons and the page of accuracies, from runs that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from harness.commands.common import RunPath, err, finish, json_option, master_option, relative, rounded
from harness.commands.completing import ModelName, RunFolder
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.analysis.judge.comparing import Comparison
    from harness.models.contract.conformance import ConformanceOutcome
    from harness.schedulers.conformance import SchedulerOutcome


@click.command()
@click.argument("run_paths", metavar="RUN...", type=RunFolder(), nargs=-1, required=True)
@click.option(
    "--out", type=RunPath, default=Path("figures"), show_default=True, help="Where files go; others stay."
)
@click.option(
    "--style",
    "style_name",
    type=click.Choice(["paper", "screen", "web"]),
    default="paper",
    show_default=True,
    help="Size as printed with PDF, enlarged, or that as PNG only.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this figure (repeatable).")
@master_option
@json_option
def figures(
    run_paths: tuple[Path, ...],
    out: Path,
    style_name: str,
    only: tuple[str, ...],
    master: str | None,
    as_json: bool,
) -> None:
    """Draw every evaluation figure of RUNs, with tables for LaTeX and CSV; the runs are only read.

    \b
    harness figures runs/quick/20260102T030405Z --out figures
    harness figures reports/runs/*/* --out figures --style web
    harness figures runs/quick/20260102T030405Z --only latency-by-step --style screen
    """
    from harness.analysis.report.figure_files import publish

    made = publish(run_paths, out, style_name, only, lambda text: err.print(text, highlight=False), master)
    for name, drawn in made.runs.items():
        click.echo(f"{name}: {len(drawn)} figures in {relative(out / name)}")
    runs = {name: [kind.name for kind in drawn] for name, drawn in made.runs.items()}
    finish(as_json, {"out": str(out), "runs": runs, "files": [str(p) for p in made.files]})


@click.command()
@click.argument("run_paths", metavar="RUN...", type=RunFolder(), nargs=-1, required=True)
@click.option(
    "--model",
    "models",
    type=ModelName(),
    multiple=True,
    metavar="NAME",
    help="One of two models, or the only one.",
)
@click.option("--out", type=RunPath, default=Path("comparison"), show_default=True, help="Where files go.")
@click.option(
    "--style",
    "style_name",
    type=click.Choice(["paper", "screen", "web"]),
    default="paper",
    show_default=True,
    help="Size as printed with PDF, enlarged, or that as PNG only.",
)
@master_option
@json_option
def compare(
    run_paths: tuple[Path, ...],
    models: tuple[str, ...],
    out: Path,
    style_name: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Set two RUNs, or two models, side by side, with 95 % intervals of the differences.

    \b
    harness compare runs/quick/20260102T030405Z runs/quick/20260103T030405Z
    harness compare runs/quick/20260102T030405Z --model storm-tracer --model no-change
    """
    from harness.analysis.figures import comparison_figure
    from harness.analysis.judge import comparing

    given = comparing.sides(run_paths, lambda text: err.print(text, highlight=False), master)
    found = comparing.compare(given, models)
    Console(width=max(130, err.width)).print(_errors_compared(found))
    if found.measured:
        Console(width=max(130, err.width)).print(_measured_compared(found))
    for note in found.notes:
        click.echo(note)
    files = comparison_figure.write(found, out, style_name)
    click.echo(f"figure and table: {relative(out)}")
    finish(as_json, {**found.as_json(), "files": [str(p) for p in files]})


def _errors_compared(found: Comparison) -> Table:
    from harness.analysis.figures.comparison_figure import name, shown

    table = Table(title="median errors in percent, and their difference in points with 95 % intervals")
    for column in ("what", "pairs", found.first, found.second, "difference", "from", "to", "errs less"):
        named = column in ("what", "errs less")
        table.add_column(column, justify="left" if named else "right", no_wrap=column == "what")
    for row in shown(found):
        better = {"first": found.first, "second": found.second, "": "no difference shown"}[row.better]
        ends = [_signed(row.low), _signed(row.high)]
        medians = [rounded(row.first_pct), rounded(row.second_pct), _signed(row.difference)]
        table.add_row(name(row), str(row.pairs), *medians, *ends, better if row.low is not None else "")
    return table


def _measured_compared(found: Comparison) -> Table:
    from harness.analysis.figures.error_figures import what

    table = Table(title="what was measured: difference in percent, 95 % intervals from both runs' noise")
    for column in ("configuration", "what", found.first, found.second, "difference %", "from", "to"):
        named = column in ("configuration", "what")
        table.add_column(column, justify="left" if named else "right", no_wrap=named)
    for row in found.measured:
        if row.statistic == "mean":
            values = [f"{row.first:.4g}", f"{row.second:.4g}"]
            ends = [_signed(v) for v in (row.difference_pct, row.low_pct, row.high_pct)]
            table.add_row(row.configuration, what(row.measure, row.statistic), *values, *ends)
    return table


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=RunFolder())
@click.option(
    "--split",
    "split_file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("reports/evaluation-split.yaml"),
    show_default=True,
    help="Which experiments are for tuning, development and reporting.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("docs/accuracy.md"),
    show_default=True,
    help="The page to write.",
)
@click.option(
    "--model",
    type=ModelName(),
    metavar="NAME",
    default="composite",
    show_default=True,
    help="The model that the goals are for.",
)
@click.option(
    "--notes",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Markdown to put below the tables: causes, what was tried.",
)
@click.option("--check", "only_check", is_flag=True, help="Only say whether the page is up to date.")
@click.option("--summary", "only_summary", is_flag=True, help="Only print the page's line for each model.")
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="Price this mechanism of composite instead (repeatable; all for each).",
)
@master_option
@json_option
def accuracy(  # noqa: PLR0913 (an argument an option)
    runs: tuple[Path, ...],
    split_file: Path,
    out: Path,
    model: str,
    notes: Path | None,
    only_check: bool,
    only_summary: bool,
    without: tuple[str, ...],
    master: str | None,
    as_json: bool,
) -> None:
    """Judge the models over the runs of an evaluation set (default: reports/runs), and write a page.

    On the page are the goals and the models side by side. For the composite model the page also has the
    sources of its errors: each stage and each estimate is replaced by its measured value.

    \b
    harness accuracy
    harness accuracy runs/loaded-ramp/20260102T030405Z --out ramp.md

    With --without no page is written: a table says how large the composite model's errors are with and
    without each mechanism, over the experiments in which it acts.

    \b
    harness accuracy reports/runs/loaded-cpu/* --without coldness --without at-once

    With --summary or --check nothing is computed. The first prints the page's first table, if the page is up
    to date. The exit status of the second is 1 when a run is missing from the page, or the models have
    changed since the page was made.

    \b
    harness accuracy --summary
    harness accuracy --check
    """
    from harness.analysis.judge import ablation
    from harness.analysis.judge.evaluation import evaluate, find_runs, read_split
    from harness.analysis.report.accuracy_goals import summary_of
    from harness.analysis.report.accuracy_page import out_of_date, page
    from harness.machine.whole_files import write_atomically

    split = read_split(split_file)
    paths = find_runs(runs or (Path("reports/runs"),))
    if only_check or only_summary:
        if not out.is_file():
            raise UsageError(f"{out}: there is no such page", "make it with harness accuracy")
        there = out.read_text(encoding="utf-8")
        why = out_of_date(there, [f"{p.parent.name}/{p.name}" for p in paths])
        if only_summary and why:
            raise UsageError(f"{out}: out of date: {why[0]}", "make it again with harness accuracy")
        if only_summary:
            click.echo(summary_of(there), nl=False)
            finish(as_json, {"summary": summary_of(there).splitlines(), "page": str(out)})
        click.echo(f"{relative(out)}: {'; '.join(why) or 'up to date'}")
        finish(as_json, {"out_of_date": why, "page": str(out)}, 1 if why else 0)
    if priced := _mechanisms(without):
        from harness.analysis.judge.pricing import price
        from harness.analysis.report.mechanism_tables import prices_page

        prices = price(paths, split, priced, err.print)
        click.echo(prices_page(prices), nl=False)
        finish(as_json, {"mechanisms": [p.as_json() for p in prices]})
    found = evaluate(paths, split, err.print, master)
    below = [ablation.section(paths, found, err.print)] if model == ablation.MODEL else []
    below += [notes.read_text(encoding="utf-8")] if notes else []
    text = page(found, model, str(split_file), "\n".join(filter(None, below)), split.shown)
    write_atomically(out, text)
    click.echo(f"{len(found)} runs: {relative(out)}")
    finish(as_json, {"runs": [r.name for r in found], "page": str(out)})


def _mechanisms(names: tuple[str, ...]) -> list[str]:
    """Return the mechanisms that are named, in the order of the model's own list."""
    from harness.analysis.judge.pricing import ALL
    from harness.models.composite.mechanisms import MECHANISMS, require_known

    wanted = require_known(n for n in names if n != ALL)
    return [name for name in MECHANISMS if ALL in names or name in wanted]


@click.command()
@click.option(
    "--model", "models", type=ModelName(), multiple=True, metavar="NAME", help="Only this model (repeatable)."
)
@click.option("--scheduler", "schedulers", multiple=True, metavar="NAME", help="This scheduler (repeatable).")
@json_option
def conformance(models: tuple[str, ...], schedulers: tuple[str, ...], as_json: bool) -> None:
    """Check that models, or schedulers, are deterministic, pure, and decline rather than guess.

    \b
    harness conformance --model mypackage.mymodule:model

    \b
    harness conformance --scheduler mypackage.mymodule:Scheduler
    """
    from harness.app.conformance import example
    from harness.models import MODELS, resolve
    from harness.models.contract.conformance import conform
    from harness.schedulers import make_scheduler
    from harness.schedulers.conformance import check_scheduler, question_of

    case = example()
    failed: dict[str, dict[str, str]] = {}
    asked_models = models or (() if schedulers else tuple(MODELS))
    checked: list[tuple[str, Sequence[ConformanceOutcome | SchedulerOutcome]]] = [
        (n, conform(resolve(n), case)) for n in asked_models
    ]
    question = question_of(case.source)
    checked += [(n, check_scheduler(make_scheduler(n), question)) for n in schedulers]
    for name, outcomes in checked:
        problems = {o.check: o.problem for o in outcomes if o.problem}
        failed |= {name: problems} if problems else {}
        click.echo(f"{name}: {len(outcomes) - len(problems)} of {len(outcomes)} checks passed")
        for check_name, problem in problems.items():
            click.echo(f"  {check_name}: {problem}")
    finish(as_json, {"failed": failed}, 1 if failed else 0)
