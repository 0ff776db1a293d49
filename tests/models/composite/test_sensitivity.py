"""Shares of costs. Expected: what queues and windows are made of, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from analytic_networks import exponential, network, query_plan, station
from synthetic import deploy

from harness.models.composite.played import answered
from harness.models.composite.sensitivity import BY, dearer, share_of_costs
from harness.models.network import Network, constant
from harness.plans import Window


def mean_ms(net: Network) -> float:
    return float(answered(net).ground_truth()[""].mean_ms)


def share(net: Network) -> float:
    return float(share_of_costs(np.array(mean_ms(net)), np.array(mean_ms(dearer(net)))))


def test_costs_are_longer_and_rates_are_not() -> None:
    """M/M/1 at a load of 0.5 stays 1 / (mu - lambda); with longer services, 1 / (mu / 1.05 - lambda)."""
    net = station(500.0, exponential(1.0))
    assert mean_ms(net) == pytest.approx(1 / (1.0 - 0.5), rel=0.02)  # the atoms' second moment is 1-2 % short
    assert mean_ms(dearer(net)) == pytest.approx(1 / (1.0 / BY - 0.5), rel=0.02)
    assert share(net) == 1.0


def test_a_window_that_fills_costs_nothing() -> None:
    """Ten at 100/s: members wait for the others, 45 ms on average; beside it, 1 ms of service."""
    plan = query_plan([("spout", "window")], windows={"window": Window(kind="count", length=10, slide=10)})
    net = network(
        deploy(plan, 1, nodes=1, workers_per_node=1, ackers=1), 100.0, cpu={"window": constant(1.0)}, scv=0.0
    )
    assert share(net) == pytest.approx(1 / 46, abs=0.01)


def test_a_flush_is_set() -> None:
    """Tuples of 10/s that wait for a flush every second, half of one on average, and 1 ms of service."""
    net = station(10.0, constant(1.0))
    flushed = replace(net, batch=1000, flush_ms=1000.0)
    assert mean_ms(flushed) > 400
    assert share(flushed) < 0.05


@pytest.mark.parametrize(("value", "other"), [(0.0, 0.0), (np.nan, 1.0), (1.0, np.nan), (1.0, 2.0)])
def test_what_cannot_be_told_is_all_costs(value: float, other: float) -> None:
    assert share_of_costs(np.array([value]), np.array([other])) == 1.0
