"""Random draws: one stream of 64-bit numbers for each executor, and discrete distributions in constant time.

A stream is splitmix64, the generator by which the test topologies make their own draws. Each executor's
draws happen in the order of its own work, from its own stream, so that what one executor draws does not
depend on what others do meanwhile.

A distribution is a table of Walker's alias method: one draw picks a cell and one of its two values.
"""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.simulator.compiled import inlined
from harness.models.simulator.kinds import CELL, TABLE, Records, Words

GAMMA = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S11, S27, S30, S31, S32 = (np.uint64(n) for n in (11, 27, 30, 31, 32))
LOW = np.uint64(0xFFFFFFFF)
WHOLE = 2.0**32
UNIT = 2.0**-53
SURE = 1e-9
"""Probabilities may be so far from adding to 1."""


@inlined
def bits(streams: Words, stream: int) -> np.uint64:
    """Return the next 64 bits of a stream."""
    streams[stream] += GAMMA
    word = streams[stream]
    word = (word ^ (word >> S30)) * MIX_1
    word = (word ^ (word >> S27)) * MIX_2
    return np.uint64(word ^ (word >> S31))


@inlined
def uniform(streams: Words, stream: int) -> float:
    """Return a number from [0, 1)."""
    return float(bits(streams, stream) >> S11) * UNIT


@inlined
def draw(tables: Records, cells: Records, table: int, streams: Words, stream: int) -> float:
    """Return a value of the table; a table of one value takes nothing from the stream."""
    first, size = tables[table]["first"], tables[table]["size"]
    if size == 1:
        return float(cells[first]["value"])
    word = bits(streams, stream)
    cell = cells[first + int(((word >> S32) * np.uint64(size)) >> S32)]
    if (word & LOW) < cell["threshold"]:
        return float(cell["value"])
    return float(cell["other"])


class Drawables:
    """Tables under construction; equal distributions share one."""

    def __init__(self) -> None:
        self._cells: list[Records] = []
        self._tables: list[tuple[int, int]] = []
        self._known: dict[bytes, int] = {}
        self._used = 0

    def add(self, values: FloatArray, probabilities: FloatArray) -> int:
        """Return the number of the distribution's table; a distribution without a table gets one.

        Raises
        ------
        ValueError
            When probabilities are negative, not numbers, or do not add to 1; or a value is not a number.
        """
        values = np.asarray(values, dtype=np.float64)
        probabilities = np.asarray(probabilities, dtype=np.float64)
        if values.shape != probabilities.shape or values.ndim != 1 or not values.size:
            raise ValueError(f"{values.shape} values with {probabilities.shape} probabilities")
        if not (np.isfinite(values).all() and (probabilities >= 0).all()):
            raise ValueError("values that are not numbers, or negative probabilities")
        if abs(probabilities.sum() - 1) > SURE:
            raise ValueError(f"probabilities add to {probabilities.sum():g}")
        key = values.tobytes() + b"|" + probabilities.tobytes()
        if key not in self._known:
            cells = _cells(values, probabilities)
            self._known[key] = len(self._tables)
            self._tables.append((self._used, cells.size))
            self._cells.append(cells)
            self._used += cells.size
        return self._known[key]

    def counts(self, probabilities: FloatArray) -> int:
        """Return the table of 0, 1, 2 ... with these probabilities."""
        return self.add(np.arange(len(probabilities), dtype=np.float64), probabilities)

    def sure(self, value: float) -> int:
        """Return the table of one value."""
        return self.add(np.array([value]), np.ones(1))

    def arrays(self) -> tuple[Records, Records]:
        """Return tables and cells."""
        return np.array(self._tables, dtype=TABLE), np.concatenate(self._cells)


def _cells(values: FloatArray, probabilities: FloatArray) -> Records:
    """Fill the cells by Vose's method; one certain value gets a single cell."""
    if probabilities.max() == probabilities.sum():
        values, probabilities = values[[int(probabilities.argmax())]], np.ones(1)
    size = values.size
    cells = np.zeros(size, dtype=CELL)
    cells["value"] = cells["other"] = values
    cells["threshold"] = np.uint64(2**32)
    share = probabilities / probabilities.sum() * size
    small = [int(i) for i in np.flatnonzero(share < 1)]
    large = [int(i) for i in np.flatnonzero(share >= 1)]
    while small and large:
        less, more = small.pop(), large.pop()
        cells["threshold"][less] = np.uint64(round(share[less] * WHOLE))
        cells["other"][less] = values[more]
        share[more] -= 1 - share[less]
        (small if share[more] < 1 else large).append(more)
    return cells
