"""Numbers of tuples that a component makes of one: distributions by input and output.

The mean is that of the counters. Its distribution comes from the hop records, which tell the children of one
tuple apart; without them a count has the two whole numbers next to its mean. Of a windowed component it is
the number of outputs of one window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, stdtrit

from harness.errors import ModelDeclined
from harness.models.composite.source.evidence import Evidence
from harness.models.composite.source.hop_records import HopRecords, grouped
from harness.models.composite.source.inputs import Inputs
from harness.models.contract.layout import FloatArray, IntArray, Output, outputs
from harness.models.network import Input
from harness.plans import Stream

FanOut = Mapping[Input, Mapping[Output, FloatArray]]
KNOWN_WITHIN = 1 / 3
"""Largest standard error of a ratio beside the one of all inputs together, as a share of that."""
CHANCE = 1e-4
"""Chance by which a ratio may be taken for known, or for another one than that of all inputs, and is not."""
_MOST = 4096
_AT_THE_END = 1e-9


@dataclass(frozen=True)
class FanSums:
    """Children of tuples and outputs of windows, counted from hop records.

    Attributes
    ----------
    children : mapping of component to array (counts, blocks)
        Tuples that made 0, 1, 2 ... others.
    windows : mapping of windowed component to array (blocks)
        Windows that made any output.
    firings : mapping of Output to array (blocks)
        Of these, those that made one on this output.
    """

    children: Mapping[str, FloatArray]
    windows: Mapping[str, FloatArray]
    firings: Mapping[Output, FloatArray]


def fan_sums(evidence: Evidence) -> FanSums | None:
    """Count children and windows' outputs; None without hop records."""
    records = evidence.hops
    if records is None:
        return None
    plan, order = evidence.plan.query_plan, evidence.layout.order
    children: dict[str, FloatArray] = {}
    windows: dict[str, FloatArray] = {}
    firings: dict[Output, FloatArray] = {}
    from_ = records.legs - 1
    for number, name in enumerate(order):
        at = from_[records.component[from_] == number]
        if not at.size or not plan.inputs(name):
            continue
        if plan.component(name).window is None:
            children[name] = _children(records, at, evidence.blocks)
        else:
            windows[name], mine = _windows(evidence, records, at, name)
            firings |= mine
    return FanSums(children, windows, firings)


def _children(records: HopRecords, at: IntArray, blocks: int) -> FloatArray:
    row = records.row[at]
    order, starts = grouped([records.executor[at], records.received_ms[at], records.emitted_ms[at]])
    visits, first = grouped([records.executor[at][order][starts], records.received_ms[at][order][starts]])
    number = np.diff(np.append(first, visits.size))  # emits that differ in time
    one = order[starts[visits[first]]]
    if (number > 1).any():  # children are numbered here; one that is still in a window is counted, too
        everyone, begin = grouped([records.executor[at], records.received_ms[at]])
        number = np.maximum(number, np.maximum.reduceat(records.child[row][everyone], begin))
    shape = (min(int(number.max()), _MOST) + 1, blocks)
    flat = np.minimum(number, _MOST) * blocks + records.block[row[one]]
    return np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _windows(
    evidence: Evidence, records: HopRecords, at: IntArray, name: str
) -> tuple[FloatArray, dict[Output, FloatArray]]:
    """Count windows by what they made. A window is known by its first member, which no other lists."""
    target = records.component[at + 1]
    order, starts = grouped([records.task[at], records.emitted_ms[at], target])
    first_ms = np.minimum.reduceat(records.received_ms[at][order], starts)
    event = order[starts]
    task, to, block = records.task[at][event], target[event], records.block[records.row[at][event]]
    by_window, whole = grouped([task, first_ms])
    windows = np.bincount(block[by_window[whole]], minlength=evidence.blocks).astype(np.float64)
    found = {}
    for output in outputs(evidence.plan.query_plan, name):
        subscribers = [
            evidence.layout.order.index(s.target)
            for s in evidence.plan.query_plan.outputs(name)
            if s.stream == output.stream
        ]
        mine = np.isin(to, subscribers[:1])
        found[output] = np.bincount(block[mine], minlength=evidence.blocks).astype(np.float64)
    return windows, found


def two_point(mean: float) -> FloatArray:
    """Return the two whole numbers next to a mean.

    Examples
    --------
    >>> two_point(1.25).tolist()
    [0.0, 0.75, 0.25]
    """
    low = int(np.floor(mean))
    found = np.zeros(low + 2)
    found[low], found[low + 1] = low + 1 - mean, mean - low
    return np.trim_zeros(found, "b") if mean > 0 else np.ones(1)


def with_mean(count: FloatArray, mean: float) -> FloatArray:
    """Return counts as probabilities with a mean that is known better.

    A mean within the counts' range is met by exponential tilting, which changes their shape least. A mean
    below the range is met by further tuples that make nothing; a mean above, by the whole numbers next to it.

    Examples
    --------
    >>> with_mean(np.array([0.0, 1.0, 1.0]), 1.5).tolist()
    [0.0, 0.5, 0.5]
    >>> with_mean(np.array([0.0, 4.0]), 0.25).tolist()
    [0.75, 0.25]
    """
    share = count / count.sum()
    number = np.arange(share.size, dtype=np.float64)
    seen = np.flatnonzero(share)
    now = float(share @ number)
    if abs(now - mean) <= 1e-12 * max(mean, 1.0):
        return np.asarray(share)
    for end in (seen[0], seen[-1]):
        if abs(mean - end) <= _AT_THE_END:  # a tilt would have to be without end
            return np.asarray((number == end).astype(np.float64))
    if seen[0] < mean < seen[-1]:
        return _tilted(share, number - mean)
    if mean < now:
        found = share * (mean / now)
        found[0] += 1.0 - mean / now
        return np.asarray(found)
    return two_point(mean)


def _tilted(share: FloatArray, centred: FloatArray) -> FloatArray:
    """Return probabilities proportional to share exp(lean centred) whose mean of ``centred`` is 0."""
    used = share > 0
    logs = np.where(used, np.log(np.where(used, share, 1.0)), -np.inf)

    def leaning(lean: float) -> FloatArray:
        exponent = logs + lean * centred
        weight = np.exp(exponent - exponent.max())
        return np.asarray(weight / weight.sum())

    def off(lean: float) -> float:
        return float(leaning(lean) @ centred)  # grows with the lean

    low, high = -1.0, 1.0
    while off(low) > 0:  # ends of a range that holds the root
        low *= 2
    while off(high) < 0:
        high *= 2
    return leaning(brentq(off, low, high))


def fan_out(evidence: Evidence, sums: FanSums | None, weights: FloatArray, inputs: Inputs) -> FanOut:
    """Estimate the counts of every input and output.

    Raises
    ------
    ModelDeclined
        When a component with several inputs has no ratio for one of them, or a negative one.
    """
    plan = evidence.plan.query_plan
    found: dict[Input, Mapping[Output, FloatArray]] = {}
    for name in evidence.layout.order:
        streams, ends = plan.inputs(name), outputs(plan, name)
        if not ends:
            continue
        if not streams:
            uneven = {o: two_point(inputs.copies[o]) for o in ends if abs(inputs.copies[o] - 1) > 0.005}
            if uneven:
                found[Input(name, "", "")] = {o: uneven.get(o, np.array([0.0, 1.0])) for o in ends}
        elif plan.component(name).window is not None:
            found[Input(name, "", "")] = {o: _of_window(evidence, sums, weights, o) for o in ends}
        else:
            for stream in streams:
                key = Input(name, stream.source, stream.stream)
                found[key] = {o: _of_tuple(evidence, sums, weights, o, stream) for o in ends}
    return found


def input_ratios(received: FloatArray, emitted: FloatArray) -> FloatArray:
    """Return tuples that are made of one from each input stream, by counts of blocks.

    Least squares (thesis 4.6.1), but for what the counts do not say: where inputs come in proportion to each
    other, a tuple of each makes as many. A combination of inputs has a ratio of its own in two cases. Its
    standard error is below a third of the ratio of all tuples together, or it is further off than by chance.

    Parameters
    ----------
    received : array (inputs, blocks)
    emitted : array (blocks)

    Returns
    -------
    array (inputs)
        NaN for an input that brought nothing.

    Examples
    --------
    One output of two tuples of the first input, each of the second; then inputs that always come together:

    >>> emitted = np.array([20.0, 30.0, 40.0])
    >>> input_ratios(np.array([[20.0, 40.0, 20.0], [10.0, 10.0, 30.0]]), emitted).round(6).tolist()
    [0.5, 1.0]
    >>> input_ratios(np.array([[20.0, 30.0, 40.0], [10.0, 15.0, 20.0]]), 1.5 * emitted).round(6).tolist()
    [1.0, 1.0]
    """
    used = received.any(axis=1)
    found = np.full(received.shape[0], np.nan)
    if not used.any():
        return found
    counts = received[used].T
    together = float(emitted.sum() / counts.sum())
    rest = emitted - together * counts.sum(axis=1)
    blocks, sizes, inputs = np.linalg.svd(counts, full_matrices=False)
    told = sizes > sizes[0] * max(counts.shape) * np.finfo(float).eps
    apart = np.divide(blocks.T @ rest, sizes, out=np.zeros_like(sizes), where=told)
    if (free := counts.shape[0] - counts.shape[1]) > 0:
        squares = ((rest - blocks @ (apart * sizes)) ** 2).sum()
        least, most = np.sqrt(squares / np.array([free, chdtri(free, 1 - CHANCE)]))  # of the noise
        other = np.abs(apart) * sizes > least * stdtrit(free, 1 - CHANCE / 2)
        told &= (most <= KNOWN_WITHIN * together * sizes) | other
    found[used] = together + np.where(told, apart, 0.0) @ inputs
    return found


def _of_tuple(
    evidence: Evidence, sums: FanSums | None, weights: FloatArray, output: Output, stream: Stream
) -> FloatArray:
    name = output.component
    streams = evidence.plan.query_plan.inputs(name)
    received = np.stack([(evidence.received[s] * weights).sum(axis=0) for s in streams])
    emitted = (evidence.emitted[output] * weights).sum(axis=0)
    if len(streams) > 1:
        mean = float(input_ratios(received, emitted)[streams.index(stream)])
        if received.sum() > 0 and not mean >= -1e-9:
            what = "is unknown" if np.isnan(mean) else f"would be {mean:.3g}"
            raise ModelDeclined(
                f"the I/O ratio of {name}:{output.stream} for {stream.label} {what} in the source step"
            )
        return two_point(max(mean, 0.0))
    if not received.sum() > 0:
        return np.ones(1)
    mean = float(emitted.sum() / received.sum())
    count = sums.children.get(name) if sums else None
    if count is None or not (count @ weights).sum() > 0 or len(outputs(evidence.plan.query_plan, name)) > 1:
        return two_point(mean)
    return with_mean(count @ weights, mean)


def _of_window(evidence: Evidence, sums: FanSums | None, weights: FloatArray, output: Output) -> FloatArray:
    name = output.component
    emitted = float((evidence.emitted[output] @ weights).sum())
    windows = float(sums.windows[name] @ weights) if sums and name in sums.windows else 0.0
    if sums and windows > 0:
        return two_point(float(sums.firings[output] @ weights) / windows)
    window = evidence.plan.query_plan.component(name).window
    received = sum(evidence.received[s] @ weights for s in evidence.plan.query_plan.inputs(name))
    if window is None or not np.sum(received) > 0:
        return np.ones(1)
    if window.kind == "count":
        fired = float(np.sum(received)) / window.slide
    else:  # a slide in which nothing came fires nothing
        slides = evidence.seconds * 1000 / window.slide
        fired = float(np.sum(slides * -np.expm1(-received / slides)))
    return two_point(emitted / fired)
