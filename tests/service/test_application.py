"""Pages and questions of a real server, asked over HTTP."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from served import ARCHIVE, HOSTILE, Served

from harness.app.opened_run import load_run
from harness.experiments.arriving_rows import ArrivingRows
from harness.experiments.contracts import Progress
from harness.experiments.progress import ProgressFile
from harness.forecasts import FORECASTERS
from harness.models import MODELS
from harness.runs import Run
from harness.service.plan_traffic_view import drawn_plan, plan_parts


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=120) as opened:
        yield opened


def hostile(served: Served) -> str:
    return f"/runs/{quote(HOSTILE)}/{served.simulated.split('/')[1]}"


# -- pages ---------------------------------------------------------------------------------------


def test_the_table_has_every_run_with_its_verdict_and_errors(served: Served, client: httpx.Client) -> None:
    page = client.get("/").text
    assert "3 of 3 runs" in page
    assert page.count('type="checkbox"') == 3
    summary = json.loads((served.runs / served.archived / "summary.json").read_text())
    (row,) = [
        r
        for r in summary["errors"]
        if (r["model"], r["protocol"], r["statistic"], r["measure"])
        == ("no-change", "ours", "mean", "ground_truth_latency_ms")
    ]
    assert f"no-change {row['median_abs_error_pct']:.1f} % ({row['worst_abs_error_pct']:.0f} %)" in page


def test_the_filter_leaves_what_it_names(client: httpx.Client) -> None:
    assert "1 of 3 runs" in client.get("/", params={"experiment": "NOISE"}).text
    assert "1 of 3 runs" in client.get("/", params={"verdict": "valid"}).text
    assert "0 of 3 runs" in client.get("/", params={"commit": "zzz"}).text


def test_names_are_text_and_addresses_stay_here(served: Served, client: httpx.Client) -> None:
    two = {"run": [served.archived, f"{HOSTILE}/{served.simulated.split('/')[1]}"]}
    paths = ("/", hostile(served), f"/runs/{served.archived}")
    pages = [client.get(path) for path in paths] + [client.get("/compare", params=two)]
    pages.append(client.get(f"/runs/{quote(HOSTILE)}/never"))
    assert [p.status_code for p in pages] == [200, 200, 200, 200, 404]
    for page in pages:
        assert "<script>alert" not in page.text
        addresses = re.findall(r'(?:src|href|action)="([^"]*)"', page.text)
        assert [a for a in addresses if re.match(r"[a-z]+:|//", a)] == ["data:,"]
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "&lt;script&gt;alert(1)&lt;" in pages[1].text


def test_two_runs_side_by_side(served: Served, client: httpx.Client) -> None:
    start = served.simulated.split("/")[1]
    page = client.get("/compare", params={"run": [served.simulated, f"{HOSTILE}/{start}"]}).text
    for step in (0, 1):
        interval = Run(served.runs / served.simulated).interval(step)
        assert page.count(f"{interval.mean_ms:.2f} ± {interval.half_width_ms:.2f}") == 2
    assert ">0.0<" in page  # a run and its copy do not differ
    alone = client.get("/compare", params={"run": served.simulated})
    assert (alone.status_code, "choose two" in alone.text) == (422, True)


def test_a_report_is_served_apart_from_the_service(served: Served, client: httpx.Client) -> None:
    report = client.get(f"{hostile(served)}/report")
    assert report.text.endswith("a report")
    policy = report.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")
    assert "connect-src" not in policy
    assert client.get(f"/runs/{served.archived}/report").status_code == 404


def test_a_plan_is_drawn_with_all_its_executors(served: Served, client: httpx.Client) -> None:
    plan = load_run(served.runs / served.archived).plan(1)
    drawing = client.get(f"/runs/{served.archived}/plan/1").text
    assert drawing.count("<title>") == drawing.count('class="executor"') == len(plan.executors)
    assert all(e.label in drawing for e in plan.executors)
    assert "tuples/s" not in drawing  # of no moment
    compact = client.get(f"/runs/{served.archived}/plan/1", params={"view": "compact"}).text
    assert all(f"<title>{c.name}: " in compact for c in plan.query_plan.components)
    assert client.get(f"/runs/{served.archived}/plan/9").status_code == 404
    assert client.get(f"/runs/{served.archived}/plan/1", params={"view": "none"}).status_code == 422


def test_a_plan_as_it_ran_has_its_traffic(served: Served, client: httpx.Client) -> None:
    """Every message is one tuple of this chain: each component executes as many as were sent."""
    interval = Run(served.runs / served.simulated).interval(1)
    moment = {"at": interval.start_epoch_ms + (interval.end_ns - interval.start_ns) // 10**6}
    whole = client.get(f"/runs/{served.simulated}/plan/1", params=moment).text
    assert "Rates of the last 10 s" in whole
    assert whole.count('class="connection"') == whole.count("<tr><td>") > 3
    rates = re.findall(r'scope="row">bolt-a</th><td class="r">\d+</td><td class="r">([0-9.]+)<', whole)
    assert [float(rate) for rate in rates] == [pytest.approx(interval.rate_tps, rel=0.1)]
    assert "batch fill" not in whole  # nothing travels in batches
    assert "bytes" not in whole
    compact = client.get(f"/runs/{served.simulated}/plan/1", params={**moment, "view": "compact"}).text
    assert compact.count("<tr><td>") == 3
    early = client.get(f"/runs/{served.archived}/plan/1", params={"at": 0}).text
    assert "Rates of" not in early


def test_batches_show_their_bytes_and_fill(client: httpx.Client, served: Served) -> None:
    """A bucket of its step 3 has 49,664 bytes for 400 tuples of the spout, in full batches."""
    archived = ARCHIVE / "batched-chain" / "20261127T071333Z"
    shutil.copytree(archived, served.runs / "batched-chain" / archived.name)
    try:
        run = Run(archived)
        moment = {"at": run.interval(3).start_epoch_ms + 20_000, "view": "compact"}
        page = client.get(f"/runs/batched-chain/{archived.name}/plan/3", params=moment).text
    finally:
        shutil.rmtree(served.runs / "batched-chain")
    assert "24.8 kB/s" in page  # 200 tuples a second
    assert '<td class="r">100</td>' in page  # fill
    assert '<td class="r">124.2</td>' in page


def test_two_steps_are_watched_together(served: Served, client: httpx.Client) -> None:
    two = {"step": [f"{served.simulated}/0", f"{served.simulated}/1"]}
    page = client.get("/together", params=two).text
    assert page.count("data-events=") == page.count("Whole interval") == 2
    for step in (0, 1):
        assert f"{Run(served.runs / served.simulated).interval(step).mean_ms:.2f} ±" in page
    assert client.get("/together", params={"step": two["step"][:1]}).status_code == 422
    assert client.get("/together", params={"step": ["a/b/0", "a/b/1"]}).status_code == 404
    assert client.get("/together", params={"step": ["a/b/x", "a/b/1"]}).status_code == 422
    assert client.get("/together", params={"job": "none"}).status_code == 404
    nobody = client.get(f"/runs/{served.simulated}/decisions/1/1")
    assert (nobody.status_code, "unknown tuned step" in nobody.text) == (404, True)


class Arrived:
    """Metrics of a store that has them all."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def rows(self, since_ms: int, until_ms: int) -> pa.Table:
        ends = self._table["bucket_end_ms"]
        return self._table.filter(pc.and_(pc.greater(ends, since_ms), pc.less_equal(ends, until_ms)))

    def texts(self, measurement: str, since_ms: int) -> list[Mapping[str, object]]:
        del measurement, since_ms
        return []

    def forget(self, until_ms: int) -> None:
        del until_ms


# -- events --------------------------------------------------------------------------------------


def received(client: httpx.Client, path: str, until: str, **headers: str) -> list[str]:
    lines = []
    with client.stream("GET", path, headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            lines.append(line)
            if until in line:
                return lines
    return lines


@pytest.mark.parametrize("which", ["simulated", "archived"])
def test_a_run_that_has_ended_is_replayed_whole_and_over(
    which: str, served: Served, client: httpx.Client
) -> None:
    address = getattr(served, which)
    lines = received(client, f"/runs/{address}/events", "event: over")
    told = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    steps = Run(served.runs / address).finished_steps
    assert [e["step"] for e in told if e["phase"] == "done"] == list(steps)
    assert [e["step"] for e in told if e.get("planned")] == list(steps)
    assert told[-1]["event"] == "end"
    ids = [int(line.split()[1]) for line in lines if line.startswith("id: ")]
    assert ids == list(range(1, len(told) + 1))
    again = received(client, f"/runs/{address}/events", "event: over", **{"last-event-id": str(ids[-2])})
    assert [line for line in again if line.startswith("id: ")] == [f"id: {ids[-1]}"]


def test_a_live_run_is_followed_and_a_plan_not_yet_written_is_drawn(
    served: Served, client: httpx.Client, tmp_path: Path
) -> None:
    source = Run(served.runs / served.simulated)
    files = {"experiment.yaml": (source.path / "experiment.yaml").read_text()}
    run = Run.create(served.runs, "live", files, {})
    plan = source.plan(0).start
    try:
        with run.exclusively(), ProgressFile(run.path, 1) as file:
            file(Progress(0, 1, "submit", "first"))
            with client.stream("GET", f"/runs/live/{run.path.name}/events") as stream:
                lines = stream.iter_lines()
                assert '"phase":"submit"' in next(line for line in lines if '"step":0' in line)
                file(Progress(0, 1, "burn-in", "first", plan=plan))
                assert '"planned":true' in next(line for line in lines if '"step":0' in line)
            drawing = client.get(f"/runs/live/{run.path.name}/plan/0").text
            assert drawing.count("<title>") == len(plan.executors)
            arrived = Arrived(pq.read_table(source.step_path(0) / "metrics.parquet"))
            end_ms = source.interval(0).start_epoch_ms + 9_000
            with ArrivingRows(run.path, arrived, 0, 0, lambda: end_ms / 1e3) as arriving:
                arriving.keep()
                moment = {"at": end_ms}
                now = client.get(f"/runs/live/{run.path.name}/plan/0", params=moment).text
            ends_ms = arrived.rows(0, end_ms - 2000)["bucket_end_ms"]  # of those that came by then
            last = {"at": pc.max(ends_ms).as_py()}
            then = client.get(f"/runs/{served.simulated}/plan/0", params=last).text
            assert "Rates of the last 10 s" in now
            assert now == then  # what arrives is what is written
        assert "No step is finished yet" in client.get(f"/runs/live/{run.path.name}").text
    finally:
        shutil.rmtree(served.runs / "live")
    gone = client.get(f"/runs/live/{run.path.name}")
    assert (gone.status_code, "unknown run" in gone.text) == (404, True)
    for part in ("events", "steps", "plan/0"):  # of a page that is open still
        assert client.get(f"/runs/live/{run.path.name}/{part}").status_code == 204


def test_a_plan_is_drawn_once_for_all_who_ask_and_anew_when_more_is_written(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawings = []

    def counted(*given: Any) -> dict[str, object]:
        drawings.append(given)
        return plan_parts(*given)

    monkeypatch.setattr("harness.service.plan_traffic_view.plan_parts", counted)
    run = Run(Path(shutil.copytree(served.runs / served.simulated, tmp_path / "copied")))
    end_ms = run.interval(0).end_epoch_ms
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: drawn_plan(run, 0, "whole", end_ms), range(16)))
    assert (len(found), len(drawings)) == (1, 1)
    assert drawn_plan(run, 0, "compact", end_ms) not in found
    with (run.path / "progress.jsonl").open("a") as file:
        file.write("\n")
    assert drawn_plan(run, 0, "whole", end_ms) in found
    assert len(drawings) == 3
    assert drawn_plan(run, 99, "whole", end_ms) is None


# -- questions -----------------------------------------------------------------------------------


def test_models_are_listed_with_what_they_say_of_themselves(client: httpx.Client) -> None:
    for kind, known in (("traffic", FORECASTERS), ("topology", MODELS)):
        listed = client.get(f"/model/{kind}/storm/model_info").json()
        assert [m["name"] for m in listed] == list(known)
        assert all(m["description"] for m in listed)


def test_traffic_is_forecast_by_component_task_and_stream(served: Served, client: httpx.Client) -> None:
    """The archived run sends at a constant rate: every quantile is near it, and they rise."""
    query = {"model": ["stats-summary", "seasonal-naive"], "future_mins": 0.5, "source_hours": 0.01}
    answer = client.get("/model/traffic/storm/noise-floor", params=query).json()
    assert answer["seasonal-naive"]["reason"].startswith("no forecast")  # runs have no season
    told = answer["stats-summary"]
    assert told["details"]["history_s"] <= 36
    rate_tps = Run(served.runs / served.archived).interval(3).rate_tps
    spout = {name: by["spout"]["default"] for name, by in told["components"].items()}
    names = ("10-quantile", "median", "90-quantile", "95-quantile", "99-quantile")
    values = [spout[name] for name in names]
    assert values == sorted(values)
    assert spout["median"] == pytest.approx(rate_tps, rel=0.1)
    tasks = told["instances"]["median"]
    assert sum(by["default"] for by in tasks.values()) == pytest.approx(rate_tps, rel=0.1)


CALADRIUS_KEYS = {
    "task",
    "stream",
    "latency_ms",
    "tuples_per_sec",
    "arrival_rate",
    "capacity",
    "back_pressure",
}
"""Columns of what Caladrius's queueing model answers, model/topology/heron/queueing_theory.py."""


def test_the_current_plan_is_answered_by_task_with_latencies(served: Served, client: httpx.Client) -> None:
    (answer,) = client.get("/model/topology/storm/current/noise-floor", params={"step": 0}).json().values()
    plan = load_run(served.runs / served.archived).plan(0)
    bolts = {
        t: e.label
        for c in plan.query_plan.components
        if plan.query_plan.inputs(c.name)
        for e in plan.of(c.name)
        for t in e.tasks
    }
    assert {row["task"]: row["executor"] for row in answer["tasks"]} == bolts
    for row in answer["tasks"]:  # utilisation law: U = X S
        assert row.keys() >= CALADRIUS_KEYS
        if row["capacity"] is not None:
            assert row["capacity"] == pytest.approx(row["arrival_rate"] * row["latency_ms"] / 1000 * 100)
            assert row["tuples_per_sec"] == pytest.approx(1000 / row["latency_ms"])
        assert row["back_pressure"] is False
    first = plan.query_plan.outputs("spout")[0].target
    arriving = sum(r["arrival_rate"] for r in answer["tasks"] if r["component"] == first)
    assert arriving == pytest.approx(answer["rate_tps"], rel=0.05)
    (mean,) = [
        e
        for e in answer["latency"]
        if (e["measure"], e["path"], e["statistic"]) == ("ground_truth_latency_ms", "", "mean")
    ]
    assert mean["low_ms"] <= mean["value_ms"] <= mean["high_ms"]


def test_other_traffic_of_the_spouts_is_answered_by_task(served: Served, client: httpx.Client) -> None:
    """Arrivals grow with what the spouts emit; far above what one thread can serve, back-pressure is seen."""
    address = "/model/topology/storm/current/noise-floor"
    (now,) = client.get(address, params={"step": 0}).json().values()
    tasks = [str(t) for e in load_run(served.runs / served.archived).plan(0).of("spout") for t in e.tasks]
    doubled = {task: {"default": 2 * now["rate_tps"] / len(tasks)} for task in tasks}
    (answer,) = client.post(address, params={"step": 0}, json=doubled).json().values()
    assert answer["rate_tps"] == pytest.approx(2 * now["rate_tps"], rel=0.05)
    assert answer["measured_mean_ms"] is None
    before = {(r["task"], r["source"]): r for r in now["tasks"]}
    for row in answer["tasks"]:
        assert row["arrival_rate"] == pytest.approx(
            2 * before[row["task"], row["source"]]["arrival_rate"], rel=0.05
        )
    flood = {tasks[0]: {"default": 100_000 * now["rate_tps"]}}
    (flooded,) = client.post(address, params={"step": 0}, json=flood).json().values()
    assert any(row["back_pressure"] for row in flooded["tasks"])
    for body in (
        {},
        {"1000": {"default": 1}},
        {tasks[0]: {"other": 1}},
        {tasks[0]: {"default": -1}},
        [],
        {"1": 2},
    ):
        assert client.post(address, json=body).status_code == 422, body


def test_packing_plans_fit_the_measured_and_the_forecast_rate(served: Served, client: httpx.Client) -> None:
    address = "/model/topology/storm/packingplan/noise-floor"
    now = client.get(f"{address}/current", params={"step": 0}).json()
    assert now["forecast"] is None
    assert now["proposed"]["tuner"] == "ds2"
    counts = load_run(served.runs / served.archived).plan(0).configuration()
    assert now["current"]["executors"] == counts.executors
    future = {"step": 0, "future_mins": 0.5}
    median, ahead = (
        client.get(f"{address}/future", params={**future, "quantile": q}).json() for q in (50, 99)
    )
    assert ahead["forecast"]["rate_tps"] == ahead["rate_tps"] > median["rate_tps"]
    assert median["rate_tps"] == pytest.approx(now["rate_tps"], rel=0.1)  # a constant rate was sent
    by_tuner = {"tuner": "ds2", "rate_tps": ahead["rate_tps"]}
    proposed = client.post("/model/topology/storm/proposed/noise-floor", params={"step": 0}, json=by_tuner)
    assert proposed.json()["proposed"] == ahead["proposed"]
    declined = client.get(f"{address}/future", params={"step": 0, "model": "seasonal-naive"})
    assert (declined.status_code, declined.json()["errors"][0]["type"]) == (422, "NoForecast")
    assert client.get(f"{address}/current", params={"tuner": "os:system"}).status_code == 404
    assert client.get(f"{address}/future", params={"quantile": 51}).status_code == 422


def test_a_plan_and_a_scheduler_are_predicted(served: Served, client: httpx.Client) -> None:
    run = load_run(served.runs / served.archived)
    address = "/model/topology/storm/proposed/noise-floor"
    by_scheduler = client.post(address, json={"scheduler": "even"}, params={"step": 0}).json()
    assert by_scheduler["proposed"]["scheduler"] == "even"
    as_it_is = by_scheduler["current"]["placement"]
    given = client.post(address, json={"placement": as_it_is}, params={"step": 0}).json()
    assert given["proposed"]["placement"] == as_it_is
    assert given["proposed"]["predicted"] == given["current"]["predicted"]
    assert given["proposed"]["executors_moved"] == 0
    assert given["nearest"] is None  # the step was asked for
    (nearest,) = {client.post(address, json={"placement": as_it_is}).json()["nearest"]["step"]}
    assert run.plan(nearest).configuration() == run.plan(0).configuration()
    rate = {"scheduler": "even", "rate_tps": 2 * by_scheduler["rate_tps"]}
    doubled = client.post(address, json=rate).json()["nearest"]
    assert (doubled["step"], doubled["rate"]) == (3, pytest.approx(1))  # the last of four at one rate
    one_worker = {label: run.plan(0).workers[0].label for label in as_it_is}
    moved = client.post(address, json={"placement": one_worker}, params={"step": 0}).json()
    assert moved["proposed"]["traffic_tps"]["between_nodes"] == 0


BODIES = (
    {},
    [],
    {"scheduler": "even", "placement": {}},
    {"placement": {}},
    {"placement": {"spout": "node-1:6700"}},
    {"placement": {"spout[1-999999999]": "node-1:6700"}},
    {"placement": {"spout[1-1]": "nowhere:1"}},
    {"plan": {}},
    {"scheduler": "even", "rate_tps": -1},
    {"scheduler": "even", "parameters": {"no": 1}},
    {"scheduler": "even", "parameters": {"name": "subprocess:Popen", "args": "true", "shell": True}},
    {"placement": {"spout[3-10000000000000000000]": "node-1:6700"}},
    {"placement": {f"spout[1-{'9' * 5000}]": "node-1:6700"}},
)


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_no_plan_is_named(body: object, client: httpx.Client) -> None:
    answer = client.post("/model/topology/storm/proposed/noise-floor", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["error"]


def test_what_nobody_knows_is_404_with_the_list(client: httpx.Client) -> None:
    asked = (
        ("/model/traffic/storm/<script>?source_hours=no", "topology", "noise-floor"),
        ("/model/topology/storm/packingplan/never/future?quantile=0", "topology", "noise-floor"),
        ("/model/topology/storm/current/never", "topology", "noise-floor"),
        ("/model/topology/storm/current/noise-floor?model=os:system", "model", "composite"),
        ("/model/traffic/storm/noise-floor?model=crystal", "model", "fourier-ar"),
        ("/model/traffic/storm/noise-floor?step=77", "step", "3"),
        ("/model/traffic/storm/noise-floor?run=never", "run", "2026"),
    )
    for path, kind, known in asked:
        answer = client.get(path)
        assert answer.status_code == 404, path
        (error,) = answer.json()["errors"]
        assert error["error"].startswith(f"unknown {kind}")
        assert any(name.startswith(known) for name in error["known"])
    proposed = client.post("/model/topology/storm/proposed/noise-floor", json={"scheduler": "os:system"})
    assert (proposed.status_code, "even" in proposed.json()["errors"][0]["known"]) == (404, True)
    assert client.get("/model/nothing").json()["errors"][0]["error"] == "/model/nothing: Not Found"
    for query in ("source_hours=0", "source_hours=nan", "future_mins=x", "metrics_sample_period=0", "step=a"):
        assert client.get(f"/model/traffic/storm/noise-floor?{query}").status_code == 422, query


def test_openapi_is_made_of_the_types(client: httpx.Client) -> None:
    said = client.get("/openapi.json").json()
    assert set(said["paths"]) == {
        "/model/traffic/storm/model_info",
        "/model/topology/storm/model_info",
        "/model/traffic/storm/{topology}",
        "/model/topology/storm/current/{topology}",
        "/model/topology/storm/proposed/{topology}",
        "/model/topology/storm/packingplan/{topology}/current",
        "/model/topology/storm/packingplan/{topology}/future",
        "/health",
        "/jobs",
        "/jobs/{job}",
        "/jobs/{job}/again",
        "/jobs/{job}/stop",
    }
    assert "placement" in said["components"]["schemas"]["ProposalAsked"]["properties"]


# -- who may ask ---------------------------------------------------------------------------------


def test_other_hosts_and_origins_are_refused(served: Served, client: httpx.Client) -> None:
    for headers in (
        {"host": "elsewhere.example"},
        {"host": "127.0.0.1.elsewhere.example"},
        {"origin": "http://elsewhere.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ):
        answer = client.get("/", headers=headers)
        assert answer.status_code == 403, headers
        assert answer.json()["errors"][0]["type"] == "Refused"
    large = client.post("/model/topology/storm/proposed/noise-floor", content=b" " * (1 << 21))
    assert large.status_code == 413
    chunks = (b" " * (1 << 16) for _ in range(17))
    chunked = client.post("/model/topology/storm/proposed/noise-floor", content=chunks)
    assert (chunked.status_code, "a body of more than" in chunked.text) == (413, True)
    assert client.get("/", headers={"origin": served.url}).status_code == 200
    for path in ("/static/..%2f..%2fpage.css", "/runs/../../etc/passwd", "/runs/..%2f..%2f/etc/report"):
        assert client.get(path).status_code == 404
