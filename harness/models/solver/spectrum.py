"""Distributions as characteristic functions on a grid of frequencies, and back.

A time between 0 and a span B is kept as E exp(i u X) at u_k = k pi / B, k = 0 .. N - 1. Sums of independent
times are products there, mixtures are sums. The distribution function comes back by its Fourier cosine series
(Fang and Oosterlee 2008), damped by Lanczos' factors, which is the same as blurring the function by B / N.
Where a maximum has been taken of distribution functions, exact integrals of the straight lines between the
function's points give the characteristic function.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import inlined, inner
from harness.models.solver.records import Flat, Records
from harness.models.solver.waiting import AGAIN, APART, LONG, PART, PROBABILITY, SLEEP, WIDTH

ComplexArray = NDArray[np.complex128]

_FINER = 4
"""Points from which percentiles are read, for each frequency."""


class Grid(NamedTuple):
    """Frequencies and points of time, as shares of the span.

    Attributes
    ----------
    size : int
        Frequencies.
    points : array (m)
        Points in [0, 1] at which distribution functions are multiplied.
    to_cdf : array (frequencies, m)
        Real parts of a characteristic function to the distribution function at the points.
    to_real, to_imaginary : array (m + 1, frequencies)
        Steps of a distribution function (at 0, between the points, beyond the last) to the characteristic
        function's two parts.
    between : array (m + 1)
        Weights of the integral of a function at the points.
    fine : array (n)
        Points, equally far apart, from which percentiles are read.
    """

    size: int
    points: FloatArray
    to_cdf: FloatArray
    to_real: FloatArray
    to_imaginary: FloatArray
    between: FloatArray
    fine: FloatArray


@lru_cache(maxsize=8)
def grid(size: int) -> Grid:
    """Return the grid of a number of frequencies."""
    k = np.arange(size)
    points = (np.arange(size + 1) / size) ** 1.5
    angle = 1j * np.pi * k[None, :]
    with np.errstate(all="ignore"):
        ends = np.exp(angle * points[:, None])
        lines = (ends[1:] - ends[:-1]) / (angle * np.diff(points)[:, None])
    lines[:, 0] = 1.0
    steps = np.vstack([np.ones((1, size)), lines, np.exp(angle)])
    between = np.zeros(points.size)
    between[1:] += np.diff(points) / 2
    between[:-1] += np.diff(points) / 2
    return Grid(
        size,
        points,
        _sines(k, points),
        np.ascontiguousarray(steps.real),
        np.ascontiguousarray(steps.imag),
        between,
        np.linspace(0, 1, _FINER * size + 1),
    )


def _sines(k: NDArray[np.int64], points: FloatArray) -> FloatArray:
    return np.vstack([points[None, :], _heights(k.size)[:, None] * np.sin(np.pi * k[1:, None] * points)])


@lru_cache(maxsize=8)
def _heights(size: int) -> FloatArray:
    """Return the heights of the sines, damped, that make a distribution function of a series' real parts."""
    k = np.arange(1, size)
    return np.asarray(2 * np.sinc(k / size) / (np.pi * k))


def quantiles(points: Grid, span: float, cf: ComplexArray, levels: FloatArray) -> FloatArray:
    """Return quantiles of distributions.

    Parameters
    ----------
    cf : array (distributions, frequencies)
        Of mass 1.
    levels : array
        Between 0 and 1.

    Returns
    -------
    array (distributions, levels)
    """
    at = points.fine * span
    return np.array([np.interp(levels, cdf, at) for cdf in _fine_cdf(points, cf)])


def mean_below(grid_: Grid, span: float, cf: ComplexArray, cut: float) -> float:
    """Return the mean of what is not above a cut; NaN where nothing is.

    Parameters
    ----------
    cf : array (frequencies)
        Of mass 1.
    cut : float
    """
    at, cdf = grid_.fine * span, _fine_cdf(grid_, cf)
    share = float(np.interp(cut, at, cdf))
    if share < _NOTHING:
        return math.nan
    inside = at < cut
    points, values = np.append(at[inside], cut), np.append(cdf[inside], share)
    return cut - float(np.trapezoid(values, points)) / share


_NOTHING = 1e-3
"""Share below which a series' ripples may be all there is."""


def _fine_cdf(grid_: Grid, cf: ComplexArray) -> FloatArray:
    """Return distribution functions at the fine points, which a fast transform has all at once.

    As products with a matrix of sines they would take longer, and BLAS would put threads to them that for
    the most part wait for each other.
    """
    period = 2 * _FINER * grid_.size
    sines = np.zeros(cf.shape, dtype=np.complex128)
    sines[..., 1:] = -1j * (_heights(grid_.size) * cf.real[..., 1:] * (period / 2))
    series = np.fft.irfft(sines, period, axis=-1)[..., : grid_.fine.size] + cf.real[..., :1] * grid_.fine
    return np.asarray(np.maximum.accumulate(np.clip(series, 0.0, 1.0), axis=-1))


@inner
def add_atoms(
    atoms: Records, first: int, last: int, stretch: float, step: float, found: ComplexArray
) -> None:
    """Add the characteristic function of ``stretch`` times some atoms; frequencies are ``step`` apart."""
    for i in range(first, last):
        angle = atoms[i].value * stretch * step
        turn = complex(math.cos(angle), math.sin(angle))
        at = complex(atoms[i].probability, 0.0)
        for k in range(found.size):
            found[k] += at
            at *= turn


@inner
def add_hop(net: Flat, kind: int, step: float, found: ComplexArray) -> None:
    """Add that of a kind of hop."""
    add_atoms(net.atoms, net.first_hop[kind], net.first_hop[kind + 1], 1.0, step, found)


@inner
def times_shift(shift: float, step: float, found: ComplexArray) -> None:
    """Multiply by that of a constant."""
    turn = complex(math.cos(shift * step), math.sin(shift * step))
    at = complex(1.0, 0.0)
    for k in range(found.size):
        found[k] *= at
        at *= turn


@inner
def times_uniform(length: float, step: float, found: ComplexArray) -> None:
    """Multiply by that of a time that is anything from 0 to ``length`` alike."""
    if length <= 0:
        return
    turn = complex(math.cos(length * step), math.sin(length * step))
    at = turn
    for k in range(1, found.size):
        over = 1 / (k * step * length)
        found[k] *= complex(at.imag * over, (1 - at.real) * over)
        at *= turn


@inner
def times_wait(law: FloatArray, step: float, found: ComplexArray) -> None:
    """Multiply by that of a waiting law (``waiting``), sleep included."""
    more, again = law[PROBABILITY], law[AGAIN]
    if more > 0:
        mean, long = law[PART], law[LONG]
        near, far = 1 + law[APART], 1 - law[APART]
        half = mean * law[WIDTH]
        turn = complex(math.cos(mean * step), math.sin(mean * step))
        turn_half = complex(math.cos(half * step), math.sin(half * step))
        middle, side = turn, turn_half
        for k in range(1, found.size):
            angle = mean * k * step
            # a mean, and half a width to both sides of it
            even = middle * (side.imag / (half * k * step))
            part = (1 - long) * even
            part += long / 2 * near * near * complex(near, angle) / (near * near + angle * angle)
            part += long / 2 * far * far * complex(far, angle) / (far * far + angle * angle)
            middle *= turn
            side *= turn_half
            rest, aside = 1 - again * part.real, again * part.imag  # conjugate of 1 - again part
            size = more * (1 - again) / (rest * rest + aside * aside)
            found[k] *= complex(1 - more + size * (part.real * rest - part.imag * aside),
                                size * (part.real * aside + part.imag * rest))  # fmt: skip
    times_uniform(law[SLEEP], step, found)


@inlined
def gap_log(rate: float, index: float, frequency: float) -> complex:
    """Return the logarithm of that of the time between two arrivals: gamma, of that rate and index."""
    if index < 1e-3:
        return complex(0.0, frequency / rate)
    spread = frequency * index / rate
    return complex(-0.5 * math.log1p(spread * spread), math.atan(spread)) / index


@inlined
def complex_exp(exponent: complex) -> complex:
    """Return e to the x."""
    size = math.exp(exponent.real)
    return complex(size * math.cos(exponent.imag), size * math.sin(exponent.imag))
