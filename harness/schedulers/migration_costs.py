"""Costs of moving key groups: 1 each, or by the pauses that the sizes of their states foretell.

Madsen, Zhou and Cao, III.B: mc_k = alpha |state_k|, alpha the time to write a byte. They print no alpha. Here
it is fitted, with a constant, to the pauses that the step's own moves made.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from harness.schedulers.loads import FloatArray

LEAST_MOVES = 3
"""Fewer say nothing of a line."""
BYTES_MB = 1e6


class MigrationCost(StrEnum):
    """Units in which migrations are counted against their budget."""

    GROUPS = "groups"
    STATE = "state"


class MadeMove(NamedTuple):
    """A key group's move that was made.

    Attributes
    ----------
    state_bytes : float
    pause_s : float
        From the first marker until the state was there.
    """

    state_bytes: float
    pause_s: float


class PauseLaw(NamedTuple):
    """The pause that a move makes: a constant, and alpha for each byte of the state.

    Attributes
    ----------
    constant_s, alpha_s : float
        Neither is negative.
    moves : int
        Moves that it was fitted to.
    """

    constant_s: float
    alpha_s: float
    moves: int

    def pause_s(self, state_bytes: FloatArray) -> FloatArray:
        """Return the pauses of states of these sizes."""
        return np.asarray(self.constant_s + self.alpha_s * state_bytes, dtype=np.float64)

    @property
    def text(self) -> str:
        """The law in words."""
        a_mb_ms = 1e3 * self.alpha_s * BYTES_MB
        return f"{1e3 * self.constant_s:.3g} ms and {a_mb_ms:.3g} ms a MB, by {self.moves} moves"


def fit_pause(moves: Sequence[MadeMove]) -> PauseLaw | None:
    """Fit the pause to moves that were made, by least squares; None where they are too few.

    Where all states were alike, the pause is taken to be in proportion to their size.

    Examples
    --------
    >>> fit_pause([MadeMove(0, 0.01), MadeMove(1e6, 0.03), MadeMove(2e6, 0.05)]).text
    '10 ms and 20 ms a MB, by 3 moves'
    """
    if len(moves) < LEAST_MOVES:
        return None
    sizes = np.array([m.state_bytes for m in moves])
    scale = float(sizes.max()) or 1.0
    columns = np.column_stack([sizes / scale, np.ones(sizes.size)])
    (slope, constant), _ = nnls(columns, np.array([m.pause_s for m in moves]))
    return PauseLaw(float(constant), float(slope) / scale, len(moves))


def group_costs(
    counted: MigrationCost, state_bytes: FloatArray, moves: Sequence[MadeMove]
) -> tuple[FloatArray, str]:
    """Return the cost of each group's migration, and how it came about; empty where groups are counted.

    A group whose pause is the mean of all groups' costs 1, so a budget is in groups either way.

    Parameters
    ----------
    counted : MigrationCost
    state_bytes : array (groups)
    moves : sequence of MadeMove
        That the step has made so far.

    Examples
    --------
    Without a constant the cost is in proportion to the state:

    >>> made = [MadeMove(1e6, 0.02), MadeMove(2e6, 0.04), MadeMove(3e6, 0.06)]
    >>> group_costs(MigrationCost.STATE, np.array([1e6, 3e6]), made)[0].round(6).tolist()
    [0.5, 1.5]
    """
    alike = np.ones(state_bytes.size)
    if counted is MigrationCost.GROUPS:
        return alike, ""
    law = fit_pause(moves)
    if law is None:
        return alike, f"each move costs 1: {len(moves)} of {LEAST_MOVES} moves are there to measure alpha by"
    pause_s = law.pause_s(state_bytes)
    if not pause_s.mean() > 0:
        return alike, f"each move costs 1: no group would pause by {law.text}"
    return pause_s / pause_s.mean(), f"a move pauses its group for {law.text}; a mean pause costs 1"
