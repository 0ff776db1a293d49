"""The analytic solver against exact results: queues, networks of them, sleeps, windows and their acks.

Atoms stand for distributions in the networks; expected values use the atoms' own moments where they enter.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from analytic_networks import exponential, network, query_plan, spread, station
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from synthetic import deploy

from harness.errors import ModelDeclined
from harness.models.composite.atoms import even
from harness.models.contract.answers import Saturated
from harness.models.network import Network, constant
from harness.models.simulator import simulate
from harness.models.solver.solve import Solution, solve
from harness.models.solver.waiting import APART, MEAN, SECOND
from harness.plans import Window
from harness.schemas import PERCENTILES


def mean(solution: Solution) -> float:
    return solution.ground_truth()[""].mean_ms


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("scv", [0.0, 0.25, 1.0, 2.0])
def test_one_server_waits_as_pollaczek_and_khinchine_say(load: float, scv: float) -> None:
    times = spread(1.0, scv)
    second = times.second_moment_ms2
    expected = 1.0 + load * second / (2 * (1 - load))
    assert mean(solve(station(1000 * load, times))) == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("load", [0.3, 0.7])
@pytest.mark.parametrize("scv", [1.0, 2.0, 4.0])
def test_waits_behind_services_of_much_variation_vary_as_pollaczek_and_khinchine_say(
    load: float, scv: float
) -> None:
    times = spread(1.0, scv)
    third = float(times.values_ms**3 @ times.probabilities)
    first = load * times.second_moment_ms2 / (2 * (1 - load))
    law = solve(station(1000 * load, times)).flow.law
    found = law[law[:, MEAN] > 0.01][0]
    assert found[SECOND] == pytest.approx(2 * first**2 + load * third / (3 * (1 - load)), rel=0.02)
    assert found[APART] > 0 or scv == 1.0  # a tail beyond an exponential's


@pytest.mark.parametrize(("load", "off"), [(0.1, 0.003), (0.2, 0.005), (0.5, 0.12), (0.8, 0.15), (0.9, 0.25)])
def test_messages_at_equal_gaps_hardly_wait_at_light_load(load: float, off: float) -> None:
    # D/M/1: the wait is s / (1 - s) services with s = exp(-(1 - s) / load); 0.007 at a load of 0.2, where
    # messages at random would wait 0.25 and robust queueing says 0.22. At 0.9 it is 4.2; 0.2 are lost.
    s = brentq(lambda s: s - np.exp(-(1 - s) / load), 0.0, 1 - 1e-3)
    found = mean(solve(station(1000 * load, exponential(1.0), scv=0.0))) - 1.0
    assert found == pytest.approx(s / (1 - s), abs=off)


@pytest.mark.parametrize("service_scv", [0.0, 1.0])
@pytest.mark.parametrize("scv", [0.0, 0.05, 0.2, 0.5])
def test_the_mean_wait_neither_jumps_nor_falls_as_the_load_grows(service_scv: float, scv: float) -> None:
    # Steps of 0.005; what an approximation between two limits is allowed: a fall by 1 % of a service, and no
    # rise by more than half of what is there (a wait grows by 6 % in such a step, like 1 / (1 - load)).
    times = spread(1.0, service_scv)
    waits = [mean(solve(station(1000 * load, times, scv=scv))) - 1.0 for load in np.arange(0.02, 0.9, 0.005)]
    assert min(np.diff(waits)) > -0.01
    assert max(np.diff(waits) / np.maximum(waits[1:], 0.1)) < 0.5


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_percentiles_of_an_m_m_1_queue(load: float) -> None:
    # The sojourn is exponential with mean S / (1 - load); 64 atoms leave 1-2 % of the second moment out.
    found = solve(station(1000 * load, exponential(1.0))).ground_truth()[""]
    expected = -np.log1p(-np.array(list(PERCENTILES.values()))) / (1 - load)
    assert found.percentiles_ms == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_percentiles_of_an_m_d_1_queue(load: float) -> None:
    # Erlang's series for the wait of constant services (Gross and Harris, Fundamentals of Queueing Theory).
    def waits_at_most(x: float) -> float:
        past = load * (x - np.arange(math.floor(x) + 1))
        return (1 - load) * sum(np.exp(t) * (-t) ** k / math.factorial(k) for k, t in enumerate(past))

    found = solve(station(1000 * load, constant(1.0))).ground_truth()[""]
    levels = np.array(list(PERCENTILES.values()))
    waits = [brentq(lambda x, p=p: waits_at_most(x) - p, 0, 25) if p > 1 - load else 0.0 for p in levels]
    assert found.percentiles_ms == pytest.approx(1 + np.array(waits), rel=0.01)


@pytest.mark.parametrize("load", [0.0001, 0.4, 0.8])
def test_sleeps_add_the_rest_of_a_sleep(load: float) -> None:
    # Fuhrmann and Cooper: the wait of a server with vacations is that without, plus the rest of a vacation.
    times = exponential(1.0)
    awake, asleep = (mean(solve(station(1000 * load, times, idle_ms=i))) for i in (0.0, 4.0))
    assert asleep - awake == pytest.approx(2.0, rel=0.01)


def line(rates: float, services: list[float], **more: object) -> Network:
    names = ["spout", *(f"bolt-{i}" for i in range(len(services)))]
    plan = deploy(query_plan(list(pairwise(names))), 1, nodes=1, workers_per_node=1, ackers=1)
    cpu = {name: exponential(s) for name, s in zip(names[1:], services, strict=True)}
    return network(plan, rates, cpu=cpu, **more)  # type: ignore[arg-type]


def test_a_jackson_network_in_a_row() -> None:
    # Burke: every queue sees Poisson arrivals, so the means of M/M/1 queues add up.
    found = mean(solve(line(500.0, [1.0, 1.6, 0.5])))
    assert found == pytest.approx(sum(s / (1 - 0.5 * s) for s in (1.0, 1.6, 0.5)), rel=0.03)


def test_a_jackson_network_that_splits_and_joins() -> None:
    plan = deploy(
        query_plan(
            {("spout", "left"): "fields", ("left", "right"): "fields"}, {"spout": 1, "left": 1, "right": 3}
        ),
        {"spout": 1, "left": 1, "right": 3},
        nodes=1,
        workers_per_node=1,
        ackers=1,
    )
    shares = np.array([0.5, 0.3, 0.2])
    found = solve(
        network(
            plan,
            400.0,
            cpu={"left": exponential(1.0), "right": exponential(2.0)},
            routing={("left", "right"): shares[None, :]},
        )
    )
    right = 2.0 / (1 - 0.8 * shares)
    assert mean(found) == pytest.approx(1 / (1 - 0.4) + float(shares @ right), rel=0.03)
    assert found.loads[:5].max() == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("window", "arrivals"),
    [  # measured on a real cluster: residence from arrival to ack, in arrivals (tumbling 10 by the same rule)
        (Window(kind="count", length=10, slide=10), 14.5),
        (Window(kind="count", length=50, slide=50), 74.5),
        (Window(kind="count", length=99, slide=99), 148.0),
        (Window(kind="count", length=200, slide=200), 249.0),
        (Window(kind="count", length=1000, slide=1000), 1049.0),
        (Window(kind="count", length=100, slide=10), 104.5),
        (Window(kind="count", length=1000, slide=50), 1024.5),
    ],
    ids=str,
)
def test_windows_fire_and_ack_as_measured(window: Window, arrivals: float) -> None:
    plan = deploy(query_plan([("spout", "window"), ("window", "sink")], 1, {"window": window}), 1, ackers=1)
    found = solve(network(plan, 100.0, fanout={"window": [0.0, 1.0]}))  # 10 ms between arrivals
    assert mean(found) == pytest.approx(10 * (window.slide - 1) / 2, rel=1e-6)
    assert found.complete_mean_ms()[""] == pytest.approx(10 * arrivals, rel=0.02)


@pytest.mark.parametrize("slide", [1000, 200])
def test_time_windows_fire_and_ack_as_measured(slide: int) -> None:
    # Tumbling: acked one and a half windows after arrival (measured 1516 ms at 1000); sliding W + slide / 2.
    window = Window(kind="time", length=1000, slide=slide)
    plan = deploy(query_plan([("spout", "window"), ("window", "sink")], 1, {"window": window}), 1, ackers=1)
    found = solve(network(plan, 100.0, fanout={"window": [0.0, 1.0]}))
    assert mean(found) == pytest.approx(slide / 2, rel=1e-6)
    assert found.complete_mean_ms()[""] == pytest.approx(1000 + slide / 2, rel=0.01)


@pytest.mark.parametrize("executors", [1, 4])
@pytest.mark.parametrize(
    ("dealt", "levels_ms"),
    [  # messages 6.25 ms apart, 16 tasks: each task's every 100 ms, or each by a chance of 1 / 16, so
        # that k more take a negative binomial number of messages; a member waits for k = 0 to 9 alike
        (True, {"p90": 850.0, "p95": 900.0}),  # the 90th percentile lies between 800 and 900
        (False, {"p50": 406.25, "p90": 937.5, "p95": 1093.75, "p99": 1406.25}),
    ],
)
def test_windows_fill_evenly_where_their_tasks_are_dealt_tuples(
    executors: int, dealt: bool, levels_ms: dict[str, float]
) -> None:
    window = Window(kind="count", length=10, slide=10)
    edges = [("spout", "window"), ("window", "sink")]
    tasks = {"spout": 1, "window": 16, "sink": 1}
    plan = deploy(query_plan(edges, tasks, {"window": window}), {**tasks, "window": executors}, ackers=1)
    net = network(plan, 160.0, fanout={"window": [0.0, 1.0]}, scv=0.0)
    shuffled = frozenset(s for s in plan.query_plan.streams if dealt and s.target == "window")
    found = solve(replace(net, round_robin=shuffled)).ground_truth()[""]
    levels = dict(zip(PERCENTILES, found.percentiles_ms, strict=True))
    assert {k: levels[k] for k in levels_ms} == pytest.approx(levels_ms, rel=0.02)
    assert found.mean_ms == pytest.approx(450.0, rel=1e-6)
    if dealt:
        assert levels["p99"] < 1000.0  # the last of ten comes after 900 ms; 1406 were predicted once


def test_tasks_that_are_dealt_to_by_one_sender_each_do_not_see_the_others() -> None:
    # Local shuffles: eight senders, each to a window executor of four tasks beside it, are eight times one.
    def one_of(senders: int) -> list[float]:
        window = Window(kind="count", length=4, slide=4)
        tasks = {"spout": senders, "window": 4 * senders, "sink": 1}
        plan = deploy(
            query_plan([("spout", "window"), ("window", "sink")], tasks, {"window": window}),
            {"spout": senders, "window": senders, "sink": 1},
            ackers=1,
        )
        near = np.kron(np.eye(senders), np.full((1, 4), 1 / 4))
        net = network(
            plan, 40.0 * senders, fanout={"window": [0.0, 1.0]}, scv=0.0, routing={("spout", "window"): near}
        )
        shuffled = frozenset(s for s in plan.query_plan.streams if s.target == "window")
        return list(solve(replace(net, round_robin=shuffled)).ground_truth()[""].percentiles_ms)

    alone = one_of(1)
    assert one_of(8) == pytest.approx(alone, rel=0.01)
    assert alone[-1] < 400.0  # a tuple each 100 ms: the first of four waits for 300


def test_a_message_is_complete_when_its_last_child_is() -> None:
    # n children over n idle servers, each served for a uniform time: the last takes n / (n + 1) of the most.
    for n in (2, 5):
        plan = deploy(
            query_plan([("spout", "many"), ("many", "each")], {"spout": 1, "many": 1, "each": 400}),
            {"spout": 1, "many": 1, "each": 400},
            nodes=1,
            workers_per_node=1,
            ackers=1,
        )
        found = solve(
            network(
                plan,
                0.001,
                wait={"each": even(10.0)},
                fanout={"many": [0.0] * n + [1.0]},
            )
        )
        assert found.complete_mean_ms()[""] == pytest.approx(10 * n / (n + 1), rel=0.03)


def test_two_threads_on_one_core_see_each_other() -> None:
    # Processor sharing of one core at load 1/2 by many executors: sojourn is S / (1 - load), M/M/1-PS.
    plan = deploy(
        query_plan([("spout", "bolt")], {"spout": 1, "bolt": 64}), {"spout": 1, "bolt": 64}, nodes=1,
        workers_per_node=1, ackers=1,
    )  # fmt: skip
    found = solve(network(plan, 500.0, cpu={"bolt": exponential(1.0)}, cores=1.0))
    assert found.contention.host_load[0] == pytest.approx(0.5)
    assert mean(found) == pytest.approx(2.0, rel=0.05)


@given(st.floats(1.01, 5.0))
@settings(deadline=None, max_examples=budget(10))
def test_what_is_overloaded_is_named(factor: float) -> None:
    found = solve(station(1000 * factor, exponential(1.0)))
    with pytest.raises(Saturated, match=r"queue\[\d+-\d+\] \(load"):
        found.ground_truth()
    assert found.bottleneck.factor == pytest.approx(1 / factor, rel=1e-3)
    assert found.bottleneck_name.startswith("queue[")


def test_the_sustainable_rate_is_where_saturation_begins() -> None:
    slow = line(100.0, [1.0, 4.0, 2.0])
    most = 100.0 * solve(slow).bottleneck.factor
    assert most == pytest.approx(250.0, rel=1e-3)
    assert not solve(line(0.99 * most, [1.0, 4.0, 2.0])).overloaded
    assert solve(line(1.01 * most, [1.0, 4.0, 2.0])).overloaded


def test_a_network_with_a_number_that_is_none_is_declined() -> None:
    net = station(100.0, exponential(1.0))
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ModelDeclined, match="negative or no number"):
            solve(replace(net, idle_ms=np.full(len(net.layout), wrong)))
    service = {k: s for k, s in net.service.items() if not k.source}
    with pytest.raises(ModelDeclined, match="has nothing for"):
        solve(replace(net, service=service))


def multiplied(rate_tps: float, fanout: list[float], load: float) -> Network:
    """Messages at random, each making several tuples at once, which one queue serves (exponential)."""
    mean = float(np.arange(len(fanout)) @ fanout)
    plan = deploy(
        query_plan([("spout", "many"), ("many", "queue")]), 1, nodes=1, workers_per_node=1, ackers=1
    )
    cpu = {"queue": exponential(1000 * load / rate_tps / mean, 400)}
    return network(plan, rate_tps, cpu=cpu, fanout={"many": fanout})


@pytest.mark.parametrize("load", [0.2, 0.6, 0.85])
@pytest.mark.parametrize("fanout", [[0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5]])
def test_what_comes_together_waits_as_in_an_m_x_m_1_queue(fanout: list[float], load: float) -> None:
    # Chaudhry and Templeton, Bulk Queues (1983), chapter 3: the mean number in an M^[X]/M/1 system is
    # load (1 + E X^2 / E X) / (2 (1 - load)); by Little's law the time there, over the rate of tuples.
    net = multiplied(100.0, fanout, load)
    k, p = np.arange(len(fanout)), np.array(fanout)
    mean, square = float(k @ p), float(k**2 @ p)
    expected = 10 / mean * load * (1 + square / mean) / (2 * (1 - load))
    assert solve(net).ground_truth()[""].mean_ms == pytest.approx(expected, rel=0.02)
    run = simulate(net, 400.0, 20.0, 1)
    assert run.latencies.ground_truth_ms.mean() == pytest.approx(expected, rel=0.08)


def test_hops_are_added_by_how_far_they_go() -> None:
    hops = (1.0, 10.0, 100.0)
    query = query_plan([("spout", "bolt")], {"spout": 1, "bolt": 3})
    plan = deploy(query, {"spout": 1, "bolt": 3}, nodes=2, workers_per_node=2, ackers=1)
    workers = [e.worker for e in plan.of("bolt")]
    here = plan.of("spout")[0].worker
    expected = np.mean([hops[0 if w == here else 1 if w.node == here.node else 2] for w in workers])
    assert mean(solve(network(plan, 1.0, hops_ms=hops))) == pytest.approx(expected)
