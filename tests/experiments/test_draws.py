"""The topologies' draws, mirrored: the vectors of DrawTest.java, computed from the definition there."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import UsageError
from harness.experiments import draws
from harness.experiments.loading import load
from harness.topologies.component_settings import Multiplier


def drawn_bits(seed: int, purpose: int, message: int, child: int, hop: int, index: int) -> int:
    return int(draws.bits(seed, purpose, np.array([message], dtype=np.int64), child, hop, index)[0])


def test_bits_and_normal_are_those_of_the_topologies() -> None:
    key, children, service = 1, 2, 3
    assert drawn_bits(0, key, 0, 0, 0, 0) == 0x75BD1CB46E5EF9B8
    assert drawn_bits(1, key, 42, 0, 0, 0) == 0x7505AD55B97E5846
    assert drawn_bits(1, key, 42, 7, 2, 0) == 0x212826EFF862CF97
    assert drawn_bits(-5, service, 1 << 40, 3, 1, 1) == 0x8D448483C265A369
    one = np.array([42], dtype=np.int64)
    assert draws.normal(1, children, one, 0, 1, 0)[0] == pytest.approx(0.6619811849560833, abs=1e-15)


def test_children_have_the_moments_of_appendix_e() -> None:
    """(1, 20, 10, 1.0): mean 10, variance 1 + 1/12 (Sheppard's correction); within four standard errors."""
    counts = draws.children(Multiplier(min=1, max=20, mean=10, sd=1), 1, np.arange(50_000))
    variance = 1 + 1 / 12
    assert counts.mean() == pytest.approx(10, abs=4 * np.sqrt(variance / counts.size))
    assert counts.var() == pytest.approx(variance, abs=4 * variance * np.sqrt(2 / counts.size))


def test_what_does_not_fit_is_drawn_again_and_not_moved_to_a_bound() -> None:
    """At sd 5 the shares of 1, 2, 3 are 0.33, 0.34, 0.33; moving to the bounds would put 0.38 on each end."""
    counts = draws.children(Multiplier(min=1, max=3, mean=2, sd=5), 1, np.arange(50_000))
    assert np.bincount(counts, minlength=4)[1:] / counts.size == pytest.approx([1 / 3] * 3, abs=0.02)


@pytest.mark.parametrize("sd", ["1e9", ".inf", ".nan"])
def test_a_multiplier_that_hardly_ever_draws_within_its_bounds_is_refused(sd: str) -> None:
    """Of draws with sd 1e9 one in 10^8 is between 1 and 20: drawing again would not end."""
    with pytest.raises(
        UsageError, match=r"topology\.multiplier.*(of the draws|finite number|less than or equal)"
    ) as refused:
        load("multiplier", [f"topology.multiplier.sd={sd}"])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("sd", "fits"), [(0, True), (119, True), (120, False)])
def test_one_draw_in_a_hundred_may_fit(sd: float, fits: bool) -> None:
    """Of draws around 2 those from 1 to 3 round from 0.5 to 3.5: 3 / (sd sqrt(2 pi)), 1 % at sd 119.7."""
    values = {"min": 1, "max": 3, "mean": 2, "sd": sd}
    if fits:
        Multiplier(**values)
        return
    with pytest.raises(ValueError, match="of the draws"):
        Multiplier(**values)


def test_a_filter_keeps_what_the_topology_s_does() -> None:
    """Seed 7, component "bolt", 30 % of messages 0 to 19 behind the spout: as in BoltsTest.java."""
    ids = np.arange(20)
    assert ids[draws.kept(0.3, 7, "bolt", ids, 0, 1)].tolist() == [0, 1, 9, 12, 14, 16]
    many = np.arange(50_000)
    one, other = (draws.kept(0.3, 7, name, many, 0, 1) for name in ("one", "other"))
    for passed, share in ((one, 0.3), (one & other, 0.09)):
        assert passed.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / many.size))
