"""Distribution functions at a grid's points: from and to characteristic functions, and their means."""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import inlined, inner
from harness.models.solver.products import add_product
from harness.models.solver.spectrum import ComplexArray, Grid


@inner
def to_cdf(cf: ComplexArray, grid: Grid) -> FloatArray:
    """Return a distribution function at the grid's points."""
    rows = np.zeros((1, grid.points.size))
    add_product(np.ascontiguousarray(cf.real).reshape(1, -1), grid.to_cdf, rows)
    found: FloatArray = rows[0]
    mend(found)
    return found


@inlined
def mend(cdf: FloatArray) -> None:
    """Make a distribution function rise from 0 to 1 where its series ripples."""
    top = 0.0
    for k in range(cdf.size):
        top = max(top, min(cdf[k], 1.0))
        cdf[k] = top


@inner
def from_cdf(cdf: FloatArray, grid: Grid) -> ComplexArray:
    """Return the characteristic function; what is beyond the last point is put there."""
    points = cdf.size
    steps = np.zeros((1, points + 1))
    steps[0, 0] = cdf[0]
    for k in range(1, points):
        steps[0, k] = cdf[k] - cdf[k - 1]
    steps[0, points] = 1 - cdf[points - 1]
    real, imaginary = np.zeros((1, grid.size)), np.zeros((1, grid.size))
    add_product(steps, grid.to_real, real)
    add_product(steps, grid.to_imaginary, imaginary)
    found: ComplexArray = real[0] + 1j * imaginary[0]
    return found


@inlined
def mean_of(cdf: FloatArray, grid: Grid, span: float) -> float:
    """Return the mean: the integral of what is above the distribution function."""
    found = 0.0
    for k in range(cdf.size):
        found += grid.between[k] * (1 - cdf[k])
    return span * found
