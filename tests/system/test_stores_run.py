"""``harness run`` with InfluxDB and Neo4j, and InfluxDB killed while a step is measured.

Both servers are the run's own, in its sandbox, on data folders that stay; afterwards they are started on
those folders again and asked.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow.parquet as pq
import pytest
from ports import free_port

from harness import secret_files
from harness.backends import sandbox
from harness.backends.influxdb_server import InfluxServer
from harness.backends.servers import ServerHomes, quiet
from harness.experiments import records
from harness.runs import Run
from harness.stores import events, influx_store

pytestmark = pytest.mark.system

EXPERIMENT = """\
name: stored
topology: {name: fields-to-fields, load_aware: false, tasks: 2, ackers: 1}
workload: {rate_tps: 50}
cluster: {nodes: 1, slots_per_node: 2}
metrics: {store: influxdb}
plans: {store: neo4j}
measure:
  burn_in: {least_s: 1, most_s: 2, drift_pct: 90}
  interval: {least_s: 6, most_s: 6, looks: 1, precision_pct: 50}
steps:
  plan:
    - {executors: 1, workers: 1}
    - {executors: 2, workers: 2}
models: [no-change]
"""


class Done(NamedTuple):
    status: int
    said: list[str]
    run: Run
    data: Path
    environment: dict[str, str]
    killed: bool


def kill_influxd(data: Path) -> bool:
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command and command[0].endswith("/influxd") and any(str(data) in word for word in command):
            os.kill(process.pid, signal.SIGKILL)
            return True
    return False


@pytest.fixture(scope="module")
def done(
    server_homes: ServerHomes,
    influxd_program: Path,
    neo4j_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Done:
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    folder = tmp_path_factory.mktemp("stored")
    (folder / "stored.yaml").write_text(EXPERIMENT)
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK and not k.startswith("NEO4J_")}
    environment["XDG_DATA_HOME"] = str(folder / "data")
    said, killed = [], False
    with subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "stored.yaml", "--json"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if "step 2/2" in line and " measure" in line and not killed:
                killed = kill_influxd(folder / "data")
    (run,) = (folder / "runs" / "stored").iterdir()
    data = folder / "data" / "storm-harness"
    return Done(process.returncode, said, Run(run), data, environment, killed)


def test_the_run_goes_on_to_its_verdict(done: Done) -> None:
    # so short an interval proves nothing; that it is judged is what matters here
    assert done.status in (0, 3, 4), "".join(done.said)
    assert done.killed
    assert done.run.finished_steps == (0, 1)
    assert "influxdb stopped with signal SIGKILL; started again" in (done.run.path / "log.txt").read_text()
    versions = done.run.environment["cluster"]
    assert {"influxdb", "neo4j"} < set(versions)
    for step in (0, 1):
        metrics = pq.read_table(done.run.step_path(step) / "metrics.parquet").to_pandas()
        assert (metrics["measurement"] == "service").any()
        assert not (metrics["measurement"] == "consumer").any()
    left = [
        p for p in psutil.process_iter(["cmdline"]) if str(done.data) in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []


def test_influxdb_has_all_of_it_afterwards(done: Done, influxd_program: Path, tmp_path: Path) -> None:
    server = InfluxServer(influxd_program, done.data / "influxdb", port=free_port())
    server.start(tmp_path, quiet)
    try:
        with influx_store(server, "stored") as store:
            for step in (0, 1):
                table = pq.read_table(done.run.step_path(step) / "metrics.parquet")
                ends = table["bucket_end_ms"].to_pylist()
                found = records.metrics(store.rows(min(ends) - 1, max(ends)), done.run.plan(step).start)
                there = found.to_pandas().astype({"worker": str}).drop_duplicates()
                here = table.to_pandas().astype({"worker": str})
                # a bucket that was on its way when the step was written is in the database alone
                both = here.astype(str).merge(there.astype(str), how="left", indicator=True)
                assert (both["_merge"] == "both").all()
                expected = events(done.run, step)
                assert store.events(expected[0].at_ms - 1, expected[-1].at_ms) == expected
    finally:
        server.stop()
    assert list((done.data / "influxdb" / "spool").iterdir()) == []


def test_neo4j_answers_as_the_run_directory_does(done: Done) -> None:
    said: dict[str, dict[str, Any]] = {}
    for source in ("neo4j", "run"):
        command = ["plans", str(done.run.path), "--from", source, "--difference", "0", "1", "--json"]
        asked = subprocess.run(
            [sys.executable, "-m", "harness", *command, "--step", "0", "--step", "1", "--list-paths", "9"],
            env=done.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert asked.returncode == 0, asked.stderr
        said[source] = json.loads(asked.stdout.splitlines()[-1])
        assert said[source].pop("from") == {"neo4j": "neo4j", "run": "run directory"}[source]
    assert said["neo4j"] == said["run"]


def test_no_secret_is_in_the_run(done: Done) -> None:
    secrets = [
        secret_files.read(done.data / server / name).encode()
        for server, name in (("influxdb", "token"), ("influxdb", "password"), ("neo4j", "password"))
    ]
    said = "".join(done.said).encode()
    files = [p for p in done.run.path.rglob("*") if p.is_file()]
    for secret in secrets:
        assert secret not in said
        assert [p for p in files if secret in p.read_bytes()] == []
