"""The simulator against queues whose means are known exactly.

Formulas are Pollaczek and Khinchine's and what builds on it (Kleinrock, *Queueing Systems* I and II). A
distribution's moments are taken from its atoms. The tolerance is the simulation's own interval, by batch
means, of which 1 in 1000 misses; seeds are fixed, so a test that passes goes on passing.
"""

from __future__ import annotations

import numpy as np
import pytest
from simulated_networks import batch_means, batch_quantile, computing, in_order, network, plan, waiting

from harness.models.network import Atoms, constant
from harness.models.simulator import SimulatedRun, simulate
from harness.models.simulator.distributions import exponential, lognormal, uniform

QUEUE = [("spout", "queue")]
SERVICES = {
    "exponential": exponential(2.0, 5000),
    "constant": constant(2.0),
    "lognormal": lognormal(2.0, 1.5, 5000),
    "uniform": uniform(0.0, 4.0),
}


def waits(run: SimulatedRun, component: str) -> np.ndarray:
    """Times in the queue of the component's tuples, by time of arrival; of the interval."""
    layout = run.network.layout
    tasks = np.isin(run.parts.identifiers[run.visits["task"]], layout.tasks[component])
    mine = run.visits[tasks]
    mine = mine[(mine["queued"] >= run.interval_ms[0]) & (mine["queued"] < run.interval_ms[1])]
    return np.asarray((mine["received"] - mine["queued"])[np.argsort(mine["queued"], kind="stable")])


def pollaczek_khinchine_ms(rate_tps: float, service: Atoms) -> float:
    """Mean wait in an M/G/1 queue."""
    rate = rate_tps / 1000
    return rate * service.second_moment_ms2 / (2 * (1 - rate * service.mean_ms))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.85])
@pytest.mark.parametrize("name", SERVICES)
def test_one_server_queues(name: str, load: float) -> None:
    """M/M/1, M/D/1 and M/G/1."""
    service = SERVICES[name]
    rate = 1000 * load / service.mean_ms
    run = simulate(network(plan(QUEUE), rate, {"queue": waiting(service)}), 3000, 50, seed=1)
    found = batch_means(waits(run, "queue"))
    assert found.holds(pollaczek_khinchine_ms(rate, service)), found
    assert found.precision < 0.1
    queue = run.network.layout.of["queue"].start
    assert run.use.utilisation[queue] == pytest.approx(load, rel=0.02)


def test_the_time_in_an_m_m_1_queue_is_exponential() -> None:
    """Kleinrock I, 5.2: with mean 1 / (mu - lambda), so p99 is 4.6 times that."""
    run = simulate(network(plan(QUEUE), 350, {"queue": waiting(SERVICES["exponential"])}), 3000, 50, seed=2)
    times = in_order(run)
    mean = 1 / (0.5 - 0.35)
    for q in (0.5, 0.9, 0.99):
        found = batch_quantile(times, q)
        assert found.holds(-np.log(1 - q) * mean), (q, found)
        assert found.precision < 0.1


def test_poisson_arrivals_split_at_random_are_poisson_at_each_server() -> None:
    """A component of four executors with unequal shares: four M/M/1 queues."""
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    made = network(
        plan(QUEUE, {"spout": 1, "queue": 4}),
        1000,
        {"queue": waiting(exponential(2.0, 5000))},
        routing={("spout", "queue"): shares},
    )
    run = simulate(made, 600, 20, seed=3)
    tasks = run.visits["task"]
    for number, share in enumerate(shares):
        mine = run.visits[tasks == 1 + number]
        mine = mine[(mine["queued"] >= 20_000) & (mine["queued"] < 620_000)]
        found = batch_means(np.asarray(mine["served"] - mine["queued"]))
        assert found.holds(1 / (0.5 - share)), (share, found)
        assert found.precision < 0.1


def test_a_jackson_network_that_splits_and_joins() -> None:
    """Burke and Jackson: every queue is M/M/1 on its own, and the mean times add up along a path.

    a passes everything to b's three executors (1/2, 1/4, 1/4), b to c's two (each the half).
    """
    made = network(
        plan([("spout", "a"), ("a", "b"), ("b", "c")], {"spout": 1, "a": 1, "b": 3, "c": 2}),
        400,
        {"a": waiting(exponential(1.5, 5000)), "b": waiting(exponential(3.0, 5000)),
         "c": waiting(exponential(2.0, 5000))},
        routing={("a", "b"): np.array([0.5, 0.25, 0.25])},
    )  # fmt: skip
    run = simulate(made, 1500, 30, seed=4)
    a = 1 / (1 / 1.5 - 0.4)
    b = 0.5 / (1 / 3 - 0.2) + 0.5 / (1 / 3 - 0.1)
    c = 1 / (0.5 - 0.2)
    found = batch_means(in_order(run))
    assert found.holds(a + b + c), found
    assert found.precision < 0.03


@pytest.mark.parametrize("idle_ms", [1.0, 5.0])
def test_an_executor_that_sleeps_is_a_queue_with_multiple_vacations(idle_ms: float) -> None:
    """Doshi 1986, multiple vacations: the wait of M/G/1 and the rest of a vacation, E[V^2] / (2 E[V])."""
    service = SERVICES["lognormal"]
    made = network(plan(QUEUE), 250, {"queue": waiting(service)}, idle_ms=idle_ms)
    run = simulate(made, 2000, 50, seed=5)
    found = batch_means(waits(run, "queue"))
    assert found.holds(pollaczek_khinchine_ms(250, service) + idle_ms / 2), found
    assert found.precision < 0.06


def test_arrivals_in_batches() -> None:
    """M^X/G/1: those before in one's own batch are waited for too (Gross and Harris, bulk input).

    A multiplier in front that takes no time makes the batches.
    """
    numbers = np.array([0.0, 0.4, 0.3, 0.0, 0.0, 0.3])
    service = uniform(0.5, 1.5)
    made = network(
        plan([("spout", "multiplier"), ("multiplier", "queue")]),
        200,
        {"queue": waiting(service)},
        fanout={"multiplier": numbers},
    )
    run = simulate(made, 2000, 20, seed=6)
    sizes = np.arange(numbers.size)
    mean, second = sizes @ numbers, sizes**2 @ numbers
    load = 0.2 * mean * service.mean_ms
    expected = (
        0.2 * mean * service.second_moment_ms2 + (second / mean - 1) * service.mean_ms
    ) / (2 * (1 - load))  # fmt: skip
    found = batch_means(waits(run, "queue"))
    assert found.holds(expected), found
    assert found.precision < 0.03


def test_threads_that_share_one_core_keep_it_busy_as_one_m_m_1_queue() -> None:
    """Whoever is served, one core works as long as there is work; with exponential demands the number of
    tuples in all executors together is then that of one M/M/1 queue, and by Little's law the mean time."""
    made = network(
        plan(QUEUE, {"spout": 1, "queue": 8}), 350, {"queue": computing(exponential(2.0, 5000))}, cores=1.0
    )
    run = simulate(made, 1500, 30, seed=7)
    found = batch_means(in_order(run))
    assert found.holds(1 / (0.5 - 0.35)), found
    assert found.precision < 0.08
    assert run.use.cpu_cores.sum() == pytest.approx(0.7, rel=0.02)


def test_work_that_needs_no_core_is_not_shared() -> None:
    """The same with waiting instead of computing: eight M/M/1 queues of an eighth of the rate."""
    made = network(
        plan(QUEUE, {"spout": 1, "queue": 8}), 350, {"queue": waiting(exponential(2.0, 5000))}, cores=1.0
    )
    run = simulate(made, 600, 30, seed=8)
    found = batch_means(in_order(run))
    assert found.holds(1 / (0.5 - 0.35 / 8)), found
    assert found.precision < 0.02
