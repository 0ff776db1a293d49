"""Hop records made from known times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.plans import PhysicalPlan


class Leg(NamedTuple):
    """One component passed: the task by its position among the component's, and times in ms."""

    component: str
    task: int
    received_ms: float
    emitted_ms: float


START_NS = 7_000_000_000_000


def ns(ms: float) -> int:
    return START_NS + round(ms * 1e6)


def hop_rows(plan: PhysicalPlan, rows: Sequence[tuple[int, int, Sequence[Leg]]]) -> pd.DataFrame:
    """Rows of latency.parquet from (message, child, legs); messages are scheduled 1 ms before they enter."""
    tasks = {c.name: sorted(t for e in plan.of(c.name) for t in e.tasks) for c in plan.query_plan.components}
    records = []
    for message, child, legs in rows:
        entered, left = legs[0].emitted_ms, legs[-1].emitted_ms
        hops = [
            {
                "task": tasks[leg.component][leg.task],
                "received_ns": ns(leg.received_ms),
                "emitted_ns": ns(leg.emitted_ms),
            }
            for leg in legs
        ]
        records.append(
            {
                "message_id": message,
                "child": child,
                "in_interval": True,
                "scheduled_ns": ns(entered - 1.0),
                "sent_ns": ns(entered - 1.0),
                "entered_ns": ns(entered),
                "left_ns": ns(left),
                "ground_truth_ms": left - entered,
                "thesis_ground_truth_ms": left - entered,
                "path": "/".join(f"{leg.component}:{tasks[leg.component][leg.task]}" for leg in legs),
                "sink": legs[-1].component,
                "output_partition": 0,
                "output_offset": len(records),
                "hops": np.array(hops, dtype=object),
            }
        )
    frame = pd.DataFrame(records)
    return frame.astype({"path": "category", "sink": "category"})


def line_times(
    rng: np.random.Generator, messages: int, gap_ms: float, way_ms: Sequence[np.ndarray], service_ms: float
) -> list[list[tuple[float, float]]]:
    """Received and emitted times along a line whose executors are always idle; legs take their own times."""
    found = []
    for i in range(messages):
        at = gap_ms * i + rng.uniform(0, 0.1 * gap_ms)
        times = [(at, at)]
        for leg in way_ms:
            at += float(leg[i])
            times.append((at, at + service_ms))
            at += service_ms
        found.append(times)
    return found
