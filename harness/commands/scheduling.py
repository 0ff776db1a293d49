"""Proposals of schedulers for a measured step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from harness.commands.common import err, finish, json_option, open_measured_step
from harness.commands.completing import RunFolder
from harness.errors import UsageError

MOST_REASON = 200
"""Characters of a reason that are shown; the last line of --json has all of it."""
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


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@click.option("--step", type=int, metavar="N", help="The measured step to start from (default: the first).")
@click.option(
    "--scheduler",
    "asked",
    multiple=True,
    metavar="NAME",
    help="Only this scheduler, or {name: NAME, PARAMETER: VALUE} (repeatable).",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="R",
    help="Messages a second to place for (default: the step's).",
)
@click.option("--workers", type=click.IntRange(1), metavar="W", help="Workers (default: the step's).")
@click.option(
    "--nodes", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Worker nodes of a plan.json (default: the step's).",
)  # fmt: skip
@click.option("--placements", is_flag=True, help="Show every plan, worker by worker.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the plan of the one scheduler that is asked, for the key placement of a step.",
)
@json_option
def schedule(
    run_path: Path,
    step: int | None,
    asked: tuple[str, ...],
    rate: float | None,
    workers: int | None,
    nodes: Path | None,
    placements: bool,
    write: Path | None,
    as_json: bool,
) -> None:
    """Let schedulers place the executors of a step of RUN; needs no cluster, changes nothing.

    Each plan is shown with the latency that the composite model predicts, tuples a second that cross workers
    and nodes, load distance in points of a node, executors moved and workers restarted.

    \b
    harness schedule reports/runs/loaded-workers/20261123T170830Z
    harness schedule reports/runs/loaded-workers/20261123T170830Z --scheduler aniello-online --placements
    harness schedule reports/runs/loaded-workers/20261123T170830Z --scheduler '{name: random, seed: 3}'
    """
    from harness.experiments.placement_file import placement_text
    from harness.schedulers import SCHEDULERS, make_scheduler
    from harness.schedulers.side_by_side import PlacementTable

    schedulers = {
        text: make_scheduler(_parameters(text))
        for text in (dict.fromkeys(asked) or dict.fromkeys(SCHEDULERS))
    }
    if write is not None and len(schedulers) != 1:
        raise UsageError("--write takes the plan of one scheduler", "name it with --scheduler")
    step, source, rate_tps = open_measured_step(run_path, step, rate)
    configuration = source.plan.configuration()
    if workers is not None:
        configuration = configuration.model_copy(update={"workers": workers})
    there = source.plan.nodes if nodes is None else _nodes_of(nodes)
    table = PlacementTable(source, configuration, there, rate_tps)
    err.print(f"asking {', '.join(schedulers)}", highlight=False, soft_wrap=True)
    proposals = table.propose(schedulers)
    as_it_is = table.as_measured()
    latency = as_it_is.latency.removesuffix("_ms").replace("_", " ")
    shown = Table(
        title=f"step {step} at {table.rate_tps:g} messages/s; {latency} as the composite model predicts it",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for column in COLUMNS:
        shown.add_column(column, justify="left" if column == "scheduler" else "right")
    for p in (as_it_is, *proposals):
        shown.add_row(*_cells(p))
    Console(width=max(110, err.width)).print(shown)
    _explain(proposals)
    for p in proposals if placements else ():
        _draw(p)
    if write is not None:
        (only,) = proposals
        if only.plan is None:
            raise UsageError(f"--write {write}: {only.scheduler} has no plan: {only.reason}")
        write.write_text(placement_text(only.placement))
        click.echo(f"written: {write}")
    finish(as_json, {"step": step, "proposals": [p.as_json() for p in proposals]})


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


def _nodes_of(file: Path) -> Any:
    from pydantic import ValidationError

    from harness.runs import StepPlan

    try:
        return StepPlan.model_validate_json(file.read_text(encoding="utf-8")).start.nodes
    except (ValidationError, UnicodeDecodeError):
        raise UsageError(f"--nodes {file}: not a step's plan.json") from None


def _cells(p: Any) -> tuple[str, ...]:
    if p.status == "declined":
        return (p.scheduler, "declined")
    mean, p95 = p.estimate(p.latency, "mean"), p.estimate(p.latency, "p95")
    known = mean is not None and mean.value is not None
    interval = f"{mean.low:.1f}-{mean.high:.1f}" if known and mean.low is not None else ""
    costs = p.costs
    return (
        p.scheduler,
        f"{mean.value:.1f}" if known else "-",
        interval,
        _rounded(p95.value if p95 else None),
        _rounded(costs.between_workers_tps),
        _rounded(costs.between_nodes_tps),
        _rounded(costs.load_distance_pct),
        str(costs.executors_moved),
        str(costs.workers_restarted),
    )


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _explain(proposals: Sequence[Any]) -> None:
    """Write reasons and notes, which plans are alike, and what is nearest to full."""
    for p in proposals:
        if p.reason:
            click.echo(f"{p.scheduler}: {shorten(p.reason, MOST_REASON, placeholder=' ...')}")
    for alike in sorted({tuple(sorted((p.scheduler, *p.same_as))) for p in proposals if p.same_as}):
        click.echo(f"the same plan but for like slots: {', '.join(alike)}")
    if full := next((p.limits[0] for p in proposals if p.limits), None):
        click.echo(
            f"nearest to full with {proposals[0].scheduler}: {full.subject}, {100 * full.utilisation:.0f} %,"
            f" full at {full.max_rate_tps:.0f} messages/s"
        )


def _draw(p: Any) -> None:
    """Write a plan worker by worker."""
    if p.plan is None:
        return
    click.echo(f"\n{p.scheduler}")
    for worker in p.plan.workers:
        executors = " ".join(e.label for e in p.plan.executors if e.worker == worker)
        click.echo(f"  {worker.label}: {executors}")
