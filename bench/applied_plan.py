"""A plan applied to a foreign jar on a cluster of others: its latency before and after.

    python -m harness.machine.sandbox where-allowed python bench/applied_plan.py
    python -m harness.machine.sandbox where-allowed python bench/applied_plan.py --tuner ds2

A cluster of Storm's defaults and an InfluxDB are started as somebody else would, and the jar of
tests/system/foreign/Foreign.java is submitted, with one executor that is busy for most of the time. The
service is asked for the topology's page, for its traffic in the next half minute, beside which stands what
came, and for a tuner's plan from the last minutes. ``harness apply`` applies that. Tables are Markdown. Needs
``make servers``; about eight minutes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import click
import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from default_storm import KAFKA, NIMBUS, default_storm
from foreign_jars import compiled
from harness_command import harness, serving
from ports import free_port

from harness.app.submitted.folder import SubmittedTopology, TrackRecord, now_ms
from harness.app.submitted.live_rows import LiveMetrics
from harness.app.submitted.submitting import configuration_of
from harness.backends import optional_servers
from harness.backends.influxdb.server import InfluxServer
from harness.experiments.watching import REPORTED_S
from harness.forecasts import DEFAULT
from harness.machine import secret_files, servers
from harness.machine.servers import quiet
from harness.plans import TopologyConfiguration
from harness.storm.nimbus import Nimbus
from harness.tuning import TUNERS

NAME = "foreign"
CLUSTER = f"{{kind: running, nimbus: '{NIMBUS}', kafka: '{KAFKA}'}}"
OBSERVE_S, BURN_IN_S = 60, 30
ASKED_WITHIN_S = 300.0
POLL_S = 1.0
FORECASTER, FORESEEN_S = DEFAULT, 30.0


def submit(jar: Path, url: str, folder: Path) -> SubmittedTopology:
    """Submit the jar to stay."""
    main = ["--main", "Foreign", "--args", "{name}", "--args", "busy", "--name", NAME]
    where = ["--cluster", CLUSTER, "--metrics-url", url, "--submitted", str(folder)]
    status, result, said = harness("submit", str(jar), *main, *where)
    if status != 0:
        raise click.ClickException(said)
    return SubmittedTopology(Path(str(result["submitted"])))


def asked(url: str, address: str, **query: str | float) -> httpx.Response:
    """Ask the service something, which has an answer."""
    answer = httpx.get(f"{url}{address}", params=query, timeout=ASKED_WITHIN_S)
    if answer.status_code != 200:
        raise click.ClickException(f"{address}: {answer.status_code}: {answer.text}")
    return answer


def proposal(url: str, tuner: str) -> dict[str, object]:
    """Return the tuner's plan for what runs, as the service predicts it."""
    answer = httpx.post(
        f"{url}/model/topology/storm/proposed/{NAME}", json={"tuner": tuner}, timeout=ASKED_WITHIN_S
    )
    said = answer.json()
    if answer.status_code != 200 or said["proposed"]["status"] != "ok":
        raise click.ClickException(f"{tuner} proposed nothing: {said}")
    plan: dict[str, object] = said["proposed"]
    return plan


def watch(url: str) -> str:
    """Open the topology's page; return what was served, in words."""
    page = asked(url, f"/topologies/{NAME}")
    charts = page.text.count("<figure>")
    return f"page /topologies/{NAME}: {page.status_code}, {len(page.content)} bytes, {charts} charts"


def foresee(url: str, topology: SubmittedTopology) -> list[str]:
    """Forecast what the spouts emit in half a minute, wait for it, and return both as rows of a table."""
    minutes = FORESEEN_S / 60
    answer = asked(url, f"/model/traffic/storm/{NAME}", model=FORECASTER, future_mins=minutes)
    told = answer.json()[FORECASTER]
    if told["reason"]:
        raise click.ClickException(f"{FORECASTER} foresees nothing: {told['reason']}")
    since_ms = round(told["details"]["from_epoch_s"] * 1e3)
    until_ms = since_ms + round(FORESEEN_S * 1e3)
    bucket_s = float(topology.experiment.measure.bucket_s)
    while now_ms() < until_ms + (bucket_s + REPORTED_S) * 1e3:
        time.sleep(POLL_S)
    spouts = topology.plan.plan.query_plan.spouts
    came = LiveMetrics().emitted(topology, spouts, since_ms, until_ms, bucket_s).to_pandas()
    rows = []
    for spout, streams in told["components"]["median"].items():
        for stream, median_tps in streams.items():
            low_tps, high_tps = (told["components"][f"{p}-quantile"][spout][stream] for p in (10, 90))
            of_stream = came[(came["component"] == spout) & (came["stream"] == stream)]
            came_tps = of_stream["value"].sum() / FORESEEN_S
            foreseen = f"{median_tps:.1f} ({low_tps:.1f} to {high_tps:.1f})"
            rows.append(f"| {spout} ({stream}) | {foreseen} | {came_tps:.1f} |")
    return rows


def folders(submitted: Path) -> list[str]:
    """Return options by which the service shows what was submitted."""
    where = str(submitted)
    return ["--runs", where, "--submitted", where, "--jobs", str(submitted / ".jobs")]


def wait_for_age(nimbus: Nimbus, least_s: float) -> None:
    """Wait until every worker of the topology has run for so long."""
    while min(nimbus.topology(NAME).uptimes_s().values(), default=0) < least_s:
        time.sleep(POLL_S)


def counts(asked: TopologyConfiguration) -> str:
    """Return a plan's executors by component, and its workers."""
    return f"{', '.join(f'{name} {n}' for name, n in asked.executors.items())}; workers {asked.workers}"


def show(tuner: str, record: TrackRecord, before: TopologyConfiguration) -> None:
    """Print the change and its latencies."""
    measured = (
        "-" if record.measured_ms is None else f"{record.measured_ms:.2f} +- {record.half_width_ms:.2f}"
    )
    was = "-" if record.before_ms is None else f"{record.before_ms:.2f}"
    click.echo(
        "| tuner | plan before | plan applied | tuples/s | mean before, ms | predicted | measured | outcome |"
    )
    click.echo("| --- | --- | --- | --- | --- | --- | --- | --- |")
    predicted = f"{record.predicted_ms:.2f} ({record.low_ms:.2f} to {record.high_ms:.2f})"
    cells = (
        tuner,
        counts(before),
        counts(record.asked),
        f"{record.rate_tps:.0f}",
        was,
        predicted,
        measured,
        record.outcome,
    )
    click.echo(f"| {' | '.join(cells)} |")
    click.echo(record.reason)


def show_traffic(rows: list[str], page: str) -> None:
    """Print what was foreseen beside what came, and the page that was served."""
    click.echo(f"{page}\n")
    click.echo(f"| spout | foreseen by {FORECASTER} for {FORESEEN_S:g} s, tuples/s (80 %) | came |")
    click.echo("| --- | --- | --- |")
    for row in rows:
        click.echo(row)
    click.echo("")


@click.command()
@click.option("--tuner", type=click.Choice(list(TUNERS)), default="model-guided", show_default=True)
@click.option("--interval-s", default=60, show_default=True, help="What is measured of the new plan.")
def main(tuner: str, interval_s: int) -> None:
    """Submit, watch, foresee, propose, apply and measure."""
    program = optional_servers.influxd()
    if program is None:
        raise click.ClickException("no InfluxDB: make servers builds it")
    homes = servers.install()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in ("storm", "jar", "logs", "submitted"):
            (folder / name).mkdir()
        jar = compiled("Foreign.java", homes, folder / "jar")
        influx = InfluxServer(program, folder / "influxdb", port=free_port())
        influx.start(folder / "logs", quiet)
        try:
            os.environ["INFLUXDB_TOKEN"] = secret_files.read(influx.token_file)
            with default_storm(homes, folder / "storm") as storm:
                topology = submit(jar, influx.url, folder / "submitted")
                before = configuration_of(topology.plan.plan)
                wait_for_age(storm.nimbus, OBSERVE_S + 10)
                with serving(*folders(folder / "submitted")) as url:
                    page, traffic = watch(url), foresee(url, topology)
                    plan = proposal(url, tuner)
                show_traffic(traffic, page)
                wanted = {key: plan[key] for key in ("executors", "workers") if plan[key]}
                (folder / "plan.yaml").write_text(json.dumps(wanted))
                times = (
                    "--observe-s",
                    str(OBSERVE_S),
                    "--burn-in-s",
                    str(BURN_IN_S),
                    "--interval-s",
                    str(interval_s),
                )
                where = ("--topology", NAME, "--submitted", str(folder / "submitted"))
                status, _, said = harness("apply", str(folder / "plan.yaml"), *where, *times)
                if status not in (0, 3):
                    raise click.ClickException(said)
                show(tuner, topology.applied[-1], before)
        finally:
            influx.stop()


if __name__ == "__main__":
    main()
