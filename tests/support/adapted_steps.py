"""A step of two periods, the first of which changes its plan, and its messages."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from made_records import ledger

from harness.experiments.adapted_periods import AdaptedPeriod, PeriodDecision, judged_adaptation
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.quality import Adaptation

S = 10**9
CHANGED = AdaptedPeriod(
    0, 100 * S, PeriodDecision("applied", "", None, {"load_distance_pct": 3.0}), 100 * S, 107 * S
)
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
