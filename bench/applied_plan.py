"""A plan applied to a foreign jar on a cluster of others: its latency before and after.

    python -m harness.machine.sandbox where-allowed python bench/applied_plan.py
    python -m harness.machine.sandbox where-allowed python bench/applied_plan.py --tuner ds2

A cluster of Storm's defaults and an InfluxDB are started as somebody else would, and the jar of
tests/system/foreign/Foreign.java is submitted, with one executor that is busy for most of the time. The
service is asked for a tuner's plan from the last minutes, and ``harness apply`` applies it. The table is
Markdown. Needs ``make servers``; about seven minutes.
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

from harness.app.submitted.folder import SubmittedTopology, TrackRecord
from harness.app.submitted.submitting import configuration_of
from harness.backends import optional_servers
from harness.backends.influxdb.server import InfluxServer
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


def submit(jar: Path, url: str, folder: Path) -> SubmittedTopology:
    """Submit the jar to stay."""
    main = ["--main", "Foreign", "--args", "{name}", "--args", "busy", "--name", NAME]
    where = ["--cluster", CLUSTER, "--metrics-url", url, "--submitted", str(folder)]
    status, result, said = harness("submit", str(jar), *main, *where)
    if status != 0:
        raise click.ClickException(said)
    return SubmittedTopology(Path(str(result["submitted"])))


def proposal(folder: Path, tuner: str) -> dict[str, object]:
    """Return the tuner's plan for what runs, as the service predicts it."""
    options = ["--runs", str(folder), "--submitted", str(folder), "--jobs", str(folder / ".jobs")]
    with serving(*options) as url:
        answer = httpx.post(
            f"{url}/model/topology/storm/proposed/{NAME}", json={"tuner": tuner}, timeout=ASKED_WITHIN_S
        )
    said = answer.json()
    if answer.status_code != 200 or said["proposed"]["status"] != "ok":
        raise click.ClickException(f"{tuner} proposed nothing: {said}")
    plan: dict[str, object] = said["proposed"]
    return plan


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


@click.command()
@click.option("--tuner", type=click.Choice(list(TUNERS)), default="model-guided", show_default=True)
@click.option("--interval-s", default=60, show_default=True, help="What is measured of the new plan.")
def main(tuner: str, interval_s: int) -> None:
    """Submit, propose, apply and measure."""
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
                plan = proposal(folder / "submitted", tuner)
                asked = {key: plan[key] for key in ("executors", "workers") if plan[key]}
                (folder / "plan.yaml").write_text(json.dumps(asked))
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
