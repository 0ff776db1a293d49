"""CPU quotas: the law, and what the simulator plays, against each other and times told beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated_networks import computing, network, plan

from harness.models.contract.answers import Saturated
from harness.models.network import constant
from harness.models.quotas import quota_stretch, quota_wait_ms
from harness.models.simulator import simulate
from harness.models.simulator.distributions import exponential
from harness.models.simulator.loads import loads
from harness.models.solver.solve import solve

LINE = [("spout", "bolt")]


def test_a_thread_that_has_used_up_its_quota_waits_for_the_next_period() -> None:
    """5 ms of CPU, four times a second, of 3 ms in 100: 2 ms are left for the next period, which begins at a
    multiple of 100 ms."""
    made = network(plan(LINE), 4, {"bolt": computing(constant(5.0))}, scv=0.0, cores=2.0)
    run = simulate(replace(made, quota_cores=np.array([0.03])), 10, 0, seed=1)
    bolts = run.visits[np.isin(run.parts.identifiers[run.visits["task"]], run.network.layout.tasks["bolt"])]
    assert bolts["served"] % 100 == pytest.approx(np.full(bolts.size, 2.0))
    assert (bolts["served"] - bolts["received"] > 5.0).all()


def test_a_quota_that_is_never_used_up_changes_nothing() -> None:
    """Proportional sharing of 0.3 cores would make every service 3.3 times as long."""
    made = network(plan(LINE), 50, {"bolt": computing(constant(1.0))}, scv=0.0, cores=2.0)
    free, limited = (
        simulate(replace(made, quota_cores=np.array([q])), 20, 0, seed=1).latencies.ground_truth_ms
        for q in (np.inf, 0.3)
    )
    assert limited == pytest.approx(free, rel=1e-9)


@pytest.mark.parametrize("load", [0.5, 0.65, 0.8, 0.9])
def test_the_law_says_about_what_is_played(load: float) -> None:
    """Exponential demands that come at random, one bolt: what a quota of 0.3 cores adds to the mean. The law
    leaves out who waits behind whom; within a factor of two, or 0.1 ms, at each load."""
    work_ms, rate_tps = 3.0 * load, 100.0
    made = network(plan(LINE), rate_tps, {"bolt": computing(exponential(work_ms))}, cores=2.0)
    free, limited = (
        simulate(replace(made, quota_cores=np.array([q])), 600, 1, seed=1).latencies.ground_truth_ms.mean()
        for q in (np.inf, 0.3)
    )
    cores = np.array([rate_tps * work_ms / 1000])
    said = quota_wait_ms(cores, cores, np.array([0.3]), rate_tps)[0]
    assert said == pytest.approx(limited - free, rel=0.5, abs=0.1)


def test_more_work_or_less_quota_is_never_less_wait() -> None:
    quota = np.linspace(0.2, 1.0, 9)
    waits = quota_wait_ms(np.full(9, 0.19), np.full(9, 0.15), quota, 80.0)
    assert (np.diff(waits) <= 1e-12).all()
    asked = np.linspace(0.05, 0.29, 9)
    more = quota_wait_ms(asked, asked * 0.8, np.full(9, 0.3), 80.0)
    assert (np.diff(more) >= -1e-12).all()
    assert np.isfinite(more).all()


def test_no_quota_no_wait_and_all_of_it_is_too_much() -> None:
    asked, quota = np.array([5.0, 0.3, 0.4, 0.0]), np.array([np.inf, 0.3, 0.3, 0.3])
    assert quota_wait_ms(asked, asked, quota, 100.0).tolist() == [0.0, np.inf, np.inf, 0.0]
    stretched = quota_stretch(asked, (asked, np.full(4, 100.0)), quota, 100.0)
    assert stretched.tolist() == [1.0, np.inf, np.inf, 1.0]


def test_a_message_waits_once_however_many_tuples_it_makes_there() -> None:
    """Tuples of half as much work, twice as many of them: the same wait over the same work of a message."""
    asked, quota = np.array([0.2]), np.array([0.3])
    once, twice = (quota_stretch(asked, (asked, np.array([tps])), quota, 100.0)[0] for tps in (100.0, 200.0))
    assert once == twice
    seldom = quota_stretch(asked, (asked, np.array([50.0])), quota, 100.0)[0]
    assert seldom - 1 == pytest.approx((once - 1) / 2)  # only every second message comes there


def test_solver_and_simulator_see_a_full_quota() -> None:
    """0.5 cores of 2 are needed; a quota leaves 0.4."""
    made = network(plan(LINE), 50, {"bolt": computing(constant(10.0))}, cores=2.0)
    limited = replace(made, quota_cores=np.array([0.4]))
    assert loads(limited).host_load.tolist() == pytest.approx([0.5 / 0.4])
    assert solve(limited).contention.host_load.tolist() == pytest.approx([0.5 / 0.4])
    with pytest.raises(Saturated):
        solve(limited).require_steady()
    assert solve(made).contention.host_load.tolist() == pytest.approx([0.25])
