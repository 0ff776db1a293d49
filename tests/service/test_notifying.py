"""Alerts posted once an event, to a real server on this machine."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from harness_command import started
from left_running import STEP, archived, left_running, live

from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.live_rows import LiveMetrics, LiveRows
from harness.app.submitted.observing import RowSpan
from harness.cli import main
from harness.errors import UsageError
from harness.runs import read_table
from harness.service.notifying import OVER_S, Notifier, OpenEvents
from harness.service.pressure import PressureAlert


class Taker(HTTPServer):
    """Takes what is posted, or refuses it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.taken: list[dict[str, object]] = []
        self.status = 204

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/alerts"


class Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(self.server, Taker)
        if self.server.status == 204:
            self.server.taken.append(body)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class FullExecutors(LiveMetrics):
    """An archived step's rows, in which every execute took a thousand times as long."""

    def rows(self, topology: SubmittedTopology) -> LiveRows:
        run = archived()
        interval = run.interval(STEP)
        frame = read_table(run.step_path(STEP) / "metrics.parquet").to_pandas()
        slow = (frame["measurement"] == "service") & (frame["field"] == "wall_sum_ns")
        frame.loc[slow, "value"] *= 1_000
        schema = read_table(run.step_path(STEP) / "metrics.parquet").schema
        table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
        return LiveRows(table, RowSpan(interval.start_epoch_ms, interval.end_epoch_ms))


@pytest.fixture
def taker() -> Iterator[Taker]:
    server = Taker()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_each_event_is_posted_once_and_again_where_it_was_refused(tmp_path: Path, taker: Taker) -> None:
    left_running(tmp_path, name="words")
    notifier = Notifier(taker.url, tmp_path, FullExecutors())
    taker.status = 503
    assert notifier.look(0.0) == 0
    taker.status = 204
    posted = notifier.look(10.0)
    assert posted == len(taker.taken) > 0
    assert notifier.look(20.0) == 0
    components = {str(said["component"]) for said in taker.taken}
    assert len(components) == posted
    assert {said["topology"] for said in taker.taken} == {"words"}
    assert all(str(said["component"]) in str(said["text"]) for said in taker.taken)


def test_an_event_is_over_when_it_stays_away() -> None:
    full = PressureAlert("sum", 0.0, 1.0)
    alerts, there = OpenEvents[PressureAlert](), {"sum": full}
    assert alerts.new("a", there, 0.0) == [full]
    assert alerts.new("b", there, 1.0) == [full]
    assert alerts.new("a", {}, 2.0) == []
    assert alerts.new("a", there, OVER_S - 1) == []
    assert alerts.new("a", there, 2 * OVER_S) == [full]


def test_a_store_that_is_away_ends_nothing_and_is_said_once(
    tmp_path: Path, taker: Taker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("INFLUXDB_TOKEN", raising=False)
    left_running(tmp_path, name="words")
    notifier = Notifier(taker.url, tmp_path, LiveMetrics())
    assert [notifier.look(now_s) for now_s in (0.0, 10.0, 20.0)] == [0, 0, 0]
    assert taker.taken == []
    (said,) = caplog.messages
    assert said.startswith("words: alerts may be missing: ")
    assert "INFLUXDB_TOKEN" in said


class SilentSince(LiveMetrics):
    """An archived step's rows, and a clock that goes on after their end."""

    def __init__(self) -> None:
        super().__init__()
        self.silent_s = 0.0

    def rows(self, topology: SubmittedTopology) -> LiveRows:
        del topology
        rows = live()
        return LiveRows(
            rows.table, RowSpan(rows.span.since_ms, rows.span.until_ms + round(1e3 * self.silent_s))
        )


def test_each_new_trouble_of_a_topology_is_said_once(
    tmp_path: Path, taker: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    """How long nothing has come is no news; it is once something came for longer than an event lasts."""
    left_running(tmp_path, name="words")
    metrics = SilentSince()
    notifier = Notifier(taker.url, tmp_path, metrics)
    for now_s, silent_s in ((0, 0), (10, 30), (20, 40), (30, 0), (110, 50)):
        metrics.silent_s = silent_s
        notifier.look(now_s)
    assert [said.removeprefix("words: alerts may be missing: ") for said in caplog.messages] == [
        f"no metrics for {silent_s} s: is it active?" for silent_s in (30, 50)
    ]


def test_without_a_forecaster_that_can_run_serve_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the extra was not installed."""
    monkeypatch.setitem(sys.modules, "statsmodels.regression.linear_model", None)
    typed = ["serve", "--runs", str(tmp_path), "--port", "0", "--notify", "http://127.0.0.1:9/alerts"]
    done = CliRunner().invoke(main, typed)
    assert done.exit_code == 2
    assert " ".join(done.stderr.split()).startswith(
        "error: --notify: no forecast: fourier-ar: statsmodels is missing: pip install "
    )


@pytest.mark.deep
def test_serve_says_a_trouble_on_stderr(
    tmp_path: Path, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its first look, ten seconds after it has begun."""
    monkeypatch.setenv("INFLUXDB_TOKEN", "a token of nobody's")
    left_running(tmp_path / "submitted", name="words")  # nobody listens at its store
    folders = ["--runs", str(tmp_path), "--submitted", str(tmp_path / "submitted")]
    process, _ = started(*folders, "--notify", taker.url)
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(
            "words: alerts may be missing: influxdb at http://127.0.0.1:9"
        )
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_what_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--notify here: not an address"):
        Notifier("here", tmp_path, LiveMetrics())
