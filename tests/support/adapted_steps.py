"""A step of two periods, the first of which changes its plan, and its messages."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from made_records import ledger

from harness.experiments.adapted_periods import AdaptedPeriod, AskedChange, PeriodDecision, judged_adaptation
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.plans import TopologyConfiguration
from harness.quality import Adaptation
from harness.schemas import METRICS

S = 10**9
TWO_WORKERS = AskedChange(TopologyConfiguration(executors={}, workers=2))


def changed(change: AskedChange) -> AdaptedPeriod:
    """A period whose change is asked for at 100 s and in force at 107 s."""
    decided = PeriodDecision("applied", "", change, {"load_distance_pct": 3.0})
    return AdaptedPeriod(0, 100 * S, decided, 100 * S, 107 * S)


CHANGED = changed(TWO_WORKERS)
KEPT = AdaptedPeriod(100 * S, 200 * S, PeriodDecision("stays", "", None, {}))


def messages(lost: Sequence[int] = (), twice: Sequence[int] = ()) -> tuple[pa.Table, pa.Table]:
    """One message a second for 200 s, each out 5 ms after it was due, but for a pause of 6 s from 101 s."""
    sent = [{"message_id": i, "scheduled_ns": i * S, "sent_ns": i * S} for i in range(200)]
    out = [i for i in range(200) if i not in lost and not 101 < i < 107] + list(twice)
    late = [i for i in range(102, 107) if i not in lost]
    rows = [{"message_id": i, "child": 0, "left_ns": i * S + 5_000_000, "sink": "s"} for i in out]
    rows += [{"message_id": i, "child": 0, "left_ns": 107 * S, "sink": "s"} for i in late]
    return pa.Table.from_pylist(sent, SENT), pa.Table.from_pylist(rows, RECEIVED)


def judged(
    periods: Sequence[AdaptedPeriod], lost: Sequence[int], twice: Sequence[int], balanced: bool = True
) -> Adaptation:
    """The findings about such messages, some of them lost or repeated."""
    return judged_adaptation(ledger(balanced=balanced), periods, *messages(lost, twice))


def move_rows(*groups: int, version: int) -> pa.Table:
    """What a task reports of key groups of ``count`` that came: 7 ms, and 100 bytes and 10 more by number."""
    fields = {"table_version": version, "pause_ns": 7_000_000, "serialise_ns": 5, "held": 3}
    rows = [
        {"bucket_end_ms": 1, "measurement": "key_group_moved", "component": "count", "task": 4, "worker": "w"}
        | {"stream": "", "peer": str(group), "field": field, "value": float(value)}
        for group in groups
        for field, value in {**fields, "state_bytes": 100 + 10 * group}.items()
    ]
    return pa.Table.from_pylist(rows, METRICS)
