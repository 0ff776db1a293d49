"""An experiment on provisioned hosts with InfluxDB and Neo4j of theirs; InfluxDB is killed in its first step.

What waits on the hosts' disks meanwhile is looked at, and is in the database afterwards, as is a batch that
no consumer gives it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hosts import ROOT, SHORT, Answer, Provisioned, harness
from neo4j import GraphDatabase

from harness.app.clusters import access
from harness.app.stores import influx_store
from harness.backends.hosts.data_servers import HostedInflux
from harness.backends.hosts.provision import influxdb_of, neo4j_of
from harness.backends.hosts.variables import SPOOL
from harness.backends.influxdb.api import InfluxApi
from harness.backends.metrics.rows import MetricRows
from harness.backends.neo4j.plan_rows import GRAPH_VERSION
from harness.backends.optional_servers import influxd, neo4j_home
from harness.errors import UsageError
from harness.experiments import records
from harness.experiments.loading import load
from harness.runs import Run

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(influxd() is None, reason="InfluxDB is not installed: make servers builds it"),
    pytest.mark.skipif(neo4j_home() is None, reason="Neo4j is not installed: make servers fetches it"),
]

SERVICE = "/etc/service/harness-influxdb"
NODES = ("node-1", "node-2")
STORES = ("metrics.store=influxdb", "plans.store=neo4j")
UNHURRIED = ("measure.burn_in.drift_pct=1000", "measure.interval.precision_pct=1000")
"""What is measured is not looked at here: no step is measured again for a machine that is busy otherwise."""
WAITS_S = 120
LEFT, ORPHAN = "left-by-a-run-that-was-killed", "of-a-consumer-that-is-gone"
"""Tags of batches that nobody but the harness can deliver: from before the run, and from its first step."""


def typed(provisioned: Provisioned) -> list[str]:
    options = (*SHORT, *STORES, *UNHURRIED, f"cluster={provisioned.file}")
    return ["quick", *(f"--set={option}" for option in options)]


def put_aside(provisioned: Provisioned, host: str, topology: str) -> None:
    """Leave a batch as a consumer does that was killed after it had written it."""
    now_ms = time.time_ns() // 1_000_000
    line = f"received,topology={topology},component=c,task=1,host=h,port=1,stream=s,peer=p count=7i"
    name = f"{SPOOL}/{now_ms:013d}-1-{host}-00000000.lines"
    done = provisioned.on(host, f"sudo tee {name}", f"{line} {now_ms}000000\n")
    assert done.returncode == 0, done.stderr


def waiting(provisioned: Provisioned) -> str:
    """All lines that wait on the hosts' disks."""
    return "".join(provisioned.on(node, f"sudo sh -c 'cat {SPOOL}/*.lines'").stdout for node in NODES)


class Stored(NamedTuple):
    """How the run ended, what it said, and what waited while InfluxDB was away."""

    answer: Answer
    run: Run
    waited: str


def start_influxdb(provisioned: Provisioned) -> None:
    done = provisioned.on("control", f"sudo sv -w 60 start {SERVICE}")
    assert done.returncode == 0, done.stdout + done.stderr
    deadline = time.monotonic() + WAITS_S
    with provisioned.network.entered():
        while not influxdb_of(provisioned.cluster).answers():
            assert time.monotonic() < deadline
            time.sleep(0.2)


def kill_influxdb(provisioned: Provisioned) -> str:
    """Kill InfluxDB, start it again when metrics have waited for it, and return them."""
    pid = provisioned.service_pids("control")["influxdb"]
    done = provisioned.on("control", f"sudo sv once {SERVICE} && sudo kill -KILL {pid}")
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + WAITS_S
    try:
        while len((waited := waiting(provisioned)).splitlines()) < 100:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    finally:
        start_influxdb(provisioned)
    return waited


@pytest.fixture(scope="module")
def stored(provisioned: Provisioned, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    runs = tmp_path_factory.mktemp("stored")
    put_aside(provisioned, "node-1", LEFT)
    command = [sys.executable, "-m", "harness", "run", *typed(provisioned), "--runs", str(runs), "--json"]
    said, waited = list[str](), ""
    with subprocess.Popen(
        command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if "step 1/2" in line and " measure" in line and not waited:
                for node in NODES:
                    put_aside(provisioned, node, ORPHAN)
                waited = kill_influxdb(provisioned)
    (run,) = (runs / "quick").iterdir()
    return Stored(Answer(process.returncode, "".join(said), "".join(said)), Run(run), waited)


@pytest.fixture(scope="module")
def influxdb(provisioned: Provisioned) -> Iterator[HostedInflux]:
    with provisioned.network.entered():
        server = HostedInflux(provisioned.state, provisioned.cluster)
        yield server  # not in use by a run, which would deliver what waits
        server.close()


def keys(table: pa.Table) -> set[tuple[object, ...]]:
    return set(map(tuple, table.to_pandas().astype(object).to_numpy().tolist()))


def test_check_says_which_servers_it_would_use(provisioned: Provisioned) -> None:
    said = access(load("quick", [f"cluster={provisioned.file}", *STORES])).use()
    assert said.endswith("; metrics in influxdb on control, plans in neo4j on control")


@pytest.mark.timeout(1200)
def test_the_run_goes_on_to_its_verdict(stored: Stored) -> None:
    assert stored.answer.status in (0, 3, 4), stored.answer.out  # whether it is precise is not tested here
    assert stored.run.finished_steps == (0, 1)
    cluster = stored.run.environment["cluster"]
    assert {"influxdb", "neo4j"} <= set(cluster)
    for step in (0, 1):
        assert stored.run.quality(step).ledger.balanced, stored.run.quality(step).ledger.reason


def test_what_waited_on_the_hosts_is_in_the_database(stored: Stored, influxdb: HostedInflux) -> None:
    """Each line, with its values, once as the database has a point once; and none was dropped."""
    ours = [line for line in stored.waited.splitlines() if "topology=quick," in line]
    assert len(ours) > 50
    embedded = MetricRows()
    assert embedded.add("\n".join(ours), 1) == []
    waited = embedded.rows(0, 2**62)
    ends = waited["bucket_end_ms"].to_pylist()
    with influx_store(influxdb, "quick") as store:
        there = store.rows(min(ends) - 1, max(ends))
    assert keys(waited) <= keys(there)
    assert len(keys(there)) == there.num_rows


def test_the_runs_metrics_are_the_databases(stored: Stored, influxdb: HostedInflux) -> None:
    for step in (0, 1):
        table = pq.read_table(stored.run.step_path(step) / "metrics.parquet")
        table = table.filter(
            pc.not_equal(table["measurement"].cast(pa.string()), "round_trip")
        )  # the probes'
        assert table.num_rows > 500
        assert not (table.to_pandas()["measurement"] == "consumer").any()  # no line was dropped
        ends = table["bucket_end_ms"].to_pylist()
        with influx_store(influxdb, "quick") as store:
            there = records.metrics(store.rows(min(ends) - 1, max(ends)), stored.run.plan(step).start.nodes)
        assert keys(table) <= keys(there)
        until_ms = stored.run.interval(step).end_epoch_ms  # later ones may have been on their way
        assert keys(table.filter(pc.less_equal(table["bucket_end_ms"], until_ms))) == keys(
            there.filter(pc.less_equal(there["bucket_end_ms"], until_ms))
        )


def test_batches_without_a_consumer_are_delivered_by_the_harness(
    provisioned: Provisioned, stored: Stored, influxdb: HostedInflux
) -> None:
    assert stored.run.finished_steps == (0, 1)
    end_ms = stored.run.interval(1).end_epoch_ms
    for topology, batches in ((LEFT, 1), (ORPHAN, len(NODES))):
        with influx_store(influxdb, topology) as store:
            values = store.rows(end_ms - 1_000_000, end_ms)["value"].to_pylist()
        assert values == [7.0] * batches
    assert influxdb.batches.waiting(end_ms) == 0


def test_plans_are_asked_of_the_clusters_neo4j(provisioned: Provisioned, stored: Stored) -> None:
    said = {}
    for source in ("auto", "neo4j", "run"):
        asked = harness("plans", str(stored.run.path), "--from", source, "--difference", "0", "1")
        assert asked.status == 0, asked.err
        said[source] = asked.result
        assert said[source].pop("from") == ("run directory" if source == "run" else "neo4j")
    assert said["auto"] == said["neo4j"] == said["run"]
    assert said["run"]["difference"]


def test_no_secret_is_in_the_run_or_on_the_hosts(provisioned: Provisioned, stored: Stored) -> None:
    secrets = [provisioned.state.secret(name) for name in ("influxdb_token", "neo4j_password")]
    for secret in secrets:
        assert secret not in stored.answer.out
        assert [
            p for p in stored.run.path.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()
        ] == []
    for host in ("control", *NODES):
        search = f"sudo grep -rlFf - /var/log /var/lib/harness/storm {SPOOL if host in NODES else ''}"
        assert provisioned.on(host, search, "".join(f"{s}\n" for s in secrets)).stdout == ""


# -- trouble --------------------------------------------------------------------------------------


def test_a_token_that_influxdb_does_not_know(provisioned: Provisioned, tmp_path: Path) -> None:
    kept = provisioned.state.secrets.read_text()
    other = "another-token-than-its-own"
    provisioned.state.secrets.write_text(json.dumps({**json.loads(kept), "influxdb_token": other}))
    try:
        refused = harness("run", *typed(provisioned), "--runs", str(tmp_path / "runs"))
        again = provisioned.provision()
    finally:
        provisioned.state.secrets.write_text(kept)
    mended = provisioned.provision()
    assert mended.status == 0, mended.err
    for answer in (refused, again):
        assert answer.status == 2, answer.err
        assert f"error: influxdb at {influxdb_of(provisioned.cluster).url} refuses the token: " in answer.err
        assert other not in answer.err
    found = [p for p in (tmp_path / "runs").rglob("*") if p.is_file() and other.encode() in p.read_bytes()]
    assert found == []


def test_plans_of_another_schema_version(provisioned: Provisioned, tmp_path: Path) -> None:
    uri, password = neo4j_of(provisioned.cluster), provisioned.state.secret("neo4j_password")

    def set_version(version: int) -> None:
        with (
            provisioned.network.entered(),
            GraphDatabase.driver(uri, auth=("neo4j", password)) as driver,
        ):
            driver.execute_query(
                "MERGE (g:PlanGraph {name: 'harness'}) SET g.version = $version", version=version
            )

    set_version(GRAPH_VERSION + 1)
    try:
        refused = harness("run", *typed(provisioned), "--runs", str(tmp_path / "runs"))
    finally:
        set_version(GRAPH_VERSION)
    assert refused.status == 2, refused.err
    assert refused.error.startswith(
        f"error: neo4j at {uri}: its plans are of schema version {GRAPH_VERSION + 1}, this harness"
    )
    (run,) = (tmp_path / "runs" / "quick").iterdir()
    assert Run(run).finished_steps == ()


def test_a_password_that_neo4j_does_not_know(provisioned: Provisioned, tmp_path: Path) -> None:
    kept = provisioned.state.secrets.read_text()
    other = "another-password-than-its-own"
    provisioned.state.secrets.write_text(json.dumps({**json.loads(kept), "neo4j_password": other}))
    try:
        refused = harness("run", *typed(provisioned), "--runs", str(tmp_path / "runs"))
    finally:
        provisioned.state.secrets.write_text(kept)
    assert refused.status == 2, refused.err
    uri = neo4j_of(provisioned.cluster)
    assert refused.error.startswith(f"error: neo4j at {uri} refuses the user or the password")
    assert other not in refused.err


def test_an_influxdb_that_does_not_run(provisioned: Provisioned, tmp_path: Path) -> None:
    assert provisioned.on("control", f"sudo sv -w 30 force-stop {SERVICE}").returncode == 0
    try:
        told = harness("cluster", "status", provisioned.cluster.name)
        ended = harness("run", *typed(provisioned), "--runs", str(tmp_path / "runs"))
    finally:
        start_influxdb(provisioned)
    assert "influxdb on control does not answer" in told.result["problems"]
    assert ended.status == 1
    url = influxdb_of(provisioned.cluster).url
    assert ended.error.startswith(f"error: influxdb at {url}: cannot look at its buckets: ")


def test_points_are_kept_as_long_as_the_clusters_file_says(provisioned: Provisioned) -> None:
    def kept_s() -> int:
        with provisioned.network.entered():
            api: InfluxApi = influxdb_of(provisioned.cluster)
            answer = api.request(
                "GET", "/api/v2/buckets?name=harness", token=provisioned.state.secret("influxdb_token")
            )
        (bucket,) = answer.said["buckets"]  # type: ignore[misc, attr-defined]
        return sum(rule["everySeconds"] for rule in bucket["retentionRules"])  # type: ignore[has-type]

    assert kept_s() == 400 * 86_400
    text = provisioned.file.read_text()
    provisioned.file.write_text(text + "\ninfluxdb: { retention_days: 2 }\n")
    try:
        changed = provisioned.provision()
        assert changed.status == 0, changed.err
        assert kept_s() == 2 * 86_400  # less than the groups of 400 days
    finally:
        provisioned.file.write_text(text)
    assert provisioned.provision().status == 0
    assert kept_s() == 400 * 86_400


def test_a_store_that_no_host_has_the_role_of(provisioned: Provisioned, tmp_path: Path) -> None:
    file = tmp_path / "without.yaml"
    file.write_text(provisioned.file.read_text().replace("influxdb, ", ""))
    with pytest.raises(
        UsageError, match=r"metrics\.store: influxdb: no host of the cluster .* has that role"
    ):
        load("quick", [f"cluster={file}", *STORES])
