"""Which of several inputs each message goes to: in turn, by whole shares, as a function of its identifier."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Turns:
    """The order in which messages enter by several inputs: the same cycle again and again.

    Within a cycle, an input's turns are as far apart as its share allows. So messages at regular times are
    nearly regular at each input.

    Parameters
    ----------
    shares : sequence of int
        How many messages of a cycle each input gets, positive. 2 and 4 are the same as 1 and 2.

    Examples
    --------
    >>> turns = Turns([2, 1])
    >>> turns.input_of(np.arange(6)).tolist()
    [0, 1, 0, 0, 1, 0]
    >>> turns.before(np.arange(6)).tolist()
    [0, 0, 1, 2, 1, 3]
    """

    def __init__(self, shares: Sequence[int]) -> None:
        whole = np.array(shares, dtype=np.int64) // gcd(*shares)
        self._cycle = _spread(whole)
        taken = np.equal.outer(np.arange(whole.size), self._cycle)
        self._before = (taken.cumsum(axis=1) - 1)[self._cycle, np.arange(self._cycle.size)]
        self._whole = whole

    def input_of(self, ids: Ids) -> Ids:
        """Return the position of each message's input."""
        return np.asarray(self._cycle[ids % self._cycle.size])

    def before(self, ids: Ids) -> Ids:
        """Return how many messages with smaller identifiers, from 0 on, enter by the same input."""
        cycles, at = np.divmod(ids, self._cycle.size)
        return np.asarray(cycles * self._whole[self._cycle[at]] + self._before[at])

    def partition_of(self, ids: Ids, partitions: int) -> Ids:
        """Return the partition of each message, counted over the topics of all inputs in their order.

        Parameters
        ----------
        ids : ndarray of int64
        partitions : int
            Of each topic, which are filled evenly.
        """
        return np.asarray(self.input_of(ids) * partitions + self.before(ids) % partitions)


def _spread(shares: Ids) -> Ids:
    """Return one cycle: each turn goes to the input that is furthest behind its share."""
    due = np.zeros(shares.size, dtype=np.int64)
    cycle = np.empty(int(shares.sum()), dtype=np.int64)
    for turn in range(cycle.size):
        due += shares
        cycle[turn] = due.argmax()
        due[cycle[turn]] -= cycle.size
    return cycle
