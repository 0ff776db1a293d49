"""What is written of a step that keeps up, and of one that does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from made_records import interval
from made_steps import END_S, NS, START_S, drained, gathered, measured, plan

from harness.experiments import records
from harness.experiments.assemble import Assembled
from harness.experiments.measuring import MeasuredInterval
from harness.experiments.precision import look
from harness.experiments.recording import sent_messages, step_files
from harness.experiments.schedule import Due
from harness.experiments.steady import Steadiness
from harness.quality import Finding, Quality
from harness.runs import BurnInFound, Interval
from harness.schemas import METRICS


def quality_of(rate_tps: int, out_tps: int) -> tuple[Quality, Assembled, MeasuredInterval]:
    what, when = gathered(rate_tps, out_tps), measured(steady=rate_tps <= out_tps)
    attempt = drained(when)
    files = step_files(attempt, sent_messages(what, attempt), METRICS.empty_table())
    return files.quality, records.latency(what, plan(), when), when


def reported(*rows: tuple[str, str, float]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table(dict(zip(("measurement", "field", "value"), map(list, columns), strict=True)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"disturbance": "a worker died"}, "a worker died"),
        ({"burn_in": BurnInFound(found=False, seconds=60, reason="drift of 9 %")}, "burn-in: drift of 9 %"),
        ({"steadiness": Steadiness(False, True, None, "drift of 8 %")}, "interval: drift of 8 %"),
    ],
)
def test_a_step_is_measured_again_for_what_makes_it_unusable(change: dict[str, object], says: str) -> None:
    """Latencies that are all alike: the precision is 0 %."""
    due_s = np.arange(0, END_S - START_S, 0.05)
    exact = look(due_s, np.full(due_s.size, 9.0), 0, END_S - START_S, precision_pct=5)
    assert replace(measured(steady=True), look=exact, **change).shortcoming(5.0) == says  # type: ignore[arg-type]


def test_a_mean_less_precise_by_far_than_was_asked_is_measured_again() -> None:
    due_s = np.arange(0, END_S - START_S, 0.05)
    wild = np.random.default_rng(5).exponential(10.0, due_s.size)
    seen = look(due_s, wild, 0, END_S - START_S, precision_pct=5)
    kept = replace(measured(steady=True), look=seen)
    assert kept.shortcoming(seen.precision_pct / 1.9) == ""
    assert "% of the mean reached" in kept.shortcoming(seen.precision_pct / 2.1)


def test_metrics_are_delivered_whole_or_the_step_says_what_was_lost() -> None:
    counted = reported(("executed", "count", 5.0), ("consumer", "dropped", 0.0))
    assert records.delivery(counted, instrumented=True) == Finding(ok=True)
    lost = reported(
        ("consumer", "dropped", 2.0), ("consumer", "dropped", 5.0), ("ack", "failed_ids_cut", 3.0)
    )
    assert records.delivery(lost, instrumented=True) == Finding(
        ok=False,
        detail="7 lines of metrics were lost on their way; 3 identifiers of failed messages were left out",
    )
    assert not records.delivery(reported(), instrumented=True).ok
    assert records.delivery(reported(), instrumented=False).ok


def rows_of(*rows: tuple[int, str, str, int, str, float]) -> pa.Table:
    """Metrics of the spout: bucket's end (ms), measurement, component, task, field, value."""
    ends, measurements, components, tasks, fields, values = (list(c) for c in zip(*rows, strict=True))
    columns = {
        "bucket_end_ms": ends, "measurement": measurements, "component": components, "task": tasks,
        "field": fields, "value": values, "worker": [""] * len(rows), "peer": [""] * len(rows),
        "stream": ["default" if m == "emitted" else "" for m in measurements],
    }  # fmt: skip
    return pa.Table.from_arrays([pa.array(columns[f.name]).cast(f.type) for f in METRICS], schema=METRICS)


def acks(
    end_ms: int, task: int, tracked: int, acked: int, failed: int, pending: int
) -> list[tuple[int, str, str, int, str, float]]:
    counted = {"tracked": tracked, "acked": acked, "failed": failed, "pending": pending}
    return [(end_ms, "ack", "spout", task, field, float(value)) for field, value in counted.items()]


def test_what_became_of_messages_is_added_up_over_the_buckets_of_the_interval() -> None:
    """Two tasks with buckets of their own phase; the interval is 1000 to 3000 ms."""
    rows = rows_of(
        *acks(900, 1, 100, 93, 0, 7),  # before: 7 in flight at task 1
        *acks(1000, 2, 50, 45, 0, 5),  # ends at the start: before
        *acks(1900, 1, 10, 12, 1, 4),
        *acks(2000, 2, 20, 22, 0, 3),
        *acks(2900, 1, 11, 10, 0, 5),
        *acks(3000, 2, 21, 20, 1, 3),
        *acks(3900, 1, 99, 9, 0, 95),  # after
        (2000, "emitted", "spout", 2, "count", 41.0),
        (2900, "emitted", "spout", 1, "count", 24.0),
        (2900, "emitted", "other", 9, "count", 1000.0),
    )
    found = records.tracked(rows, ("spout",), (1000, 3000))
    assert (found.pending_before, found.emitted) == (12, 62)
    assert (found.acked, found.failed, found.pending) == (64, 2, 8)
    assert found.balanced
    assert found.unnamed == 65 - 62
    assert records.rate_tps(rows, ("spout",), (1000, 3000)) == 65 / 2


def test_a_bucket_that_did_not_arrive_shows() -> None:
    rows = rows_of(*acks(900, 1, 0, 0, 0, 7), *acks(1900, 1, 10, 12, 1, 4), *acks(3900, 1, 11, 10, 0, 9))
    assert not records.tracked(rows, ("spout",), (1000, 4000)).balanced


def test_without_ackers_an_ack_says_nothing() -> None:
    """Storm then acks within emit (docs/run-directory.md)."""
    rows = rows_of(*acks(1900, 1, 0, 30, 0, 0), (1900, "emitted", "spout", 1, "count", 30.0))
    found = records.tracked(rows, ("spout",), (1000, 2000))
    assert (found.emitted, found.acked, found.unnamed) == (0, 0, 30)
    assert found.balanced


def test_a_step_that_keeps_up() -> None:
    quality, _, _ = quality_of(50, 100)
    assert quality.steady.ok
    assert quality.saturated == ""
    assert quality.backlog is not None
    assert quality.backlog.throughput_tps == pytest.approx(50, abs=0.05)
    assert quality.ledger is not None
    assert quality.ledger.balanced


def test_a_saturated_step_balances_once_it_has_drained_and_says_what_it_is() -> None:
    quality, assembled, when = quality_of(100, 80)
    assert not quality.steady.ok
    assert quality.saturated.startswith("saturated: the backlog grew by 20.0 ± ")
    assert quality.backlog is not None
    assert quality.backlog.throughput_tps == pytest.approx(80, abs=0.1)
    assert quality.ledger is not None
    assert quality.ledger.balanced
    assert (quality.ledger.lost, quality.ledger.received) == (0, 100 * (END_S - START_S))
    # Message n of the interval is due at n/100 s and comes out at n/80 s: from 5 s to 15 s later.
    settled = records.settled_look(assembled, when, 5.0)
    assert settled.mean == pytest.approx(10_010, rel=0.001)
    by_broker = records.settled_look(assembled, replace(when, latency="topics"), 5.0)
    rows = assembled.latency.filter(assembled.latency["in_interval"])
    assert by_broker.mean == pytest.approx(np.mean(rows["broker_ms"].to_numpy()))


@pytest.mark.parametrize(("stall_ms", "ok"), [(0, True), (399, True), (401, False), (500, False)])
def test_a_short_stall_of_the_generator_is_no_schedule_kept(stall_ms: int, ok: bool) -> None:
    """One message of 2000 is late, which the 99th percentile does not see."""
    what, when = gathered(50, 100), measured(steady=True)
    sent_ns = what.sent["sent_ns"].to_numpy().copy()
    sent_ns[50 * (START_S + 10)] += stall_ms * 1_000_000
    at = what.sent.schema.get_field_index("sent_ns")
    late = replace(what, sent=what.sent.set_column(at, what.sent.schema.field(at), pa.array(sent_ns)))
    generator = sent_messages(late, drained(when)).findings.generator
    assert generator == Finding(
        ok=ok,
        detail=f"99 % of messages sent within 0.00 ms of their schedule, all within {stall_ms:.2f} ms",
    )


def generator_of(sent: pa.Table, due: Due) -> Finding:
    return records.on_schedule(sent, measured(steady=True), due)


def test_messages_that_were_due_and_never_sent_are_counted() -> None:
    """50 messages/s over the interval's 40 s are 2000; a stall of 6 s until the end leaves 1700 of them."""
    what = gathered(50, 100)
    assert what.due == Due(2000, ended=False)
    assert generator_of(what.sent, what.due).ok
    stalled = what.sent.filter(pc.less(what.sent["scheduled_ns"], (END_S - 6) * NS))
    found = generator_of(stalled, what.due)
    assert not found.ok
    assert found.detail.startswith("1700 of the 2000 messages due in the interval were sent; 99 %")
    silent = generator_of(what.sent.slice(0, 0), what.due)
    assert not silent.ok
    assert silent.detail.startswith("0 of the 2000 messages due in the interval were sent")
    one_missing = what.sent.filter(pc.not_equal(what.sent["message_id"], 50 * (START_S + 1)))
    assert not generator_of(one_missing, what.due).ok


def test_a_schedule_that_ended_in_the_interval_is_told_though_all_of_it_was_sent() -> None:
    what = gathered(50, 100)
    until_half = what.sent.filter(pc.less(what.sent["scheduled_ns"], (START_S + 20) * NS))
    found = generator_of(until_half, Due(1000, ended=True))
    assert not found.ok
    assert "the schedule ended in the interval, with 1000 messages due until then" in found.detail


def test_what_was_due_before_the_interval_and_sent_in_it_is_late() -> None:
    """A stall that ends just after the interval's start is caught up with in one burst inside it."""
    what = gathered(50, 100)
    scheduled = what.sent["scheduled_ns"].to_numpy()
    stalled = (scheduled >= (START_S - 1) * NS) & (scheduled < START_S * NS)
    sent_ns = np.where(stalled, START_S * NS + 1, scheduled)
    at = what.sent.schema.get_field_index("sent_ns")
    sent = what.sent.set_column(at, what.sent.schema.field(at), pa.array(sent_ns))
    found = generator_of(sent, what.due)
    assert not found.ok
    assert found.detail.endswith("all within 1000.00 ms")


def test_messages_of_an_earlier_step_are_not_this_ones_throughput() -> None:
    what, when = gathered(50, 100), measured(steady=True)
    earlier = what.received.set_column(0, "message_id", pa.array(np.arange(-5000, -2000), pa.int64()))
    both = replace(what, received=pa.concat_tables([what.received, earlier]))
    alone = records.kept_up(what.sent, what.received, when)
    assert records.kept_up(both.sent, both.received, when) == alone


def test_an_interval_without_any_mean_is_written_and_read_back() -> None:
    nothing = measured(steady=True).look
    written = interval(
        mean_ms=nothing.mean, half_width_ms=nothing.half_width, precision_pct_reached=nothing.precision_pct
    )
    found = Interval.model_validate_json(written.model_dump_json())
    assert np.isnan(found.mean_ms)
    assert np.isinf(found.precision_pct_reached)
