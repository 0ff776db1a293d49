"""Arrivals, service times, windows, transfer and layout. Expected numbers are worked out beside each test."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import (
    SETTINGS,
    Truth,
    all_in_one,
    component,
    deploy,
    fields_to_fields,
    join_split,
    observation,
    stream,
)

from harness.errors import ModelDeclined
from harness.models.contract.layout import Output, downstream_order, lay_out, require_same_topology
from harness.models.contract.observe import observe
from harness.models.contract.service import executor_service_ms
from harness.models.thesis.arrivals import propagate
from harness.models.thesis.model import ThesisStages
from harness.models.thesis.network_delay import network_ms
from harness.models.thesis.windows import task_arrivals, window_delay_ms
from harness.plans import QueryPlan, Window

LINE = QueryPlan(
    name="line",
    components=(component("s", 2), component("a", 2), component("b", 2)),
    streams=(stream("s", "a"), stream("a", "b", "fields")),
)


def line_flows(**changes):
    layout = lay_out(deploy(LINE, 2))
    sa, ab = LINE.streams
    arguments = {
        "emission": {Output("s", "default"): np.array([10.0, 30.0])},
        "routing": {sa: np.full((2, 2), 0.5), ab: np.array([[0.9, 0.1], [0.2, 0.8]])},
        "copies": {sa: 1.0, ab: 1.0},
        "coefficients": {Output("a", "default"): {sa: np.array([2.0, 0.5])}},
    }
    return propagate(layout, **(arguments | changes))


def test_rates_go_down_the_line() -> None:
    flows = line_flows()
    assert flows.arrivals("a").tolist() == [20.0, 20.0]  # half of 10 + 30 each
    assert flows.outputs[Output("a", "default")].tolist() == [40.0, 10.0]
    assert flows.arrivals("b") == pytest.approx([0.9 * 40 + 0.2 * 10, 0.1 * 40 + 0.8 * 10])


def test_a_negative_output_and_an_unknown_routing_are_declined_by_name() -> None:
    sa, ab = LINE.streams
    with pytest.raises(ModelDeclined, match=r"a\[\d+-\d+\] an output rate of -20"):
        line_flows(coefficients={Output("a", "default"): {sa: np.array([1.0, -1.0])}})
    with pytest.raises(ModelDeclined, match=r"no routing known for a\[\d+-\d+\]"):
        line_flows(routing={sa: np.full((2, 2), 0.5), ab: np.array([[np.nan, np.nan], [0.2, 0.8]])})


def test_cycles_are_named() -> None:
    loop = QueryPlan(
        name="loop",
        components=(component("s"), component("a"), component("b")),
        streams=(stream("s", "a"), stream("a", "b"), stream("b", "a")),
    )
    with pytest.raises(ModelDeclined, match="cycle: a, b"):
        downstream_order(loop)


def test_a_plan_that_does_not_fit_is_named() -> None:
    plan = deploy(LINE, 2)
    less = plan.model_copy(update={"executors": tuple(e for e in plan.executors if e != plan.of("b")[1])})
    with pytest.raises(ModelDeclined, match="does not fit the query plan: 2 tasks of b, 1 held"):
        lay_out(less)
    with pytest.raises(ModelDeclined, match="other tasks of b"):
        require_same_topology(plan, less)
    with pytest.raises(ModelDeclined, match="another query plan"):
        require_same_topology(plan, deploy(fields_to_fields(2), 1))


def service(query_plan: QueryPlan, name: str, source: int, proposed: int, truth: Truth) -> np.ndarray:
    measured = observe(observation(deploy(query_plan, source), truth))
    return executor_service_ms(measured, lay_out(deploy(query_plan, proposed)), name)


def test_service_behind_shuffle_is_the_mean_over_source_executors() -> None:
    truth = Truth.random(fields_to_fields(), 50.0, 2)
    truth.service_ms["bolt-a"][:] = [1.0, 2.0, 3.0, 6.0]
    # Two source executors with means 1.5 and 4.5; every proposed one gets 3.
    assert service(fields_to_fields(), "bolt-a", 2, 4, truth) == pytest.approx(np.full(4, 3.0))


def test_service_behind_fields_is_weighted_by_arrivals() -> None:
    query_plan = fields_to_fields()
    truth = Truth.random(query_plan, 50.0, 2)
    truth.keys[query_plan.streams[1]][:] = [0.7, 0.1, 0.15, 0.05]
    truth.service_ms["bolt-b"][:] = [1.0, 2.0, 4.0, 8.0]
    found = service(query_plan, "bolt-b", 1, 2, truth)
    assert found == pytest.approx([(0.7 + 0.2) / 0.8, (0.6 + 0.4) / 0.2])


def test_a_tumbling_window_delays_by_half_its_duration_and_its_processing() -> None:
    window = component("w", 2, window=Window(kind="count", length=10, slide=10))
    rates = np.array([[4.0, 1.0], [0.0, 0.0]])
    # Half durations 1250 ms and 5000 ms, met by 4 and 1 of 5 tuples; ten services of 0.2 ms.
    expected = (4 * 1250 + 5000) / 5 + 10 * 0.2
    assert window_delay_ms(window, rates, np.array([0.2, np.nan])) == pytest.approx([expected, 0.0])


@pytest.mark.parametrize(
    ("window", "what"),
    [
        (Window(kind="time", length=1000, slide=1000), "tumbling time window"),
        (Window(kind="count", length=10, slide=5), "sliding count window"),
        (Window(kind="time", length=10, slide=5), "sliding time window"),
    ],
)
def test_other_windows_are_declined(window, what) -> None:
    with pytest.raises(ModelDeclined, match=what):
        window_delay_ms(component("w", 1, window=window), np.ones((1, 1)), np.ones(1))


def test_windows_are_kept_by_the_tasks_that_get_tuples() -> None:
    query_plan = QueryPlan(
        name="windowed",
        components=(component("s"), component("w", window=Window(kind="count", length=10, slide=10))),
        streams=(stream("s", "w"),),
    )
    measured = observe(observation(deploy(query_plan, 1), Truth.random(query_plan, 80.0, 1)))
    stages = ThesisStages(measured, lay_out(deploy(query_plan, 2)), SETTINGS, 1.0)
    off = task_arrivals(stages.flows, measured, "w", {"topology.disable.loadaware.messaging": True})
    assert off == pytest.approx(np.array([[20.0, 20.0, 0, 0], [0, 0, 20.0, 20.0]]))
    on = task_arrivals(stages.flows, measured, "w", {"topology.disable.loadaware.messaging": False})
    assert on == pytest.approx(np.array([[40.0, 0, 0, 0], [0, 0, 40.0, 0]]))
    with pytest.raises(ModelDeclined, match=r"loadaware\.messaging is not given"):
        task_arrivals(stages.flows, measured, "w", {})


def test_keyed_windows_fill_at_their_tasks_rates_whatever_the_parallelism() -> None:
    query_plan = all_in_one()
    truth = Truth.random(query_plan, 50.0, 3)
    measured = observe(observation(deploy(query_plan, 1), truth))
    rates = {
        n: task_arrivals(
            ThesisStages(measured, lay_out(deploy(query_plan, n)), SETTINGS, 1.0).flows,
            measured,
            "window",
            {},
        )
        for n in (1, 2, 4)
    }
    for n in (2, 4):
        assert rates[n].sum(axis=0) == pytest.approx(rates[1].sum(axis=0))


def test_one_host_needs_no_network_and_several_are_declined() -> None:
    assert not network_ms(deploy(LINE, 2), {}).any()
    with pytest.raises(ModelDeclined, match=r"round-trip times .*host-1, host-2"):
        network_ms(deploy(LINE, 2, hosts=("host-1", "host-2")), {})


def test_half_of_the_median_round_trip_is_between_nodes() -> None:
    probed = {("node-1", "node-2"): np.array([0.4, 0.6, 90.0])}
    for hosts in (("host-1",), ("host-1", "host-2")):
        plan = deploy(LINE, 2, hosts=hosts)
        apart = np.array([[a.node != b.node for b in plan.workers] for a in plan.workers])
        assert (network_ms(plan, probed) == np.where(apart, 0.3, 0.0)).all()


def test_acks_and_their_way_back_are_among_the_rates() -> None:
    query_plan = join_split()
    measured = observe(observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1)))
    stages = ThesisStages(measured, lay_out(deploy(query_plan, 2)), SETTINGS, 1.0)
    rate, layout = stages._rates_with_acks(), stages.proposed
    arrivals = sum(stages.flows.arrivals(name).sum() for name in stages.bolts)
    assert rate[:, layout.ackers].sum() == pytest.approx(
        50.0 + arrivals
    )  # one init a message, one ack a tuple
    assert rate[layout.ackers].sum() == pytest.approx(50.0)
    assert stages.delays.routing.sum(axis=1)[: layout.ackers.start].round(9).tolist() == [1.0] * 8 + [0.0] * 4
