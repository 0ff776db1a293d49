"""Cost of a message between workers: n + bytes s (Aeolus, equation 3), and the size of tuples."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from harness.plans import Frozen, NotNegative
from harness.schemas import Metric, MetricField

ASSUMED_BYTES = 100
"""Size of a tuple that neither a measurement nor the user says."""


class MessageTimes(Frozen):
    """Time that a message takes its sender: n + bytes s.

    Attributes
    ----------
    n_us : float
        A message's own time.
    s_ns_per_byte : float
        Each byte's time.
    origin : str
        Where the two come from, as records say it.
    """

    n_us: NotNegative
    s_ns_per_byte: NotNegative
    origin: str = "given by message"


SHIPPED_TIMES = MessageTimes(
    n_us=0.43, s_ns_per_byte=4.0, origin="not measured here: shipped, Kryo's part of a message alone"
)
"""Used until n and s are measured on the machine: a lower bound, since queues, acks and Netty are not in it.

Through Kryo, as Storm 2.8.3 configures it, a round trip of a tuple of one long took 0.50 us. In a batch of
100 it took 0.07 us; one of 1,000 bytes took 4.5 us. So n is (0.50 - 0.07) us / 0.99 and s is 4.0 us / 992
bytes.
"""


def serialised(metrics: pd.DataFrame) -> Mapping[str, tuple[float, float]]:
    """Return bytes written and the tuples in them by ``component:stream``, as the rewriting layer counted.

    Only streams whose tuples travelled in batches between workers have an entry.

    Parameters
    ----------
    metrics : DataFrame
        Rows of ``metrics.parquet``.
    """
    mine = metrics[
        (metrics["measurement"] == Metric.BATCH)
        & metrics["field"].isin([MetricField.BYTES, MetricField.BYTES_TUPLES])
    ]
    sums = mine.groupby(["component", "stream", "field"], observed=True)["value"].sum().reset_index()
    keys = zip(sums["component"], sums["stream"], sums["field"], strict=True)
    totals = dict(zip(keys, sums["value"].tolist(), strict=True))
    return {
        f"{component}:{stream}": (size, tuples)
        for (component, stream, kind), size in totals.items()
        if kind == MetricField.BYTES
        and (tuples := totals.get((component, stream, MetricField.BYTES_TUPLES), 0.0)) > 0
    }
