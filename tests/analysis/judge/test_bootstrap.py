"""Intervals of medians: the weighted median by repetition, and cases whose answer is known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.judge import bootstrap
from harness.analysis.judge.bootstrap import weighted_median

counts = st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 4)), min_size=1, max_size=12)


@given(counts)
def test_weighted_median_is_the_median_of_repeated_values(pairs: list[tuple[float, int]]) -> None:
    values, weights = (np.array(x, dtype=float) for x in zip(*pairs, strict=True))
    if not weights.sum():
        weights[0] = 1
    assert weighted_median(values, weights) == np.median(np.repeat(values, weights.astype(int)))


def table(errors: dict[tuple[int, int], float], run: str = "a") -> pd.DataFrame:
    rows = [(run, s, p, e) for (s, p), e in errors.items()]
    return pd.DataFrame(rows, columns=["run", "source_step", "proposed_step", "error"])


def noisy(steps: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Errors with an effect of each proposed step, which makes pairs dependent."""
    rng = np.random.default_rng(seed)
    of_step = rng.normal(0, 2, steps)
    return table(
        {(s, p): 10 + shift + of_step[p] + rng.normal(0, 1) for s, p in permutations(range(steps), 2)}
    )


def test_the_value_is_the_plain_median_and_lies_in_its_interval() -> None:
    pairs = noisy(6, seed=1)
    found = bootstrap.median(pairs, "error")
    assert found.value == pairs["error"].median()
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    assert found.low >= pairs["error"].min()


def test_the_same_pairs_give_the_same_interval() -> None:
    assert bootstrap.median(noisy(5, 3), "error") == bootstrap.median(noisy(5, 3), "error")


def test_errors_that_are_all_equal_have_no_spread() -> None:
    found = bootstrap.median(table(dict.fromkeys(permutations(range(4), 2), 7.0)), "error")
    assert (found.value, found.low, found.high) == (7.0, 7.0, 7.0)


def test_fewer_than_three_steps_give_no_interval() -> None:
    found = bootstrap.median(table({(0, 1): 3.0, (1, 0): 5.0}), "error")
    assert (found.value, found.low, found.high) == (4.0, None, None)


def test_a_constant_difference_is_found_exactly_whatever_the_steps_do() -> None:
    """Paired: the second side is 3 points worse on every pair, so every resample says 3."""
    pairs = noisy(5, 4)
    both = pairs.assign(worse=pairs["error"] + 3)
    found = bootstrap.paired_difference(both, "error", "worse")
    assert found.value == pytest.approx(3)
    assert found.low == pytest.approx(3)
    assert found.high == pytest.approx(3)
    same = bootstrap.paired_difference(both, "error", "error")
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_unpaired_runs_are_resampled_each_by_itself() -> None:
    found = bootstrap.unpaired_difference(noisy(8, 5), noisy(8, 6, shift=20), "error")
    assert found.value == pytest.approx(20, abs=4)
    assert found.low is not None
    assert found.low > 0


def test_several_runs_count_each_with_its_own_steps() -> None:
    both = pd.concat([noisy(4, 7), noisy(4, 8).assign(run="b")], ignore_index=True)
    found = bootstrap.median(both, "error")
    assert found.low is not None
    assert found.value == both["error"].median()


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    """Steps drawn from one population, 8 a run, 200 runs: 95 % intended, small samples cover less."""
    covered = []
    for seed in range(200):
        found = bootstrap.median(noisy(8, 1000 + seed), "error")
        assert found.low is not None
        assert found.high is not None
        covered.append(found.low <= 10 <= found.high)
    assert 0.85 <= np.mean(covered) <= 1.0
