"""Questions about a run's plans."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.common import err, finish, json_option
from harness.commands.completing import RunFolder

if TYPE_CHECKING:
    from harness.analysis.plan_answers import Difference, StepAnswers


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
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
    help="Who answers: the run directory, or Neo4j (auto: where NEO4J_URI or the run's cluster has one).",
)
@json_option
def plans(
    run_path: Path,
    steps: tuple[int, ...],
    difference: tuple[int, int] | None,
    list_paths: int | None,
    asked: str,
    as_json: bool,
) -> None:
    """Ask about the plans of RUN: executors on workers, streams that cross nodes, paths, differences.

    Neo4j is the one that NEO4J_URI names (with NEO4J_USERNAME, and NEO4J_PASSWORD or NEO4J_PASSWORD_FILE).
    Else it is that of the provisioned cluster on which the run was measured with plans.store: neo4j. Without
    either, this machine's own Neo4j is started for the question. The run is imported into the graph first;
    plans that are there already stay as they are.

    \b
    harness plans runs/quick/20260102T030405Z
    harness plans runs/quick/20260102T030405Z --difference 0 1
    harness plans runs/quick/20260102T030405Z --step 1 --list-paths 5 --json
    """
    from harness.analysis import plan_answers
    from harness.app import clusters, stores
    from harness.app.homes import temporary_home
    from harness.machine import sandbox
    from harness.runs import Run

    run_ = Run(run_path)
    with ExitStack() as open_:
        source: plan_answers.PlanSource = plan_answers.RunPlans(run_)
        graph = open_.enter_context(given) if asked != "run" and (given := stores.given_graph()) else None
        if graph is None and asked != "run":
            graph = open_.enter_context(clusters.cluster_graph(run_))
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
    result: dict[str, object] = {"run": str(run_path), "from": source.name}
    result["steps"] = [one.model_dump(mode="json") for one in found]
    if changed:
        result["difference"] = changed.model_dump(mode="json")
    finish(as_json, result)


def _show_plan(plan: StepAnswers) -> None:
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


def _show_difference(found: Difference) -> None:
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
