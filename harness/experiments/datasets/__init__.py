"""Seeded stand-ins for published datasets: each message has a row as its payload.

The data itself cannot be had. The datasets here have its skew and its structure, as far as each module says.
A row is a pure function of the seed, the workload's rate and the message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache

from harness.experiments.datasets.airline_delays import AirlineDelays
from harness.experiments.datasets.dataset import Dataset
from harness.experiments.datasets.wikipedia_edits import WikipediaEdits
from harness.experiments.workload_settings import DatasetName, Workload
from harness.topologies.dataset_rows import row_key

DATASETS: Mapping[DatasetName, Callable[[int, float], Dataset]] = {
    "wikipedia-edits": WikipediaEdits,
    "airline-delays": AirlineDelays,
}
"""The datasets by name."""
COUNTED_ROWS = 20_000
"""Rows whose keys stand for those of all."""


def dataset_of(workload: Workload) -> Dataset | None:
    """Return the dataset of a workload that has one."""
    if workload.dataset is None:
        return None
    return DATASETS[workload.dataset](workload.seed, workload.rate_tps)


@lru_cache(maxsize=16)
def key_counts(dataset: Dataset, fields: tuple[str, ...]) -> Mapping[str, float]:
    """Return how many of the first rows have each key that these fields make.

    Examples
    --------
    >>> counts = key_counts(AirlineDelays(1, 100.0), ("tail", "year"))
    >>> sum(counts.values())
    20000.0
    """
    rows = (dataset.row(message_id) for message_id in range(COUNTED_ROWS))
    return {key: float(count) for key, count in Counter(row_key(row, fields) for row in rows).items()}
