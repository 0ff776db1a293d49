"""Contention for cores: the law, checked against the distribution that it is derived from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.contention import at_once, others_cores, stretch


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("stay", [0, 1, 2, 3])
def test_the_law_is_exact_for_one_and_two_cores(cores: int, load: float, stay: int) -> None:
    # Others in need of a core come at rate load * cores and leave at min(n, cores n / (n + 1 + stay)) beside
    # one thread that never leaves and more that stay too. Its share is min(1, cores / (n + 1 + stay)).
    n = np.arange(4000)
    leaving = np.minimum(n[1:], cores * n[1:] / (n[1:] + 1 + stay))
    weight = np.concatenate([[1.0], np.cumprod(load * cores / leaving)])
    share = np.minimum(1.0, cores / (n + 1 + stay))
    assert stretch(np.array(load * cores), np.array(float(cores)), stay) == pytest.approx(
        weight.sum() / (weight @ share)
    )


def test_four_cores_are_within_three_percent_of_erlang() -> None:
    # M/M/4 with processor sharing at load 0.8: Erlang's C is 0.5964, the stretch 1 + C / (4 x 0.2).
    assert stretch(np.array(3.2), np.array(4.0)) == pytest.approx(1 + 0.5964 / 0.8, rel=0.03)


@given(st.floats(1.0, 50.0), st.floats(1.0, 64.0))
def test_what_explains_a_stretch_gives_it_back(stretched: float, cores: float) -> None:
    asked = others_cores(stretched, cores)
    assert 0 <= asked < cores or stretched > 1e6
    assert stretch(np.array(asked), np.array(cores)) == pytest.approx(stretched, rel=1e-6)


def test_no_cores_left_is_infinite_and_a_quota_slows_even_one_thread() -> None:
    assert np.isinf(stretch(np.array([2.0, 3.0]), np.array(2.0))).all()
    assert stretch(np.array(0.0), np.array(0.5)) == 2.0
    assert others_cores(2.0, 0.5) == 0.0


@given(st.floats(0.0, 1.9), st.floats(0.0, 5.0), st.floats(0.0, 5.0))
def test_more_at_once_are_never_less_in_the_way(others: float, one: float, more: float) -> None:
    less, crowded = (stretch(np.array(others), np.array(2.0), n) for n in (one, one + more))
    assert less <= crowded * (1 + 1e-12)


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=8), st.floats(1.0, 100.0))
def test_others_at_work_at_once(work_ms: list[float], together: float) -> None:
    """Nobody is beside a message that comes alone, nor on another host, nor are there more than others."""
    work, host = np.array(work_ms), np.zeros(len(work_ms), dtype=np.int64)
    found = at_once(work, host, together)
    assert ((found >= 0) & (found <= len(work_ms) - 1 + 1e-9)).all()
    assert at_once(work, host, 1.0) == pytest.approx(np.zeros(len(work_ms)))
    assert at_once(work, np.arange(len(work_ms)), together) == pytest.approx(np.zeros(len(work_ms)), abs=1e-9)
