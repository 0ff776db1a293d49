"""Products with small matrices, in loops.

BLAS would put threads to them that for the most part wait for each other: that costs twice the CPU time.
"""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import inlined, inner
from harness.models.solver.spectrum import ComplexArray


@inlined
def add_scaled(factor: float, row: ComplexArray, found: ComplexArray) -> None:
    """Add a number times a row: as real numbers, of which a processor takes several at once."""
    numbers, into = row.view(np.float64), found.view(np.float64)
    for k in range(into.size):
        into[k] += factor * numbers[k]


@inner
def add_product(rows: FloatArray, table: FloatArray, found: FloatArray) -> None:
    """Add the product of rows and a table, four of the table's rows at a time."""
    size = rows.shape[1]
    whole = size - size % 4
    for k in range(0, whole, 4):
        one, two, three, four = table[k], table[k + 1], table[k + 2], table[k + 3]
        for i in range(rows.shape[0]):
            by_one, by_two, by_three, by_four = rows[i, k], rows[i, k + 1], rows[i, k + 2], rows[i, k + 3]
            into = found[i]
            for j in range(into.size):
                into[j] += by_one * one[j] + by_two * two[j] + by_three * three[j] + by_four * four[j]
    for k in range(whole, size):
        one = table[k]
        for i in range(rows.shape[0]):
            into, by_one = found[i], rows[i, k]
            for j in range(into.size):
                into[j] += by_one * one[j]
