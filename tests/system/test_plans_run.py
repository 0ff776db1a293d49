"""``harness run`` with both stores in its sandbox, killed while a step is measured; then they are asked.

Without InfluxDB on this machine the run has Neo4j alone.
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
from harness.backends import optional_servers, sandbox
from harness.backends.influxdb_server import InfluxServer
from harness.backends.neo4j_server import MAIN
from harness.backends.servers import ServerHomes, quiet
from harness.experiments import records
from harness.runs import Run
from harness.stores import events_of, influx_store

pytestmark = pytest.mark.system

EXPERIMENT = """\
name: stored
topology: {name: fields-to-fields, load_aware: false, tasks: 2, ackers: 1}
workload: {rate_tps: 50}
cluster: {nodes: 1, slots_per_node: 2}
plans: {store: neo4j}
measure:
  bucket_s: 1
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
    servers: set[str]
    killed: set[str]
    commands: list[str]


def kill_servers(data: Path) -> set[str]:
    killed = set()
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if any(str(data) in word for word in command) and (MAIN in command or command[0].endswith("influxd")):
            os.kill(process.pid, signal.SIGKILL)
            killed.add("neo4j" if MAIN in command else "influxdb")
    return killed


def command_lines() -> set[str]:
    """What anybody on this machine sees of every process."""
    return {" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])}


@pytest.fixture(scope="module")
def done(server_homes: ServerHomes, neo4j_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    folder = tmp_path_factory.mktemp("stored")
    with_influxdb = optional_servers.influxd() is not None
    metrics = "metrics: {store: influxdb}\n" if with_influxdb else ""
    (folder / "stored.yaml").write_text(EXPERIMENT + metrics)
    ours = ("NEO4J_", "INFLUXDB_")
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK and not k.startswith(ours)}
    environment["XDG_DATA_HOME"] = str(folder / "data")
    said, killed, commands = list[str](), set[str](), set[str]()
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
            commands |= command_lines()
            if "step 2/2" in line and " measure" in line and not killed:
                killed = kill_servers(folder / "data")
    (run,) = (folder / "runs" / "stored").iterdir()
    data = folder / "data" / "storm-harness"
    servers = {"neo4j", "influxdb"} if with_influxdb else {"neo4j"}
    return Done(process.returncode, said, Run(run), data, environment, servers, killed, sorted(commands))


def test_the_run_goes_on_to_its_verdict(done: Done) -> None:
    # so short an interval proves nothing; that it is judged is what matters here
    assert done.status in (0, 3, 4), "".join(done.said)
    assert done.killed == done.servers
    assert done.run.finished_steps == (0, 1)
    log = (done.run.path / "log.txt").read_text()
    for server in done.servers:
        assert f"{server} stopped with signal SIGKILL; started again" in log
        assert server in done.run.environment["cluster"]
    for step in (0, 1):
        metrics = pq.read_table(done.run.step_path(step) / "metrics.parquet").to_pandas()
        assert (metrics["measurement"] == "service").any()
        assert not (metrics["measurement"] == "consumer").any()  # no line was lost
    left = [
        p for p in psutil.process_iter(["cmdline"]) if str(done.data) in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []


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


def test_no_secret_is_in_the_run_or_the_process_list(done: Done) -> None:
    assert any(MAIN in line for line in done.commands)  # the servers' were among them
    assert any("org.apache.storm.daemon.worker.Worker" in line for line in done.commands)
    for file in (("neo4j", "password"), ("influxdb", "password"), ("influxdb", "token")):
        if file[0] not in done.servers:
            continue
        secret = secret_files.read(done.data.joinpath(*file)).encode()
        assert secret not in "".join(done.said).encode()
        assert [line for line in done.commands if secret.decode() in line] == []
        files = [p for p in done.run.path.rglob("*") if p.is_file()]
        assert [p for p in files if secret in p.read_bytes()] == []


def test_influxdb_has_all_of_it_afterwards(done: Done, influxd_program: Path, tmp_path: Path) -> None:
    assert list((done.data / "influxdb" / "spool").iterdir()) == []
    server = InfluxServer(influxd_program, done.data / "influxdb", port=free_port())
    server.start(tmp_path, quiet)
    try:
        with influx_store(server, "stored") as store:
            for step in (0, 1):
                table = pq.read_table(done.run.step_path(step) / "metrics.parquet")
                ends = table["bucket_end_ms"].to_pylist()
                found = records.metrics(store.rows(min(ends) - 1, max(ends)), done.run.plan(step).start)
                # a bucket that was on its way when the step was written is in the database alone
                here, there = (
                    set(map(tuple, rows.to_pandas().to_numpy().tolist())) for rows in (table, found)
                )
                assert len(here) == table.num_rows > 100
                assert here <= there
                expected = events_of(done.run, step)
                assert store.events(expected[0].at_ms - 1, expected[-1].at_ms) == expected
    finally:
        server.stop()
