"""The commands and their exit statuses; with ``console`` the only module that prints.

Exit status: 0 done and valid; 1 failed; 2 usage or configuration; 3 done but the measurement is
invalid; 4 validity unknown.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.errors import HarnessError, MissingTool, UsageError

CHECKED = "STORM_HARNESS_CHECKED"
"""Environment variable: the experiment and the machine were checked before the sandbox was entered."""
VERDICT_STATUS = {"valid": 0, "invalid": 3, "unknown": 4}

err = Console(stderr=True, soft_wrap=True)


class Commands(click.Group):
    """A group whose commands end a HarnessError with one line and its exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except HarnessError as error:
            _show_error(error, str(error), error.excerpt)
            _finish("--json" in sys.argv, {"status": "failed", "error": str(error)}, error.exit_status)
        except OSError as error:  # a full disk, a folder that may not be written to
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            _show_error(error, what)
            _finish("--json" in sys.argv, {"status": "failed", "error": what}, 1)
        except KeyboardInterrupt as error:
            _show_error(error, "stopped")
            _finish("--json" in sys.argv, {"status": "stopped"}, 1)


def _show_error(error: BaseException, what: str, excerpt: str = "") -> None:
    """Show one line that says what is wrong, a log's last lines, and what can be done now."""
    if isinstance(error, Exception):
        err.print("[bold red]error:[/] ", end="")
    err.print(what, markup=False, highlight=False)
    for line in excerpt.splitlines():
        err.print(f"    {line}", markup=False, highlight=False, style="dim")
    for note in getattr(error, "__notes__", ()):
        err.print(note, markup=False, highlight=False)


def _finish(as_json: bool, result: dict[str, Any], status: int = 0) -> None:
    """End a command, with its machine-readable last line where that was asked."""
    if as_json:
        click.echo(json.dumps({"exit_status": status, **result}))
    sys.stdout.flush()
    sys.exit(status)


def _json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="End with one machine-readable line.")(
        command
    )


RunPath = click.Path(path_type=Path, file_okay=False)
FilePath = click.Path(path_type=Path, dir_okay=False)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="harness")
def main() -> None:
    """Measure stream processing topologies on a real cluster, and judge models of their performance."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a user's model.py beside the experiment is found


@main.command()
@click.argument("experiment", required=False)
@click.option(
    "--runs", type=RunPath, default=Path("runs"), show_default=True, help="Where run directories go."
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a key of the file.")
@click.option("--resume", type=RunPath, metavar="RUN", help="Go on with an interrupted run instead.")
@_json_option
def run(
    experiment: str | None, runs: Path, overrides: tuple[str, ...], resume: Path | None, as_json: bool
) -> None:
    """Measure an EXPERIMENT (a file, or a name of 'harness list') and judge the models on it.

    \b
    harness run configs/experiments/all-in-one.yaml
    harness run quick --set workload.rate_tps=100
    harness run --resume runs/quick/20260102T030405Z
    """
    from harness import campaigning
    from harness.backends import sandbox, servers
    from harness.console import ProgressDisplay
    from harness.experiments.loading import expand_steps, files, load
    from harness.runs import Run
    from harness.stores import Stores

    if (experiment is None) == (resume is None):
        raise UsageError("give either an EXPERIMENT or --resume RUN", "see harness run --help")
    if resume is not None and overrides:
        raise UsageError("--set cannot change a run that has begun", "start a new run instead")
    resumed = Run(resume) if resume else None
    loaded = load(resumed.path / "experiment.yaml" if resumed else str(experiment), overrides)
    if os.environ.pop(CHECKED, None) is None:  # in the sandbox this function is run once more
        _show_findings(loaded)
        _require_tools()
        campaigning.jars()
        campaigning.require_room(resumed.path if resumed else runs, loaded)
    homes = servers.install(progress=err.print)
    if not sandbox.inside():
        if reason := sandbox.obstacle():
            err.print(
                f"[yellow]warning:[/] no private network here ({reason}): the servers listen on loopback"
                " addresses, the workers on every address but protected by a secret"
            )
        else:
            os.environ[CHECKED] = "1"
            sandbox.enter([sys.executable, "-m", "harness", *sys.argv[1:]])

    environment = campaigning.environment(Stores.of(loaded))
    measured = resumed or Run.create(runs, loaded.name, files(loaded), environment)
    if resumed:
        campaigning.note_resumption(resumed)
    err.print(f"run directory {_relative(measured.path)}")
    with measured.exclusively(), ProgressDisplay(err) as display:
        try:
            campaigning.measure(loaded, measured, homes, display, display.say)
        except (HarnessError, KeyboardInterrupt, OSError) as error:
            finished = len(measured.finished_steps)
            error.add_note(
                f"{finished} of the run's {len(expand_steps(loaded))} steps are finished and kept;"
                f" go on with: harness run --resume {_relative(measured.path)}"
            )
            raise
    _predict(measured, loaded.models)
    _report(measured, as_json)


@main.command()
@click.argument("experiment")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a key of the file.")
@_json_option
def check(experiment: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Validate an EXPERIMENT and show what it would do; nothing is started.

    \b
    harness check configs/experiments/all-in-one.yaml
    """
    from harness.experiments.loading import expand_steps, load

    loaded = load(experiment, overrides)
    warnings = _show_findings(loaded)
    steps = expand_steps(loaded)
    most_s = len(steps) * (15 + loaded.measure.burn_in.most_s + loaded.measure.interval.most_s)
    click.echo(f"{loaded.name}: {len(steps)} steps of {loaded.topology.name}, at most {most_s / 60:.0f} min")
    for step in steps:
        counts = " ".join(f"{n}:{c}" for n, c in step.configuration.executors.items())
        fresh = ", fresh submission" if step.fresh else ""
        click.echo(
            f"  {step.index}: {counts} on {step.configuration.workers} workers,"
            f" {step.rate_tps:g} messages/s{fresh}"
        )
    _finish(as_json, {"experiment": loaded.name, "steps": len(steps), "most_s": most_s, "warnings": warnings})


@main.command()
@click.argument("run_path", metavar="RUN", type=RunPath)
@click.option("--model", "models", multiple=True, metavar="NAME", help="Only this model (repeatable).")
@_json_option
def predict(run_path: Path, models: tuple[str, ...], as_json: bool) -> None:
    """Let models predict every source -> proposed pair of RUN; needs no cluster.

    \b
    harness predict runs/quick/20260102T030405Z --model storm-tracer
    """
    from harness.runs import Run

    rows = _predict(Run(run_path), models)
    _finish(as_json, {"run": str(run_path), "predictions": rows})


@main.command()
@click.argument("run_path", metavar="RUN", type=RunPath)
@_json_option
def report(run_path: Path, as_json: bool) -> None:
    """Compute error matrices, figures, verdict and report of RUN with Spark; needs no cluster.

    \b
    harness report runs/quick/20260102T030405Z
    """
    from harness.runs import Run

    _report(Run(run_path), as_json)


@main.command()
@click.argument("run_paths", metavar="RUN...", type=RunPath, nargs=-1, required=True)
@click.option(
    "--out", type=RunPath, default=Path("figures"), show_default=True, help="Where files go; others stay."
)
@click.option(
    "--style",
    "style_name",
    type=click.Choice(["paper", "screen"]),
    default="paper",
    show_default=True,
    help="Size as printed with PDF, or enlarged.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this figure (repeatable).")
@_json_option
def figures(
    run_paths: tuple[Path, ...], out: Path, style_name: str, only: tuple[str, ...], as_json: bool
) -> None:
    """Draw every evaluation figure of RUNs, with tables for LaTeX and CSV; the runs are only read.

    \b
    harness figures runs/quick/20260102T030405Z --out figures
    harness figures reports/runs/*/* --out reports/figures
    harness figures runs/quick/20260102T030405Z --only latency-by-step --style screen
    """
    from harness.analysis.figure_files import publish

    made = publish(run_paths, out, style_name, only, lambda text: err.print(text, highlight=False))
    for name, drawn in made.runs.items():
        click.echo(f"{name}: {len(drawn)} figures in {_relative(out / name)}")
    runs = {name: [kind.name for kind in drawn] for name, drawn in made.runs.items()}
    _finish(as_json, {"out": str(out), "runs": runs, "files": [str(p) for p in made.files]})


@main.command()
@click.argument("run_paths", metavar="RUN...", type=RunPath, nargs=-1, required=True)
@click.option("--model", "models", multiple=True, metavar="NAME", help="One of two models, or the only one.")
@click.option("--out", type=RunPath, default=Path("comparison"), show_default=True, help="Where files go.")
@click.option(
    "--style",
    "style_name",
    type=click.Choice(["paper", "screen"]),
    default="paper",
    show_default=True,
    help="Size as printed with PDF, or enlarged.",
)
@_json_option
def compare(
    run_paths: tuple[Path, ...], models: tuple[str, ...], out: Path, style_name: str, as_json: bool
) -> None:
    """Set two RUNs, or two models, side by side, with 95 % intervals of the differences.

    \b
    harness compare runs/quick/20260102T030405Z runs/quick/20260103T030405Z
    harness compare runs/quick/20260102T030405Z --model storm-tracer --model no-change
    """
    from harness.analysis import comparing, comparison_figure

    given = comparing.sides(run_paths, lambda text: err.print(text, highlight=False))
    found = comparing.compare(given, models)
    Console(width=max(130, err.width)).print(_errors_compared(found))
    if found.measured:
        Console(width=max(130, err.width)).print(_measured_compared(found))
    for note in found.notes:
        click.echo(note)
    files = comparison_figure.write(found, out, style_name)
    click.echo(f"figure and table: {_relative(out)}")
    _finish(as_json, {**found.as_json(), "files": [str(p) for p in files]})


def _errors_compared(found: Any) -> Table:
    from harness.analysis.comparison_figure import name, shown

    table = Table(title="median errors in percent, and their difference in points with 95 % intervals")
    for column in ("what", "pairs", found.first, found.second, "difference", "from", "to", "errs less"):
        named = column in ("what", "errs less")
        table.add_column(column, justify="left" if named else "right", no_wrap=column == "what")
    for row in shown(found):
        better = {"first": found.first, "second": found.second, "": "no difference shown"}[row.better]
        ends = [_signed(row.low), _signed(row.high)]
        medians = [_pct(row.first_pct), _pct(row.second_pct), _signed(row.difference)]
        table.add_row(name(row), str(row.pairs), *medians, *ends, better if row.low is not None else "")
    return table


def _measured_compared(found: Any) -> Table:
    from harness.analysis.error_figures import what

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


@main.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=RunPath)
@click.option(
    "--split",
    "split_file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("reports/evaluation-split.yaml"),
    show_default=True,
    help="Which experiments are for tuning, and which for reporting.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("docs/accuracy.md"),
    show_default=True,
    help="The page to write.",
)
@click.option("--model", default="composite", show_default=True, help="The model that the goals are for.")
@click.option(
    "--notes",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Markdown to put below the tables: causes, what was tried.",
)
@_json_option
def accuracy(
    runs: tuple[Path, ...], split_file: Path, out: Path, model: str, notes: Path | None, as_json: bool
) -> None:
    """Judge the models over the runs of an evaluation set (default: reports/runs), and write a page.

    \b
    harness accuracy
    harness accuracy runs/loaded-ramp/20260102T030405Z --out ramp.md
    """
    from harness.analysis.accuracy_page import page
    from harness.analysis.evaluation import evaluate, find_runs, read_split
    from harness.runs import write_atomically

    split = read_split(split_file)
    found = evaluate(find_runs(runs or (Path("reports/runs"),)), split, err.print)
    text = page(found, model, str(split_file), notes.read_text(encoding="utf-8") if notes else "")
    write_atomically(out, text)
    click.echo(f"{len(found)} runs: {_relative(out)}")
    _finish(as_json, {"runs": [r.name for r in found], "page": str(out)})


@main.command()
@click.option("--model", "models", multiple=True, metavar="NAME", help="Only this model (repeatable).")
@_json_option
def conformance(models: tuple[str, ...], as_json: bool) -> None:
    """Check that models are deterministic, pure, in the right units, and decline rather than guess.

    \b
    harness conformance --model mypackage.mymodule:model
    """
    from harness.conformance import example
    from harness.models import MODELS, resolve
    from harness.models.conformance import conform

    case = example()
    failed: dict[str, dict[str, str]] = {}
    for name in models or tuple(MODELS):
        outcomes = conform(resolve(name), case)
        problems = {o.check: o.problem for o in outcomes if o.problem}
        failed |= {name: problems} if problems else {}
        click.echo(f"{name}: {len(outcomes) - len(problems)} of {len(outcomes)} checks passed")
        for check_name, problem in problems.items():
            click.echo(f"  {check_name}: {problem}")
    _finish(as_json, {"failed": failed}, 1 if failed else 0)


@main.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=RunPath)
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
@click.option("--model", "models", multiple=True, metavar="NAME", help="Only this model (repeatable).")
@click.option("--time", "timed", is_flag=True, help="Time the models too; needs an idle machine.")
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Probability that an unchanged night has any finding.",
)
@click.option("--junit", type=FilePath, metavar="FILE", help="Write JUnit XML too.")
@click.option("--markdown", type=FilePath, metavar="FILE", help="Write a Markdown summary too.")
@_json_option
def regress(
    runs: tuple[Path, ...],
    baseline_path: Path,
    update: bool,
    models: tuple[str, ...],
    timed: bool,
    alpha: float,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> None:
    """Score RUNs from their raw data with today's models, and compare with the baseline.

    Exit status: 0 no worse than noise explains; 1 worse; 4 not enough data to say.

    \b
    harness regress reports/runs/*/*
    harness regress runs/all-in-one/20260102T030405Z --junit regress.xml
    """
    from harness.analysis.rescoring import REPLICATES, rescore
    from harness.regression import baseline, outputs
    from harness.regression.outcomes import Limits
    from harness.regression.regress import regress as compare
    from harness.runs import write_atomically

    for file in (junit, markdown, baseline_path):
        if file is not None and not file.resolve().parent.is_dir():
            raise UsageError(f"{file}: there is no folder {file.parent}")
    if update and models:
        raise UsageError("--update needs all models", "leave --model out")
    usual = () if update and not baseline_path.exists() else baseline.read(baseline_path)
    replicates = REPLICATES if update else 0
    scored = rescore(runs, models, lambda line: err.print(line, highlight=False), timed, replicates)
    if update:
        nights = baseline.updated(usual, scored)
        baseline.write(baseline_path, nights)
        click.echo(f"{baseline_path}: {len(nights)} runs, {len(scored)} of them new or scored again")
        _finish(as_json, {"baseline": str(baseline_path), "runs": len(nights)})
    found = compare(usual, scored, Limits(alpha=alpha), baseline_path)
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
    _finish(as_json, {"findings": [o.line for o in found.worse], "tested": found.tested}, found.status)


@main.command()
@click.argument("run_path", metavar="RUN", type=RunPath)
@click.option("--out", type=FilePath, metavar="FILE", help="The archive to write.")
@_json_option
def bundle(run_path: Path, out: Path | None, as_json: bool) -> None:
    """Seal RUN into one file that shows when any byte of it was changed.

    \b
    harness bundle runs/quick/20260102T030405Z --out quick.harness.zip
    """
    from harness.regression.bundle import bundle as seal

    file, found = seal(run_path, out)
    click.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB, seal sha256:{found}")
    _finish(as_json, {"bundle": str(file), "seal": found})


@main.command()
@click.argument("bundle_path", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--extract", type=RunPath, metavar="DIR", help="Put the run into DIR/EXPERIMENT/RUN if intact.")
@_json_option
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
            click.echo(f"extracted: {_relative(bundle.extract(bundle_path, extract))}")
    result = {"problems": list(checked.problems), "seal": checked.seal}
    _finish(as_json, result, 1 if checked.problems else 0)


@main.command(name="list")
@click.option(
    "--runs", type=RunPath, default=Path("runs"), show_default=True, help="Where run directories are."
)
@_json_option
def list_(runs: Path, as_json: bool) -> None:
    """List the shipped experiments, topologies, models, and the runs made here."""
    from harness.experiments.loading import shipped_folders
    from harness.models import MODELS
    from harness.runs import Run
    from harness.topologies import TOPOLOGIES

    names: list[str] = []
    for folder in shipped_folders():
        names = names or sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.yaml"))
    found = []
    for path in sorted(runs.glob("*/*/environment.json")):
        try:
            made = Run(path.parent)
            found.append(
                {"run": str(_relative(made.path)), "steps": len(made.finished_steps), "verdict": made.verdict}
            )
        except UsageError as broken:  # one run that cannot be read hides no other
            found.append({"run": str(_relative(path.parent)), "steps": 0, "verdict": str(broken)})
    click.echo(f"experiments: {', '.join(names)}")
    click.echo(f"topologies: {', '.join(TOPOLOGIES)}")
    click.echo(f"models: {', '.join(MODELS)}")
    for one in found:
        click.echo(f"{one['run']}: {one['steps']} steps, {one['verdict']}")
    _finish(as_json, {"experiments": names, "models": list(MODELS), "runs": found})


@main.command()
@click.option("--install", is_flag=True, help="Also fetch the servers' jars into the cache folder.")
@click.option(
    "--optional", is_flag=True, help="With --install: InfluxDB (is built, ten minutes) and Neo4j, too."
)
@_json_option
def doctor(install: bool, optional: bool, as_json: bool) -> None:
    """Say what is missing on this machine, and the command that mends it."""
    from harness.backends import optional_servers, servers
    from harness.backends.machine import doctor as examine

    findings = examine()
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[red]missing[/]" if finding.needed else "[yellow]absent[/]"
        err.print(
            f"{mark} {finding.name}: {finding.detail}" + (f" -> {finding.mend}" if finding.mend else "")
        )
    wanting = [f.name for f in findings if not f.ok and f.needed]
    if install and not wanting:
        servers.install(progress=err.print)
        if optional:
            optional_servers.install_possible(err.print)
    _finish(as_json, {"missing": wanting}, 2 if wanting else 0)


@main.command()
@click.argument("run_path", metavar="RUN", type=RunPath)
@click.option("--step", "steps", type=int, multiple=True, metavar="N", help="Only this step (repeatable).")
@click.option(
    "--difference", type=int, nargs=2, metavar="N M", help="How step M's plan differs from step N's."
)
@click.option(
    "--list-paths", type=click.IntRange(1), metavar="N", help="List the first N paths by name, too."
)
@click.option(
    "--from",
    "asked",
    type=click.Choice(["auto", "run", "neo4j"]),
    default="auto",
    show_default=True,
    help="Who answers: the run directory, or Neo4j (auto: when NEO4J_URI is set).",
)
@_json_option
def plans(
    run_path: Path,
    steps: tuple[int, ...],
    difference: tuple[int, int] | None,
    list_paths: int | None,
    asked: str,
    as_json: bool,
) -> None:
    """Ask about the plans of RUN: executors on workers, streams that cross nodes, paths, differences.

    Neo4j is the one that NEO4J_URI names (with NEO4J_USERNAME, and NEO4J_PASSWORD or NEO4J_PASSWORD_FILE),
    else this machine's own, which is started for the question. The run is imported into it first; what is
    there already is not changed.

    \b
    harness plans runs/quick/20260102T030405Z
    harness plans runs/quick/20260102T030405Z --difference 0 1
    harness plans runs/quick/20260102T030405Z --step 1 --list-paths 5 --json
    """
    from harness import plan_answers, stores
    from harness.backends import sandbox
    from harness.homes import temporary_home
    from harness.runs import Run

    run_ = Run(run_path)
    with ExitStack() as open_:
        source: plan_answers.PlanSource = plan_answers.RunPlans(run_)
        graph = open_.enter_context(given) if asked != "run" and (given := stores.given_graph()) else None
        if graph is None and asked == "neo4j":
            stores.local_neo4j()
            if not sandbox.inside() and sandbox.obstacle() is None:
                sandbox.enter([sys.executable, "-m", "harness", *sys.argv[1:]])
            home = open_.enter_context(temporary_home())
            graph = open_.enter_context(stores.local_graph(home, err.print))
        if graph is not None:
            graph.add(run_)
            source = graph.plans(run_)
        found = [plan_answers.answers(source, n, list_paths) for n in steps or source.steps()]
        changed = plan_answers.difference(source, *difference) if difference else None
    for one in found if not difference or steps else ():
        _show_plan(one)
    if changed:
        _show_difference(changed)
    result: dict[str, Any] = {"run": str(run_path), "from": source.name}
    result["steps"] = [one.model_dump(mode="json") for one in found]
    if changed:
        result["difference"] = changed.model_dump(mode="json")
    _finish(as_json, result)


def _show_plan(plan: Any) -> None:
    click.echo(f"step {plan.step}, {plan.configuration}")
    for worker in plan.workers:
        click.echo(f"  {worker.worker}: {' '.join(worker.executors)}")
    for s in plan.streams:
        click.echo(
            f"  {s.stream}: {s.connections} connections,"
            f" {s.between_workers} between workers, {s.between_nodes} between nodes"
        )
    if plan.cyclic:
        click.echo("  paths: the plan has a cycle, and so paths without end")
    for p in plan.paths:
        by = ", ".join(f"{count} with {crossings}" for crossings, count in p.by_node_crossings.items())
        click.echo(f"  paths {p.spout} to {p.sink}: {p.paths}; changes of node: {by}")
    for path in plan.listed or ():
        click.echo(f"    {path.path} ({path.node_crossings} changes of node)")


def _show_difference(found: Any) -> None:
    click.echo(f"step {found.first} to step {found.second}")
    for name, (before, after) in found.executors.items():
        click.echo(f"  {name}: {before} to {after} executors")
    for moved in found.moved:
        click.echo(f"  {moved.executor}: {moved.first} to {moved.second}")
    for title, labels in (("no longer", found.only_first), ("new", found.only_second)):
        if labels:
            click.echo(f"  {title}: {' '.join(labels)}")
    if not (found.executors or found.moved or found.only_first or found.only_second):
        click.echo("  no difference")


@main.group()
def cluster() -> None:
    """Keep a real cluster up between runs, in a private network of its own."""


@cluster.command()
@click.option("--nodes", type=click.IntRange(1), default=2, show_default=True, help="Worker nodes.")
@click.option(
    "--slots-per-node", type=click.IntRange(1), default=2, show_default=True, help="Workers a node."
)
@click.option(
    "--worker-heap-mb", type=click.IntRange(64), default=256, show_default=True, help="Heap of a worker."
)
@_json_option
def up(nodes: int, slots_per_node: int, worker_heap_mb: int, as_json: bool) -> None:
    """Start ZooKeeper, Nimbus, supervisors and Kafka, and leave them running."""
    from harness import campaigning
    from harness.backends import cluster_daemon, servers

    _require_tools()
    shape = cluster_daemon.Shape(
        nodes=nodes,
        slots_per_node=slots_per_node,
        worker_heap_mb=worker_heap_mb,
        extlib=(campaigning.jars() / "instrumentation.jar",),
    )
    state = cluster_daemon.up(servers.install(progress=err.print), shape, err.print)
    click.echo(f"up: {nodes} nodes with {slots_per_node} slots each, logs in {state.home / 'logs'}")
    _finish(as_json, {"state": json.loads(state.model_dump_json())})


@cluster.command()
@_json_option
def down(as_json: bool) -> None:
    """End the cluster that is up, every server and worker of it."""
    from harness.backends import cluster_daemon

    ended = cluster_daemon.down()
    click.echo("down" if ended else "no cluster was up")
    _finish(as_json, {"ended": ended})


@cluster.command()
@_json_option
def status(as_json: bool) -> None:
    """Ask every server of the cluster that is up."""
    from harness.backends import cluster_daemon

    now = cluster_daemon.status()
    if now.state is None:
        click.echo("no cluster is up")
    else:
        click.echo(f"{now.state.phase} {now.state.detail}".strip())
        for server, answers in now.answering.items():
            click.echo(f"  {server}: {'answers' if answers else 'does not answer'}")
        for name, said in now.topologies.items():
            click.echo(f"  topology {name}: {said}")
    _finish(as_json, json.loads(now.model_dump_json()), 0 if now.state else 1)


def _require_tools() -> None:
    from harness.backends.machine import doctor as examine

    for finding in examine():
        if finding.needed and not finding.ok:
            raise MissingTool(f"{finding.name}: {finding.detail}", finding.mend)


def _show_findings(experiment: Any) -> list[str]:
    """Show the warnings about an experiment; raise for what cannot work."""
    from harness.experiments.preflight import findings
    from harness.models import resolve

    for name in experiment.models:
        resolve(name)
    warnings = []
    for finding in findings(experiment):
        if finding.severity == "error":
            raise UsageError(f"{finding.key}: {finding.message}")
        err.print(f"[yellow]warning:[/] {finding.key}: {finding.message}", highlight=False)
        warnings.append(f"{finding.key}: {finding.message}")
    return warnings


def _predict(run_: Any, models: tuple[str, ...]) -> int:
    from harness.analysis.predicting import predict as predict_pairs

    table = predict_pairs(run_, models, lambda name: err.print(f"predicting with {name}"))
    return int(table.num_rows)


def _report(run_: Any, as_json: bool) -> None:
    """Analyse a run and end with its verdict's exit status."""
    from harness.analysis.analyse import analyse

    if not (run_.path / "predictions.parquet").is_file():
        _predict(run_, ())
    err.print("computing error matrices and figures with Spark")
    summary = analyse(run_.path)
    verdict = json.loads((run_.path / "verdict.json").read_text())
    table = Table(title=f"{run_.path.parent.name}: error of the mean, off-diagonal pairs, all messages")
    for column in ("model", "measure", "pairs", "median %", "worst %"):
        table.add_column(column)
    for row in _headline(summary):
        table.add_row(*row)
    Console(width=min(100, err.width)).print(table)
    reasons = [c for c in verdict["checks"] if c["status"] != "valid"]
    click.echo(f"verdict: {verdict['verdict']}")
    for c in reasons:
        click.echo(f"  {c['check']} (step {c['step']}): {c['status']}: {c['detail']}")
    click.echo(f"report: {_relative(run_.path / 'report.html')}")
    status = VERDICT_STATUS[verdict["verdict"]]
    _finish(as_json, {"run": str(run_.path), "verdict": verdict["verdict"]}, status)


def _headline(summary: Any) -> list[tuple[str, ...]]:
    return [
        (
            r["model"],
            r["measure"],
            str(r["pairs"]),
            _pct(r["median_abs_error_pct"]),
            _pct(r["worst_abs_error_pct"]),
        )
        for r in summary["errors"]
        if r["protocol"] == "ours" and r["statistic"] == "mean" and r["measure"].endswith("latency_ms")
    ]


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _relative(path: Path) -> Path:
    return Path(os.path.relpath(path))


if __name__ == "__main__":
    main()
