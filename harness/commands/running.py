"""Measuring an experiment, and judging the models on what was measured."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Never

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from harness.commands.common import (
    RunPath,
    err,
    finish,
    json_option,
    master_option,
    relative,
    require_private_network,
    require_tools,
    rounded,
    shared_loopback_option,
    stop_as_by_ctrl_c,
)
from harness.commands.completing import ExperimentName, ModelName, RunFolder
from harness.errors import HarnessError, UsageError

if TYPE_CHECKING:
    from harness.analysis.judge.summary import Summary
    from harness.experiments.config import Experiment, Step
    from harness.experiments.step_settings import StepSpec
    from harness.machine.machine_lock import MachineLock
    from harness.machine.servers import ServerHomes
    from harness.protocols import Verdict, VerdictWritten
    from harness.runs import Run
    from harness.schemas.environment import Environment

CHECKED = "STORM_HARNESS_CHECKED"
"""Environment variable: the experiment and the machine were checked before the sandbox was entered."""
VERDICT_STATUS: Mapping[Verdict, int] = {"valid": 0, "invalid": 3, "unknown": 4}


@click.command()
@click.argument("experiment", type=ExperimentName(), required=False)
@click.option(
    "--runs", type=RunPath, default=Path("runs"), show_default=True, help="Where run directories go."
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a key of the file.")
@click.option("--resume", type=RunFolder(), metavar="RUN", help="Go on with an interrupted run instead.")
@click.option("--wait", is_flag=True, help="Wait for another run of this machine, instead of being refused.")
@shared_loopback_option
@json_option
def run(
    experiment: str | None,
    runs: Path,
    overrides: tuple[str, ...],
    resume: Path | None,
    wait: bool,
    shared_loopback: bool,
    as_json: bool,
) -> None:
    """Measure an EXPERIMENT (a file, or a name of 'harness list') and judge the models on it.

    Ctrl-C and SIGTERM end the servers and say how to go on; finished steps are kept. One run at a time is
    measured on a machine.

    \b
    harness run configs/experiments/all-in-one.yaml
    harness run quick --set workload.rate_tps=100
    harness run --resume runs/quick/20260102T030405Z
    harness run quick --set cluster.kind=simulator
    """
    if (experiment is None) == (resume is None):
        raise UsageError("give either an EXPERIMENT or --resume RUN", "see harness run --help")
    given = click.get_current_context().get_parameter_source("runs")
    if resume is not None and given is not ParameterSource.DEFAULT:
        raise UsageError("--runs cannot move a run that has begun", "leave it out")
    stop_as_by_ctrl_c()
    prepared = _prepare(experiment, overrides, resume, runs)
    measured = prepared.experiment.cluster.measured
    execution = _measured(prepared, shared_loopback, wait=wait) if measured else _played(prepared)
    with execution as executed:
        _predict(executed, prepared.experiment.models)
        # from the sandbox's own network no Spark cluster is reached
        verdict = _report(executed, "local[2]" if measured else None)
    _finish(as_json, executed, verdict)


@dataclass(frozen=True)
class PreparedRun:
    """An experiment that can be carried out, and where it is written.

    Attributes
    ----------
    experiment : Experiment
    resumed : Run, optional
        The run that is gone on with; without one, a new one begins.
    runs : Path
        Where new run directories go.
    """

    experiment: Experiment
    resumed: Run | None
    runs: Path

    @property
    def steps(self) -> int:
        """The number of the experiment's steps."""
        from harness.experiments.loading import expand_steps

        return len(expand_steps(self.experiment))

    @property
    def unfinished(self) -> bool:
        """True where a step is left to measure."""
        return self.resumed is None or len(self.resumed.ended_steps) < self.steps

    def begun(self, experiment: Experiment, environment: Environment) -> Run:
        """Return the run that is gone on with, or a new one of an experiment as it is by now."""
        from harness.experiments.loading import files
        from harness.runs import Run

        return self.resumed or Run.create(self.runs, experiment.name, files(experiment), environment)


def _prepare(
    experiment: str | None, overrides: tuple[str, ...], resume: Path | None, runs: Path
) -> PreparedRun:
    """Read the experiment of a new run, or of the one that is gone on with."""
    from harness.experiments.loading import load, require_secrets
    from harness.runs import Run

    if resume is None:
        return PreparedRun(load(str(experiment), overrides), None, runs)
    resumed = Run(resume)
    file = resumed.path / "experiment.yaml"
    prepared = PreparedRun(load(file, overrides), resumed, runs)
    require_secrets(file, overrides, prepared.unfinished)
    return prepared


@contextmanager
def _measured(asked: PreparedRun, shared_loopback: bool, *, wait: bool) -> Iterator[Run]:
    """Measure what a run lacks, and give it; the machine's lock is held until the block ends.

    Models and Spark take both cores of a run that would measure beside them.
    """
    from harness.app import campaigning, measured_with
    from harness.app.clusters import as_found
    from harness.app.jars import jars

    prepared = replace(asked, experiment=as_found(asked.experiment))
    experiment, resumed = prepared.experiment, prepared.resumed
    if os.environ.pop(CHECKED, None) is None:  # in the sandbox the command is run once more
        _show_findings(experiment)
        require_tools()
        jars()
        if prepared.unfinished:
            campaigning.require_room(resumed.path if resumed else prepared.runs, experiment)
    place = in_its_place(experiment, shared_loopback, wait=wait, needs_machine=prepared.unfinished)
    with place as (homes, alone):
        known = _captured(experiment, homes)
        if known is not experiment:  # what the jar gives its workers is known by now
            campaigning.require_room(prepared.runs, known)
        run = prepared.begun(known, campaigning.environment(known))
        if alone:
            run = measured_with.kept(run, known)
        err.print(f"run directory {relative(run.path)}")
        with run.exclusively(), _resumable(run, prepared.steps):
            if alone and resumed:
                campaigning.note_resumption(resumed, known)
            measure_steps(known, run, homes, alone)
            _require_measured(run)
            yield run


@contextmanager
def _played(prepared: PreparedRun) -> Iterator[Run]:
    """Play the steps that a run lacks instead of measuring them, and yield the run."""
    from harness.app import measured_with
    from harness.app.simulated.campaign import carry_out
    from harness.machine.environment import describe
    from harness.machine.servers import STORM_VERSION

    experiment = prepared.experiment
    _show_findings(experiment)
    run = prepared.begun(experiment, describe(experiment.cluster.kind, {"storm": STORM_VERSION}))
    if prepared.unfinished:
        run = measured_with.kept(run, experiment)
    err.print(f"[yellow]simulated, not measured:[/] run directory {relative(run.path)}")
    with run.exclusively(), _resumable(run, prepared.steps):
        carry_out(experiment, run, lambda line: err.print(line, highlight=False, markup=False))
        _require_measured(run)
        yield run


@contextmanager
def in_its_place(
    experiment: Experiment, shared_loopback: bool, *, wait: bool, needs_machine: bool = True
) -> Iterator[tuple[ServerHomes, MachineLock | None]]:
    """Go on where an experiment may be measured: with the machine's lock, and its servers in a sandbox.

    The whole command is run once more in the sandbox. Given are the servers' homes and the lock.
    """
    from harness.app.store_sender import StoreSender
    from harness.machine import sandbox, servers
    from harness.machine.machine_lock import MachineLock

    if experiment.cluster.starts_servers:
        require_private_network(shared_loopback)
    homes = servers.install(progress=err.print)
    alone = MachineLock(experiment.name, wait=wait, say=err.print) if needs_machine else None
    with alone or nullcontext():
        if experiment.cluster.starts_servers and not sandbox.inside() and sandbox.obstacle() is None:
            os.environ[CHECKED] = "1"
            if alone:
                alone.hand_on()
            if needs_machine and experiment.metrics.given:
                StoreSender.start(experiment.metrics, experiment.name).hand_on()
            sandbox.enter([sys.executable, "-m", "harness", *sys.argv[1:]])
        yield homes, alone


def measure_steps(experiment: Experiment, run_: Run, homes: ServerHomes, alone: MachineLock | None) -> None:
    """Measure what a run lacks, and show how far it is."""
    from harness.app import campaigning
    from harness.commands.console import ProgressDisplay

    with ProgressDisplay(err) as display:
        if alone:
            alone.measures(str(run_.path))
        campaigning.measure(experiment, run_, homes, display, display.say)


@click.command()
@click.argument("experiment", type=ExperimentName())
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a key of the file.")
@json_option
def check(experiment: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Validate an EXPERIMENT and show what it would do; nothing is measured.

    Of a jar's topology, the main is run without a cluster, and what it would submit is shown.

    \b
    harness check configs/experiments/all-in-one.yaml
    harness check configs/experiments/jars/sliding-window.yaml
    """
    from harness.app.clusters import access, as_found
    from harness.experiments.loading import expand_steps, load
    from harness.machine import servers

    loaded = as_found(load(experiment, overrides))
    if not loaded.topology.known:
        loaded = _captured(loaded, servers.install(progress=err.print), show=False)
    click.echo("\n".join(loaded.topology.described()))
    warnings = _show_findings(loaded)
    where = access(loaded).use() if loaded.cluster.measured else ""
    steps = expand_steps(loaded)
    about_s = len(steps) * (15 + loaded.measure.burn_in.most_s + loaded.measure.interval.most_s)
    lasts = f"about {about_s / 60:.0f} min, more if a step must be measured again"
    click.echo(f"{loaded.name}: {len(steps)} steps of {loaded.topology.title}, {lasts}")
    for step in steps:
        counts = " ".join(f"{n}:{c}" for n, c in step.configuration.executors.items())
        plan = f"{counts} on {step.configuration.workers} workers"
        spec = loaded.steps.plan[step.spec]
        if step.tuned_by:
            plan = f"executors and batch sizes by {step.tuned_by} from {spec.source}"
        fresh = ", fresh submission" if step.fresh else ""
        rate = f", {step.rate}" if step.rate else ""
        relief = "".join(f", {part}" for part in step.relief.parts)
        click.echo(f"  {step.index}: {plan}{rate}{relief}{_placed_by(spec)}{_batches(step)}{fresh}")
    if where:
        click.echo(where)
    finish(
        as_json, {"experiment": loaded.name, "steps": len(steps), "about_s": about_s, "warnings": warnings}
    )


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@click.option(
    "--model", "models", type=ModelName(), multiple=True, metavar="NAME", help="Only this model (repeatable)."
)
@json_option
def predict(run_path: Path, models: tuple[str, ...], as_json: bool) -> None:
    """Let models predict every source -> proposed pair of RUN; needs no cluster.

    \b
    harness predict runs/quick/20260102T030405Z --model storm-tracer
    """
    from harness.runs import Run

    rows = _predict(Run(run_path), models)
    click.echo(f"{rows} predictions; next: harness report {relative(run_path)}")
    finish(as_json, {"run": str(run_path), "predictions": rows})


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@master_option
@json_option
def report(run_path: Path, master: str | None, as_json: bool) -> None:
    """Compute error matrices, figures, verdict and report of RUN with Spark; needs no cluster.

    \b
    harness report runs/quick/20260102T030405Z
    """
    from harness.runs import Run

    run_ = Run(run_path)
    _finish(as_json, run_, _report(run_, master))


def _placed_by(spec: StepSpec) -> str:
    """Say what places a step's executors; nothing of Storm's own scheduler."""
    if spec.placement is not None:
        return f", placed by {spec.placement.name}"
    source = "" if spec.source is None else f" from {spec.source}"
    return f", scheduler {spec.placed_by}{source}" if spec.placed_by else ""


def _batches(step: Step) -> str:
    """Say which of a step's tuples travel in batches; nothing where all travel alone."""
    sizes = ", ".join(f"{name} of {rule.size}" for name, rule in step.batching.items())
    return f", batches: {sizes}" if sizes else ""


def _show_findings(experiment: Experiment) -> list[str]:
    """Show the warnings about an experiment; raise for what cannot work."""
    from harness.app.planning import check_placements
    from harness.experiments.preflight import findings
    from harness.models import resolve

    for name in experiment.models:
        resolve(name)
    check_placements(experiment)
    warnings = []
    for finding in findings(experiment):
        if finding.severity == "error":
            raise UsageError(f"{finding.key}: {finding.message}")
        err.print(f"[yellow]warning:[/] {finding.key}: {finding.message}", highlight=False)
        warnings.append(f"{finding.key}: {finding.message}")
    return warnings


def _require_measured(run_: Run) -> None:
    """Refuse to judge a run whose steps were all declined."""
    declined = run_.declined_steps
    if declined and not run_.finished_steps:
        step, why = next(iter(declined.items()))
        raise HarnessError(f"every step was declined; step {step}: {why.reason}", "see docs/schedulers.md")


@contextmanager
def _resumable(run_: Run, steps: int) -> Iterator[None]:
    """Add to the error of a run that stops how many of its steps are kept, and how to go on."""
    try:
        yield
    except (HarnessError, KeyboardInterrupt, OSError) as error:
        error.add_note(
            f"{len(run_.finished_steps)} of the run's {steps} steps are finished and kept;"
            f" go on with: harness run --resume {relative(run_.path)}"
        )
        raise


def _captured(experiment: Experiment, homes: ServerHomes, show: bool = True) -> Experiment:
    """Return the experiment with what its jar's main submits, where it has one; show its findings."""
    from harness.app.jars import jars
    from harness.storm import capturing

    known = capturing.known(experiment, homes, jars())
    if show and known is not experiment:
        _show_findings(known)
    return known


def _predict(run_: Run, models: tuple[str, ...]) -> int:
    from harness.analysis.judge.predicting import predict as predict_pairs

    table = predict_pairs(run_, models, lambda name: err.print(f"predicting with {name}"))
    return int(table.num_rows)


def _report(run_: Run, master: str | None) -> Verdict:
    """Analyse a run, show what was found, and return its verdict."""
    from harness.analysis.analyse import analyse
    from harness.analysis.judge.predicting import ensure_predicted
    from harness.analysis.judge.summary import leading

    ensure_predicted(run_, lambda name: err.print(f"predicting with {name}"))
    err.print("computing error matrices and figures with Spark")
    summary = analyse(run_.path, master)
    verdict: VerdictWritten = json.loads((run_.path / "verdict.json").read_text())
    table = Table(title=f"{run_.path.parent.name}: error of the mean, off-diagonal pairs, all messages")
    for column in ("model", "measure", "judged", "median %", "worst %"):
        table.add_column(column)
    for row in headline(summary, leading({run_.interval(s).latency for s in run_.finished_steps})):
        table.add_row(*row)
    Console(width=min(100, err.width)).print(table)
    for line in verdict_lines(verdict):
        click.echo(line)
    click.echo(f"report: {relative(run_.path / 'report.html')}")
    return verdict["verdict"]


def _finish(as_json: bool, run_: Run, verdict: Verdict) -> Never:
    """End a command with the exit status of a run's verdict."""
    finish(as_json, {"run": str(run_.path), "verdict": verdict}, VERDICT_STATUS[verdict])


def verdict_lines(verdict: VerdictWritten) -> list[str]:
    """Say what ``verdict.json`` says: what was measured, which steps twice and why, and what did not pass."""
    from harness.analysis.judge.checks import DECLINED

    checks = verdict["checks"]
    measured = dict.fromkeys(c["detail"] for c in checks if c["check"] == "measured-latency")
    lines = [f"verdict: {verdict['verdict']}", f"latency: {'; '.join(measured)}"]
    for c in checks:
        if c["check"] == "attempts" and c["detail"]:
            lines.append(f"  step {c['step']} was {c['detail']}")
        elif c["check"] == DECLINED:
            lines.append(f"  step {c['step']} was declined: {c['detail']}")
        elif c["status"] != "valid":
            where = "" if c["step"] is None else f" (step {c['step']})"
            lines.append(f"  {c['check']}{where}: {c['status']}: {c['detail']}")
    return lines


def headline(summary: Summary, measures: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the rows of the table that ends a run: the errors are those of the pairs that were judged."""
    return [
        (
            r["model"],
            r["measure"],
            f"{r['judged']} of {r['comparisons']}",
            rounded(r["median_abs_error_pct"]),
            rounded(r["worst_abs_error_pct"]),
        )
        for r in summary["errors"]
        if r["protocol"] == "ours" and r["statistic"] == "mean" and r["measure"] in measures
    ]
