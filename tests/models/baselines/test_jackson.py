"""DRS's M/M/c network: exact queues, and latencies added up by hand over the query plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import SETTINGS, Truth, all_in_one, deploy, fields_to_fields, join_split, observation, totals

from harness.models.baselines.jackson import Station, erlang_c, jackson
from harness.protocols import Estimate, Prediction

GROUND_TRUTH, COMPLETE = "ground_truth_latency_ms", "complete_latency_ms"


def only(prediction: Prediction, measure: str, subject: str = "", statistic: str = "mean") -> Estimate:
    wanted = (measure, statistic, subject)
    found = [e for e in prediction.estimates if (e.measure, e.statistic, e.subject) == wanted]
    assert len(found) == 1
    return found[0]


@given(st.floats(0.01, 0.99), st.floats(0.1, 50.0))
def test_one_and_two_servers_have_their_textbook_sojourns(load, service_ms) -> None:
    """M/M/1: s / (1 - rho). M/M/2: s / (1 - rho^2)."""
    one = Station(load / service_ms * 1000, service_ms, 1)
    two = Station(2 * load / service_ms * 1000, service_ms, 2)
    assert one.utilisation == pytest.approx(load)
    assert one.sojourn_ms == pytest.approx(service_ms / (1 - load))
    assert two.utilisation == pytest.approx(load)
    assert two.sojourn_ms == pytest.approx(service_ms / (1 - load**2))


def test_erlangs_c_of_tables() -> None:
    """C(3, 2) = 4/9 and C(2, 1) = 1/3 by the definition; C(5, 4) = 0.5541, tabulated."""
    assert erlang_c(3, 2.0) == pytest.approx(4 / 9)
    assert erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert erlang_c(5, 4.0) == pytest.approx(0.5541, abs=5e-5)
    assert erlang_c(7, 0.0) == 0.0


@given(st.integers(1, 200), st.floats(0.01, 0.99))
def test_erlangs_c_is_a_probability_and_falls_with_servers(servers, load) -> None:
    offered = load * servers
    assert 0 <= erlang_c(servers + 1, offered) <= erlang_c(servers, offered) <= 1


def line(rate_tps: float, a_ms: float, b_ms: float, sender_ms: float) -> Truth:
    """Fields-to-fields, one tuple in, one out, so that every bolt sees the input rate."""
    query_plan = fields_to_fields()
    truth = Truth.random(query_plan, rate_tps, 3)
    for ratios in truth.coefficients.values():
        for values in ratios.values():
            values[:] = 1.0
    for name, value in (("bolt-a", a_ms), ("bolt-b", b_ms), ("sender", sender_ms)):
        truth.service_ms[name][:] = value
    return truth


def test_sojourns_add_up_along_a_line() -> None:
    truth = line(50.0, 10.0, 4.0, 2.0)
    source = observation(deploy(fields_to_fields(), 4), truth)
    plan = deploy(fields_to_fields(), {"spout": 1, "bolt-a": 2, "bolt-b": 1, "sender": 1})
    prediction = jackson(source, plan, SETTINGS, 100.0)
    # Loads at 100/s: 1/2 on each of two, 0.4, 0.2.
    expected = 10 / (1 - 0.5**2) + 4 / (1 - 0.4) + 2 / (1 - 0.2)
    assert only(prediction, GROUND_TRUTH).value == pytest.approx(expected)
    assert only(prediction, GROUND_TRUTH, "sender").value == pytest.approx(expected)
    assert only(prediction, COMPLETE).value == pytest.approx(expected)
    for e in plan.of("bolt-a"):
        assert only(prediction, "utilisation", e.label).value == pytest.approx(0.5)
        assert only(prediction, "arrival_rate_tps", e.label).value == pytest.approx(50.0)
    assert only(prediction, "throughput_tps").value == pytest.approx(100.0)
    assert only(prediction, "max_sustainable_rate_tps").value == pytest.approx(200.0)


def test_an_overloaded_component_is_named_and_lets_through_what_it_can() -> None:
    source = observation(deploy(fields_to_fields(), 4), line(50.0, 10.0, 4.0, 2.0))
    plan = deploy(fields_to_fields(), {"spout": 1, "bolt-a": 1, "bolt-b": 1, "sender": 1})
    prediction = jackson(source, plan, SETTINGS, 160.0)
    for measure in (GROUND_TRUTH, COMPLETE):
        gap = only(prediction, measure)
        assert (gap.status, gap.value) == ("saturated", None)
        assert gap.reason == "overloaded: bolt-a (load 1.60)"
    assert only(prediction, "max_sustainable_rate_tps").value == pytest.approx(100.0)
    assert only(prediction, "throughput_tps").value == pytest.approx(100.0)
    assert only(prediction, "utilisation", "bolt-a").value == pytest.approx(1.6)


def test_a_multiplied_message_costs_all_its_tuples_and_an_output_only_its_own_way() -> None:
    query_plan = all_in_one()
    truth = Truth.random(query_plan, 10.0, 5)
    streams = query_plan.streams
    truth.coefficients["multiplier", "default"][streams[0]][:] = 10.0
    truth.coefficients["window", "default"][streams[1]][:] = 0.1
    for name, value in (("multiplier", 8.0), ("window", 1.0), ("sender", 4.0)):
        truth.service_ms[name][:] = value
    prediction = jackson(observation(deploy(query_plan, 4), truth), deploy(query_plan, 1), SETTINGS, 20.0)
    multiplier, window, sender = 8 / (1 - 0.16), 1 / (1 - 0.2), 4 / (1 - 0.08)
    assert only(prediction, GROUND_TRUTH).value == pytest.approx(multiplier + window + sender)
    # eq. 3 of Fu et al.: one visit, ten visits, one visit.
    assert only(prediction, COMPLETE).value == pytest.approx(multiplier + 10 * window + sender)


def test_ways_that_meet_are_weighted_by_the_tuples_that_they_bring() -> None:
    query_plan = join_split()
    truth = Truth.random(query_plan, 10.0, 6)
    for name in truth.service_ms:
        truth.service_ms[name][:] = 1.0
    truth.service_ms["multiplier"][:] = 50.0
    prediction = jackson(observation(deploy(query_plan, 4), truth), deploy(query_plan, 2), SETTINGS, 10.0)
    rates = {s: r.sum() for s, r in totals(query_plan, truth).received.items()}
    by_target = {
        c.name: sum(r for s, r in rates.items() if s.target == c.name) for c in query_plan.components
    }

    def sojourn(name: str) -> float:
        service = truth.service_ms[name][0]
        return service / (1 - (by_target[name] * service / 2000) ** 2)

    json, multiplied = (rates[s] for s in query_plan.streams[2:4])
    joined = (json * sojourn("json") + multiplied * sojourn("multiplier")) / (json + multiplied)
    until = {s: joined + sojourn("join") + sojourn(s) for s in ("sender-1", "sender-2")}
    mean = np.average(list(until.values()), weights=[by_target[s] for s in until])
    assert only(prediction, GROUND_TRUTH).value == pytest.approx(mean)
    for name, value in until.items():
        assert only(prediction, GROUND_TRUTH, name).value == pytest.approx(value)


def test_placement_and_keys_play_no_part() -> None:
    query_plan = fields_to_fields()
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    apart, together = (deploy(query_plan, 2, nodes=n, workers_per_node=w) for n, w in ((2, 2), (1, 1)))
    first, second = (jackson(source, plan, SETTINGS, 50.0) for plan in (apart, together))
    assert first == second
    for e in apart.of("bolt-b"):
        assert only(first, "arrival_rate_tps", e.label).value == pytest.approx(
            only(first, "arrival_rate_tps", "bolt-b").value / 2
        )


def test_without_service_times_rates_remain() -> None:
    query_plan = fields_to_fields()
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    source = replace(source, metrics=source.metrics[source.metrics["measurement"] != "service"])
    prediction = jackson(source, deploy(query_plan, 2), SETTINGS, 50.0)
    assert only(prediction, "arrival_rate_tps", "bolt-a").status == "ok"
    for measure, subject in (
        (GROUND_TRUTH, ""),
        (COMPLETE, ""),
        ("service_time_ms", "bolt-a"),
        ("utilisation", "bolt-a"),
    ):
        gap = only(prediction, measure, subject)
        assert (gap.status, gap.value) == ("declined", None)
        assert "service of bolt-a is missing" in gap.reason
    assert "max_sustainable_rate_tps" not in {e.measure for e in prediction.estimates}
