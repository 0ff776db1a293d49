"""Caladrius's questions of a submitted topology, whose last minutes are an archived step's metrics."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from left_running import STEP, ArchivedMetrics, archived, left_running, live
from recorded_nimbus import ANSWERS, nimbus_that_sends

from harness.app.submitted.asked_cluster import AskedCluster
from harness.app.submitted.folder import KeptPlan, SubmittedTopology, find
from harness.app.submitted.live_rows import LiveRows
from harness.app.submitted.observing import RowSpan, mean_ack_ms
from harness.app.submitted.plan_file import labels
from harness.cli import main
from harness.experiments.clusters import Running
from harness.runs import read_table
from harness.schedulers.plan_costs import executors_moved
from harness.service.answers import ProposalAsked
from harness.service.application import create_application
from harness.service.left_topology import LeftTopology
from harness.service.measured_topology import MeasuredTopology
from harness.service.proposals import predict_observed
from harness.service.questions import assess_current

NAME = "words"
CURRENT = f"/model/topology/storm/current/{NAME}"
PACKING = f"/model/topology/storm/packingplan/{NAME}"
TRAFFIC = f"/model/traffic/storm/{NAME}"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The service at the end of the step's interval."""
    left_running(tmp_path / "submitted", NAME)
    monkeypatch.setattr("harness.app.submitted.spout_history.now_ms", lambda: live().span.until_ms)
    application = create_application([tmp_path], submitted=tmp_path / "submitted")
    application.state.live = ArchivedMetrics()
    with TestClient(application, base_url="http://127.0.0.1") as opened:
        yield opened


def test_its_performance_is_that_of_the_measured_step(client: TestClient) -> None:
    """The interval's rows are all of its last minutes since the plan was seen in force."""
    (answer,) = client.get(CURRENT).json().values()
    assert (answer["submitted"], answer["run"], answer["step"]) == (NAME, None, None)
    measured = assess_current(MeasuredTopology(archived(), STEP), "composite")
    assert answer["rate_tps"] == pytest.approx(measured.rate_tps, rel=0.05)
    rates = {(t.task, t.source): t.arrival_rate for t in measured.tasks}
    for row in answer["tasks"]:
        assert row["arrival_rate"] == pytest.approx(rates.pop((row["task"], row["source"])), rel=0.1, abs=0.2)
    assert rates == {}
    rows, since_ms = live().table, archived().interval(STEP).start_epoch_ms
    inside = rows.filter([ms > since_ms for ms in rows["bucket_end_ms"].to_pylist()])
    assert answer["measured_mean_ms"] == pytest.approx(mean_ack_ms(inside))
    means = [e for e in answer["latency"] if (e["statistic"], e["path"]) == ("mean", "") and e["low_ms"]]
    assert means
    assert all(e["low_ms"] < e["value_ms"] < e["high_ms"] for e in means)


def test_other_traffic_is_asked_by_storms_name_too(client: TestClient) -> None:
    (now,) = client.get(CURRENT).json().values()
    plan = archived().plan(STEP).start
    tasks = [str(t) for e in plan.of("spout") for t in e.tasks]
    doubled = {task: {"default": 2 * now["rate_tps"] / len(tasks)} for task in tasks}
    (answer,) = client.post(f"{CURRENT}-of-storm", json=doubled).json().values()
    assert answer["rate_tps"] == pytest.approx(2 * now["rate_tps"], rel=0.05)
    assert answer["measured_mean_ms"] is None


def test_traffic_is_forecast_from_what_its_store_has(client: TestClient) -> None:
    """The archived step was sent a constant rate."""
    query = {"model": "stats-summary", "future_mins": 0.5, "source_hours": 0.01}
    told = client.get(TRAFFIC, params=query).json()["stats-summary"]
    assert told["details"]["submitted"] == NAME
    assert told["details"]["history_s"] <= 36
    assert told["details"]["bucket_s"] == 2  # the sample period's default, a multiple of what is reported
    rate_tps = archived().interval(STEP).rate_tps
    assert told["components"]["median"]["spout"]["default"] == pytest.approx(rate_tps, rel=0.1)
    tasks = told["instances"]["median"]
    assert sum(by["default"] for by in tasks.values()) == pytest.approx(rate_tps, rel=0.1)


def test_packing_plans_are_proposed_for_what_it_emits_and_will_emit(client: TestClient) -> None:
    now = client.get(f"{PACKING}/current").json()
    assert (now["submitted"], now["forecast"], now["proposed"]["tuner"]) == (NAME, None, "ds2")
    assert now["current"]["executors"] == archived().plan(STEP).start.configuration().executors
    future = {"future_mins": 0.5, "source_hours": 0.01, "quantile": 50}
    ahead = client.get(f"{PACKING}/future", params=future).json()
    assert ahead["forecast"]["rate_tps"] == ahead["rate_tps"] == pytest.approx(now["rate_tps"], rel=0.1)


def test_a_folder_that_is_damaged_is_named_and_keeps_nobody_from_the_others(
    client: TestClient, tmp_path: Path
) -> None:
    """It comes before the other one in the order of names."""
    damaged = left_running(tmp_path / "submitted", "damaged").path
    (damaged / "submitted.json").write_text("{")
    (answer,) = client.get(f"{CURRENT}-of-storm").json().values()
    assert answer["submitted"] == NAME
    assert find(tmp_path / "submitted", f"{NAME}-of-storm").name == NAME
    unknown = client.get("/model/topology/storm/current/never")
    assert (unknown.status_code, unknown.json()["errors"][0]["known"]) == (404, ["damaged", NAME])
    itself = client.get("/model/topology/storm/current/damaged")
    page = client.get("/topologies")
    assert (itself.status_code, page.status_code) == (422, 200)
    for said in (itself.json()["errors"][0]["error"], html.unescape(page.text)):
        assert f"{damaged}/submitted.json: cannot be used: " in said
    assert f"{NAME}-of-storm" in page.text


def test_a_plan_that_somebody_changed_is_not_taken_for_the_kept_one(
    client: TestClient, tmp_path: Path
) -> None:
    """Unless who asks says which one runs, as AskingScheduler does."""
    kept = SubmittedTopology(tmp_path / "submitted" / NAME)
    other = archived().plan(STEP + 1).start
    at_ms = kept.plan.at_epoch_ms + 1
    kept.keep_plan(KeptPlan(at_epoch_ms=at_ms, seen="applied", plan=other))
    asked = {"placement": labels(other)}
    address = f"/model/topology/storm/proposed/{NAME}"
    for answer in (client.get(CURRENT), client.get(f"{PACKING}/current"), client.post(address, json=asked)):
        assert answer.status_code == 422
        assert (
            "somebody changed it: start harness serve with --cluster" in answer.json()["errors"][0]["error"]
        )


class TwoPlans(ArchivedMetrics):
    """Metrics of the step that followed now, and of the step before."""

    def __init__(self, kept: bool) -> None:
        self._kept = kept

    def rows(self, topology: SubmittedTopology) -> LiveRows:
        del topology
        run, span = archived(), span_of(STEP + 1)
        return LiveRows(cut(read_table(run.step_path(STEP + 1) / "metrics.parquet"), span), span)

    def before(self, topology: SubmittedTopology, span: RowSpan) -> LiveRows:
        del topology
        table = cut(read_table(archived().step_path(STEP) / "metrics.parquet"), span_of(STEP))
        return LiveRows(table if self._kept else table.slice(0, 0), span)


def span_of(step: int) -> RowSpan:
    interval = archived().interval(step)
    return RowSpan(interval.start_epoch_ms, interval.end_epoch_ms)


def cut(table: pa.Table, span: RowSpan) -> pa.Table:
    end = table["bucket_end_ms"]
    return table.filter(pc.and_(pc.greater(end, span.since_ms), pc.less_equal(end, span.until_ms)))


@pytest.mark.parametrize("kept", [True, False])
def test_a_placement_is_predicted_from_the_plan_that_is_nearest(kept: bool, tmp_path: Path) -> None:
    """The plan that ran before is asked for again; where nothing of it is kept, the plan in force answers."""
    topology, (first, second) = left_running(tmp_path), (archived().plan(n).start for n in (STEP, STEP + 1))
    topology.keep_plan(KeptPlan(at_epoch_ms=span_of(STEP + 1).since_ms, seen="applied", plan=second))
    asked = ProposalAsked(placement=labels(first))
    answer = LeftTopology(topology, TwoPlans(kept), None).predict(asked)  # type: ignore[arg-type]
    found, current, proposed = (answer[key] for key in ("nearest", "current", "proposed"))
    assert current["placement"] == labels(second)
    assert proposed["placement"] == labels(first)
    assert proposed["executors_moved"] == executors_moved(second, first) > 0
    if kept:
        assert (found["distance"], found["until_epoch_ms"]) == (0, span_of(STEP + 1).since_ms)
        assert found["why"].startswith("the plan that ran until 20")
        assert "the nearest of 2" in found["why"]
    else:
        assert found["distance"] > 0
        assert found["why"].startswith("the plan in force is the nearest of 1 that have metrics")
        now = LeftTopology(topology, TwoPlans(kept), None).observe()  # type: ignore[arg-type]
        assert proposed == predict_observed(now, asked)["proposed"]


def test_a_step_or_run_of_it_nobody_knows(client: TestClient) -> None:
    for query, kind in (({"step": 0}, "step"), ({"run": "never"}, "run")):
        answer = client.get(CURRENT, params=query)
        assert (answer.status_code, answer.json()["errors"][0]["type"]) == (404, "UnknownName")
        assert answer.json()["errors"][0]["error"].startswith(f"unknown {kind} ")


@pytest.mark.parametrize("address", [CURRENT, f"{PACKING}/current", f"{PACKING}/future", TRAFFIC])
def test_a_store_that_is_away_is_503_with_its_address(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the discard port of this machine."""
    left_running(tmp_path / "submitted", NAME)
    monkeypatch.setenv("INFLUXDB_TOKEN", "a token of nobody's")
    application = create_application([tmp_path], submitted=tmp_path / "submitted")
    with TestClient(application, base_url="http://127.0.0.1") as client:
        answer = client.get(address)
    assert answer.status_code == 503
    assert answer.json()["errors"][0]["error"].startswith("influxdb at http://127.0.0.1:9: ")


def answers_of(nimbus: str, tmp_path: Path, topology: str) -> tuple[int, dict[str, object]]:
    """Ask a service that has a cluster and nothing else."""
    cluster = AskedCluster(Running(nimbus=nimbus, kafka="127.0.0.1:9"))
    application = create_application([tmp_path], submitted=tmp_path / "submitted", cluster=cluster)
    with TestClient(application, base_url="http://127.0.0.1") as client:
        answer = client.get(f"/model/traffic/storm/{topology}", params={"source_hours": "no"})
    (error,) = answer.json()["errors"]
    return answer.status_code, error


def test_only_what_nimbus_does_not_know_either_is_404(tmp_path: Path) -> None:
    """A real Nimbus said that it runs one topology, ``recorded``."""
    said = (ANSWERS / "cluster-with-topology.bin").read_bytes()
    with nimbus_that_sends(said) as nimbus:
        status, error = answers_of(f"127.0.0.1:{nimbus.port}", tmp_path, "recorded")
    assert (status, error["type"]) == (422, "NotMeasured")
    assert "leave it there with harness submit" in str(error["error"])
    with nimbus_that_sends(said) as nimbus:
        status, error = answers_of(f"127.0.0.1:{nimbus.port}", tmp_path, "never")
    assert (status, error["type"], error["known"]) == (404, "UnknownName", ["recorded"])


def test_a_nimbus_that_is_away_is_503_with_its_address(tmp_path: Path) -> None:
    status, error = answers_of("127.0.0.1:9", tmp_path, "never")
    assert (status, error["type"]) == (503, "ClusterError")
    assert str(error["error"]).startswith("nimbus at 127.0.0.1:9")


def test_a_cluster_that_the_harness_runs_itself_is_not_asked(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["serve", "--runs", str(tmp_path), "--cluster", "{kind: local}"])
    assert done.exit_code == 2
    assert "topologies are left on clusters that others run" in done.output
