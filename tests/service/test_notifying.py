"""Alerts posted once an event, to a real server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from left_running import STEP, archived, left_running

from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.live_rows import LiveMetrics, LiveRows
from harness.app.submitted.observing import RowSpan
from harness.errors import UsageError
from harness.runs import read_table
from harness.service.live_topology import PressureAlert
from harness.service.notifying import OVER_S, Notifier, OpenAlerts


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


def test_an_event_is_over_when_its_alert_stays_away() -> None:
    alerts, full = OpenAlerts(), PressureAlert("sum", 0.0, 1.0)
    assert alerts.new("a", [full], 0.0) == [full]
    assert alerts.new("b", [full], 1.0) == [full]
    assert alerts.new("a", [], 2.0) == []
    assert alerts.new("a", [full], OVER_S - 1) == []
    assert alerts.new("a", [full], 2 * OVER_S) == [full]


def test_a_store_that_is_away_ends_nothing(
    tmp_path: Path, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INFLUXDB_TOKEN", raising=False)
    left_running(tmp_path, name="words")
    assert Notifier(taker.url, tmp_path, LiveMetrics()).look(0.0) == 0
    assert taker.taken == []


def test_what_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--notify here: not an address"):
        Notifier("here", tmp_path, LiveMetrics())
