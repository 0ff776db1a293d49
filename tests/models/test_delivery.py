"""The share of messages that come out: against thinning by hand and the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from random_networks import NetworkLimits, random_network
from scipy.stats import binomtest
from simulated_networks import network, plan

from harness.models.delivery import delivered_share
from harness.models.simulator import simulate
from harness.plans import Window

LINE = [("spout", "few"), ("few", "sink")]
BOTH = [("spout", "few"), ("spout", "sink"), ("few", "sink")]
KEEPS_30_PCT = np.array([0.7, 0.3])


def test_a_filter_lets_its_share_through() -> None:
    assert delivered_share(network(plan(LINE), 10, fanout={"few": KEEPS_30_PCT})) == pytest.approx(0.3)


def test_a_message_of_several_tuples_is_left_out_with_all_of_them() -> None:
    """Two tuples, each kept with 0.3: 1 - 0.7 ** 2."""
    edges = [("spout", "twice"), ("twice", "few"), ("few", "sink")]
    made = network(plan(edges), 10, fanout={"twice": np.array([0.0, 0.0, 1.0]), "few": KEEPS_30_PCT})
    assert delivered_share(made) == pytest.approx(0.51)


def test_a_second_way_past_the_filter_brings_all_out() -> None:
    assert delivered_share(network(plan(BOTH), 10, fanout={"few": KEEPS_30_PCT})) == pytest.approx(1.0)


def test_rows_of_a_window_stand_for_all_of_its_members() -> None:
    """A window of ten makes a row, of which a filter keeps 0.3: so many of the members come out."""
    edges = [("spout", "window"), ("window", "few"), ("few", "sink")]
    windows = {"window": Window(kind="count", length=10, slide=10)}
    made = network(plan(edges, windows=windows), 10, fanout={"few": KEEPS_30_PCT})
    assert delivered_share(made) == pytest.approx(0.3)


@pytest.mark.parametrize("seed", range(12))
def test_what_comes_out_of_random_networks(seed: int) -> None:
    """Distinct messages at sinks are a binomial number of those that went in: two-sided, 1 in 10,000."""
    made = random_network(seed, NetworkLimits(windows=False))
    run = simulate(made, 4, 0.5, seed=1)
    went_in, came_out = int(run.in_interval.sum()), np.unique(run.latencies.message).size
    assert went_in > 100
    share = delivered_share(made)
    assert 0 < share <= 1
    assert binomtest(came_out, went_in, min(share, 1.0)).pvalue > 1e-4


def test_some_of_these_networks_leave_messages_out() -> None:
    shares = [delivered_share(random_network(s, NetworkLimits(windows=False))) for s in range(12)]
    assert min(shares) < 0.9
    assert max(shares) == pytest.approx(1.0)
