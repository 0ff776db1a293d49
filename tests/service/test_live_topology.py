"""A submitted topology's last minutes as its page shows them, from an archived step's metrics."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fastapi.testclient import TestClient
from left_running import STEP, archived, left_running, live

from harness.app.submitted.folder import KeptPlan, SubmittedTopology
from harness.app.submitted.live_rows import LiveMetrics, LiveRows
from harness.app.submitted.observing import RowSpan, mean_ack_ms
from harness.app.submitted.plan_file import AskedPlan, labels, read_plan
from harness.forecasts import DEFAULT
from harness.forecasts.alerting import SubjectForecast
from harness.forecasts.histories import SubjectHistory
from harness.protocols import RateForecast, RateHistory
from harness.runs import read_table
from harness.schedulers import SCHEDULERS
from harness.schemas.measures import LATENCIES
from harness.service.answers import ProposalAsked
from harness.service.application import create_application
from harness.service.charts import Band, line_chart
from harness.service.live_forecast import LiveForecast
from harness.service.live_proposal import propose_tuned
from harness.service.live_topology import observe_of, view_live
from harness.service.placing import UnusablePlan
from harness.service.pressure import ExecutorLoad, pressure_alerts
from harness.service.proposals import predict_left, predict_proposed
from harness.tuning import TUNERS


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory) -> SubmittedTopology:
    return left_running(tmp_path_factory.mktemp("submitted"))


def load(component: str, busy_pct: float) -> ExecutorLoad:
    return ExecutorLoad(component, f"{component}[1-1]", "n:1", 10.0, busy_pct)


def emitting(*rate_tps: float, stream: str = "default") -> SubjectHistory:
    """A spout's tuples a second into a stream, in buckets of a second."""
    return SubjectHistory("spout", None, stream, RateHistory(np.array(rate_tps), 1.0))


def foreseen_of(*expected: tuple[SubjectHistory, float]) -> LiveForecast:
    """A forecast of one bucket: its median, and a tenth less and more at the ends of its 90 %."""
    made = []
    for subject, middle_tps in expected:
        quantiles = middle_tps * np.array([[0.9, 1.0, 1.1]])
        forecast = RateForecast(subject.history.time_s[-1:] + 1.0, (0.05, 0.5, 0.95), quantiles)
        made.append(SubjectForecast(DEFAULT, subject, forecast, forecast))
    return LiveForecast(tuple(subject for subject, _ in expected), tuple(made))


def rising(middle_tps: float) -> LiveForecast:
    """A spout that emits 100 tuples a second, and a forecast."""
    return foreseen_of((emitting(*[100.0] * 10), middle_tps))


def test_every_executor_that_receives_has_its_share_of_a_thread(topology: SubmittedTopology) -> None:
    """Executors are those of the kept plan; the mean is that of the span's acks."""
    rows = live()
    view = view_live(topology, rows)
    plan = topology.plan.plan
    receiving = [
        e.label for c in plan.query_plan.components for e in plan.of(c.name) if plan.query_plan.inputs(c.name)
    ]
    assert sorted(one.executor for one in view.loads) == sorted(receiving)
    assert [one.busy_pct for one in view.loads] == sorted((one.busy_pct for one in view.loads), reverse=True)
    assert {one.component for one in view.rates} == set(plan.query_plan.spouts)
    assert all(len(one.history.rate_tps) > 5 for one in view.rates)
    assert view.latency
    assert [f.subject.component for f in view.foreseen.forecasts] == [s.component for s in view.rates]
    assert not any("somebody changed it" in trouble for trouble in view.troubles)
    since_ms = max(rows.span.since_ms, topology.plan.at_epoch_ms)
    inside = rows.table.filter([ms > since_ms for ms in rows.table["bucket_end_ms"].to_pylist()])
    assert view.mean_ms == pytest.approx(mean_ack_ms(inside))
    assert view_live(topology, rows).foreseen is view.foreseen, "a forecast is made once a bucket"
    earlier = inside.filter(pc.less(inside["bucket_end_ms"], pc.max(inside["bucket_end_ms"])))
    assert view_live(topology, LiveRows(earlier, rows.span)).foreseen is not view.foreseen


def test_another_plan_in_force_and_no_metrics_are_said(tmp_path: Path) -> None:
    topology, rows = left_running(tmp_path), live()
    nothing = view_live(topology, LiveRows(rows.table.slice(0, 0), rows.span))
    assert nothing.troubles == ("no metrics came in the last minutes: is it active?",)
    late = LiveRows(rows.table, RowSpan(rows.span.since_ms, rows.span.until_ms + 60_000))
    assert any("no metrics for 60 s" in trouble for trouble in view_live(topology, late).troubles)
    other = topology.plan
    elsewhere = other.plan.executors[0].worker.model_copy(update={"port": 1})
    executors = tuple(e.model_copy(update={"worker": elsewhere}) for e in other.plan.executors)
    moved = other.plan.model_copy(update={"executors": executors})
    topology.keep_plan(other.model_copy(update={"at_epoch_ms": other.at_epoch_ms + 1, "plan": moved}))
    assert any("somebody changed it" in trouble for trouble in view_live(topology, rows).troubles)


def test_the_component_that_will_be_full_is_named() -> None:
    """An executor at 80 % of its thread is full at 125 % of the traffic: 125 of 100 tuples a second."""
    loads = [load("sum", 80.0), load("twice", 40.0)]
    foreseen = rising(130.0)
    recent = foreseen.subjects
    (alert,) = pressure_alerts(loads, foreseen, recent)
    assert (alert.component, alert.ahead_s) == ("sum", 1.0)
    assert alert.probability > 0.5
    assert alert.text.startswith("sum will be in back-pressure in 1 s")
    assert pressure_alerts(loads, rising(120.0), recent) == ()
    (later,) = pressure_alerts(loads, replace(foreseen, since_end_s=0.25), recent)
    assert later.ahead_s == 0.75
    (now,) = pressure_alerts([load("sum", 100.0)], rising(50.0), recent)
    assert (now.component, now.ahead_s) == ("sum", 0.0)
    assert "sum is in back-pressure" in now.text


def test_each_stream_of_a_spout_has_its_own_limit() -> None:
    """100 and 10 tuples a second keep an executor half busy: full at 220: one at 210, the other at 120."""
    many, few = emitting(*[100.0] * 10), emitting(*[10.0] * 10, stream="few")
    loads = [load("sum", 50.0)]
    for many_tps, few_tps, warned in (
        (100, 10, 0),
        (205, 115, 0),
        (215, 10, 1),
        (100, 125, 1),
        (215, 125, 1),
    ):
        alerts = pressure_alerts(loads, foreseen_of((many, many_tps), (few, few_tps)), [many, few])
        assert len(alerts) == warned, (many_tps, few_tps)
        assert all((alert.component, alert.ahead_s) == ("sum", 1.0) for alert in alerts)


def test_what_came_above_the_limit_still_waits() -> None:
    """At 80 % of a thread for 100 tuples a second, 125 go through: five seconds of 150 leave 125 waiting.

    A second of 90 takes 35 of them away, one of none all. Where the calm came last, nothing waits.
    """
    late, early = emitting(*[50.0] * 5, *[150.0] * 5), emitting(*[150.0] * 5, *[50.0] * 5)
    (alert,) = pressure_alerts([load("sum", 80.0)], foreseen_of((late, 90.0)), [late])
    assert (alert.ahead_s, alert.probability, alert.rule) == (1.0, 0.5, "backlog")
    assert alert.text == (
        "sum will be in back-pressure in 1 s: tuples that came before still wait (probability 0.50)"
    )
    for foreseen, recent in (((late, 0.0), late), ((early, 90.0), early)):
        assert pressure_alerts([load("sum", 80.0)], foreseen_of(foreseen), [recent]) == ()
    few = emitting(*[10.0] * 10, stream="few")
    both = pressure_alerts([load("sum", 80.0)], foreseen_of((few, 10.0), (late, 0.0)), [late, few])
    assert [(a.ahead_s, a.rule) for a in both] == [(1.0, "backlog")], "the other stream goes on as it is"


def test_a_limit_is_of_the_time_that_the_loads_are_of(tmp_path: Path) -> None:
    """Of a tenth of the traffic before the plan came into force, a limit would be too low."""
    topology, rows = left_running(tmp_path), live()
    frame = rows.table.to_pandas()
    newest_ms, burn_in_s = frame["bucket_end_ms"].max(), topology.experiment.measure.burn_in.least_s
    at_ms = int(newest_ms - 2e3 * burn_in_s)
    topology.keep_plan(KeptPlan(at_epoch_ms=at_ms, seen="applied", plan=topology.plan.plan))
    frame.loc[(frame["measurement"] == "emitted") & (frame["bucket_end_ms"] <= at_ms), "value"] *= 0.1
    slow = (frame["measurement"] == "service") & (frame["field"] == "wall_sum_ns")
    frame.loc[slow, "value"] *= 70 / view_live(topology, rows).loads[0].busy_pct
    table = pa.Table.from_pandas(frame, schema=rows.table.schema, preserve_index=False)
    view = view_live(topology, LiveRows(table, rows.span))
    assert view.loads[0].busy_pct == pytest.approx(70)
    assert view.alerts == ()
    assert pressure_alerts(view.loads, view.foreseen, view.rates) != (), "of all five minutes"
    (recent,) = (s.since(newest_ms / 1e3 - burn_in_s).history for s in view.rates)
    assert recent.rate_tps.mean() == pytest.approx(archived().interval(STEP).rate_tps, rel=0.05)


def test_a_chart_has_the_line_the_band_and_no_markup_of_names() -> None:
    points = [(float(s), 10.0 + s) for s in range(5)]
    drawn = line_chart('<b>"', "rates", points, 1.5, Band([5.0], [8.0], [14.0], [20.0]))
    assert drawn.count('class="line"') == 1
    assert 'class="line ahead"' in drawn
    assert 'class="measure"' in drawn
    assert "<b>" not in drawn
    assert line_chart("x", "rates", [], 1.5) == ""


def test_a_chart_does_not_join_over_what_was_not_reported_and_its_ticks_are_round() -> None:
    """Buckets of 1 s, the fifth to the eighth missing: two stretches."""
    points = [(float(s), 83.0) for s in (0, 1, 2, 3, 8, 9)]
    drawn = line_chart("x", "latencies", points, 1.5)
    (path,) = re.findall(r'class="line" d="([^"]+)"', drawn)
    assert path.count("M") == 2
    ticks = [float(tick) for tick in re.findall(r'class="tick"[^>]*>([^<]+)<', drawn)]
    assert ticks[0] == 0.0
    assert len(ticks) in (2, 3, 4)
    assert all(tick % 10 == 0 and tick <= 83 for tick in ticks)


def test_a_plan_of_a_submitted_topology_is_predicted_from_its_last_minutes(
    topology: SubmittedTopology,
) -> None:
    """The plan in force itself, placed by a client, is predicted as it is."""
    asked = ProposalAsked.model_validate({"placement": labels(topology.plan.plan)})
    answer = predict_left(topology, live(), asked)
    assert answer["submitted"] == "words"
    assert answer["proposed"]["status"] == "ok"
    assert answer["proposed"]["executors_moved"] == 0
    assert answer["proposed"]["predicted"] == answer["current"]["predicted"] != {}


def test_the_plan_in_force_may_be_told_by_who_asks(tmp_path: Path) -> None:
    """A second step's rows, of other workers, follow the first's; as if its plan had been kept between."""
    run = archived()
    first, second = (read_table(run.step_path(step) / "metrics.parquet") for step in (STEP, STEP + 1))
    between_ms, changed = pc.max(first["bucket_end_ms"]).as_py(), run.plan(STEP + 1).start
    rows = LiveRows(
        pa.concat_tables([first, second]).unify_dictionaries(),
        RowSpan(run.interval(STEP).start_epoch_ms, run.interval(STEP + 1).end_epoch_ms),
    )
    placement = {"placement": labels(changed)}
    told = ProposalAsked.model_validate({**placement, "from": labels(changed)})
    answer = predict_left(left_running(tmp_path / "unknown"), rows, told)
    known = left_running(tmp_path / "known")
    known.keep_plan(KeptPlan(at_epoch_ms=between_ms, seen="found", plan=changed))
    assert answer == predict_left(known, rows, ProposalAsked.model_validate(placement))
    assert answer["proposed"]["executors_moved"] == 0
    assert answer["current"]["predicted"] != {}

    asked = {**placement, "from": {**labels(changed), "spout[9-9]": "node-1:6700"}}
    with pytest.raises(UnusablePlan, match=r"from: 'spout\[9-9\]'"):
        predict_left(known, rows, ProposalAsked.model_validate(asked))


def test_of_a_plan_that_just_came_into_force_no_latency_is_an_anchor(tmp_path: Path) -> None:
    """Its first burn-in is left out once as much came after it; until then all is read, and is not steady."""
    known = left_running(tmp_path)
    burn_in_s = known.experiment.measure.burn_in.least_s
    rows = live()
    newest_ms = pc.max(rows.table["bucket_end_ms"]).as_py()
    for age_s, steady, left_s in ((2.5, True, 1.5), (1.5, False, 1.5)):
        at_ms = newest_ms - round(1e3 * age_s * burn_in_s)
        known.keep_plan(KeptPlan(at_epoch_ms=at_ms, seen="found", plan=known.plan.plan))
        found = observe_of(known, rows)
        assert (found.steady, found.interval_s) == (steady, left_s * burn_in_s)


def test_nimbus_plug_in_reads_the_latencies_that_are_predicted() -> None:
    sources = Path(__file__).parents[2] / "storm-topologies/instrumentation/src/main/java/harness/storm"
    listed = ", ".join(f'"{measure}"' for measure in LATENCIES)
    assert f"List.of({listed})" in (sources / "cluster/PlanQuestion.java").read_text()


def test_a_finished_steps_plan_is_not_another_one() -> None:
    run = archived()
    asked = {"scheduler": "even", "from": labels(run.plan(STEP + 1).start)}
    with pytest.raises(UnusablePlan, match=f"from: step {STEP} had another plan: "):
        predict_proposed(run, STEP, ProposalAsked.model_validate(asked))


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    left_running(tmp_path / "submitted", name="words")
    monkeypatch.setenv("INFLUXDB_TOKEN", "a token of nobody's")
    application = create_application([tmp_path], submitted=tmp_path / "submitted")
    with TestClient(application, base_url="http://127.0.0.1") as client:
        yield client


def test_a_store_that_is_away_is_said_with_its_address(client: TestClient) -> None:
    """Nobody listens at the discard port of this machine."""
    answer = client.get("/topologies/words")
    assert answer.status_code == 503
    assert "influxdb at http://127.0.0.1:9" in answer.text
    assert "words-of-storm" in client.get("/topologies").text


class Archived(LiveMetrics):
    """The rows of an archived step in place of a store's."""

    def rows(self, topology: SubmittedTopology) -> LiveRows:
        del topology
        return live()


def test_the_page_shows_the_plan_as_it_runs(tmp_path: Path) -> None:
    """Each of the chain's components takes as many tuples as messages were sent."""
    left_running(tmp_path / "submitted", name="words")
    application = create_application([tmp_path], submitted=tmp_path / "submitted")
    application.state.live = Archived()
    interval, plan = archived().interval(STEP), archived().plan(STEP).start
    with TestClient(application, base_url="http://127.0.0.1") as client:
        page = client.get("/topologies/words").text
        whole = client.get("/topologies/words/live", params={"view": "whole"}).text
    rates = re.findall(r'scope="row">(\S+)</th><td class="r">\d+</td><td class="r">([0-9.]+)<', page)
    receiving = {s.target for s in plan.query_plan.streams}
    assert {name for name, _ in rates} == receiving
    assert [float(rate) for _, rate in rates] == pytest.approx([interval.rate_tps] * len(rates), rel=0.1)
    assert page.count('class="query-plan"') == 1
    assert whole.count('class="executor"') == len(plan.executors)


def test_names_are_looked_up_never_opened(client: TestClient) -> None:
    for name in ("nobody", "..%2fwords", "%3Cscript%3E"):
        answer = client.get(f"/topologies/{name}")
        assert answer.status_code == 404
        assert "<script>" not in answer.text


def test_without_a_token_the_variable_is_named(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFLUXDB_TOKEN")
    answer = client.get("/topologies/words/live")
    assert answer.status_code == 422
    assert "INFLUXDB_TOKEN" in answer.text


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[TestClient]:
    """The service over a topology that reports what an archived step did."""
    left_running(tmp_path / "submitted", name="words")
    application = create_application([tmp_path], submitted=tmp_path / "submitted")
    application.state.live = Archived()
    with TestClient(application, base_url="http://127.0.0.1") as client:
        yield client


def proposed_file(page: str, folder: Path) -> AskedPlan:
    """Read the plan's file of a page, as ``harness apply`` does."""
    (text,) = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    (folder / "plan.yaml").write_text(html.unescape(text))
    return read_plan(folder / "plan.yaml")


def test_a_tuners_plan_is_drawn_beside_the_one_in_force_with_its_decisions(
    measured: TestClient, tmp_path: Path
) -> None:
    running = archived().plan(STEP).start
    page = measured.get("/topologies/words/proposal", params={"tuner": "ds2"}).text
    source = observe_of(left_running(tmp_path / "again"), live())
    sides = propose_tuned(source, "ds2", 10 * source.rate_tps)
    assert sides.proposed is not None
    for plan in (running, proposed_file(page, tmp_path).proposed(running)):
        assert all(f"<title>{e.label} on {e.worker.label}" in page for e in plan.executors)
    assert page.count('class="plan"') == 2
    assert page.count('class="query-plan"') == 1
    assert page.count("<details>") == len(sides.decisions) > 0
    assert sides.decisions[0].why in html.unescape(page)


def test_a_schedulers_placement_is_drawn_with_the_tuples_that_go_now(
    measured: TestClient, tmp_path: Path
) -> None:
    """Every tuple that is sent goes on being sent, whoever holds the tasks: as many in both drawings."""
    running = archived().plan(STEP).start
    page = measured.get("/topologies/words/proposal", params={"scheduler": "random"}).text
    asked = proposed_file(page, tmp_path)
    assert asked.source == labels(running)
    assert asked.placement.keys() >= {
        e.label for c in running.query_plan.components for e in running.of(c.name)
    }
    now, then = re.findall(r"<svg[^>]*class=\"plan\".*?</svg>", page, re.DOTALL)
    for drawn in (now, then):
        assert drawn.count('class="connection"') > 0
    rates = [
        sum(float(rate.replace(",", "")) for rate in re.findall(r": ([0-9.,]+)/s", drawn))
        for drawn in (now, then)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=0.02)  # each is rounded by itself
    assert "PinnedScheduler" in page
    assert "<details" not in page


def test_who_may_propose_is_on_the_page_and_nobody_else(measured: TestClient) -> None:
    page = measured.get("/topologies/words").text
    for name in (*TUNERS, *SCHEDULERS):
        assert re.search(rf"<option[^>]*>{name}</option>", page)
    for asked, status in (
        ({"tuner": "nobody"}, 404),
        ({"scheduler": "os:system"}, 404),
        ({"tuner": "ds2", "scheduler": "even"}, 422),
    ):
        assert measured.get("/topologies/words/proposal", params=asked).status_code == status


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_is_answered_with_a_plan_or_a_reason(measured: TestClient, scheduler: str) -> None:
    answer = measured.get("/topologies/words/proposal", params={"scheduler": scheduler})
    assert answer.status_code == 200
    assert ("As a file" in answer.text) != ("There is nothing to apply" in answer.text)
    assert answer.text.count('class="plan"') == (1 if "Nothing is proposed" in answer.text else 2)
