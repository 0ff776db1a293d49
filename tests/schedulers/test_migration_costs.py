"""What moves of key groups cost: pauses by a line that is known, from which alpha is found again."""

from __future__ import annotations

import numpy as np
import pytest

from harness.schedulers.migration_costs import MadeMove, MigrationCost, fit_pause, group_costs

SIZES = [1e4, 5e5, 2e6, 3e6]
LINE = [MadeMove(size, 0.012 + 3e-8 * size) for size in SIZES]
"""12 ms, and 30 ms a MB."""


def test_the_constant_and_alpha_are_found_again() -> None:
    law = fit_pause(LINE)
    assert law is not None
    assert (law.constant_s, law.alpha_s, law.moves) == (pytest.approx(0.012), pytest.approx(3e-8), 4)
    assert law.text == "12 ms and 30 ms a MB, by 4 moves"


def test_neither_is_negative() -> None:
    """A falling line is best met by a constant, one through the origin from below by alpha alone."""
    falling = fit_pause([MadeMove(size, 0.1 - 1e-8 * size) for size in SIZES])
    below = fit_pause([MadeMove(size, 4e-8 * size - 0.001) for size in SIZES])
    assert falling is not None
    assert below is not None
    assert falling.alpha_s == 0
    assert falling.constant_s == pytest.approx(0.1 - 1e-8 * np.mean(SIZES))
    assert below.constant_s == 0
    assert 3.9e-8 < below.alpha_s < 4e-8


def test_states_of_one_size_give_a_pause_in_proportion() -> None:
    law = fit_pause([MadeMove(1e6, pause_s) for pause_s in (0.01, 0.02, 0.03)])
    assert law is not None
    assert (law.constant_s, law.alpha_s) == (pytest.approx(0), pytest.approx(0.02 / 1e6))
    empty = fit_pause([MadeMove(0, 0.01)] * 3)
    assert empty is not None
    assert (empty.constant_s, empty.alpha_s) == (pytest.approx(0.01), 0)


def test_a_group_of_the_mean_pause_costs_one() -> None:
    """Pauses of 12, 42 and 72 ms over their mean of 42."""
    costs, note = group_costs(MigrationCost.STATE, np.array([0.0, 1e6, 2e6]), LINE)
    assert costs == pytest.approx([12 / 42, 1, 72 / 42])
    assert note == "a move pauses its group for 12 ms and 30 ms a MB, by 4 moves; a mean pause costs 1"


@pytest.mark.parametrize(
    ("counted", "moves", "note"),
    [
        (MigrationCost.GROUPS, LINE, ""),
        (MigrationCost.STATE, LINE[:2], "each move costs 1: 2 of 3 moves are there to measure alpha by"),
        (MigrationCost.STATE, [], "each move costs 1: 0 of 3 moves are there to measure alpha by"),
    ],
)
def test_groups_cost_one_each_where_they_are_counted_or_too_few_moved(
    counted: MigrationCost, moves: list[MadeMove], note: str
) -> None:
    costs, said = group_costs(counted, np.array([1e3, 1e6]), moves)
    assert costs.tolist() == [1, 1]
    assert said == note
