"""A submitted topology whose spouts follow a day: an archived step's rows, and made ones of days before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from left_running import STEP, archived, live

from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.live_rows import LiveMetrics, LiveRows
from harness.app.submitted.observing import RowSpan
from harness.schemas import METRICS

DAY_S = 86_400.0
NOW_S = live().span.until_ms / 1e3
"""The end of the step's interval, when the day's rate is that of the step, and rises."""


def rate_at(time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the day's rate: the step's, and half of it more or less."""
    day = np.sin(2 * np.pi * (time_s - NOW_S) / DAY_S)
    return np.asarray(archived().interval(STEP).rate_tps * (1 + 0.5 * day))


class SeasonalMetrics(LiveMetrics):
    """Rows of the day in the place of a store's; each span that is asked for is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[RowSpan] = []

    def rows(self, topology: SubmittedTopology) -> LiveRows:
        del topology
        return live()

    def emitted(
        self,
        topology: SubmittedTopology,
        components: Sequence[str],
        since_ms: int,
        until_ms: int,
        bucket_s: float,
    ) -> pa.Table:
        self.asked.append(RowSpan(since_ms, until_ms))
        bucket_ms = round(bucket_s * 1e3)
        ends_ms = np.arange((since_ms // bucket_ms + 1) * bucket_ms, until_ms + 1, bucket_ms)
        begins_ms = np.maximum(ends_ms - bucket_ms, since_ms)
        rate = rate_at((begins_ms + ends_ms) / 2e3)
        plan = topology.plan.plan
        spouts = [(e, task) for name in components for e in plan.of(name) for task in e.tasks]
        rows = [
            pd.DataFrame(
                {
                    "bucket_end_ms": ends_ms,
                    "measurement": "emitted",
                    "component": executor.component,
                    "task": task,
                    "worker": executor.worker.label,
                    "stream": "default",
                    "peer": "",
                    "field": "count",
                    "value": rate * (ends_ms - begins_ms) / 1e3 / len(spouts),
                }
            )
            for executor, task in spouts
        ]
        return pa.Table.from_pandas(pd.concat(rows)[METRICS.names], METRICS, preserve_index=False)
