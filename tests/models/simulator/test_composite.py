"""The analytic solver beside the simulator on random networks, and what must hold of either.

Tolerances: where both sides are exact in the mean, five standard errors of the simulation; of latencies the
solver is an approximation, and the bounds are what it was found to keep to (``bench/against_simulator.py``
has the distribution over more plans), with some room.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import NetworkLimits, random_network
from simulated_networks import batch_means, network, plan, waiting

from harness.models.composite.played import answered
from harness.models.contract.layout import FloatArray, Output, lay_out
from harness.models.network import Atoms, Hops, Input, Network, Service, constant
from harness.models.simulator import SimulatedRun, simulate
from harness.models.simulator.distributions import exponential
from harness.models.solver.solve import solve
from harness.plans import PhysicalPlan, Stream, Window

pytestmark = pytest.mark.deep

PLANS = NetworkLimits(components=(2, 6), executors=(1, 6), workers=(1, 4), contended=False)
SEEDS = range(12)


def times(atoms: Atoms, factor: float) -> Atoms:
    return Atoms(atoms.values_ms * factor, atoms.probabilities)


def slowed(net: Network, factor: int) -> Network:
    """The same network with every time so much longer."""
    windows = {
        n: w if w.kind == "count" else Window(kind="time", length=w.length * factor, slide=w.slide * factor)
        for n, w in net.windows.items()
    }
    query = net.layout.plan.query_plan
    components = tuple(c.model_copy(update={"window": windows.get(c.name)}) for c in query.components)
    physical = net.layout.plan.model_copy(
        update={"query_plan": query.model_copy(update={"components": components})}
    )
    return replace(
        net,
        layout=lay_out(physical),
        input_tps={n: r / factor for n, r in net.input_tps.items()},
        poll_ms={n: p * factor for n, p in net.poll_ms.items()},
        idle_ms=net.idle_ms * factor,
        service={
            k: Service(times(s.cpu_ms, factor), times(s.wait_ms, factor)) for k, s in net.service.items()
        },
        windows=windows,
        hops=Hops(
            *(
                times(a, factor)
                for a in (net.hops.within_worker_ms, net.hops.between_workers_ms, net.hops.between_nodes_ms)
            )
        ),
        flush_ms=net.flush_ms * factor,
        send_ms={n: times(a, factor) for n, a in net.send_ms.items()},
        acker_service_ms=times(net.acker_service_ms, factor),
    )


def renamed(net: Network) -> Network:
    """The same network, every component called otherwise, so that they are listed in another order too."""
    query = net.layout.plan.query_plan
    new = {c.name: f"{'zyxwvutsrq'[i]}-{c.name}" for i, c in enumerate(query.components)}

    def stream(s: Stream) -> Stream:
        return s.model_copy(update={"source": new[s.source], "target": new[s.target]})

    def key(k: Input) -> Input:
        return Input(new[k.component], new.get(k.source, ""), k.stream)

    def port(o: Output) -> Output:
        return Output(new[o.component], o.stream)

    query_plan = query.model_copy(
        update={
            "components": tuple(
                c.model_copy(update={"name": new[c.name]}) for c in reversed(query.components)
            ),
            "streams": tuple(stream(s) for s in reversed(query.streams)),
        }
    )
    executors = tuple(
        e.model_copy(update={"component": new.get(e.component, e.component)})
        for e in net.layout.plan.executors
    )
    layout = lay_out(PhysicalPlan(query_plan=query_plan, nodes=net.layout.plan.nodes, executors=executors))
    at = {e.first_task: i for i, e in enumerate(net.layout.executors) if e.component in new}
    at_acker = {e.first_task: i for i, e in enumerate(net.layout.executors) if e.component not in new}
    back = np.array(
        [(at if e.component in new.values() else at_acker)[e.first_task] for e in layout.executors]
    )
    return replace(
        net,
        layout=layout,
        input_tps={new[n]: r for n, r in net.input_tps.items()},
        poll_ms={new[n]: p for n, p in net.poll_ms.items()},
        idle_ms=net.idle_ms[back],
        routing={stream(s): r for s, r in net.routing.items()},
        round_robin=frozenset(stream(s) for s in net.round_robin),
        fanout={key(k): {port(o): p for o, p in made.items()} for k, made in net.fanout.items()},
        service={key(k): s for k, s in net.service.items()},
        windows={new[n]: w for n, w in net.windows.items()},
        send_ms={new[n]: a for n, a in net.send_ms.items()},
    )


def by_message(run: SimulatedRun) -> FloatArray:
    """Ground truths in the order of entry."""
    found = run.latencies
    return np.asarray(found.ground_truth_ms[np.argsort(found.entered_ms, kind="stable")])


@pytest.mark.parametrize("seed", SEEDS)
def test_what_flows_and_what_is_busy_agree(seed: int) -> None:
    """Conservation: the traffic equations have one solution, whoever follows them."""
    net = random_network(seed, replace(PLANS, windows=False))
    run, solution = simulate(net, 30, 2, seed), answered(net)
    layout = net.layout
    messages = run.in_interval.sum()
    for name in layout.order:
        served = run.use.served[layout.of[name]].sum()
        rate = solution.service.rate[layout.of[name]].sum() * 1000
        made = max(rate * 30 / messages, 1.0)
        assert served == pytest.approx(rate * 30, abs=5 * made * np.sqrt(20 * messages) + 10)
    spouts = [e for n in net.input_tps for e in range(*layout.of[n].indices(len(layout)))]
    bolts = np.setdiff1d(np.arange(len(layout)), spouts)
    np.testing.assert_allclose(run.use.utilisation[bolts], solution.loads[bolts], atol=0.08)


def test_latencies_are_close_on_most_networks() -> None:
    """Means of ground truth, over plans with windows too; the worst plan within what is explained there."""
    deviations = []
    for seed in SEEDS:
        net = random_network(seed, replace(PLANS, acks=True))
        if net.batched:
            continue  # not solved
        run = simulate(net, 120, 20, seed)
        deviations.append(solve(net).ground_truth()[""].mean_ms / run.latencies.ground_truth_ms.mean() - 1)
    found = np.abs(deviations)
    assert found.size >= 6
    assert np.median(found) <= 0.03, found
    assert found.max() <= 0.15, found


@given(st.integers(0, 1000))
@settings(max_examples=budget(10))
def test_a_network_twice_as_slow_is_the_same_twice_as_slow(seed: int) -> None:
    """Scaling by a power of two changes no rounding: the simulator's every time is doubled exactly."""
    net = random_network(seed, PLANS)
    slow = slowed(net, 2)
    one, two = simulate(net, 4, 1, seed, tail_s=1), simulate(slow, 8, 2, seed, tail_s=2)
    assert np.array_equal(2 * one.visits["received"], two.visits["received"], equal_nan=True)
    assert np.array_equal(2 * one.latencies.ground_truth_ms, two.latencies.ground_truth_ms)


@pytest.mark.parametrize("seed", range(4))
def test_names_mean_nothing(seed: int) -> None:
    """Solver: the same up to rounding. Simulator: other draws, so within both intervals."""
    net = random_network(seed, replace(PLANS, windows=False))
    other = renamed(net)
    alone, named = (replace(n, batch=1, transfer_batch=1, flush_ms=0.0) for n in (net, other))
    assert solve(named).ground_truth()[""].mean_ms == pytest.approx(
        solve(alone).ground_truth()[""].mean_ms, rel=1e-6
    )
    one, two = (batch_means(by_message(simulate(n, 60, 2, seed))) for n in (net, other))
    assert abs(one.mean - two.mean) <= np.hypot(one.half_width, two.half_width)


def test_more_messages_wait_longer_in_both() -> None:
    """Monotone in the rate: Poisson messages through two queues, one behind the other."""
    service = {"a": waiting(exponential(2.0)), "b": waiting(exponential(1.5))}
    means = []
    for rate in (100.0, 250.0, 400.0):
        net = network(plan([("spout", "a"), ("a", "b")]), rate, service)
        means.append((simulate(net, 200, 5, 1).latencies.ground_truth_ms.mean(),
                      solve(net).ground_truth()[""].mean_ms))  # fmt: skip
    assert (np.diff(np.array(means), axis=0) > 0).all()
    np.testing.assert_allclose(*np.array(means).T, rtol=0.06)


def test_a_regular_flow_that_is_dealt_out_and_meets_again_is_regular() -> None:
    """Messages at equal gaps, by chance to one of eight executors that take no time, then all to one queue.

    Each of the eight gets what looks random; all together it is D/D/1, in which nobody waits. Had the eight
    been independent, it would be M/D/1: at a load of 0.8 a mean wait of 0.8 / (2 x 0.2) services, 4 ms.
    """
    counts = {"spout": 4, "split": 8, "queue": 1}
    edges = [("spout", "split"), ("split", "queue")]
    net = network(plan(edges, counts), 400, {"queue": waiting(constant(2.0))}, scv=0.0, in_turn=True)
    queue = net.layout.of["queue"].start
    assert simulate(net, 20, 1, 1).use.wait_ms[queue] == pytest.approx(0.0, abs=1e-6)
    assert solve(net).queue_wait_ms[queue] < 4 / 6


@pytest.mark.parametrize("executors", [1, 2, 4, 16])
def test_messages_that_come_in_turn_leave_in_bursts(executors: int) -> None:
    """Long polls at 16 tasks, filled in turn every 10 ms: an executor comes round to eight messages at once.

    Polls of 5 ms make rounds of 80 ms for one executor. Of eight messages that come out at once the last
    waits for seven services, on average 3.5 of 1.1 ms. Sixteen executors have one task each: nothing waits.
    Between, bursts are cut short where the turn goes on to another executor's tasks.
    """
    counts = {"spout": executors, "queue": 1}
    net = network(plan([("spout", "queue")], counts, tasks=16), 100, {"queue": waiting(constant(1.1))},
                  scv=0.0, in_turn=True, poll_ms=5.0)  # fmt: skip
    queue = net.layout.of["queue"].start
    played = simulate(net, 60, 2, 1).use.wait_ms[queue]
    if executors in (1, 16):
        assert played == pytest.approx({1: 3.85, 16: 0.0}[executors], rel=0.05, abs=1e-6)
    assert solve(net).queue_wait_ms[queue] == pytest.approx(played, rel=0.3, abs=0.2)
