"""Distributions as a few values: whatever is done to them, means stay exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.models.composite.atoms import (
    RANKS,
    even,
    from_histogram,
    lognormal,
    merged,
    scaled,
    shifted,
    sum_of,
)

times = arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1e4))


@given(times, st.integers(0, 2**32 - 1))
def test_merging_keeps_the_mean_and_the_range(values: np.ndarray, seed: int) -> None:
    weights = np.random.default_rng(seed).uniform(0.1, 1.0, values.size)
    found = merged(values, weights)
    assert found.mean_ms == pytest.approx(values @ weights / weights.sum(), abs=1e-9)
    assert found.probabilities.sum() == pytest.approx(1.0)
    assert found.probabilities.size <= RANKS.size
    assert (np.diff(found.values_ms) >= -1e-9).all()
    assert found.values_ms.min() >= values.min() - 1e-9
    assert found.values_ms.max() <= values.max() + 1e-9


@given(st.floats(0.001, 100), st.floats(0.05, 30))
def test_lognormal_times_have_their_mean_and_most_of_their_variance(mean: float, scv: float) -> None:
    found = lognormal(mean, scv)
    assert found.mean_ms == pytest.approx(mean)
    variance = found.second_moment_ms2 - mean**2
    assert 0.2 * scv * mean**2 < variance < scv * mean**2  # ranges of ranks lose what varies within them


@given(times, st.floats(-50, 50))
def test_shifting_moves_the_mean_down_to_zero_at_most(values: np.ndarray, by: float) -> None:
    atoms = merged(values, np.ones(values.size))
    found = shifted(atoms, by)
    assert found.values_ms.min() >= 0
    if (np.maximum(atoms.values_ms + by, 0) > 0).any():
        assert found.mean_ms == pytest.approx(max(atoms.mean_ms + by, 0.0), abs=1e-9)


def test_sums_histograms_and_even_times() -> None:
    both = sum_of(even(2.0), lognormal(0.5, 2.0))
    assert both.mean_ms == pytest.approx(1.5)
    assert even(3.0).second_moment_ms2 == pytest.approx(3.0, rel=0.01)  # 3^2 / 3
    assert scaled(even(2.0), 5.0).mean_ms == pytest.approx(5.0)
    assert from_histogram(np.array([1.0, 2.0]), np.zeros(2), 0.7).values_ms.tolist() == [0.7]
    assert from_histogram(np.array([1.0, 2.0]), np.array([1.0, 1.0]), 3.0).values_ms.tolist() == [2.0, 4.0]
