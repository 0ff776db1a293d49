"""The analytic solver on random plans: conservation, monotonicity, scaling, names that do not matter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from analytic_networks import random_network
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.models.composite.sensitivity import dearer
from harness.models.contract.layout import Output, lay_out
from harness.models.network import Network
from harness.models.solver.solve import Latency, Solution, solve
from harness.models.solver.variability import RATIO
from harness.plans import PhysicalPlan, QueryPlan

pytestmark = pytest.mark.deep

SEEDS = st.integers(0, 10_000)
FEW = settings(deadline=None, max_examples=budget(25))


def faster(net: Network, factor: float) -> Network:
    return replace(net, input_tps={n: factor * v for n, v in net.input_tps.items()})


def stretched(net: Network, factor: float) -> Network:
    """The same world in slow motion."""
    return faster(dearer(net, factor), 1 / factor)


def numbers(solution: Solution) -> dict[str, Latency]:
    found = solution.ground_truth()
    complete = solution.complete_mean_ms()[""]
    return found | {"complete": Latency(complete, np.full(4, complete)), "ack": solution.ack()[""]}


@given(SEEDS)
@FEW
def test_tuples_are_neither_lost_nor_made_up(seed: int) -> None:
    net = random_network(seed)
    found = solve(net)
    layout, plan = net.layout, net.layout.plan.query_plan
    for name in layout.order:
        arrived = found.service.rate[layout.of[name]].sum() * 1000
        sent = sum(
            found.port_rate(Output(s.source, s.stream)).sum() * 1000 for s in plan.inputs(name)
        ) or sum(net.input_tps[name])
        assert arrived == pytest.approx(sent)
        for s in plan.inputs(name):
            rows = net.routing[s] @ layout.membership[name].T
            assert rows.sum(axis=1) == pytest.approx(np.ones(rows.shape[0]))


@given(SEEDS)
@FEW
def test_rates_and_loads_grow_with_the_input_rate(seed: int) -> None:
    net = random_network(seed, busiest=0.45)
    slow, quick = solve(net), solve(faster(net, 2.0))
    timed = [c for c in net.layout.plan.query_plan.components if c.window and c.window.kind == "time"]
    if not timed:  # windows by time fire as often, with more in them
        assert quick.service.rate == pytest.approx(2 * slow.service.rate)
    assert (quick.loads >= slow.loads - 1e-12).all()
    assert quick.bottleneck.factor <= slow.bottleneck.factor * (1 + 1e-3)


@given(SEEDS)
@FEW
def test_latency_grows_with_the_input_rate_where_nothing_waits_for_others(seed: int) -> None:
    # Windows and spouts' rounds are quicker at higher rates; without them more load means more waiting.
    net = random_network(seed, busiest=0.45, windows=False)
    net = replace(net, poll_ms=dict.fromkeys(net.poll_ms, 0.0), input_scv=1.0)
    slow, quick = solve(net).ground_truth()[""], solve(faster(net, 2.0)).ground_truth()[""]
    assert quick.mean_ms >= slow.mean_ms * (1 - 1e-9)


@given(SEEDS)
@FEW
def test_slow_motion_is_slow_in_everything(seed: int) -> None:
    # A ratio of the scales at which variability is kept, so that these fall on one another.
    factor = RATIO**2
    net = random_network(seed, windows=False)
    own, slow = numbers(solve(net)), numbers(solve(stretched(net, factor)))
    for name, latency in own.items():
        assert slow[name].mean_ms == pytest.approx(factor * latency.mean_ms, rel=0.02), name
        assert slow[name].percentiles_ms == pytest.approx(factor * latency.percentiles_ms, rel=0.03), name


@given(SEEDS)
@FEW
def test_percentiles_ascend_and_the_mean_is_among_what_is_possible(seed: int) -> None:
    for name, latency in numbers(solve(random_network(seed))).items():
        assert (np.diff(latency.percentiles_ms) >= 0).all(), name
        assert 0 < latency.mean_ms < 20 * latency.percentiles_ms[-1], name


@given(SEEDS)
@FEW
def test_names_do_not_matter(seed: int) -> None:
    net = random_network(seed)
    plan = net.layout.plan
    new = {c.name: f"renamed-{i}" for i, c in enumerate(plan.query_plan.components)}
    streams = {
        s: s.model_copy(update={"source": new[s.source], "target": new[s.target]})
        for s in plan.query_plan.streams
    }
    query_plan = QueryPlan(
        name="other",
        components=tuple(c.model_copy(update={"name": new[c.name]}) for c in plan.query_plan.components),
        streams=tuple(streams.values()),
    )
    executors = tuple(
        e.model_copy(update={"component": new.get(e.component, e.component)}) for e in plan.executors
    )
    other = replace(
        net,
        layout=lay_out(PhysicalPlan(query_plan=query_plan, nodes=plan.nodes, executors=executors)),
        input_tps={new[n]: v for n, v in net.input_tps.items()},
        poll_ms={new[n]: v for n, v in net.poll_ms.items()},
        routing={streams[s]: v for s, v in net.routing.items()},
        fanout={
            k._replace(component=new[k.component], source=new.get(k.source, "")): {
                Output(new[o.component], o.stream): pmf for o, pmf in made.items()
            }
            for k, made in net.fanout.items()
        },
        service={
            k._replace(component=new[k.component], source=new.get(k.source, "")): s
            for k, s in net.service.items()
        },
        windows={new[n]: w for n, w in net.windows.items()},
        send_ms={new[n]: a for n, a in net.send_ms.items()},
    )
    own, renamed = solve(net), solve(other)
    assert renamed.ground_truth()[""].mean_ms == pytest.approx(own.ground_truth()[""].mean_ms)
    assert renamed.complete_mean_ms()[""] == pytest.approx(own.complete_mean_ms()[""])
    assert renamed.loads == pytest.approx(own.loads)


@given(SEEDS)
@FEW
def test_the_stages_add_up_to_the_mean_along_a_line(seed: int) -> None:
    net = random_network(seed)
    plan = net.layout.plan.query_plan
    if any(len(plan.inputs(n)) > 1 or len(plan.outputs(n)) > 1 for n in net.layout.order):
        return  # only where every row meets every stage
    found = solve(net)
    waits, holds = found.stage_means()
    cells = found.flat.classes["first_cell"]
    service = 0.0
    for key, first, last in zip(found.names.inputs, cells[:-1], cells[1:], strict=True):
        if key.source:
            rows = found.rates.cell[1, first:last]  # rows, each with a latency
            service += float(rows @ found.service.cell[first:last, 0] / rows.sum())
    assert found.ground_truth()[""].mean_ms == pytest.approx(
        sum(waits.values()) + sum(holds.values()) + service, rel=1e-6
    )
