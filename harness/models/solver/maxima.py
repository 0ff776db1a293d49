"""The last of several: distribution functions of all that a group makes, multiplied."""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.cdf import mend
from harness.models.solver.compiled import inlined, inner
from harness.models.solver.groups import hit
from harness.models.solver.holding import batched
from harness.models.solver.products import add_product, add_scaled
from harness.models.solver.records import Flat
from harness.models.solver.spectrum import ComplexArray
from harness.models.solver.trees import Back, chance, kind_of, times_holds

_SAMPLES = 4
"""Numbers of children that stand for their distribution."""
_FEW = 6.0


@inner
def one_of(b: Back, stream: int, executors: int, found: ComplexArray, mean: FloatArray) -> None:
    """Fill in the times until one tuple on a stream is acked, by source executor: mixtures over targets."""
    f = b.g.f
    s = f.stream[stream]
    first = b.first_seat[s.klass]
    seats = b.first_seat[s.klass + 1] - first
    ways, held = b.hops, np.zeros(b.grid.size, dtype=np.complex128)
    to = np.zeros(ways.shape, dtype=np.complex128)
    for i in range(executors):
        to[:] = 0.0
        for j in range(seats):
            p = chance(f, stream, i, j)
            if p > 0:
                kind = kind_of(f, stream, i, j)
                source, target = b.rest[first + j], to[kind]
                if batched(f):
                    held[:] = source
                    mean[i] += p * times_holds(b, stream, i, j, held)
                    source = held
                add_scaled(p, source, target)
                mean[i] += p * (b.rest_mean[first + j] + b.g.s.hop[kind, 0])
        for kind in range(ways.shape[0]):
            found[i] += to[kind] * ways[kind]


@inner
def tabulate(b: Back, stream: int, executors: int, table: FloatArray) -> None:
    """Fill in distribution functions of one tuple on a stream, by kind of hop and target seat."""
    f = b.g.f
    first = b.first_seat[f.stream[stream].klass]
    seats = b.first_seat[f.stream[stream].klass + 1] - first
    sender = np.full((b.hops.shape[0], seats), -1)
    for i in range(executors):
        for j in range(seats):
            if chance(f, stream, i, j) > 0:
                sender[kind_of(f, stream, i, j), j] = i
    ways, held = b.hops, np.zeros(b.grid.size, dtype=np.complex128)
    real = np.zeros((seats, b.grid.size))
    for kind in range(ways.shape[0]):
        if not (sender[kind] >= 0).any():
            continue
        for j in range(seats):
            source, by = b.rest[first + j], ways[kind]
            if batched(f) and sender[kind, j] >= 0:
                held[:] = source
                times_holds(b, stream, sender[kind, j], j, held)
                source = held
            for k in range(b.grid.size):
                real[j, k] = source[k].real * by[k].real - source[k].imag * by[k].imag
        add_product(real, b.grid.to_cdf, table[kind, :seats])
        for j in range(seats):
            mend(table[kind, j])


@inner
def all_of(
    b: Back, i: int, first_fan: int, size: float, streams: IntArray, tables: FloatArray, cdf: FloatArray
) -> None:
    """Multiply by the distribution functions of all that a group makes on some streams of one component.

    Parameters
    ----------
    i : int
        Executor that sends.
    first_fan : int
        Fan of the component's first output.
    size : float
        Of the group.
    """
    f = b.g.f
    number, weight = np.zeros(_SAMPLES), np.zeros(_SAMPLES)
    part, product = np.zeros(cdf.size), np.zeros(cdf.size)
    for k in range(streams.size):
        s = f.stream[streams[k]]
        fan = first_fan + s.output - f.component[s.source].first_output
        part[:] = _sample(f, fan, size, number, weight)
        for a in range(_SAMPLES):
            if weight[a] > 0:
                product[:] = weight[a]
                _last(b, streams[k], i, number[a], tables[k], product)
                part += product
        cdf *= part
    mend(cdf)


@inner
def _last(b: Back, stream: int, i: int, number: float, table: FloatArray, product: FloatArray) -> None:
    """Multiply by the distribution function of the last of a number of tuples on a stream.

    A seat is done by a time or not, all its tuples with it. With X the probability that a tuple goes to a
    seat that is done, all n are done with probability E X^n. For few tuples X is taken as beta distributed
    with its own mean and variance (exact for one and two). For many, each seat is taken to be hit by itself.
    """
    f = b.g.f
    s = f.stream[stream]
    points = product.size
    few = number <= _FEW and not s.copies
    mean, variance = np.zeros(points if few else 0), np.zeros(points if few else 0)
    for j in range(b.first_seat[s.klass + 1] - b.first_seat[s.klass]):
        p = chance(f, stream, i, j)
        if not p > 0:
            continue
        row = table[kind_of(f, stream, i, j), j]
        if few:
            for m in range(points):
                mean[m] += p * row[m]
                variance[m] += p * p * row[m] * (1 - row[m])
        else:
            h = 1.0 if s.copies else hit(p, number)
            for m in range(points):
                product[m] *= 1 - h * (1 - row[m])
    for m in range(mean.size):
        product[m] *= _power(min(mean[m], 1.0), variance[m], number)


@inlined
def _power(mean: float, variance: float, number: float) -> float:
    """Return E X^n of a beta distributed X, between whole n on a straight line of its logarithm."""
    if variance < 1e-12 or mean <= 0 or mean >= 1:
        return math.pow(mean, number)
    both = max(mean * (1 - mean) / variance - 1, 0.0)
    found, k = 1.0, 0.0
    while k + 1 <= number:
        found *= (both * mean + k) / (both + k) if both + k > 0 else mean
        k += 1
    return found * math.pow((both * mean + k) / (both + k), number - k)


@inner
def _sample(f: Flat, fan: int, size: float, number: FloatArray, weight: FloatArray) -> float:
    """Fill in a few numbers of children with their weights, and return the probability of none."""
    first, last = f.first_fan[fan], f.first_fan[fan + 1]
    number[:] = 0.0
    weight[:] = 0.0
    some = f.fan[first + 1 : last].sum() if last > first else 0.0
    if some <= 0:
        return 1.0
    none = f.fan[first] ** size
    below = 0.0
    for k in range(first + 1, last):
        p = f.fan[k] / some
        a = min(int((below + p / 2) * _SAMPLES), _SAMPLES - 1)
        weight[a] += p
        number[a] += p * (k - first)
        below += p
    for a in range(_SAMPLES):
        if weight[a] > 0:
            number[a] = number[a] / weight[a] * size
            weight[a] *= 1 - none
    return float(none)
