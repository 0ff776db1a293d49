"""Forecasts of submitted topologies whose traffic has seasons: what is read, known, foreseen and answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient
from left_running import STEP, archived, left_running, live
from seasonal_emits import DAY_S, NOW_S, SeasonalMetrics, rate_at

from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.live_past import AT_ONCE_S, BUCKETS, SpoutPast
from harness.cli import main
from harness.forecasts import DEFAULT
from harness.forecasts.histories import SubjectHistory, histories_of_metrics
from harness.protocols import RateHistory
from harness.service.application import create_application
from harness.service.live_topology import view_live
from harness.service.pressure import ExecutorLoad, pressure_alerts

NAME = "words"
TRAFFIC = f"/model/traffic/storm/{NAME}"
RATE_TPS = archived().interval(STEP).rate_tps
PARTS = 12
"""Three days in parts of six hours."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time of day in ms, which a test may change."""
    now = [live().span.until_ms]
    monkeypatch.setattr("harness.app.submitted.spout_history.now_ms", lambda: now[0])
    return now


@pytest.fixture
def topology(tmp_path: Path) -> SubmittedTopology:
    """Up for four days, as long as its traffic is known to follow a day."""
    return left_running(tmp_path / "submitted", NAME, season_s=(DAY_S,), up_s=4 * DAY_S)


def filled(metrics: SeasonalMetrics, topology: SubmittedTopology) -> SpoutPast:
    """Look as often as it takes to read the past."""
    past = None
    for _ in range(PARTS):
        past = metrics.past(topology)
    assert past is not None
    return past


def test_the_past_is_read_in_parts_and_then_by_its_new_buckets(
    topology: SubmittedTopology, clock: list[int]
) -> None:
    metrics = SeasonalMetrics()
    past = filled(metrics, topology)
    assert past.bucket_s == 3 * DAY_S / BUCKETS == 360
    assert [(a.until_ms - a.since_ms) / 1e3 for a in metrics.asked] == [AT_ONCE_S] * PARTS
    assert [a.until_ms for a in metrics.asked[1:]] == [a.since_ms for a in metrics.asked[:-1]]
    assert past.span.until_ms % 360_000 == 0
    assert 0 <= clock[0] - past.span.until_ms < 370_000
    assert past.span.until_ms - past.span.since_ms == 3 * DAY_S * 1e3
    assert metrics.past(topology) is past, "nothing is read before a bucket is over"
    clock[0] += 360_000
    later = metrics.past(topology)
    assert later is not None
    assert len(metrics.asked) == PARTS + 1
    assert metrics.asked[-1].until_ms - metrics.asked[-1].since_ms == 2 * 360_000, "late reports are read"
    assert (later.span.until_ms, later.span.since_ms) == tuple(ms + 360_000 for ms in past.span[::-1])
    spouts = topology.plan.plan.query_plan.spouts
    whole = metrics.emitted(topology, spouts, *later.span, later.bucket_s)
    one, other = (
        histories_of_metrics(t.to_pandas(), spouts, *later.span, later.bucket_s)[0].history
        for t in (whole, later.rows)
    )
    assert other.rate_tps == pytest.approx(one.rate_tps)
    assert (other.start_s, len(other.rate_tps)) == (one.start_s, len(one.rate_tps))


def test_nobody_reads_a_past_of_traffic_without_seasons(tmp_path: Path, clock: list[int]) -> None:
    metrics = SeasonalMetrics()
    assert metrics.past(left_running(tmp_path)) is None
    assert (metrics.asked, len(clock)) == ([], 1)


@pytest.mark.usefixtures("clock")
def test_a_day_is_foreseen_once_it_was_seen_twice(topology: SubmittedTopology) -> None:
    """An hour ahead of the day's rate, which is known; until then a minute from the last minutes."""
    metrics = SeasonalMetrics()
    first = view_live(topology, live(), metrics.past(topology))
    assert (first.unseen_s, first.foreseen.season_s, first.foreseen.horizon_s) == ((DAY_S,), (), 60)
    assert first.foreseen.subjects == first.rates
    view = view_live(topology, live(), filled(metrics, topology))
    assert (view.unseen_s, view.foreseen.season_s, view.foreseen.horizon_s) == ((), (DAY_S,), 3600)
    (one,) = view.foreseen.forecasts
    assert len(one.subject.history.rate_tps) <= BUCKETS
    ends_s = one.asked.time_s
    assert ends_s[0] > NOW_S
    assert NOW_S + 3600 <= ends_s[-1] < NOW_S + 3600 + 360
    assert one.asked.rate_tps[:, 1] == pytest.approx(rate_at(ends_s - 180), rel=0.01)
    assert [s.history.bucket_s for s in view.rates] == [2], "the last minutes are shown, too"
    again = view_live(topology, live(), metrics.past(topology))
    assert again.foreseen.forecasts[0].subject is one.subject, "a forecast is made once a bucket"


@pytest.mark.usefixtures("clock")
def test_a_component_that_will_be_full_within_the_hour_is_warned_of(topology: SubmittedTopology) -> None:
    """At 90 % now it is full at 1.111 of the rate: where sin(x) is 0.222, at 0.0357 of a day, 3,083 s."""
    metrics = SeasonalMetrics()
    view = view_live(topology, live(), filled(metrics, topology))
    load = ExecutorLoad("bolt-a", "bolt-a[1-1]", "n:1", RATE_TPS, 90.0)
    steady = RateHistory(np.full(10, RATE_TPS), 2.0)
    recent = [SubjectHistory("spout", None, "default", steady)]
    (alert,) = pressure_alerts([load], view.foreseen, recent)
    full_s = DAY_S * np.arcsin(2 * (1 / 0.9 - 1)) / (2 * np.pi)
    assert full_s == pytest.approx(3083, abs=2)
    assert full_s + 180 <= alert.ahead_s <= full_s + 540, "the end of a bucket whose middle is so far ahead"
    assert pressure_alerts([replace(load, busy_pct=80.0)], view.foreseen, recent) == ()


@pytest.fixture
def client(tmp_path: Path, topology: SubmittedTopology, clock: list[int]) -> Iterator[TestClient]:
    assert topology.path.is_dir()
    assert clock
    application = create_application([tmp_path], submitted=tmp_path / "submitted")
    application.state.live = SeasonalMetrics()
    with TestClient(application, base_url="http://127.0.0.1") as opened:
        yield opened


def test_a_page_shows_its_season_and_the_forecast_of_it(
    client: TestClient, topology: SubmittedTopology
) -> None:
    metrics: SeasonalMetrics = client.app.state.live  # type: ignore[attr-defined]
    two_days = PARTS * 2 // 3
    for _ in range(two_days - 1):
        metrics.past(topology)
    waits = "A season of 86400 s is not known before it was seen twice"
    pages = [client.get(f"/topologies/{NAME}/live").text for _ in range(2)]
    assert [waits in page for page in pages] == [True, False], "two days, and the bucket that is cut"
    page = pages[-1]
    assert "in buckets of 360 s" in page
    assert "90 % of what is foreseen for 3600 s" in page
    assert page.count("of what is foreseen for") == 1
    assert "season of 86400 s" in client.get(f"/topologies/{NAME}").text
    packed = client.get(f"/topologies/{NAME}/proposal")
    assert packed.status_code == 200


def ask(client: TestClient, **query: object) -> dict[str, Any]:
    answer = client.get(TRAFFIC, params=query)
    assert answer.status_code == 200, answer.text
    (told,) = answer.json().values()
    found: dict[str, Any] = told
    return found


def test_a_question_counts_with_the_topology_s_own_season(client: TestClient) -> None:
    """Half an hour of the rising day, as yesterday's; three days are read where nobody says how many."""
    told = ask(client, model="seasonal-naive", future_mins=30, metrics_sample_period=600)
    assert told["reason"] == ""
    details = told["details"]
    assert details["season_s"] == [DAY_S]
    assert DAY_S % details["bucket_s"] == 0
    assert 2.9 * DAY_S < details["history_s"] <= 3 * DAY_S
    times = np.linspace(details["from_epoch_s"], details["from_epoch_s"] + 1800)
    assert told["components"]["median"]["spout"]["default"] == pytest.approx(rate_at(times).mean(), rel=0.02)


def test_seasons_that_are_asked_for_are_those_that_count(client: TestClient) -> None:
    """A day and a half is too short for a day's season: asked for, it is refused and not left out."""
    short = {"model": "seasonal-naive", "source_hours": 36}
    left_out = ask(client, **short)
    assert left_out["details"]["season_s"] == []
    assert "there is no season to look back by" in left_out["reason"]
    refused = ask(client, **short, season_s=DAY_S)
    assert refused["details"]["season_s"] == [DAY_S]
    assert "too short for a season of 86400 s" in refused["reason"]
    shorter = ask(client, **short, season_s=[3600, 7200])
    assert (shorter["details"]["season_s"], shorter["reason"]) == ([3600, 7200], "")
    wrong = client.get(TRAFFIC, params={"season_s": -1})
    assert wrong.status_code == 422
    assert "season_s" in wrong.text


def test_a_plan_is_packed_for_the_highest_rate_of_the_hour_that_comes(client: TestClient) -> None:
    """The day rises, so its last bucket; the median of three days, without an hour, is the step's rate."""
    query = {"future_mins": 60, "quantile": 50, "metrics_sample_period": 600}
    told = ask(client, model="seasonal-naive", future_mins=60, metrics_sample_period=600)
    details = told["details"]
    last_tps = float(rate_at(np.array(details["from_epoch_s"] + 3600 - details["bucket_s"] / 2)))
    assert told["peak_tps"]["median"] == pytest.approx(last_tps, rel=0.01)
    assert told["components"]["median"]["spout"]["default"] < 0.97 * last_tps, "the hour's average"
    address = f"/model/topology/storm/packingplan/{NAME}/future"
    rates = {}
    for model in ("seasonal-naive", "stats-summary", None):
        asked = query if model is None else {**query, "model": model}
        forecast = client.get(address, params=asked).json()["forecast"]
        rates[forecast["model"]] = forecast["rate_tps"]
    assert list(rates) == ["seasonal-naive", "stats-summary", DEFAULT]
    for model in ("seasonal-naive", DEFAULT):
        assert rates[model] / rates["stats-summary"] == pytest.approx(last_tps / RATE_TPS, rel=0.02)


def test_the_season_is_a_parameter_of_the_openapi(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path in ("/model/traffic/storm/{topology}", "/model/topology/storm/packingplan/{topology}/future"):
        named = {p["name"]: p for p in paths[path]["get"]["parameters"]}
        assert "86400 is a day" in named["season_s"]["description"]


def forecast(tmp_path: Path, *typed: object) -> Result:
    where = ("--submitted", tmp_path / "submitted", "--json")
    return CliRunner().invoke(main, ["forecast", *map(str, (*typed, *where))])


@pytest.mark.usefixtures("clock", "topology")
def test_the_command_reads_a_topology_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = SeasonalMetrics()
    monkeypatch.setattr(
        "harness.app.submitted.live_rows.LiveMetrics.emitted", lambda _, *asked: made.emitted(*asked)
    )
    done = forecast(
        tmp_path, "--topology", f"{NAME}-of-storm", "--by", "task", "--horizon-s", 1800, "--bucket-s", 600
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["source"], told["season_s"]) == (f"{NAME}-of-storm", [DAY_S])
    tasks = [f["task"] for f in told["forecasts"]]
    assert tasks[0] is None
    assert len(tasks) == 1 + archived().plan(STEP).start.query_plan.component("spout").tasks
    (at,) = told["forecasts"][0]["horizons"]
    assert at["rate_tps"][1] == pytest.approx(float(rate_at(np.array(NOW_S + 1200))), rel=0.05)
    short = forecast(tmp_path, "--topology", NAME, "--source-hours", 30, "--model", "stats-summary")
    assert json.loads(short.stdout.splitlines()[-1])["season_s"] == []
    assert "a season of 86400 s is left out: the history does not show it twice" in short.stdout


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--topology", "never"), "no topology 'never' was submitted: known are words"),
        (("--topology", NAME, "--step", 1), "--topology words beside SOURCE or --step"),
        (("--topology", NAME, "--component", "bolt-z"), "words has no component bolt-z: it has "),
        (("--topology", NAME, "--keys", 2), "--topology beside --keys"),
        (("--topology", NAME, "--bucket-s", "inf"), "buckets of inf s"),
        (("--topology", NAME), "INFLUXDB_TOKEN"),
        ((), "nothing to forecast: give a run directory"),
    ],
)
@pytest.mark.usefixtures("clock", "topology")
def test_wrong_questions_of_the_command_end_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: tuple[object, ...], said: str
) -> None:
    monkeypatch.delenv("INFLUXDB_TOKEN", raising=False)
    done = forecast(tmp_path, *typed)
    assert done.exit_code == 2, done.output
    assert said in json.loads(done.stdout.splitlines()[-1])["error"]
