"""Proposals of schedulers for a measured step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from harness.commands.common import (
    err,
    finish,
    json_option,
    open_measured_step,
    rate_option,
    rounded,
    shortened,
    step_option,
)
from harness.commands.completing import RunFolder
from harness.errors import SchedulerDeclined, UsageError

if TYPE_CHECKING:
    from harness.plans import WorkerNode
    from harness.schedulers.advice import Advice, LatencyTarget, TargetedPlan
    from harness.schedulers.side_by_side import SchedulerProposal

COLUMNS = (
    "scheduler",
    "mean ms",
    "90 %",
    "p95 ms",
    "workers/s",
    "nodes/s",
    "distance %",
    "moved",
    "restarts",
)
IN_BYTES = ("workers kB/s", "nodes kB/s")
"""Columns that are shown where the size of tuples was measured."""

link_option = click.option(
    "--link-bytes-s",
    type=click.FloatRange(0, min_open=True),
    metavar="B",
    help="Bytes a second that a node may send to others; without it links have no limit.",
)


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@step_option
@click.option(
    "--scheduler",
    "asked",
    multiple=True,
    metavar="NAME",
    help="Only this scheduler, or {name: NAME, PARAMETER: VALUE} (repeatable).",
)
@rate_option
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="W",
    help="Workers (default: the step's); to schedulers that choose counts, the most they may use.",
)
@click.option(
    "--executors",
    type=click.IntRange(1),
    metavar="N",
    help="The most executors that schedulers may use which choose counts (others keep the step's).",
)
@click.option(
    "--nodes", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Worker nodes of a plan.json, a cluster's file or an experiment's (default: the step's).",
)  # fmt: skip
@link_option
@click.option("--placements", is_flag=True, help="Show every plan, worker by worker.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the plan of the one scheduler that is asked, for the key placement of a step.",
)
@json_option
def schedule(  # noqa: PLR0913 (an argument an option)
    run_path: Path,
    step: int | None,
    asked: tuple[str, ...],
    rate: float | None,
    workers: int | None,
    executors: int | None,
    nodes: Path | None,
    link_bytes_s: float | None,
    placements: bool,
    write: Path | None,
    as_json: bool,
) -> None:
    """Let schedulers place the executors of a step of RUN; needs no cluster, changes nothing.

    Each plan is shown with the latency that the composite model predicts. Beside it are the tuples a second
    that cross workers and nodes, load distance in points of a node, executors moved and workers restarted.

    \b
    harness schedule reports/runs/loaded-workers/20261123T170830Z
    harness schedule reports/runs/loaded-workers/20261123T170830Z --scheduler aniello-online --placements

    Parameters of a scheduler are given beside its name, as in `--scheduler '{name: random, seed: 3}'`.
    """
    from harness.experiments.placement_file import placement_text
    from harness.protocols import NodeAmounts
    from harness.schedulers import SCHEDULERS, make_scheduler
    from harness.schedulers.side_by_side import PlacementTable

    schedulers = {
        text: make_scheduler(_parameters(text))
        for text in (dict.fromkeys(asked) or dict.fromkeys(SCHEDULERS))
    }
    if write is not None and len(schedulers) != 1:
        raise UsageError("--write takes the plan of one scheduler", "name it with --scheduler")
    opened = open_measured_step(run_path, step, rate, workers)
    source = opened.source
    configuration = source.plan.configuration()
    if workers is not None:
        configuration = configuration.model_copy(update={"workers": workers})
    there = source.plan.nodes if nodes is None else _nodes_of(nodes, source.plan.nodes)
    amounts = NodeAmounts(worker_heap_mb=opened.worker_heap_mb, link_bytes_s=link_bytes_s)
    table = PlacementTable(source, configuration, there, opened.rate_tps, executors, workers, amounts=amounts)
    err.print(f"asking {', '.join(schedulers)}", highlight=False, soft_wrap=True)
    proposals = table.propose(schedulers)
    as_it_is = table.as_measured()
    latency = as_it_is.latency.removesuffix("_ms").replace("_", " ")
    shown = Table(
        title=f"step {opened.number} at {table.rate_tps:.4g} messages/s;"
        f" {latency} as the composite model predicts it",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    sized = any(p.costs and p.costs.between_workers_bytes_s for p in (as_it_is, *proposals))
    for column in (*COLUMNS, *(IN_BYTES if sized else ())):
        shown.add_column(column, justify="left" if column == "scheduler" else "right")
    for p in (as_it_is, *proposals):
        shown.add_row(*_cells(p), *(_bytes_cells(p) if sized else ()))
    Console(width=max(130 if sized else 110, err.width)).print(shown)
    _explain(proposals)
    for p in proposals if placements else ():
        _draw(p)
    if write is not None:
        (only,) = proposals
        if only.plan is None:
            raise UsageError(f"--write {write}: {only.scheduler} has no plan: {only.reason}")
        write.write_text(placement_text(only.placement))
        click.echo(f"written: {write}")
    said = {"step": opened.number, "nearest": opened.chosen}
    finish(as_json, {**said, "proposals": [p.as_json() for p in proposals]})


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@click.option(
    "--target",
    "wanted",
    required=True,
    metavar="STATISTIC=MS",
    help="What the latency must keep to: mean, p50, p90, p95 or p99, e.g. p95=200ms.",
)
@rate_option
@step_option
@click.option(
    "--max-workers", type=click.IntRange(1), metavar="W", help="Most workers (default: every slot)."
)
@click.option(
    "--max-executors", type=click.IntRange(1), metavar="N", help="Most executors (default: one a task)."
)
@link_option
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the advised plan, for the key placement of a step.",
)
@json_option
def advise(  # noqa: PLR0913 (an argument an option)
    run_path: Path,
    wanted: str,
    rate: float | None,
    step: int | None,
    max_workers: int | None,
    max_executors: int | None,
    link_bytes_s: float | None,
    write: Path | None,
    as_json: bool,
) -> None:
    """Say which plan is the cheapest that keeps a latency target at a rate; needs no cluster.

    Fewer workers are cheaper, then fewer executors. The target is kept when the whole 90 % interval of what
    the composite model predicts is within it. Exit status 3 when no plan keeps it.

    \b
    harness advise reports/runs/loaded-workers/20261123T170830Z --target p95=80ms --rate 90
    """
    from harness.experiments.placement_file import placement_text
    from harness.protocols import NodeAmounts
    from harness.schedulers import SCHEDULERS, make_scheduler
    from harness.schedulers import advice as advising
    from harness.schedulers.side_by_side import PlacementTable

    target = _target(wanted)
    opened = open_measured_step(run_path, step, rate)
    plan = opened.source.plan
    amounts = NodeAmounts(worker_heap_mb=opened.worker_heap_mb, link_bytes_s=link_bytes_s)
    table = PlacementTable(opened.source, plan.configuration(), plan.nodes, opened.rate_tps, amounts=amounts)
    schedulers = {name: make_scheduler(name) for name in SCHEDULERS}
    err.print(f"searching counts, then asking {', '.join(schedulers)}", highlight=False, soft_wrap=True)
    try:
        found = advising.advise(table, target, schedulers, max_executors, max_workers)
    except SchedulerDeclined as why:
        raise UsageError(f"step {opened.number} of {run_path} cannot be advised on: {why}") from None
    _advise(found)
    if write is not None:
        write.write_text(placement_text(found.best.proposal.placement))
        click.echo(f"written: {write}")
    said = {"step": opened.number, "nearest": opened.chosen}
    finish(as_json, {**said, **found.as_json()}, status=0 if found.best.keeps else 3)


def _target(text: str) -> LatencyTarget:
    from pydantic import ValidationError

    from harness.schedulers.advice import LatencyTarget

    statistic, _, limit = text.partition("=")
    try:
        return LatencyTarget(statistic=statistic, limit_ms=limit.removesuffix("ms"))
    except ValidationError:
        raise UsageError(
            f"--target {text}: not a target", "write mean, p50, p90, p95 or p99, = and ms: p95=200ms"
        ) from None


def _advise(found: Advice) -> None:
    """Write what is advised, what breaks first, and what a cheaper plan risks."""
    best, target = found.best, found.target
    if best.keeps:
        spare = f"{best.margin_pct:.0f} % to spare"
        click.echo(f"{target.text} at {found.rate_tps:.4g} messages/s is kept: {_latency(best)}, {spare}")
    else:
        over = "" if best.margin_pct is None else f", {-best.margin_pct:.0f} % over"
        click.echo(
            f"no plan that was found keeps a {target.text} at {found.rate_tps:.4g} messages/s;"
            f" closest is {_latency(best)}{over}"
        )
    alike = f" (the same plan: {', '.join(best.proposal.same_as)})" if best.proposal.same_as else ""
    click.echo(f"plan: {best.proposal.counts}, placed by {best.proposal.scheduler}{alike}")
    if first := best.proposal.breaks_first:
        click.echo(f"breaks first: {first.words}{first.full_at}")
    if found.cheaper is None:
        click.echo("there is no cheaper plan")
    else:
        cheaper = found.cheaper
        click.echo(
            f"next cheaper: {cheaper.proposal.counts}: {_latency(cheaper)};"
            f" it misses the target with probability {cheaper.risk:.2f}"
        )
    for other in found.others:
        click.echo(f"  {other.proposal.scheduler}: {other.proposal.counts}: {_latency(other)}")


def _latency(plan: TargetedPlan) -> str:
    e = plan.estimate
    if e is None:
        return shortened(plan.proposal.reason or "no latency is predicted")
    ends = "" if e.low is None else f" ({e.low:.1f}-{e.high:.1f})"
    return f"{plan.target.statistic} {e.value:.1f} ms{ends}"


def _parameters(text: str) -> str | Mapping[str, object]:
    """Return a scheduler's name, or its name with parameters where the text is a YAML mapping."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if not text.lstrip().startswith("{"):
        return text
    try:
        found = YAML(typ="safe").load(text)
    except YAMLError:
        raise UsageError(
            f"--scheduler {text}: not readable as YAML", "write {name: NAME, KEY: VALUE}"
        ) from None
    asked: Mapping[str, object] = found
    return asked


def _nodes_of(file: Path, known: Sequence[WorkerNode]) -> tuple[WorkerNode, ...]:
    from harness.app.given_nodes import read_nodes

    given = read_nodes(file, known)
    if given.assumed:
        err.print(given.assumed, highlight=False, soft_wrap=True)
    return given.nodes


def _cells(p: SchedulerProposal) -> tuple[str, ...]:
    costs = p.costs
    if p.status == "declined" or costs is None:
        return (p.scheduler, "declined")
    mean, p95 = p.estimate(p.latency, "mean"), p.estimate(p.latency, "p95")
    known = mean is not None and mean.value is not None and mean.low is not None
    return (
        p.scheduler,
        rounded(mean.value if mean else None),
        f"{mean.low:.1f}-{mean.high:.1f}" if mean is not None and known else "",
        rounded(p95.value if p95 else None),
        rounded(costs.between_workers_tps),
        rounded(costs.between_nodes_tps),
        rounded(costs.load_distance_pct),
        str(costs.executors_moved),
        str(costs.workers_restarted),
    )


def _bytes_cells(p: SchedulerProposal) -> tuple[str, ...]:
    costs = p.costs
    if p.status == "declined" or costs is None:
        return ()
    return _kilobytes(costs.between_workers_bytes_s), _kilobytes(costs.between_nodes_bytes_s)


def _kilobytes(bytes_s: float | None) -> str:
    return rounded(None if bytes_s is None else bytes_s / 1000)


def _explain(proposals: Sequence[SchedulerProposal]) -> None:
    """Write reasons and notes, which plans are alike, and what is nearest to full."""
    for p in proposals:
        if p.reason:
            click.echo(f"{p.scheduler}: {shortened(p.reason)}")
    for alike in sorted({tuple(sorted((p.scheduler, *p.same_as))) for p in proposals if p.same_as}):
        click.echo(f"the same plan but for like slots: {', '.join(alike)}")
    if placed := next((p for p in proposals if p.limits), None):
        full = placed.limits[0]
        share = f"{100 * full.utilisation:.0f} %"
        click.echo(f"nearest to full with {placed.scheduler}: {full.words}, {share}{full.full_at}")


def _draw(p: SchedulerProposal) -> None:
    """Write a plan worker by worker."""
    if p.plan is None:
        return
    click.echo(f"\n{p.scheduler}")
    for worker in p.plan.workers:
        executors = " ".join(e.label for e in p.plan.executors if e.worker == worker)
        click.echo(f"  {worker.label}: {executors}")
