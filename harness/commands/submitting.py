"""Topologies that stay on a cluster that others run: submitted, and given other plans."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from harness.commands.common import (
    FilePath,
    RunPath,
    SeasonLength,
    err,
    finish,
    json_option,
    relative,
    stop_as_by_ctrl_c,
)
from harness.errors import UsageError

FOLDER = Path("submitted")
ENDS = {"kept": 0, "taken back": 3, "interrupted": 1, "failed": 1}
"""Exit status by how an attempt to apply a plan ended."""

folder_option = click.option(
    "--submitted",
    "folder",
    type=RunPath,
    default=FOLDER,
    show_default=True,
    help="Where folders of submitted topologies are.",
)


@click.command()
@click.argument("jar", type=FilePath)
@click.option("--main", "main_class", required=True, metavar="CLASS", help="Its main submits the topology.")
@click.option(
    "--args", "args", multiple=True, metavar="ARG", help="Of main (repeatable); {name} becomes --name."
)
@click.option(
    "--cluster",
    required=True,
    metavar="FILE|MAPPING",
    help="{kind: running, nimbus: HOST:PORT, kafka: HOST:PORT}, or a file with it.",
)
@click.option("--metrics-url", required=True, metavar="URL", help="An InfluxDB that is there already.")
@click.option("--org", default="harness", show_default=True, help="Its organisation.")
@click.option("--bucket", default="harness", show_default=True, help="The bucket that metrics go to.")
@click.option("--name", metavar="NAME", help="What the metrics go by (default: of the class).")
@click.option("--workers", type=click.IntRange(1), metavar="W", help="Default: as the jar has them.")
@click.option(
    "--bucket-s", type=click.IntRange(1, 60), default=2, show_default=True, help="Seconds of a bucket."
)
@click.option(
    "--season-s",
    "season_s",
    multiple=True,
    type=SeasonLength,
    help="Length of a season of its traffic (repeatable): 86400 for a day.",
)
@folder_option
@json_option
def submit(  # noqa: PLR0913 (an argument an option)
    jar: Path,
    main_class: str,
    args: tuple[str, ...],
    cluster: str,
    metrics_url: str,
    org: str,
    bucket: str,
    name: str | None,
    workers: int | None,
    bucket_s: int,
    season_s: tuple[float, ...],
    folder: Path,
    as_json: bool,
) -> None:
    """Submit the topology of a JAR to a cluster that others run, instrumented, and leave it there.

    Its metrics go to an InfluxDB, whose token is INFLUXDB_TOKEN and travels in the jar. Query plan, settings
    and the plan in force are kept in a folder, the plan in the Neo4j of NEO4J_URI, too. With --season-s its
    forecasts know a season.

    \b
    harness submit my.jar --main com.example.WordCount --cluster cluster.yaml --metrics-url http://HOST:8086
    """
    from pydantic import ValidationError

    from harness.app.submitted.cluster_named import read_cluster
    from harness.app.submitted.submitting import AskedSubmission, submit_to_stay
    from harness.experiments.stores import MetricStore
    from harness.machine import servers

    stop_as_by_ctrl_c()
    if short := [length_s for length_s in season_s if not length_s >= 2 * bucket_s]:
        raise UsageError(
            f"--season-s {short[0]:g}: less than two buckets of {bucket_s} s", "give another --bucket-s"
        )
    if not jar.is_file():
        raise UsageError(f"{jar}: no such file", "give the jar that one would give to storm jar")
    try:
        store = MetricStore(store="influxdb", url=metrics_url, org=org, bucket=bucket)
    except ValidationError:
        raise UsageError(f"--metrics-url {metrics_url}: not an address", "write http://HOST:PORT") from None
    asked = AskedSubmission(
        jar=jar,
        main=main_class,
        args=args,
        name=name or main_class.rpartition(".")[2].lower(),
        cluster=read_cluster(cluster),
        metrics=store,
        workers=workers,
        bucket_s=bucket_s,
        season_s=season_s,
    )
    homes = servers.install(progress=err.print)
    submitted = submit_to_stay(asked, folder, homes, lambda line: err.print(line, highlight=False))
    facts, kept = submitted.facts, submitted.plan
    counts = " ".join(f"{n}:{c}" for n, c in sorted(kept.plan.configuration().executors.items()))
    click.echo(f"{facts.topology} is up: {counts} on {len(kept.plan.workers)} workers")
    for component, reason in facts.unwrapped.items():
        click.echo(f"  {component} reports nothing: it {reason}")
    click.echo(f"kept in {relative(submitted.path)}")
    finish(as_json, {"topology": facts.topology, "submitted": str(submitted.path)})


@click.command()
@click.argument("plan", type=FilePath)
@click.option("--topology", required=True, metavar="NAME", help="A topology that harness submit left.")
@click.option("--cluster", metavar="FILE|MAPPING", help="Refuse where this is not its cluster.")
@click.option(
    "--model", default="composite", show_default=True, metavar="NAME", help="What predicts the plan."
)
@click.option("--dry-run", is_flag=True, help="Check and predict only; nothing is changed.")
@click.option("--keep", is_flag=True, help="Keep the plan although it is slower than predicted.")
@click.option(
    "--observe-s", type=click.FloatRange(10, 3600), default=60.0, show_default=True, help="Read before."
)
@click.option(
    "--burn-in-s", type=click.FloatRange(1, 3600), default=15.0, show_default=True, help="Discarded after."
)
@click.option(
    "--interval-s", type=click.FloatRange(10, 3600), default=60.0, show_default=True, help="Measured after."
)
@folder_option
@json_option
def apply(  # noqa: PLR0913 (an argument an option)
    plan: Path,
    topology: str,
    cluster: str | None,
    model: str,
    dry_run: bool,
    keep: bool,
    observe_s: float,
    burn_in_s: float,
    interval_s: float,
    folder: Path,
    as_json: bool,
) -> None:
    """Apply a PLAN to a submitted topology, measure it, and take it back where it is slower than predicted.

    PLAN is a file with executors and workers, or a placement, and with from, the plan that it was predicted
    from. A model predicts the mean emit-to-ack latency from what is measured now. The plan is taken back,
    with exit status 3, when the measured mean is above the prediction's 90 % interval. A record is kept
    of every attempt, also of one that is interrupted or fails.

    \b
    harness apply plan.yaml --topology words --dry-run
    harness apply plan.yaml --topology words
    """
    from harness.app.submitted.applying import ApplyTimes, standing
    from harness.app.submitted.cluster_named import read_cluster
    from harness.app.submitted.folder import find
    from harness.app.submitted.plan_file import read_plan
    from harness.machine import servers

    stop_as_by_ctrl_c()
    asked, found = read_plan(plan), find(folder, topology)
    nimbus = found.facts.cluster.nimbus
    if cluster is not None and (given := read_cluster(cluster).nimbus) != nimbus:
        raise UsageError(f"{topology} is on the cluster of nimbus at {nimbus}, not {given}")
    homes, times = servers.install(progress=err.print), ApplyTimes(observe_s, burn_in_s, interval_s)
    with standing(found, homes, times, lambda line: err.print(line, highlight=False)) as there:
        foreseen = there.foresee(asked, model)
        outlook = foreseen.outlook
        before = "nothing acked" if outlook.before_ms is None else f"{outlook.before_ms:.2f} ms"
        interval = f"{outlook.low_ms:.2f} to {outlook.high_ms:.2f}"
        click.echo(f"now: {before} at {outlook.source.rate_tps:.1f} messages/s")
        click.echo(f"predicted by {model}: {outlook.predicted_ms:.2f} ms ({interval})")
        result = {
            "before_ms": outlook.before_ms,
            "predicted_ms": outlook.predicted_ms,
            "low_ms": outlook.low_ms,
            "high_ms": outlook.high_ms,
        }
        if dry_run:
            click.echo("nothing was changed")
            finish(as_json, {"topology": found.facts.topology, **result})
        record = there.apply(asked, foreseen, model, keep=keep, report=_show)
    measured = "nothing" if record.measured_ms is None else f"{record.measured_ms:.2f} ms"
    click.echo(f"measured: {measured}; {record.outcome}: {record.reason}")
    finish(
        as_json,
        {"topology": found.facts.topology, **record.model_dump(mode="json")},
        status=ENDS[record.outcome],
    )


def _show(
    phase: str,
    rate_tps: float | None,
    latency_ms: float | None,
    left_s: float | None,
    detail: str,
    ledger: Mapping[str, int],
) -> None:
    """Show how far a measurement is, where somebody looks."""
    del rate_tps, detail, ledger
    if err.is_terminal and left_s is not None:
        seen = "" if latency_ms is None else f" {latency_ms:.1f} ms"
        err.print(f"{phase}{seen}, about {left_s:.0f} s left", end="\r", highlight=False)
