"""What measuring again would change: null distributions, drawn step by step.

The configurations of an experiment are fixed; what is random is their measurement. So a replicate of a
night redraws every step once, and all pairs that share the step move with it. How far a step moves has two
parts: the error within its interval (batch means, Student's t), and what stays the same throughout an
interval and differs between nights. Of the second it is unknown whether the steps of a night share it, and
of a prediction whether it follows its source's measurement or moves by itself. All extremes are drawn, and
the largest p-value counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BATCH_DOF = 9
"""Degrees of freedom of an error within an interval: ten batches where there are fewest."""
BETWEEN_PCT = 3.0
"""How far an idle machine repeats a mean latency between submissions (1 sd), before nights say it better."""
PRIOR_DOF = 20
"""How many nights' worth of belief ``BETWEEN_PCT`` gets (moderated variance, as limma's)."""
FEW, MANY = 2_000, 40_000
"""Replicates: few unless the p-value is small enough to matter."""
LOOK_CLOSER = 0.02
MOST_CELLS = 4_000_000
"""Replicates times pairs that are held at once."""
SMALLEST_SD = 1e-9


@dataclass(frozen=True)
class Nights:
    """How well the same steps were measured, in one or more nights of the baseline and now.

    Attributes
    ----------
    base, now : sequence of arrays, shape (steps,)
        Relative errors within the interval (1 sd), one array a night.
    between : float
        Relative spread between nights (1 sd), with ``dof`` degrees of freedom.
    """

    base: Sequence[Floats]
    now: Sequence[Floats]
    between: float = BETWEEN_PCT / 100
    dof: float = PRIOR_DOF


@dataclass(frozen=True)
class Draws:
    """Standardised draws of one night: within (replicates, steps), between by step, between in common."""

    within: Floats
    by_step: Floats
    common: Floats
    roles: Floats = field(repr=False)
    """As ``within``, a second and independent time: for a step in its other role."""


@lru_cache(maxsize=16)
def _draws(replicates: int, steps: int, night: int, dof: float) -> Draws:
    """Return the draws of a night; the same for every kind of error, since they share what was measured."""
    rng = np.random.default_rng([replicates, steps, night])
    return Draws(
        within=rng.standard_t(BATCH_DOF, (replicates, steps)),
        by_step=rng.standard_t(dof, (replicates, steps)),
        common=np.repeat(rng.standard_t(dof, (replicates, 1)), steps, axis=1),
        roles=rng.standard_t(BATCH_DOF, (replicates, steps)),
    )


def _nights(nights: Nights, replicates: int) -> Iterator[tuple[bool, int, Floats, Draws]]:
    """Yield whether a night is of now, its number in its group, its errors within, and its draws."""
    for is_now, group in ((False, nights.base), (True, nights.now)):
        for i, within in enumerate(group):
            at = i + (len(nights.base) if is_now else 0)
            yield is_now, i, within, _draws(replicates, len(within), at, nights.dof)


def _difference(nights: Nights, of_night: Sequence[Floats]) -> Floats:
    split = len(nights.base)
    before, after = of_night[:split], of_night[split:]
    return np.asarray(np.mean(after, axis=0) - np.mean(before, axis=0))


def measured_nulls(nights: Nights, replicates: int) -> Iterator[Floats]:
    """Yield differences of log values by step (replicates, steps), were nothing but noise at work."""
    for common in (True, False):
        of_night = [
            d.within * within + nights.between * (d.common if common else d.by_step)
            for _, _, within, d in _nights(nights, replicates)
        ]
        yield _difference(nights, of_night)


@dataclass(frozen=True)
class Pairs:
    """Errors by pair of steps, and how far they move.

    Attributes
    ----------
    source, proposed : arrays of int, shape (pairs,)
        The pairs' steps.
    errors_pct : array, shape (pairs,)
        The baseline's errors: signed, or medians of absolute ones over many subjects.
    moved_pct : array, shape (pairs,), optional
        By how many points an error moves when its source is measured again (1 sd); where it is not known, a
        prediction is taken to move by at most as much as what was measured of its source.
    noise_pct : array, shape (pairs,), optional
        For medians: by how many points noise in what was measured of the proposed step moves them (1 sd).
    """

    source: npt.NDArray[np.intp]
    proposed: npt.NDArray[np.intp]
    errors_pct: Floats
    moved_pct: Floats | None = None
    noise_pct: Floats | None = None


def pooled(sd: Floats) -> Floats:
    """Return standard deviations moderated towards their root mean square, half and half.

    An error that moves by leaps (a percentile over few paths) may not have leapt in the few nights that were
    resampled; then those of the other pairs say that it can.
    """
    return np.asarray(np.sqrt((sd**2 + np.mean(sd**2)) / 2))


def error_nulls(nights: Nights, pairs: Pairs, n: int) -> Iterator[Floats]:
    """Yield changes of absolute errors in points by pair (n, pairs), for a model's signed errors.

    A relative error r becomes (1 + r) exp(y) - 1, where y is what the prediction moved by less what the
    measured value moved by.
    """

    def changed(y: Floats, more: Floats | float = 0.0) -> Floats:
        return np.asarray(np.abs(((1 + pairs.errors_pct / 100) * np.exp(y) - 1) * 100 + more))

    for common in (True, False):
        drawn = []
        for _, night, within, d in _nights(nights, n):
            x = d.within * within + nights.between * (d.common if common else d.by_step)
            drawn.append((night, x[:, pairs.source], x[:, pairs.proposed], d))
        yield _difference(nights, [changed(of_source - x) for _, of_source, x, _ in drawn])
        if pairs.moved_pct is None:
            yield _difference(nights, [changed(-x) for _, _, x, _ in drawn])
        else:
            shared = [changed(-x, pairs.moved_pct * d.roles[:, pairs.source]) for _, _, x, d in drawn]
            yield _difference(nights, shared)
            apart = [changed(-x, pairs.moved_pct * _apart(n, len(pairs.source), k)) for k, _, x, _ in drawn]
            yield _difference(nights, apart)


def median_error_nulls(nights: Nights, pairs: Pairs, n: int) -> Iterator[Floats]:
    """Yield changes in points of medians over many subjects, by pair (n, pairs).

    Many subjects' errors have both signs, so a step moves a median as a source and as a proposed step
    independently.
    """
    assert pairs.noise_pct is not None, "medians come with their noise"
    moved = pairs.noise_pct if pairs.moved_pct is None else pairs.moved_pct
    for common, follows, apart in product((True, False), repeat=3):
        of_night = []
        for _, night, _, d in _nights(nights, n):
            between = nights.between * (d.common if common else d.by_step) * 100
            shared = (between[:, pairs.source] if follows else 0.0) - between[:, pairs.proposed]
            of_source = _apart(n, len(pairs.source), night) if apart else d.within[:, pairs.source]
            of_night.append(pairs.noise_pct * d.roles[:, pairs.proposed] + moved * of_source + shared)
        yield _difference(nights, of_night)


@lru_cache(maxsize=4)
def _apart(replicates: int, pairs: int, night: int) -> Floats:
    """Return draws of a night that no two pairs share."""
    rng = np.random.default_rng([replicates, pairs, night, 1])
    return rng.standard_t(BATCH_DOF, (replicates, pairs))


def noise_nulls(nights: Nights, n: int) -> Iterator[Floats]:
    """Yield differences of the log of errors within the interval (n, steps), were noise as it was."""
    rng = np.random.default_rng([n, len(nights.base[0])])
    of_night = [
        0.5 * np.log(rng.chisquare(BATCH_DOF, (n, len(w))) / BATCH_DOF) for w in (*nights.base, *nights.now)
    ]
    yield _difference(nights, of_night)


def largest_p(
    nulls: Callable[[int], Iterator[Floats]],
    observed: Floats,
    margin: float,
    margin_each: float,
    two_sided: bool = False,
) -> float:
    """Return the largest p-value over the null distributions, with more replicates where it is small.

    Parameters
    ----------
    nulls : callable
        From a number of replicates to null distributions.
    observed, margin, margin_each, two_sided
        As for ``p_value``.
    """
    found = 1.0
    for replicates in (FEW, max(FEW, min(MANY, MOST_CELLS // len(observed)))):
        found = max(p_value(observed, null, margin, margin_each, two_sided) for null in nulls(replicates))
        if found > LOOK_CLOSER:
            break
    return found


def p_value(
    observed: Floats, null: Floats, margin: float, margin_each: float, two_sided: bool = False
) -> float:
    """Return how often chance alone gives as large an increase: in the mean, or in any one part.

    Parameters
    ----------
    observed : array, shape (parts,)
        Increases by part (pair or step).
    null : array, shape (replicates, parts)
        The same by chance.
    margin, margin_each : float
        Increases of the mean, and of one part, that are no finding however certain they are.
    two_sided : bool
        Whether decreases count as increases do.

    Returns
    -------
    float
        Of the larger of the standardised mean and the largest standardised part, each beyond its margin:
        one p-value whatever the number of parts.
    """
    each = np.maximum(null.std(axis=0), SMALLEST_SD)
    of_mean = max(float(null.mean(axis=1).std()), SMALLEST_SD)
    size = np.abs if two_sided else np.positive
    by_chance = np.maximum(size(null / each).max(axis=1), size(null.mean(axis=1)) / of_mean)
    seen = max(
        float(size(observed.mean()) - margin) / of_mean, float(((size(observed) - margin_each) / each).max())
    )
    return (1 + int((by_chance >= seen).sum())) / (1 + len(by_chance))


def between_nights(logs: Sequence[Floats], within: Sequence[Floats]) -> tuple[float, float]:
    """Return the spread between nights and its degrees of freedom, moderated by what is assumed beforehand.

    Parameters
    ----------
    logs, within : sequences of arrays, shape (steps,)
        Log values and their errors within the interval, one array a night of the baseline.
    """
    prior = (BETWEEN_PCT / 100) ** 2
    nights = len(logs)
    if nights < 2:
        return BETWEEN_PCT / 100, PRIOR_DOF
    spread = np.var(np.stack(logs), axis=0, ddof=1)
    excess = max(0.0, float(np.mean(spread - np.mean(np.stack(within) ** 2, axis=0))))
    # The steps of a night may share what differs between nights, so they count as one.
    dof = nights - 1
    return float(np.sqrt((PRIOR_DOF * prior + dof * excess) / (PRIOR_DOF + dof))), PRIOR_DOF + dof
