"""A run whose InfluxDB, then whose Neo4j, has no room left on its disk in the middle of a step.

Each stops it with one line, and nothing that was measured is lost: it is resumed, and both are asked.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from harness.backends import sandbox
from harness.backends.servers import ServerHomes
from harness.runs import Run

pytestmark = pytest.mark.system

EXPERIMENT = """\
name: full
topology: {name: fields-to-fields, load_aware: false, tasks: 2, ackers: 1}
workload: {rate_tps: 50}
cluster: {nodes: 1, slots_per_node: 2}
metrics: {store: influxdb}
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

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)


class Ended(NamedTuple):
    status: int
    said: str
    steps: tuple[int, ...]

    @property
    def error(self) -> str:
        (line,) = [line for line in self.said.splitlines() if line.startswith("error: ")]
        return line


class Told(NamedTuple):
    """How the command ended with a full InfluxDB, with a full Neo4j, and with room; and the run."""

    influxdb: Ended
    neo4j: Ended
    last: Ended
    run: Run
    environment: dict[str, str]


def carry_out(folder: Path, environment: dict[str, str], begun: list[str], moment: str, disk: Disk) -> Ended:
    said, filled = list[str](), False
    with subprocess.Popen(
        [sys.executable, "-m", "harness", "run", *begun, "--json"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if moment and moment in line and " measure" in line and not filled:
                disk.fill()
                filled = True
    assert filled == bool(moment), "".join(said)
    (run,) = (folder / "runs" / "full").iterdir()
    return Ended(process.returncode, "".join(said), Run(run).finished_steps)


@pytest.fixture(scope="module")
def told(
    server_homes: ServerHomes,
    influxd_program: Path,
    neo4j_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Told]:
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    folder = tmp_path_factory.mktemp("full")
    (folder / "full.yaml").write_text(EXPERIMENT)
    ours = ("NEO4J_", "INFLUXDB_")
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK and not k.startswith(ours)}
    environment["XDG_DATA_HOME"] = str(folder / "data")
    data = folder / "data" / "storm-harness"
    influxdb, neo4j = Disk(data / "influxdb", "60m"), Disk(data / "neo4j", "400m")
    try:
        first = carry_out(folder, environment, ["full.yaml"], "step 1/2", influxdb)
        influxdb.free()
        (run,) = (folder / "runs" / "full").iterdir()
        again = ["--resume", str(run)]
        second = carry_out(folder, environment, again, "step 2/2", neo4j)
        neo4j.free()
        yield Told(first, second, carry_out(folder, environment, again, "", neo4j), Run(run), environment)
    finally:
        influxdb.unmount()
        neo4j.unmount()


@pytest.mark.timeout(900)
def test_a_full_influxdb_stops_the_run_with_its_own_words(told: Told) -> None:
    assert told.influxdb.status == 1, told.influxdb.said
    assert told.influxdb.error.startswith("error: influxdb at http://127.0.0.1:8086 does not take metrics: ")
    assert "no space left on device" in told.influxdb.error
    assert "Traceback" not in told.influxdb.said
    assert told.influxdb.steps == ()
    assert "go on with: harness run --resume" in told.influxdb.said


def test_a_full_neo4j_ends_the_run_when_all_is_measured(told: Told) -> None:
    """The run directory has all of it; what the graph did not take was offered again at the end."""
    assert told.neo4j.status == 1, told.neo4j.said
    assert told.neo4j.error.startswith("error: neo4j at bolt://127.0.0.1:7687: cannot ")
    assert re.search(r": \d MB are free for its data in .*/neo4j", told.neo4j.error), told.neo4j.error
    assert "Traceback" not in told.neo4j.said
    assert told.neo4j.steps == (0, 1)
    assert "2 of the run's 2 steps are finished and kept" in told.neo4j.said


def test_with_room_the_run_comes_to_its_verdict(told: Told) -> None:
    assert told.last.status in (0, 3, 4), told.last.said  # so short an interval proves nothing
    for step in (0, 1):
        metrics = pq.read_table(told.run.step_path(step) / "metrics.parquet").to_pandas()
        assert (metrics["measurement"] == "service").any()
        assert not (metrics["measurement"] == "consumer").any()  # no line was lost


def test_with_room_neo4j_takes_the_plans_and_answers(told: Told) -> None:
    said = {}
    for source in ("neo4j", "run"):
        command = ["plans", str(told.run.path), "--from", source, "--difference", "0", "1", "--json"]
        asked = subprocess.run(
            [sys.executable, "-m", "harness", *command],
            env=told.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert asked.returncode == 0, asked.stderr
        said[source] = json.loads(asked.stdout.splitlines()[-1])
        assert said[source].pop("from") == {"neo4j": "neo4j", "run": "run directory"}[source]
    assert said["neo4j"] == said["run"]
