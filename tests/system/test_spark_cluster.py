"""``harness report`` on a real standalone Spark cluster, a master and two workers, all on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
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

sys.path.append(str(Path(__file__).resolve().parent.parent / "analysis"))

from synthetic_run import FakeRun, FakeStep, build, lognormal

pytestmark = pytest.mark.system

WAIT_S = 120.0


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
def server(name: str, *arguments: str, log: Path) -> Iterator[None]:
    """One of Spark's servers, ended with the block."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with log.open("ab") as out:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            stdout=out,
            stderr=out,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    home = tmp_path_factory.mktemp("spark")
    log = home / "log.txt"
    cluster = SparkCluster(*free_ports(2), log)
    here = ("--host", "127.0.0.1")
    with ExitStack() as servers:
        ports = ("--port", str(cluster.port), "--webui-port", str(cluster.ui_port))
        servers.enter_context(server("master.Master", *here, *ports, log=log))
        cluster.wait(lambda found: found.get("status") == "ALIVE")
        for name in ("one", "two"):
            size = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(home / name))
            servers.enter_context(server("worker.Worker", *here, *size, cluster.url, log=log))
        cluster.wait(lambda found: found.get("aliveworkers") == 2)
        yield cluster


def report(run: Path, *options: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "harness", "report", str(run), *options]
    return subprocess.run(asked, capture_output=True, text=True, check=False)


@pytest.mark.timeout(900)
def test_a_cluster_gives_the_same_report(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    steps = [FakeStep(e, seconds=20, latency_ms=lognormal(12 / e)) for e in (1, 2, 2)]
    here = build(tmp_path / "here" / "run", FakeRun(topology="windowed", steps=steps, members=10))
    there = shutil.copytree(here, tmp_path / "there" / "run")
    local, remote = report(here), report(there, "--master", spark_cluster.url)
    assert local.returncode == 0, local.stderr
    assert remote.returncode == 0, remote.stderr
    for name in ("summary.json", "verdict.json"):
        assert (here / name).read_text() == (there / name).read_text()
    keys = ["model", "protocol", "source_step", "proposed_step", "measure", "subject", "statistic"]
    one, other = (pd.read_parquet(p / "errors.parquet") for p in (here, there))
    pd.testing.assert_frame_equal(
        one.sort_values(keys, ignore_index=True), other.sort_values(keys, ignore_index=True), check_exact=True
    )
    (application,) = spark_cluster.wait(lambda found: bool(found.get("completedapps")))["completedapps"]
    assert application["name"] == "harness-analysis"
    assert application["state"] == "FINISHED"
    assert application["cores"] == 2, "both workers took part"


def test_a_master_that_is_none_is_said(tmp_path: Path) -> None:
    run = build(tmp_path / "run", FakeRun(steps=[FakeStep(1, seconds=4, burn_in_s=2)]))
    before = sorted(p.name for p in run.iterdir())
    done = report(run, "--master", "cluster.example")
    assert done.returncode == 2
    assert "error: cluster.example: no Spark master" in done.stderr
    assert sorted(p.name for p in run.iterdir()) == before
