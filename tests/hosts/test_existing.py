"""An experiment on hosts that exist, with clocks of their own.

They are those of the other tests, reached over their network as a machine beside them would. The command runs
in a time namespace, so that its monotonic clock is not theirs; among themselves they share one in truth, of
which the harness knows nothing, and against which its times are checked here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hosts import EXISTING, ROOT, SHORT, STAMPS_MS, Answer, Provisioned, harness

from harness.runs import Run

pytestmark = pytest.mark.system

AHEAD_S = 1000
UNSHARED = ("unshare", "--time", "--fork", "--monotonic", str(AHEAD_S))
UNHURRIED = ("measure.burn_in.drift_pct=1000", "measure.interval.precision_pct=1000")
"""What is measured is not looked at here: no step is measured again for a machine that is busy otherwise."""


@pytest.fixture(scope="module")
def measured(
    provisioned: Provisioned, existing: Provisioned, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Answer, Run]:
    """How the run ended, and the run."""
    runs = tmp_path_factory.mktemp("existing")
    options = (*SHORT, *UNHURRIED, "models=[no-change, composite]", f"cluster={existing.file}")
    typed = ["run", "quick", *(f"--set={option}" for option in options), "--runs", str(runs), "--json"]
    with provisioned.network.entered():
        done = subprocess.run(
            [*UNSHARED, sys.executable, "-m", "harness", *typed],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            cwd=ROOT,
        )
    assert done.returncode in (0, 3, 4), done.stderr  # whether it is precise is not tested here
    (run,) = (runs / "quick").iterdir()
    return Answer(done.returncode, done.stdout, done.stderr), Run(run)


@pytest.fixture(scope="module")
def run(measured: tuple[Answer, Run]) -> Run:
    return measured[1]


def rows(run: Run, step: int) -> pd.DataFrame:
    """The step's rows, with what passed from its first hop's emit to its last one's, and where these were."""
    table = pq.read_table(run.step_path(step) / "latency.parquet").to_pandas()
    tasks = run.plan(step).start.by_task
    ends = [(hops[0], hops[-1]) for hops in table["hops"]]
    nodes = [[tasks[hop["task"]].worker.node for hop in pair] for pair in ends]
    return table.assign(
        passed_ms=[(b["emitted_ns"] - a["emitted_ns"]) / 1e6 for a, b in ends],
        within=[first == last for first, last in nodes],
    )


def test_the_hosts_are_as_they_were(provisioned: Provisioned, existing: Provisioned) -> None:
    """The same software with the same settings, whoever reaches them how."""
    with provisioned.network.entered():
        again = existing.provision()
    assert again.status == 0, again.err
    assert again.result["changed"] == 0


def test_check_says_where_it_would_run(provisioned: Provisioned, existing: Provisioned) -> None:
    with provisioned.network.entered():
        done = harness("check", "quick", f"--set=cluster={existing.file}")
    assert done.status == 0, done.err
    assert "receiver and metrics on this machine, beside that of the broker on control" in done.out


@pytest.mark.timeout(900)
def test_each_host_is_seen_to_have_a_clock_of_its_own(run: Run) -> None:
    clocks = run.environment["cluster"]["clocks"]
    assert set(clocks) == {"control", "node-1", "node-2"}
    for clock in clocks.values():
        assert not clock["shared"]
        assert abs(clock["offset_ms"]) <= clock["uncertainty_ms"]  # the time of day is one and the same
    hosts = {n.name: n.host for n in run.plan(0).start.nodes}
    assert hosts == {name: f"{EXISTING}/{name}" for name in ("node-1", "node-2")}


def test_every_message_is_measured_by_the_broker_and_none_is_lost(run: Run) -> None:
    for step in (0, 1):
        interval, quality = run.interval(step), run.quality(step)
        assert interval.latency == "topics"
        assert quality.ledger.balanced, quality.ledger.reason
        assert quality.ledger.complete
        assert quality.receiver.ok, quality.receiver.detail
        inside = rows(run, step)
        inside = inside[inside["in_interval"]]
        assert interval.mean_ms == pytest.approx(inside["broker_ms"].mean())
        # a stamp is cut to whole milliseconds; from append to append lies what passed within
        assert (inside["broker_ms"] - inside["passed_ms"] > -STAMPS_MS).all()


def test_only_paths_within_a_host_have_a_ground_truth(run: Run) -> None:
    within = 0
    for step in (0, 1):
        found = rows(run, step)
        assert (found["ground_truth_ms"].notna() == found["within"]).all()
        here = found[found["within"]]
        assert np.allclose(here["ground_truth_ms"], here["passed_ms"], rtol=0, atol=1e-9)
        assert (found["thesis_ground_truth_ms"].notna() == found["within"]).all()
        within += len(here)
        assert len(here) < len(found)
    assert within > 0


def test_when_messages_came_out_is_told_by_our_clock(run: Run) -> None:
    """It is ahead of the hosts' by a thousand seconds, and nothing came out before it was sent."""
    for step in (0, 1):
        found = rows(run, step)
        assert (found["left_ns"] - found["sent_ns"] > -1e6 * STAMPS_MS).all()
        last = [hops[-1]["emitted_ns"] for hops in found["hops"]]
        since_s = (found["left_ns"] - last) / 1e9
        assert since_s.between(AHEAD_S - 1e-3 * STAMPS_MS, AHEAD_S + 60).all()


def test_models_are_judged_by_what_was_measured(measured: tuple[Answer, Run]) -> None:
    answer, run = measured
    assert answer.result["verdict"] in ("valid", "invalid", "unknown")
    predicted = pq.read_table(run.path / "predictions.parquet").to_pandas()
    errors = pq.read_table(run.path / "errors.parquet").to_pandas()
    inside = [found[found["in_interval"]]["broker_ms"].mean() for found in (rows(run, 0), rows(run, 1))]
    for frame, column, mean in ((predicted, "value", inside[0]), (errors, "actual", inside[1])):
        of = frame[(frame["measure"] == "ground_truth_latency_ms") & (frame["statistic"] == "mean")]
        of = of[(of["subject"] == "") & (of["source_step"] == 0) & (of["proposed_step"] == 1)]
        by_model = of.set_index("model")
        assert set(by_model.index) == {"no-change", "composite"}
        assert by_model.loc["no-change", column] == pytest.approx(mean)  # it predicts what it saw
        assert by_model["status"].isin(["ok", "saturated"]).all(), by_model["status"]  # none declined


def test_metrics_and_round_trips_arrived(run: Run) -> None:
    for step in (0, 1):
        metrics = pq.read_table(run.step_path(step) / "metrics.parquet").to_pandas()
        assert {"service", "received", "round_trip"} <= set(metrics["measurement"])
        assert run.quality(step).metrics.ok, run.quality(step).metrics.detail


def test_a_machine_that_the_firewall_keeps_out_is_told_so(
    provisioned: Provisioned, existing: Provisioned, tmp_path: Path
) -> None:
    """Another address on the bridge, which is not among the controllers, though ssh lets it in."""
    kept_out = "10.96.7.99"
    provisioned.in_sandbox("ip", "address", "add", f"{kept_out}/24", "dev", "hosts0")
    provisioned.in_sandbox("ip", "route", "change", "10.96.7.0/24", "dev", "hosts0", "src", kept_out)
    try:
        with provisioned.network.entered():
            done = harness("run", "quick", f"--set=cluster={existing.file}", "--runs", str(tmp_path / "runs"))
    finally:
        provisioned.in_sandbox("ip", "route", "change", "10.96.7.0/24", "dev", "hosts0", "src", "10.96.7.1")
        provisioned.in_sandbox("ip", "address", "delete", f"{kept_out}/24", "dev", "hosts0")
    assert done.status == 1, done.err
    assert "error: kafka at " in done.err
    assert f"{kept_out} must be among hosts.controllers" in done.err


def test_status_of_both_is_the_same(provisioned: Provisioned, existing: Provisioned) -> None:
    told = harness("cluster", "status", provisioned.cluster.name)
    with provisioned.network.entered():
        other = harness("cluster", "status", EXISTING)
    assert (told.status, other.status) == (0, 0), (told.err, other.err)
    services = [[(h["name"], h["services"]) for h in said.result["hosts"]] for said in (told, other)]
    assert services[0] == services[1]
    assert all(all(running.values()) for _, running in services[0])
