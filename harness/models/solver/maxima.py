"""The last of several: distribution functions of all that a group makes, multiplied."""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.cdf import mend
from harness.models.solver.compiled import inlined, inner
from harness.models.solver.groups import hit
from harness.models.solver.indices import chance, fan_at, kind_of, seat_count, senders_of
from harness.models.solver.products import add_product, add_scaled
from harness.models.solver.records import Flat
from harness.models.solver.spectrum import ComplexArray
from harness.models.solver.trees import Back

_SAMPLES = 4
"""Numbers of children that stand for their distribution."""
_FEW = 6.0


@inner
def one_of(back: Back, stream: int, found: ComplexArray, mean: FloatArray) -> None:
    """Fill in the times until one tuple on a stream is acked, by sender: mixtures over targets."""
    net, cls = back.stages.net, back.stages.net.streams[stream].klass
    first, seats = back.first_seat[cls], seat_count(back.first_seat, cls)
    ways = back.hops
    to = np.zeros(ways.shape, dtype=np.complex128)
    for i in senders_of(net, stream):
        to[:] = 0.0
        for j in range(seats):
            probability = chance(net, stream, i, j)
            if probability > 0:
                kind = kind_of(net, stream, i, j)
                add_scaled(probability, back.rest[first + j], to[kind])
                mean[i] += probability * (back.rest_mean[first + j] + back.stages.service.hop[kind, 0])
        for kind in range(ways.shape[0]):
            found[i] += to[kind] * ways[kind]


@inner
def tabulate(back: Back, stream: int, table: FloatArray) -> None:
    """Fill in distribution functions of one tuple on a stream, by kind of hop and target seat."""
    net, cls = back.stages.net, back.stages.net.streams[stream].klass
    first, seats = back.first_seat[cls], seat_count(back.first_seat, cls)
    used = np.zeros(back.hops.shape[0], dtype=np.bool_)
    for i in senders_of(net, stream):
        for j in range(seats):
            if chance(net, stream, i, j) > 0:
                used[kind_of(net, stream, i, j)] = True
    ways = back.hops
    real = np.zeros((seats, back.grid.size))
    for kind in range(ways.shape[0]):
        if not used[kind]:
            continue
        for j in range(seats):
            source, by = back.rest[first + j], ways[kind]
            for k in range(back.grid.size):
                real[j, k] = source[k].real * by[k].real - source[k].imag * by[k].imag
        add_product(real, back.grid.to_cdf, table[kind, :seats])
        for j in range(seats):
            mend(table[kind, j])


@inner
def all_of(
    back: Back, sender: int, cls: int, size: float, streams: IntArray, tables: FloatArray, cdf: FloatArray
) -> None:
    """Multiply by the distribution functions of all that a group makes on some streams of one component.

    Parameters
    ----------
    cls, size : int, float
        Of the group.
    """
    net = back.stages.net
    number, weight = np.zeros(_SAMPLES), np.zeros(_SAMPLES)
    part, product = np.zeros(cdf.size), np.zeros(cdf.size)
    for k in range(streams.size):
        fan = fan_at(net, cls, net.streams[streams[k]].output)
        part[:] = _sample(net, fan, size, number, weight)
        for sample in range(_SAMPLES):
            if weight[sample] > 0:
                product[:] = weight[sample]
                _last(back, streams[k], sender, number[sample], tables[k], product)
                part += product
        cdf *= part
    mend(cdf)


@inner
def _last(
    back: Back, stream: int, sender: int, number: float, table: FloatArray, product: FloatArray
) -> None:
    """Multiply by the distribution function of the last of a number of tuples on a stream.

    A seat is done by a time or not, all its tuples with it. With X the probability that a tuple goes to a
    seat that is done, all n are done with probability E X^n. For few tuples X is taken as beta distributed
    with its own mean and variance (exact for one and two). For many, each seat is taken to be hit by itself.
    """
    net, copies = back.stages.net, back.stages.net.streams[stream].copies
    points = product.size
    few = number <= _FEW and not copies
    mean, variance = np.zeros(points if few else 0), np.zeros(points if few else 0)
    for j in range(seat_count(back.first_seat, net.streams[stream].klass)):
        probability = chance(net, stream, sender, j)
        if not probability > 0:
            continue
        row = table[kind_of(net, stream, sender, j), j]
        if few:
            for k in range(points):
                mean[k] += probability * row[k]
                variance[k] += probability * probability * row[k] * (1 - row[k])
        else:
            struck = 1.0 if copies else hit(probability, number)
            for k in range(points):
                product[k] *= 1 - struck * (1 - row[k])
    for k in range(mean.size):
        product[k] *= _power(min(mean[k], 1.0), variance[k], number)


@inlined
def _power(mean: float, variance: float, number: float) -> float:
    """Return E X^n of a beta distributed X, between whole n on a straight line of its logarithm."""
    if variance < 1e-12 or mean <= 0 or mean >= 1:
        return math.pow(mean, number)
    both = max(mean * (1 - mean) / variance - 1, 0.0)
    found, step = 1.0, 0.0
    while step + 1 <= number:
        found *= (both * mean + step) / (both + step) if both + step > 0 else mean
        step += 1
    return found * math.pow((both * mean + step) / (both + step), number - step)


@inner
def _sample(net: Flat, fan: int, size: float, number: FloatArray, weight: FloatArray) -> float:
    """Fill in a few numbers of children with their weights, and return the probability of none."""
    first, last = net.first_fan[fan], net.first_fan[fan + 1]
    number[:] = 0.0
    weight[:] = 0.0
    some = net.fan[first + 1 : last].sum() if last > first else 0.0
    if some <= 0:
        return 1.0
    none = net.fan[first] ** size
    below = 0.0
    for k in range(first + 1, last):
        weight_of = net.fan[k] / some
        place = min(int((below + weight_of / 2) * _SAMPLES), _SAMPLES - 1)
        weight[place] += weight_of
        number[place] += weight_of * (k - first)
        below += weight_of
    for place in range(_SAMPLES):
        if weight[place] > 0:
            number[place] = number[place] / weight[place] * size
            weight[place] *= 1 - none
    return float(none)
