"""Rows of a dataset by message, and Zipf's distribution, from which most of their values are drawn."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.experiments.draws import Floats, Ids
from harness.topologies.dataset_rows import Fields


class Dataset(Hashable, Protocol):
    """A dataset's rows, as a value that goes into the generator's process."""

    @property
    def fields(self) -> Fields:
        """Names of its rows' fields, and their kinds."""

    def row(self, message_id: int) -> Mapping[str, str]:
        """Return the row that a message carries."""


def row_text(row: Mapping[str, str]) -> str:
    """Return a row as a message's payload.

    Examples
    --------
    >>> row_text({"tail": "N17", "year": "1987"})
    'tail=N17;year=1987'
    """
    return ";".join(f"{name}={value}" for name, value in row.items())


@lru_cache(maxsize=16)
def _cumulative(values: int, exponent: float) -> Floats:
    shares = np.arange(1, values + 1) ** -exponent
    return np.asarray(np.cumsum(shares) / shares.sum())


def zipf(values: int, exponent: float, uniform: Floats) -> Ids:
    """Return a rank from 0 for each uniform number: rank r has weight 1 / (r + 1)^exponent.

    Examples
    --------
    Of two ranks with weights 1 and 1/2, the first has two thirds:

    >>> zipf(2, 1.0, np.array([0.0, 0.66, 0.67])).tolist()
    [0, 0, 1]
    """
    ranks: npt.NDArray[np.int64] = np.searchsorted(_cumulative(values, exponent), uniform, side="right")
    return np.minimum(ranks, values - 1)
