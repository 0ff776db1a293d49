"""P-values of changes between nights, and what a test can see.

The null hypothesis is the same system on another night. A night's number moves by two independent parts. The
first, ``within``, depends on the messages that its interval happened to hold, and is learnt by drawing the
intervals again in blocks of time. The second, ``between``, stays the same throughout a night and differs
between nights. The first is estimated and gives Student's t its degrees of freedom. The second is a bound
that is set beforehand and takes in what the baseline's nights say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

PRIOR_NIGHTS = 20
"""So many nights of a baseline weigh as much as what was set beforehand (moderated, as limma's)."""
POWER = 0.8
SMALLEST_SD = 1e-9


@dataclass(frozen=True)
class Chance:
    """Movement by chance of the difference between two groups of nights.

    Attributes
    ----------
    within, between : float
        Standard deviations of one night, in the difference's unit.
    before, now : int
        Nights in each group.
    blocks : float
        Blocks that ``within`` was learnt from: the effective number of those that carry the statistic.
    louder : float
        By how much the new nights are noisier within their intervals than the baseline's.
    """

    within: float
    between: float
    before: int
    now: int
    blocks: float
    louder: float = 1.0

    @property
    def _variances(self) -> tuple[float, float]:
        within = self.within**2 * (1 / self.before + self.louder**2 / self.now)
        return within, self.between**2 * (1 / self.before + 1 / self.now)

    @property
    def sd(self) -> float:
        """Standard deviation of the difference."""
        return max(math.sqrt(sum(self._variances)), SMALLEST_SD)

    @property
    def dof(self) -> float:
        """Degrees of freedom (Welch and Satterthwaite; the part between nights is not estimated)."""
        within, _ = self._variances
        return (self.blocks - 1) * (self.sd**2 / within) ** 2 if within > 0 else math.inf

    def p(self, beyond: float) -> float:
        """Return how often chance alone gives a difference that is as large, in one direction."""
        return float(stats.t.sf(beyond / self.sd, self.dof))

    def seen(self, level: float) -> float:
        """Return the difference that is found at a level with probability ``POWER``."""
        return float((stats.t.isf(level, self.dof) + stats.t.ppf(POWER, self.dof)) * self.sd)


def between_nights(logs: Sequence[Floats], within: Floats, prior: float) -> float:
    """Return the relative spread between nights: what is set beforehand, moderated by the baseline's nights.

    Parameters
    ----------
    logs : sequence of arrays, shape (steps,)
        Log values, one array a night of the baseline.
    within : array, shape (steps,)
        Their errors within the interval.
    prior : float
        The relative spread that was set beforehand.

    Examples
    --------
    >>> between_nights([np.log([10.0, 12.0])], np.array([0.01, 0.01]), prior=0.03)
    0.03
    """
    more = len(logs) - 1
    if more < 1:
        return prior
    spread = np.var(np.stack(logs), axis=0, ddof=1)
    excess = max(0.0, float(np.mean(spread - within**2)))
    # The steps of a night may share what differs between nights, so they count as one.
    return math.sqrt((PRIOR_NIGHTS * prior**2 + more * excess) / (PRIOR_NIGHTS + more))
