"""An experiment on the provisioned hosts, from which a node disappears in the first step.

The first step has room on the node that is left, the second has not: one is measured again, the other waits
until the host is made anew. The tests run in this order.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hosts import NAME, ROOT, SHIPPED, SHORT, STAMPS_MS, Answer, Provisioned, harness

from harness.backends.hosts.provision import broker_of, nimbus_of
from harness.backends.hosts.slow_link import slowed
from harness.backends.kafka.client import Topics
from harness.experiments.cluster_file import ClusterFile
from harness.machine.server_process import NICENESS
from harness.machine.servers import KAFKA_VERSION, STORM_VERSION
from harness.runs import Interval, Run
from harness.storm.running_cluster import Left

pytestmark = pytest.mark.system

OTHERS, LEFT = "quick-20260102t030405z-in", "quick-20260102t030406z-in"
"""Topics of somebody else and of a run that was killed: what is kept of the cluster tells them apart."""
SLEWED = 5e-4
"""Largest share by which Linux lets the time of day go faster or slower than its oscillator (adjtimex)."""


DELAY_MS = 5.0
"""What packets between the nodes take longer in the run's second step, each way."""


def typed(provisioned: Provisioned) -> list[str]:
    options = (*SHORT, f"cluster={provisioned.file}")
    return ["quick", *(f"--set={option}" for option in options)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def interrupted(provisioned: Provisioned, runs: Path) -> Answer:
    """How the run ended that lost node-2 in the burn-in of its first step."""
    broker = broker_of(provisioned.cluster)
    with provisioned.network.entered(), Topics(broker.address, broker.trust) as topics:
        topics.create(OTHERS)
        topics.create(LEFT)
    provisioned.state.write_left(Left(topology=("quick-20260102t030406z",), topic=(LEFT, "gone-already")))
    command = [sys.executable, "-m", "harness", "run", *typed(provisioned), "--runs", str(runs)]
    said = []
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if "step 1/2" in line and "burn-in" in line and provisioned.network.host_alive("node-2"):
                provisioned.kill("node-2")
    return Answer(process.returncode, "", "".join(said))


@pytest.fixture(scope="module")
def run(interrupted: Answer, runs: Path) -> Run:
    assert interrupted.status == 1, interrupted.err
    return Run(next((runs / "quick").iterdir()))


def latencies(run: Run, step: int) -> pd.DataFrame:
    rows = pq.read_table(run.step_path(step) / "latency.parquet").to_pandas()
    found: pd.DataFrame = rows[rows["in_interval"]]
    return found


def test_check_says_where_it_would_run(provisioned: Provisioned) -> None:
    done = harness("check", *typed(provisioned))
    assert done.status == 0, done.err
    said = f"on the cluster {NAME}: workers on node-1, node-2, 2 slots each; generator, receiver and metrics"
    assert f"{said} in the network of the broker on control" in done.out


def test_a_cluster_that_is_not_provisioned_is_refused() -> None:
    done = harness("check", "quick", f"--set=cluster={SHIPPED}")
    assert done.status == 2
    assert done.result["error"].endswith(f"is not provisioned: harness provision {SHIPPED}")


@pytest.mark.timeout(900)
def test_a_step_that_lost_a_node_is_measured_again_where_there_is_room(interrupted: Answer, run: Run) -> None:
    assert "Traceback" not in interrupted.err
    step = run.interval(0)
    assert step.attempt == 2
    assert step.rejected[0].reason.startswith("workers restarted or moved during the step: ")
    quality = run.quality(0)
    assert quality.plan_as_asked.ok, quality.plan_as_asked.detail
    assert quality.plan_unchanged.ok, quality.plan_unchanged.detail
    assert quality.ledger.balanced, quality.ledger.reason
    assert {e.worker.node for e in run.plan(0).start.executors} == {"node-1"}
    assert len(run.plan(0).start.workers) == 2


def test_the_run_ends_where_there_is_no_room(interrupted: Answer, run: Run) -> None:
    assert "node-2 is gone, and the 2 slots left are too few for 4 workers" in interrupted.error
    assert "1 of the run's 2 steps are finished and kept" in interrupted.err
    assert run.finished_steps == (0,)
    for host, log in (("control", "nimbus.log"), ("node-1", "supervisor.log")):
        assert any(found.stat().st_size for found in (run.path / "servers" / host).rglob(log)), log
    told = harness("cluster", "status", NAME)
    assert told.status == 1
    assert {h["name"] for h in told.result["hosts"] if h["reachable"]} == {"control", "node-1"}


@pytest.mark.timeout(900)
def test_a_resumed_run_goes_on_to_verdict_and_report(provisioned: Provisioned, run: Run) -> None:
    refused = harness("run", "--resume", str(run.path))
    assert refused.status == 1
    assert f"host node-2 of the cluster {NAME} is gone: harness provision {provisioned.file}" in refused.error

    others = provisioned.service_pids("node-1")
    again = provisioned.provision()
    assert again.status == 0, again.err
    assert provisioned.service_pids("node-1") == others  # nobody else was touched

    with slowed(provisioned.network, provisioned.end("node-1"), provisioned.end("node-2"), DELAY_MS):
        resumed = harness("run", "--resume", str(run.path))
    assert resumed.status in (0, 3, 4), resumed.err  # whether it is precise is not what is tested
    assert resumed.result["verdict"] in ("valid", "invalid", "unknown")
    assert run.finished_steps == (0, 1)
    assert run.interval(1).submission == "resumed"
    quality = run.quality(1)
    assert quality.plan_as_asked.ok, quality.plan_as_asked.detail
    assert quality.plan_unchanged.ok, quality.plan_unchanged.detail
    assert quality.ledger.balanced, quality.ledger.reason
    assert {e.worker.node for e in run.plan(1).start.executors} == {"node-1", "node-2"}
    assert (run.path / "report.html").is_file()
    checks = json.loads((run.path / "verdict.json").read_text())["checks"]
    agreed = [c for c in checks if c["check"] in ("agreement", "seal")]
    assert len(agreed) == 2 * len(run.finished_steps)
    assert {c["status"] for c in agreed} == {"valid"}, agreed
    assert run.environment["cluster_kind"] == "remote"
    assert len(run.environment["resumed"]) == 1


def test_the_ground_truth_lies_within_what_the_broker_saw(run: Run) -> None:
    """Input is stamped before a spout has it, output after a sink has sent it, by one broker."""
    for step in run.finished_steps:
        rows = latencies(run, step)
        assert len(rows) > 0
        assert rows["broker_ms"].notna().all()
        assert rows["ground_truth_ms"].notna().all()
        assert (rows["ground_truth_ms"] * (1 - SLEWED) < rows["broker_ms"] + STAMPS_MS).all()


def test_no_tuple_arrives_before_it_left_also_between_nodes(run: Run) -> None:
    """As it would where two nodes had a clock each."""
    nodes = {task: e.worker.node for task, e in run.plan(1).start.by_task.items()}
    crossings = 0
    for hops in latencies(run, 1)["hops"]:
        for left, arrived in pairwise(hops):
            assert left["emitted_ns"] <= arrived["received_ns"]
            crossings += nodes[left["task"]] != nodes[arrived["task"]]
    assert crossings > 0


def round_trips(run: Run, step: int) -> pd.DataFrame:
    rows = pq.read_table(run.step_path(step) / "metrics.parquet").to_pandas()
    interval = run.interval(step)
    assert isinstance(interval, Interval)
    inside = rows["bucket_end_ms"].between(interval.start_epoch_ms, interval.end_epoch_ms)
    found: pd.DataFrame = rows[inside & (rows["measurement"] == "round_trip")]
    return found


def test_round_trips_between_worker_nodes_are_among_a_steps_metrics(run: Run) -> None:
    """Half of one is what packets took: the least of them, since a busy machine only adds."""
    found = round_trips(run, 1)
    assert set(zip(found["stream"], found["peer"], strict=True)) == {
        ("node-1", "node-2"),
        ("node-2", "node-1"),
    }
    assert set(found["field"]) == {"rtt_ms"}
    assert found["value"].min() / 2 == pytest.approx(DELAY_MS, abs=0.5)
    gone = round_trips(run, 0)  # when there was no node-2 to probe; its network may answer for a while
    assert set(zip(gone["stream"], gone["peer"], strict=True)) == {("node-1", "node-2")}


def test_tuples_between_nodes_took_the_slow_link(run: Run) -> None:
    nodes = {task: e.worker.node for task, e in run.plan(1).start.by_task.items()}
    for hops in latencies(run, 1)["hops"]:
        for left, arrived in pairwise(hops):
            if nodes[left["task"]] != nodes[arrived["task"]]:
                assert arrived["received_ns"] - left["emitted_ns"] >= DELAY_MS * 1e6


def test_the_cluster_and_its_hosts_clocks_are_stated(provisioned: Provisioned, run: Run) -> None:
    for stated in (run.environment["cluster"], run.environment["resumed"][0]["cluster"]):
        assert ClusterFile.model_validate(stated["provisioned"]) == provisioned.cluster
        assert stated["servers_niceness"] == NICENESS
        assert (stated["storm"], stated["kafka"]) == (STORM_VERSION, KAFKA_VERSION)
        clocks = stated["clocks"]
        assert set(clocks) == {"control", "node-1", "node-2"}
        for clock in clocks.values():
            assert clock["shared"]
            assert abs(clock["offset_ms"]) <= clock["uncertainty_ms"]  # the time of day is the machine's
    assert "cluster.clocks.node-1.offset_ms" in (run.path / "report.html").read_text()


def test_what_runs_put_on_the_cluster_is_removed_and_nothing_else(provisioned: Provisioned, run: Run) -> None:
    assert run.finished_steps == (0, 1)
    with provisioned.network.entered():
        assert dict(nimbus_of(provisioned.cluster).cluster_summary().topologies) == {}
        broker = broker_of(provisioned.cluster)
        with Topics(broker.address, broker.trust) as topics:
            assert {name for name in topics.names() if name.startswith("quick-")} == {OTHERS}
            topics.delete(OTHERS)
    assert provisioned.state.left() == Left()
