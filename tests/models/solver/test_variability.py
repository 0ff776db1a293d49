"""What a spout's rounds do to the index of dispersion, beside exact forms."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from harness.models.solver import variability


@njit
def looked_at(t: float, chance: float, poll_ms: float, emit_ms: float) -> float:
    return variability.looked_at(t, chance, poll_ms, emit_ms)


@njit
def slept(t: float, number: float, pass_ms: float, sleep_ms: float) -> float:
    return variability.slept(t, number, pass_ms, sleep_ms)


@njit
def overlap(part: float, share: float) -> float:
    return variability.overlap(part, share)


@njit
def in_bursts(t: float, number: float, period_ms: float, apart_ms: float, scv: float) -> float:
    return variability.in_bursts(t, number, period_ms, apart_ms, scv)


@pytest.mark.parametrize("number", [4, 8, 16])
@pytest.mark.parametrize("lengths", [0.5, 1.0, 1.5, 4.0])
def test_bursts_whose_messages_come_apart(number: int, lengths: float) -> None:
    """Counted: variance over mean of what a window has that begins anywhere in a turn of a thousand bursts.

    The formula takes messages as a flow that lasts from the first to a distance after the last one. So it is
    off by about half a message.
    """
    turn, window = 1000 * number, lengths * number
    beginnings = np.arange(0, turn, 0.01)
    seen = sum(((at - beginnings) % turn < window) for at in range(number))
    exact = seen.var() / seen.mean()
    assert in_bursts(window, number, turn, 1.0, 0.0) == pytest.approx(exact - 1, abs=0.6)


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("looks", [1.0, 3.0, 10.25])
def test_looks_that_take_as_long_whatever_they_find(chance: float, looks: float) -> None:
    """Of n looks each finds a message by chance, and n has one of two values: a binomial number of them.

    Variance over mean is 1 - a of whole looks, and what the window's ends add: f (1 - f) a^2 over n a.
    """
    fraction = looks % 1
    exact = 1 - chance + fraction * (1 - fraction) * chance / looks
    assert 1 + looked_at(looks * 1.5, chance, 1.5, 1.5) == pytest.approx(exact)


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("looks", [1.0, 3.0, 10.25])
def test_looks_that_take_no_time_when_they_find_something(chance: float, looks: float) -> None:
    """Each empty look is followed by a geometric number of messages: variance over mean 1 / (1 - a) of whole
    ones, and f (1 - f) times that number's mean a / (1 - a) over n for the ends."""
    fraction = looks % 1
    exact = 1 / (1 - chance) + fraction * (1 - fraction) * chance / (1 - chance) / looks
    assert 1 + looked_at(looks * 1.5, chance, 1.5, 0.0) == pytest.approx(exact)


@pytest.mark.parametrize(("part", "share"), [(0.2, 0.3), (0.4, 0.9), (0.7, 0.5), (0.05, 0.95)])
def test_the_overlap_of_a_time_with_a_share_of_each_turn(part: float, share: float) -> None:
    """By going through the places where the time may begin."""
    places = (np.arange(20_000) + 0.5) / 20_000
    inside = (np.add.outer(places, part * places[::20]) % 1 < share).mean(axis=1) * part
    assert overlap(part, share) == pytest.approx(inside.var(), rel=2e-3)


def test_what_comes_in_a_sleep_enters_behind_it() -> None:
    """At once where a pass takes no time: a gate. Not at all where nothing sleeps."""
    assert slept(3.5, 4.0, 0.0, 1.0) == pytest.approx(4.0 * 0.5 * 0.5 / 3.5)
    assert slept(3.5, 4.0, 2.0, 0.0) == 0.0
    # a rate of 1 / ms, all of it in the 1 ms of each 4: variance of what a window of 2 ms has, over 2
    places = np.arange(40_000) / 10_000
    seen = [
        4 * max(0.0, min(1.0, at + 2.0 - 4.0 * k) - max(0.0, at - 4.0 * k)) for at in places for k in (0, 1)
    ]
    counts = np.array(seen).reshape(-1, 2).sum(axis=1)
    assert slept(2.0, 4.0, 1.0, 3.0) == pytest.approx(counts.var() / 2.0, rel=1e-3)
