"""``harness run`` with both stores in its sandbox, one run that meets their troubles one after the other.

In the first step InfluxDB has no room left, which stops the run. Resumed, both servers are killed in the
first step and started again, and in the second Neo4j has no room, which ends the run when all is measured.
Resumed with room it comes to its verdict, and both are asked. Without InfluxDB on this machine it has Neo4j
alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow.parquet as pq
import pytest
from ports import free_port

from harness.app.stores import events_of, influx_store
from harness.backends import optional_servers
from harness.backends.influxdb.server import InfluxServer
from harness.backends.neo4j.server import MAIN
from harness.experiments import records
from harness.machine import sandbox, secret_files
from harness.machine.servers import ServerHomes, quiet
from harness.runs import Run

pytestmark = pytest.mark.system

EXPERIMENT = """\
name: stored
topology: {name: fields-to-fields, load_aware: false, tasks: 2, ackers: 1}
workload: {rate_tps: 50}
cluster: {nodes: 1, slots_per_node: 2}
plans: {store: neo4j}
measure:
  bucket_s: 1
  attempts: 1
  burn_in: {least_s: 1, most_s: 2, drift_pct: 90}
  interval: {least_s: 6, most_s: 6, looks: 1, precision_pct: 50}
steps:
  plan:
    - {executors: 1, workers: 1}
    - {executors: 2, workers: 2}
models: [no-change]
"""


class Disk:
    """A small file system for a server's data."""

    def __init__(self, folder: Path, size: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")

    def fill(self) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as out:
            for size in (1 << 20, 4096):
                try:
                    while out.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Disk]:
    disk = Disk(folder, size)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Ended(NamedTuple):
    """How a command ended, and the finished steps after it."""

    status: int
    said: str
    steps: tuple[int, ...]

    @property
    def error(self) -> str:
        (line,) = [line for line in self.said.splitlines() if line.startswith("error: ")]
        return line


class Told(NamedTuple):
    influxdb: Ended | None
    """Without room for metrics; None without InfluxDB."""
    neo4j: Ended
    """Both servers killed, then without room for plans."""
    last: Ended
    run: Run
    data: Path
    environment: dict[str, str]
    servers: set[str]
    killed: set[str]
    commands: list[str]

    @property
    def said(self) -> str:
        return "".join(e.said for e in (self.influxdb, self.neo4j, self.last) if e)


class Commands:
    """``harness run``, with something done to it in the measuring of a step."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.seen: set[str] = set()
        """Every command line that anybody on this machine saw meanwhile."""

    @property
    def run(self) -> Run:
        (path,) = (self.folder / "runs" / "stored").iterdir()
        return Run(path)

    def carry_out(self, begun: list[str], troubles: Mapping[str, Callable[[], object]]) -> Ended:
        said, left = list[str](), dict(troubles)
        with subprocess.Popen(
            [sys.executable, "-m", "harness", "run", *begun, "--json"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                self.seen |= {" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])}
                for step in [s for s in left if s in line and " measure" in line]:
                    left.pop(step)()
        assert not left, "".join(said)
        return Ended(process.returncode, "".join(said), self.run.finished_steps)

    def asked(self, *command: str) -> dict[str, Any]:
        """Return what ``harness plans`` answers."""
        done = subprocess.run(
            [sys.executable, "-m", "harness", "plans", str(self.run.path), *command, "--json"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


def kill_servers(data: Path) -> set[str]:
    killed = set()
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if any(str(data) in word for word in command) and (MAIN in command or command[0].endswith("influxd")):
            os.kill(process.pid, signal.SIGKILL)
            killed.add("neo4j" if MAIN in command else "influxdb")
    return killed


@pytest.fixture(scope="module")
def commands(server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    folder = tmp_path_factory.mktemp("stored")
    ours = ("NEO4J_", "INFLUXDB_")
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK and not k.startswith(ours)}
    environment["XDG_DATA_HOME"] = str(folder / "data")
    return Commands(folder, environment)


@pytest.fixture(scope="module")
def told(commands: Commands, neo4j_home: Path) -> Iterator[Told]:
    with_influxdb = optional_servers.influxd() is not None
    metrics = "metrics: {store: influxdb}\n" if with_influxdb else ""
    (commands.folder / "stored.yaml").write_text(EXPERIMENT + metrics)
    data = commands.folder / "data" / "storm-harness"
    killed = set[str]()
    begun, full = ["stored.yaml"], None
    with ExitStack() as stack:
        influxdb, neo4j = (
            stack.enter_context(mounted(data / name, size))
            for name, size in (("influxdb", "60m"), ("neo4j", "400m"))
        )
        if with_influxdb:
            full = commands.carry_out(begun, {"step 1/2": influxdb.fill})
            influxdb.free()
            begun = ["--resume", str(commands.run.path)]
        troubles = {"step 1/2": lambda: killed.update(kill_servers(data)), "step 2/2": neo4j.fill}
        second = commands.carry_out(begun, troubles)
        neo4j.free()
        last = commands.carry_out(["--resume", str(commands.run.path)], {})
        servers = {"neo4j", "influxdb"} if with_influxdb else {"neo4j"}
        seen = sorted(commands.seen)
        yield Told(full, second, last, commands.run, data, commands.environment, servers, killed, seen)


def test_a_full_influxdb_stops_the_run_with_its_own_words(told: Told, influxd_program: Path) -> None:
    found = told.influxdb
    assert found is not None
    assert found.status == 1, found.said
    assert found.error.startswith("error: influxdb at http://127.0.0.1:8086 does not take metrics: ")
    assert "no space left on device" in found.error
    assert "Traceback" not in found.said
    assert found.steps == ()
    assert "go on with: harness run --resume" in found.said


def test_servers_that_are_killed_are_started_again_and_nothing_is_lost(
    told: Told, figure: Callable[[str], None]
) -> None:
    assert told.killed == told.servers
    log = (told.run.path / "log.txt").read_text()
    for server in told.servers:
        assert f"{server} stopped with signal SIGKILL; started again" in log
        assert server in told.run.environment["cluster"]
    rows = 0
    for step in (0, 1):
        metrics = pq.read_table(told.run.step_path(step) / "metrics.parquet").to_pandas()
        assert (metrics["measurement"] == "service").any()
        assert not (metrics["measurement"] == "consumer").any()  # no line was lost
        rows += len(metrics)
    figure(f"{' and '.join(sorted(told.killed))} killed: {rows} rows of metrics, none lost")


def test_a_full_neo4j_ends_the_run_when_all_is_measured(told: Told) -> None:
    """The run directory has all of it; what the graph did not take was offered again at the end."""
    assert told.neo4j.status == 1, told.neo4j.said
    assert told.neo4j.error.startswith("error: neo4j at bolt://127.0.0.1:7687: cannot ")
    assert re.search(r": \d MB are free for its data in .*/neo4j", told.neo4j.error), told.neo4j.error
    assert "Traceback" not in told.neo4j.said
    assert told.neo4j.steps == (0, 1)
    assert "2 of the run's 2 steps are finished and kept" in told.neo4j.said


def test_with_room_the_run_comes_to_its_verdict_and_leaves_no_server(told: Told) -> None:
    assert told.last.status in (0, 3, 4), told.last.said  # so short an interval proves nothing
    left = [
        p for p in psutil.process_iter(["cmdline"]) if str(told.data) in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []


def test_neo4j_answers_as_the_run_directory_does(told: Told, commands: Commands) -> None:
    asked = ("--difference", "0", "1", "--step", "0", "--step", "1", "--list-paths", "9")
    said = {source: commands.asked("--from", source, *asked) for source in ("neo4j", "run")}
    assert said["neo4j"].pop("from") == "neo4j"
    assert said["run"].pop("from") == "run directory"
    assert said["neo4j"] == said["run"]


def test_no_secret_is_in_the_run_or_the_process_list(told: Told) -> None:
    assert any(MAIN in line for line in told.commands)  # the servers' were among them
    assert any("org.apache.storm.daemon.worker.Worker" in line for line in told.commands)
    for file in (("neo4j", "password"), ("influxdb", "password"), ("influxdb", "token")):
        if file[0] not in told.servers:
            continue
        secret = secret_files.read(told.data.joinpath(*file)).encode()
        assert secret not in told.said.encode()
        assert [line for line in told.commands if secret.decode() in line] == []
        files = [p for p in told.run.path.rglob("*") if p.is_file()]
        assert [p for p in files if secret in p.read_bytes()] == []


def test_influxdb_has_all_of_it_afterwards(told: Told, influxd_program: Path, tmp_path: Path) -> None:
    assert list((told.data / "influxdb" / "spool").iterdir()) == []
    server = InfluxServer(influxd_program, told.data / "influxdb", port=free_port())
    server.start(tmp_path, quiet)
    try:
        with influx_store(server, "stored") as store:
            for step in (0, 1):
                table = pq.read_table(told.run.step_path(step) / "metrics.parquet")
                ends = table["bucket_end_ms"].to_pylist()
                found = records.metrics(store.rows(min(ends) - 1, max(ends)), told.run.plan(step).start.nodes)
                # a bucket that was on its way when the step was written is in the database alone
                here, there = (
                    set(map(tuple, rows.to_pandas().to_numpy().tolist())) for rows in (table, found)
                )
                assert len(here) == table.num_rows > 100
                assert here <= there
                expected = events_of(told.run, step)
                assert store.events(expected[0].at_ms - 1, expected[-1].at_ms) == expected
    finally:
        server.stop()
