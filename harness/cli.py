"""The commands and their exit statuses; with ``console`` the only module that prints.

Exit status: 0 done and valid; 1 failed; 2 usage or configuration; 3 done but the measurement is
invalid; 4 validity unknown.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.errors import HarnessError, MissingTool, UsageError

VERDICT_STATUS = {"valid": 0, "invalid": 3, "unknown": 4}

err = Console(stderr=True, soft_wrap=True)


class Commands(click.Group):
    """A group whose commands end a HarnessError with one line and its exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except HarnessError as error:
            err.print("[bold red]error:[/] ", end="")
            err.print(str(error), markup=False, highlight=False)
            _finish("--json" in sys.argv, {"status": "failed", "error": str(error)}, error.exit_status)
        except OSError as error:  # a full disk, a folder that may not be written to
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            err.print("[bold red]error:[/] ", end="")
            err.print(what, markup=False, highlight=False)
            _finish("--json" in sys.argv, {"status": "failed", "error": what}, 1)
        except KeyboardInterrupt:
            err.print("stopped")
            _finish("--json" in sys.argv, {"status": "stopped"}, 1)


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


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="harness")
def main() -> None:
    """Measure stream processing topologies on a real cluster, and judge models of their performance."""


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
    from harness.experiments.loading import dump, load
    from harness.runs import Run

    if (experiment is None) == (resume is None):
        raise UsageError("give either an EXPERIMENT or --resume RUN", "see harness run --help")
    if resume is not None and overrides:
        raise UsageError("--set cannot change a run that has begun", "start a new run instead")
    resumed = Run(resume) if resume else None
    loaded = load(resumed.path / "experiment.yaml" if resumed else str(experiment), overrides)
    _show_findings(loaded)
    _require_tools()
    campaigning.jars()
    campaigning.require_room(runs, loaded)
    homes = servers.install(progress=err.print)
    if not sandbox.inside():
        if reason := sandbox.obstacle():
            err.print(
                f"[yellow]warning:[/] no private network here ({reason}): the servers listen on loopback"
                " addresses, the workers on every address but protected by a secret"
            )
        else:
            sandbox.enter([sys.executable, "-m", "harness", *sys.argv[1:]])

    measured = resumed or Run.create(runs, loaded.name, dump(loaded), campaigning.environment())
    err.print(f"run directory {_relative(measured.path)}")
    with ProgressDisplay(err) as display:
        try:
            campaigning.measure(loaded, measured, homes, display, display.say)
        except (HarnessError, KeyboardInterrupt, OSError):
            finished = len(measured.finished_steps)
            err.print(
                f"{finished} of the run's steps are finished and kept; go on with:"
                f" harness run --resume {_relative(measured.path)}"
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
        made = Run(path.parent)
        verdict = made.path / "verdict.json"
        said = json.loads(verdict.read_text())["verdict"] if verdict.is_file() else "not reported"
        found.append({"run": str(_relative(made.path)), "steps": len(made.finished_steps), "verdict": said})
    click.echo(f"experiments: {', '.join(names)}")
    click.echo(f"topologies: {', '.join(TOPOLOGIES)}")
    click.echo(f"models: {', '.join(MODELS)}")
    for one in found:
        click.echo(f"{one['run']}: {one['steps']} steps, {one['verdict']}")
    _finish(as_json, {"experiments": names, "models": list(MODELS), "runs": found})


@main.command()
@click.option("--install", is_flag=True, help="Also fetch the servers' jars into the cache folder.")
@_json_option
def doctor(install: bool, as_json: bool) -> None:
    """Say what is missing on this machine, and the command that mends it."""
    from harness.backends import servers
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
    _finish(as_json, {"missing": wanting}, 2 if wanting else 0)


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
