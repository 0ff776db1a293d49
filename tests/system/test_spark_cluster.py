"""``harness report`` on real Spark servers, all on loopback: a cluster, and one of Spark Connect."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pandas as pd
import pyspark
import pytest
from ports import free_ports
from synthetic_run import FakeRun, FakeStep, build, lognormal

from harness.analysis.analyse import OUTPUTS

pytestmark = pytest.mark.system

WAIT_S = 120.0
SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""No JVM here lives for long: the optimising compiler would take more than half of all processor time."""


@dataclass(frozen=True)
class SparkCluster:
    """Where its master listens, and what it says of itself."""

    port: int
    ui_port: int
    log: Path

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def state(self) -> dict[str, Any]:
        """What the master says, nothing before it answers (at first with another page)."""
        try:
            with urlopen(f"http://127.0.0.1:{self.ui_port}/json/", timeout=10) as answer:
                return dict(json.load(answer))
        except (URLError, ConnectionError, json.JSONDecodeError):
            return {}

    def wait(self, ready: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while not ready(found := self.state()):
            assert time.monotonic() < deadline, f"{found}\n{self.log.read_text()[-3000:]}"
            time.sleep(0.2)
        return found


@contextmanager
def server(*command: str, log: Path) -> Iterator[None]:
    """One of Spark's servers, ended with the block; ``command`` begins with one of Spark's programs."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        **SHORT_LIVED,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "1g",
    }
    with log.open("ab") as out:
        process = subprocess.Popen(
            [home / "bin" / command[0], *command[1:]],
            env=environment,
            stdout=out,
            stderr=out,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


DEPLOY = "org.apache.spark.deploy"


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    home = tmp_path_factory.mktemp("spark")
    log = home / "log.txt"
    cluster = SparkCluster(*free_ports(2), log)
    here = ("--host", "127.0.0.1")
    with ExitStack() as servers:
        ports = ("--port", str(cluster.port), "--webui-port", str(cluster.ui_port))
        servers.enter_context(server("spark-class", f"{DEPLOY}.master.Master", *here, *ports, log=log))
        cluster.wait(lambda found: found.get("status") == "ALIVE")
        for name in ("one", "two"):
            size = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(home / name))
            worker = ("spark-class", f"{DEPLOY}.worker.Worker", *here, *size, cluster.url)
            servers.enter_context(server(*worker, log=log))
        cluster.wait(lambda found: found.get("aliveworkers") == 2)
        yield cluster


@dataclass(frozen=True)
class ConnectServer:
    """Where a Spark Connect server listens, and what it writes down of all that it is asked."""

    port: int
    events: Path

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def recorded(self) -> Counter[str]:
        """How often each kind of event happened."""
        (file,) = self.events.iterdir()
        lines = file.read_text().splitlines()
        return Counter(json.loads(line)["Event"].rpartition(".")[2] for line in lines)


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    home = tmp_path_factory.mktemp("connect")
    (home / "events").mkdir()
    (port,) = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (home / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.ui.enabled": "false",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = ("spark-submit", "--class", main, "--master", "local[2]", *options)
    with server(*command, log=home / "log.txt"):
        deadline = time.monotonic() + WAIT_S
        while not answers(port):
            assert time.monotonic() < deadline, (home / "log.txt").read_text()[-3000:]
            time.sleep(0.2)
        yield ConnectServer(port, home / "events")


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def report(run: Path, *options: str, remote: str = "") -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "harness", "report", str(run), *options]
    environment = {**os.environ, **SHORT_LIVED, "SPARK_REMOTE": remote}
    return subprocess.run(asked, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was reported by Spark on this machine."""
    steps = [FakeStep(e, seconds=20, latency_ms=lognormal(12 / e)) for e in (1, 2, 2)]
    path = tmp_path_factory.mktemp("here") / "run"
    build(path, FakeRun(topology="windowed", steps=steps, members=10))
    done = report(path)
    assert done.returncode == 0, done.stderr
    return path


def same_results(one: Path, other: Path) -> None:
    for name in ("summary.json", "verdict.json"):
        assert (one / name).read_text() == (other / name).read_text()
    keys = ["model", "protocol", "source_step", "proposed_step", "measure", "subject", "statistic"]
    first, second = (
        pd.read_parquet(p / "errors.parquet").sort_values(keys, ignore_index=True) for p in (one, other)
    )
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def without_results(run: Path, copy: Path) -> Path:
    return shutil.copytree(run, copy, ignore=shutil.ignore_patterns(*OUTPUTS))


@pytest.mark.timeout(900)
def test_a_cluster_gives_the_same_report(spark_cluster: SparkCluster, here: Path, tmp_path: Path) -> None:
    there = without_results(here, tmp_path / "run")
    done = report(there, "--master", spark_cluster.url, remote="sc://a.master.goes.before.it")
    assert done.returncode == 0, done.stderr
    same_results(here, there)
    (application,) = spark_cluster.wait(lambda found: bool(found.get("completedapps")))["completedapps"]
    assert application["name"] == "harness-analysis"
    assert application["state"] == "FINISHED"
    assert application["cores"] == 2, "both workers took part"


@pytest.mark.timeout(900)
def test_a_spark_connect_server_gives_the_same_report(
    connect_server: ConnectServer, here: Path, tmp_path: Path
) -> None:
    there = without_results(here, tmp_path / "run")
    done = report(there, remote=connect_server.url)
    assert done.returncode == 0, done.stderr
    same_results(here, there)
    recorded = connect_server.recorded()
    assert recorded["SparkListenerConnectSessionStarted"] == 1
    assert recorded["SparkListenerConnectSessionClosed"] == 1
    assert recorded["SparkListenerJobEnd"] > 5, "it computed, and not this machine"


@pytest.mark.timeout(900)
def test_a_file_that_a_spark_connect_server_finds_damaged_is_named(
    connect_server: ConnectServer, here: Path, tmp_path: Path
) -> None:
    """Its end, with the schema, is whole: the server is the first to read the data."""
    there = without_results(here, tmp_path / "run")
    file = there / "steps" / "01" / "latency.parquet"
    data = bytearray(file.read_bytes())
    data[4 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4)
    file.write_bytes(bytes(data))
    before = sorted(there.iterdir())
    done = report(there, remote=connect_server.url)
    assert done.returncode == 2, done.stderr
    assert f"error: {file}: damaged" in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr
    assert sorted(there.iterdir()) == before


def test_a_master_that_is_none_is_said(tmp_path: Path) -> None:
    run = build(tmp_path / "run", FakeRun(steps=[FakeStep(1, seconds=4, burn_in_s=2)]))
    before = sorted(p.name for p in run.iterdir())
    done = report(run, "--master", "cluster.example")
    assert done.returncode == 2
    assert "error: cluster.example: no Spark master" in done.stderr
    assert sorted(p.name for p in run.iterdir()) == before


@pytest.mark.parametrize(
    ("remote", "status", "says"),
    [
        ("cluster.example:15002", 2, "no Spark Connect server"),
        ("sc://127.0.0.1:{free}", 1, "no Spark Connect server answers at 127.0.0.1:{free}"),
    ],
)
def test_a_spark_connect_server_that_is_none_is_said(
    tmp_path: Path, remote: str, status: int, says: str
) -> None:
    run = build(tmp_path / "run", FakeRun(steps=[FakeStep(1, seconds=4, burn_in_s=2)]))
    before = sorted(p.name for p in run.iterdir())
    (free,) = free_ports(1)
    done = report(run, remote=remote.format(free=free))
    assert done.returncode == status
    assert says.format(free=free) in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in run.iterdir()) == before
