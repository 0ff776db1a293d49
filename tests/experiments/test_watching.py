"""What is seen of a topology that makes its own messages: the reports' sums, spread over their buckets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from harness.backends.metrics.rows import MetricRows
from harness.experiments import watching
from harness.experiments.contracts import OwnMessages
from harness.experiments.precision import batch_totals, look
from harness.experiments.steady import Arrivals, burn_in
from harness.experiments.watching import Reports, WatchedMessages
from harness.experiments.workload_tables import RECEIVED, SENT

UP_MS, UP_NS = 1_700_000_000_000, 5_000_000_000


@pytest.fixture(autouse=True)
def _read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "READ_EVERY_S", 0.0)


def report(
    rows: MetricRows, measurement: str, component: str, task: int, end_s: float, **fields: int
) -> None:
    tags = f"topology=t,component={component},task={task},host=h,port=1"
    values = ",".join(f"{name}={value}i" for name, value in fields.items())
    assert rows.add(f"{measurement},{tags} {values} {round((UP_MS + end_s * 1e3) * 1e6)}", 1) == []


def reports(rows: MetricRows) -> Reports:
    return Reports(rows, ("spout",), ("bolt",), UP_NS, UP_MS, 1.0)


def test_sums_are_kept_and_times_are_those_of_the_buckets() -> None:
    rows = MetricRows()
    report(rows, "ack", "spout", 1, 3.0, count=40, sum_ns=400_000_000, tracked=40)  # 10 ms each
    report(rows, "ack", "spout", 2, 3.5, count=10, sum_ns=300_000_000, tracked=10)  # 30 ms each
    report(rows, "ack", "elsewhere", 9, 3.5, count=99, sum_ns=99, tracked=99)
    watched = reports(rows)
    view = watched.view()
    assert watched.latency == "ack"
    assert view.weight.sum() == pytest.approx(50)
    assert (view.latency_ms * view.weight).sum() == pytest.approx(700)
    at_s = (view.left_ns - UP_NS) / 1e9
    assert (at_s > 2).all()
    assert (at_s < 3.5).all()
    counts, sums = batch_totals(at_s, view.latency_ms, 2.0, 4.0, 4, view.weight)
    # halves of the two buckets: 2 to 3 s and 2.5 to 3.5 s
    assert counts == pytest.approx([20, 25, 5, 0])
    assert sums == pytest.approx([200, 350, 150, 0])
    assert view.rate_tps(UP_NS + 2_000_000_000, UP_NS + 4_000_000_000) == pytest.approx(25)


def test_what_comes_late_or_twice_counts_once() -> None:
    rows = MetricRows()
    watched = reports(rows)
    report(rows, "ack", "spout", 1, 3.0, count=4, sum_ns=4, tracked=4)
    report(rows, "ack", "spout", 1, 9.0, count=1, sum_ns=1, tracked=1)
    assert watched.view().weight.sum() == pytest.approx(5)
    report(rows, "ack", "spout", 1, 3.0, count=4, sum_ns=4, tracked=4)  # delivered again
    report(rows, "ack", "spout", 2, 3.0, count=7, sum_ns=7, tracked=7)  # delivered late
    assert watched.view().weight.sum() == pytest.approx(12)


def test_without_tracked_messages_the_bolts_service_is_watched() -> None:
    rows = MetricRows()
    report(rows, "ack", "spout", 1, 3.0, count=0, sum_ns=0, tracked=0, acked=5)
    report(rows, "service", "bolt", 4, 3.0, count=5, wall_sum_ns=15_000_000)
    watched = reports(rows)
    assert watched.latency == "service"
    assert watched.view().latency_ms == pytest.approx(3.0)
    report(rows, "ack", "spout", 1, 4.0, count=1, sum_ns=8_000_000, tracked=1)
    assert watched.latency == "ack"
    assert watched.view().latency_ms == pytest.approx(8.0)


def test_nothing_reported_is_nothing_seen() -> None:
    watched = reports(MetricRows())
    assert watched.view().left_ns.size == 0
    assert watched.due_s(0) is None


def steady(rows: MetricRows, seconds: int, mean_ms: np.ndarray) -> None:
    for second in range(seconds):
        total = round(100 * mean_ms[second] * 1e6)
        report(rows, "ack", "spout", 1, second + 1.0, count=100, sum_ns=total, tracked=100)


def test_a_steady_stream_is_steady_and_its_mean_known() -> None:
    """Bucket means with a spread of 2 %: over 30 buckets the mean is known to about 0.8 %."""
    rows = MetricRows()
    steady(rows, 60, 10 + 0.2 * np.random.default_rng(1).standard_normal(60))
    view = reports(rows).view()
    at_s = (view.left_ns - UP_NS) / 1e9
    found = burn_in(Arrivals(at_s, view.late_ms, view.weight), 30, 15, 60, 10)
    assert found.steady
    seen = look(at_s, view.latency_ms, 30, 60, 3, weights=view.weight)
    assert seen.mean == pytest.approx(10, rel=0.02)
    assert 0.3 < seen.precision_pct < 3


def test_a_drift_is_refused() -> None:
    rows = MetricRows()
    steady(rows, 60, np.linspace(5, 15, 60))
    view = reports(rows).view()
    at_s = (view.left_ns - UP_NS) / 1e9
    assert not burn_in(Arrivals(at_s, view.late_ms, view.weight), 60, 15, 60, 10).steady


@dataclass
class Topics(OwnMessages):
    """Messages 3 and 4 of a jar, due at 1 ms; the first appended at 1000 ms of the broker's day."""

    by_broker = True
    rows: list[dict[str, int]] = field(default_factory=list)
    records_read: int = 0
    foreign_records: int = 0
    foreign: tuple[str, ...] = ()
    output_topic: str = "out"

    def sent(self) -> pa.Table:
        due = {"scheduled_ns": 1_000_000, "sent_ns": 2_000_000}
        sent = [{"message_id": 3, "append_ms": 1000, **due}, {"message_id": 4, "append_ms": None, **due}]
        return pa.Table.from_pylist(sent, schema=SENT)

    def received(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, schema=RECEIVED)


def test_a_jars_message_entered_when_the_broker_appended_it() -> None:
    """The output of 3, appended 12 ms later; that of 4, whose append nobody confirmed, has no latency."""
    out = {"left_ns": 20_000_000, "append_ms": 1012}
    watched = WatchedMessages(Topics([{"message_id": 3, **out}, {"message_id": 4, **out}]), "key")
    assert watched.latency == "topics"
    view = watched.view()
    assert view.latency_ms.tolist() == [12.0]
    assert view.late_ms.tolist() == [19.0]
    assert view.message.tolist() == [3]


def test_what_a_stamp_is_wrong_by_makes_nothing_come_out_before_it_was_sent() -> None:
    """Message 3 was due at 1 ms and came out 12 ms after it went in, but by its stamp 0.5 ms too early."""
    view = WatchedMessages(Topics([{"message_id": 3, "left_ns": 500_000, "append_ms": 1012}]), "key").view()
    assert view.late_ms.tolist() == view.latency_ms.tolist() == [12.0]


def test_silence_says_what_came_instead() -> None:
    assert WatchedMessages(Topics()).silence() == ""
    assert WatchedMessages(Topics(), "key").silence() == (
        "of 2 messages sent none came out named by its key: nothing was written to out"
    )
    wrong = Topics(records_read=2, foreign_records=1, foreign=("partition 0 offset 1: it has no key",))
    assert WatchedMessages(wrong, "key").silence() == (
        "of 2 messages sent none came out named by its key: the 2 records in out have other names"
        " (the first that has none at all: partition 0 offset 1: it has no key)"
    )


def test_where_nothing_is_acked_it_is_said_what_became_of_the_messages() -> None:
    """Two spout tasks with 50 and 30 in flight in the end, of which none came back but three that failed."""
    rows = MetricRows()
    for task, pending in ((1, 50), (2, 30)):
        report(rows, "ack", "spout", task, 3.0, count=0, tracked=pending, pending=pending, failed=0)
    report(rows, "ack", "spout", 1, 4.0, count=0, tracked=3, pending=50, failed=3)
    watched = reports(rows)
    assert watched.view().left_ns.size == 0
    assert watched.silence() == (
        "of 83 messages that spouts emitted with an identifier none was acked: 80 are pending, 3 failed"
    )


def test_of_messages_that_nobody_tracks_nothing_is_said() -> None:
    rows = MetricRows()
    report(rows, "service", "bolt", 3, 3.0, count=0, wall_sum_ns=0)
    assert reports(rows).silence() == ""
