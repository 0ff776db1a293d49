"""Whole models on made-up observations: self-consistency, gaps with reasons, purity and speed."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import (
    SETTINGS,
    Truth,
    all_in_one,
    component,
    deploy,
    fields_to_fields,
    join_split,
    latencies,
    observation,
    stream,
    totals,
)

from harness.errors import UsageError
from harness.models import MODELS, describe, resolve
from harness.models.contract import answers
from harness.plans import QueryPlan, Window, connection_label
from harness.protocols import Estimate, Prediction, Settings
from harness.schemas import LATENCIES

QUERY_PLANS = [fields_to_fields(), all_in_one(), join_split()]


def values(prediction: Prediction, measure: str, statistic: str = "mean") -> dict[str, float | None]:
    return {
        e.subject: e.value for e in prediction.estimates if (e.measure, e.statistic) == (measure, statistic)
    }


def only(prediction: Prediction, measure: str, statistic: str = "mean", subject: str = "") -> Estimate:
    found = [
        e
        for e in prediction.estimates
        if (e.measure, e.statistic, e.subject) == (measure, statistic, subject)
    ]
    assert len(found) == 1
    return found[0]


@settings(max_examples=budget(25), deadline=None)
@given(
    st.sampled_from(QUERY_PLANS),
    st.sampled_from(["storm-tracer", "no-change", "linear"]),
    st.sampled_from([1, 2, 4]),  # eq. 4.3 needs executors that hold the same number of tasks
    st.integers(0, 1000),
)
def test_the_source_plan_itself_gives_its_measured_rates(query_plan, name, executors, seed) -> None:
    truth = Truth.random(query_plan, 60.0, seed, service_ms=0.01)
    plan = deploy(query_plan, executors)
    prediction = resolve(name)(observation(plan, truth, seed=seed), plan, SETTINGS, 60.0)
    rates = totals(query_plan, truth)
    found = values(prediction, "arrival_rate_tps")
    for c in query_plan.components:
        inputs = query_plan.inputs(c.name)
        if not inputs:
            continue
        by_task = np.sum([rates.received[s] for s in inputs], axis=0)
        first = plan.of(c.name)[0].first_task
        for e in plan.of(c.name):
            assert found[e.label] == pytest.approx(
                by_task[e.first_task - first : e.last_task - first + 1].sum()
            )
        assert found[c.name] == pytest.approx(by_task.sum())
    routing = values(prediction, "routing_probability")
    for s, i, j in plan.connections():
        if name == "linear" and s.grouping == "fields":
            continue  # it knows the target's shares only
        a, b = (plan.of(x)[0].first_task for x in (s.source, s.target))
        sent = rates.transferred[s][i.first_task - a : i.last_task - a + 1]
        expected = sent[:, j.first_task - b : j.last_task - b + 1].sum() / sent.sum()
        assert routing[connection_label(s, i, j)] == pytest.approx(expected)


@settings(max_examples=budget(15), deadline=None)
@given(
    st.sampled_from(QUERY_PLANS), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.integers(0, 1000)
)
def test_another_plan_has_the_rates_that_its_tasks_will_have(query_plan, source, proposed, seed) -> None:
    truth = Truth.random(query_plan, 60.0, seed, service_ms=0.01)
    plan = deploy(query_plan, proposed)
    there = observation(plan, truth)  # what would be measured
    prediction = MODELS["storm-tracer"](observation(deploy(query_plan, source), truth), plan, SETTINGS, 60.0)
    actual = MODELS["no-change"](there, plan, SETTINGS, 60.0)
    for measure in ("arrival_rate_tps", "routing_probability"):
        assert values(prediction, measure) == pytest.approx(values(actual, measure))
    for subject, value in values(prediction, "io_ratio").items():
        assert value == pytest.approx(values(actual, "io_ratio")[subject], rel=1e-6)


def test_rates_scale_with_the_input_rate() -> None:
    query_plan = all_in_one()
    truth = Truth.random(query_plan, 60.0, 1, service_ms=0.01)
    source, plan = observation(deploy(query_plan, 1), truth), deploy(query_plan, 2)
    for name in ("storm-tracer", "linear"):
        once = values(resolve(name)(source, plan, SETTINGS, 60.0), "arrival_rate_tps")
        twice = values(resolve(name)(source, plan, SETTINGS, 120.0), "arrival_rate_tps")
        assert twice == pytest.approx({k: 2 * v for k, v in once.items()})


def test_overloaded_executors_are_named_and_there_is_no_latency() -> None:
    query_plan = fields_to_fields()
    truth = Truth.random(query_plan, 50.0, 1)
    truth.coefficients["bolt-a", "default"][query_plan.streams[0]][:] = 1.0
    truth.service_ms["bolt-a"][:] = 30.0  # 50 a second on one executor: load 1.5; on four: 0.375
    plan = deploy(query_plan, {"spout": 1, "bolt-a": 1, "bolt-b": 4, "sender": 4})
    label = plan.of("bolt-a")[0].label
    source = observation(deploy(query_plan, 4), truth)
    prediction = MODELS["storm-tracer"](source, plan, SETTINGS, 50.0)
    for measure in LATENCIES[:2]:
        gap = only(prediction, measure)
        assert (gap.status, gap.value) == ("saturated", None)
        assert f"{label} (load 1.50)" in gap.reason
    assert only(prediction, "arrival_rate_tps", subject=label).value == pytest.approx(50.0)
    gap = only(resolve("linear")(source, plan, SETTINGS, 50.0), "arrival_rate_tps", subject=label)
    assert (gap.status, gap.value) == ("saturated", None)
    assert (
        only(MODELS["storm-tracer"](source, deploy(query_plan, 4), SETTINGS, 50.0), LATENCIES[0]).status
        == "ok"
    )


def test_latency_of_a_simple_line_by_hand() -> None:
    query_plan = QueryPlan(
        name="line", components=(component("s", 1), component("a", 1)), streams=(stream("s", "a"),)
    )
    truth = Truth.random(query_plan, 1e-3, 1)
    truth.service_ms["a"][:] = 0.25
    plan = deploy(query_plan, 1, nodes=1, workers_per_node=1, ackers=1)
    prediction = MODELS["storm-tracer"](observation(plan, truth), plan, SETTINGS, 1e-3)
    # Hardly any load: half a flush at the spout's send thread, a whole exponential one at the bolt, service.
    assert only(prediction, LATENCIES[0]).value == pytest.approx(0.5 + 1.0 + 0.25, rel=1e-4)
    # To the acker: receive queue and service, then the bolt's send thread; the init delay is taken off.
    assert only(prediction, LATENCIES[1]).value == pytest.approx(1.0 + 0.25 + 0.5, rel=1e-4)
    # In another worker: half a flush more at the worker's send thread.
    away = deploy(query_plan, 1, nodes=1, workers_per_node=2, ackers=1)
    remote = MODELS["storm-tracer"](observation(plan, truth), away, SETTINGS, 1e-3)
    assert away.of("s")[0].worker != away.of("a")[0].worker
    assert only(remote, LATENCIES[0]).value == pytest.approx(2.25, rel=1e-4)


def test_the_window_dominates_as_half_its_duration() -> None:
    query_plan = all_in_one(window=Window(kind="count", length=50, slide=50))
    truth = Truth.random(query_plan, 100.0, 9, service_ms=0.01)
    rates = totals(query_plan, truth).received[query_plan.streams[1]]
    source = observation(deploy(query_plan, 1), truth)
    found = only(MODELS["storm-tracer"](source, deploy(query_plan, 4), SETTINGS, 100.0), LATENCIES[0]).value
    windows = 4 * 50 / (2 * rates.sum()) * 1000  # sum over tasks of share x C / (2 rate): rates fall out
    assert windows < found < windows + 12


def without(frame: pd.DataFrame, **where: object) -> pd.DataFrame:
    mask = np.ones(len(frame), dtype=bool)
    for column, value in where.items():
        mask &= (frame[column] == value).to_numpy()
    return frame[~mask]


def with_value(frame: pd.DataFrame, measurement: str, value: float) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[changed.index[changed["measurement"] == measurement][0], "value"] = value
    return changed


def spoil(source, kind: str):
    m, task = source.metrics, source.plan.of("bolt-b")[1].first_task
    match kind:
        case "no metrics at all":
            return replace(source, metrics=m.iloc[:0])
        case "no received":
            return replace(source, metrics=without(m, measurement="received", component="bolt-a"))
        case "no transferred":
            return replace(source, metrics=without(m, measurement="transferred", component="bolt-a"))
        case "no emitted":
            return replace(source, metrics=without(m, measurement="emitted", component="spout"))
        case "an unobserved executor":
            return replace(source, metrics=without(m, task=task))
        case "a NaN count":
            return replace(source, metrics=with_value(m, "received", float("nan")))
        case "a negative count":
            return replace(source, metrics=with_value(m, "transferred", -3.0))
        case "a strange task":
            other = m[m["measurement"] == "emitted"].head(1).assign(task=999)
            return replace(source, metrics=pd.concat([m, other]))
        case "no interval":
            return replace(source, interval_s=0.0)
    raise AssertionError(kind)


SPOILT = {
    "no metrics at all": "no metrics",
    "no received": "received .* of bolt-a is missing",
    "no transferred": "transferred of stream bolt-a->bolt-b:default is missing",
    "no emitted": "emitted .* of spout is missing",
    "an unobserved executor": r"bolt-b\[\d+-\d+\] has no observation",
    "a NaN count": "has the value nan",
    "a negative count": "has the value -3",
    "a strange task": "task 999",
    "no interval": "interval is 0",
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", SPOILT)
def test_a_spoilt_observation_is_declined_with_its_reason(name, kind) -> None:
    query_plan = fields_to_fields()
    source = spoil(observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1)), kind)
    proposed = deploy(query_plan, 4)
    prediction = MODELS[name](source, proposed, SETTINGS, 50.0)
    for measure in answers.MEASURES:
        mine = [e for e in prediction.estimates if e.measure == measure]
        assert {e.subject for e in mine} == set(answers.subjects(proposed, measure))
        for e in mine:
            assert (e.status, e.value) == ("declined", None)
            assert pd.Series([e.reason]).str.contains(SPOILT[kind])[0], e.reason


@pytest.mark.parametrize("name", ["storm-tracer", "linear"])
@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_declined(name, rate) -> None:
    query_plan = fields_to_fields()
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    prediction = resolve(name)(source, deploy(query_plan, 2), SETTINGS, rate)
    assert {e.status for e in prediction.estimates} == {"declined"}
    assert "proposed input rate" in prediction.estimates[0].reason


@pytest.mark.parametrize("name", [n for n in MODELS if n != "composite"])  # needs all of it, for every answer
def test_missing_service_times_cost_only_what_needs_them(name) -> None:
    query_plan = fields_to_fields()
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    source = replace(source, metrics=without(source.metrics, measurement="service"))
    prediction = MODELS[name](source, deploy(query_plan, 4), SETTINGS, 50.0)
    assert set(values(prediction, "service_time_ms").values()) == {None}
    assert None not in values(prediction, "arrival_rate_tps").values()
    if name == "storm-tracer":
        assert "service of bolt-a" in only(prediction, LATENCIES[0]).reason


@pytest.mark.parametrize(
    "window", [Window(kind="time", length=1000, slide=1000), Window(kind="count", length=20, slide=5)]
)
def test_windows_outside_the_thesis_leave_the_rates(window) -> None:
    query_plan = all_in_one(window=window)
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    prediction = MODELS["storm-tracer"](source, deploy(query_plan, 4), SETTINGS, 50.0)
    for measure, statistics in answers.STATISTICS.items():
        for statistic in statistics:
            gap = only(prediction, measure, statistic)
            assert (gap.status, gap.value) == ("declined", None)
            assert "window of window" in gap.reason
    assert None not in values(prediction, "arrival_rate_tps").values()


def test_hosts_apart_and_unknown_settings_are_declined() -> None:
    query_plan = fields_to_fields()
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    apart = deploy(query_plan, 2, hosts=("host-1", "host-2"))
    assert "round-trip" in only(MODELS["storm-tracer"](source, apart, SETTINGS, 50.0), LATENCIES[0]).reason
    odd = Settings(storm={"topology.disruptor.batch.size": "x"}, version="2.8.3")
    assert (
        "batch.size"
        in only(MODELS["storm-tracer"](source, deploy(query_plan, 2), odd, 50.0), LATENCIES[0]).reason
    )


def test_no_change_answers_what_was_measured() -> None:
    query_plan = fields_to_fields()
    truth = Truth.random(query_plan, 50.0, 1)
    plan = deploy(query_plan, 2)
    known = np.arange(1.0, 101.0)
    source = observation(plan, truth, latency=latencies(plan, known))
    spouts = plan.of("spout")
    source = replace(source, complete_latency_ms={spouts[0].label: 10.0, spouts[1].label: 30.0})
    prediction = MODELS["no-change"](source, deploy(query_plan, 4), SETTINGS, 999.0)
    assert only(prediction, LATENCIES[0]).value == pytest.approx(50.5)
    assert only(prediction, LATENCIES[0], "p99").value == pytest.approx(np.quantile(known, 0.99))
    assert only(prediction, LATENCIES[0], "p50", "sender").value == pytest.approx(50.5)
    assert only(prediction, LATENCIES[1]).value == pytest.approx(20.0)
    by_spout = [
        only(prediction, LATENCIES[1], subject=e.label).value for e in deploy(query_plan, 4).of("spout")
    ]
    assert by_spout == pytest.approx([10.0, 10.0, 30.0, 30.0])  # their tasks'
    assert only(prediction, LATENCIES[2]).value == pytest.approx(5.0)
    assert only(prediction, LATENCIES[2], "p50").value == pytest.approx(5.111808)  # middle of the one bin
    service = values(prediction, "service_time_ms")
    for e, true in zip(deploy(query_plan, 4).of("bolt-a"), truth.service_ms["bolt-a"], strict=True):
        assert service[e.label] == pytest.approx(true)


def test_no_change_under_the_thesis_protocol() -> None:
    query_plan = all_in_one()
    plan = deploy(query_plan, 4)
    nodes = {e.worker.node: e.first_task for e in plan.of("sender")}
    spout = plan.of("spout")[0]
    home = nodes[spout.worker.node]
    away = next(t for n, t in nodes.items() if n != spout.worker.node)
    frame = latencies(plan, np.array([4.0, 6.0, 50.0, 3.0, 30.0]))
    # Output 0 has two members on one path (mean 5), output 1 chose its second member's path, output 2 is
    # away from its spout's node, output 3 is above the cut of 20 ms.
    frame["output_offset"] = [0, 0, 1, 1, 2]
    frame["thesis_ground_truth_ms"] = [5.0, 5.0, 3.0, 3.0, 30.0]
    paths = [f"spout:{spout.first_task}/sender:{t}" for t in (home, home, home, home, home)]
    paths[2] = f"spout:{spout.first_task}/multiplier:1/sender:{home}"
    frame["path"] = pd.Categorical(paths)
    source = observation(plan, Truth.random(query_plan, 50.0, 1), latency=frame)
    found = only(MODELS["no-change"](source, plan, SETTINGS, 50.0), LATENCIES[0], "mean_same_node")
    assert found.value == pytest.approx((5.0 + 3.0) / 2)
    frame["path"] = pd.Categorical([f"spout:{spout.first_task}/sender:{away}"] * 5)
    source = replace(source, latency=frame)
    gap = only(MODELS["no-change"](source, plan, SETTINGS, 50.0), LATENCIES[0], "mean_same_node")
    assert gap.status == "declined"


def test_a_missing_histogram_costs_percentiles_only() -> None:
    query_plan = fields_to_fields()
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    kept = without(without(source.metrics, measurement="ack_hist"), measurement="service_hist")
    prediction = MODELS["no-change"](replace(source, metrics=kept), deploy(query_plan, 2), SETTINGS, 50.0)
    assert only(prediction, LATENCIES[2]).value == pytest.approx(5.0)
    assert not values(prediction, LATENCIES[2], "p50")
    assert not values(prediction, "service_time_ms", "p50")


@pytest.mark.parametrize("wrong", [-0.5, float("nan")])
def test_no_change_cuts_no_impossible_latency(wrong) -> None:
    query_plan = fields_to_fields()
    plan = deploy(query_plan, 2)
    source = observation(plan, Truth.random(query_plan, 50.0, 1))
    frame = source.latency.copy()
    frame.loc[3, "ground_truth_ms"] = wrong
    prediction = MODELS["no-change"](replace(source, latency=frame), plan, SETTINGS, 50.0)
    assert only(prediction, LATENCIES[0]).status == "declined"


@pytest.mark.parametrize("name", MODELS)
def test_models_are_pure(name) -> None:
    query_plan = join_split()
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    before = copy.deepcopy((source.metrics, source.latency))
    first = MODELS[name](source, deploy(query_plan, 4), SETTINGS, 50.0)
    second = MODELS[name](source, deploy(query_plan, 4), SETTINGS, 50.0)
    assert first == second
    pd.testing.assert_frame_equal(source.metrics, before[0])
    pd.testing.assert_frame_equal(source.latency, before[1])


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_rows_does_not_matter(name) -> None:
    query_plan = join_split()
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 50.0, 1))
    shuffled = replace(source, metrics=source.metrics.sample(frac=1.0, random_state=1))
    first = MODELS[name](source, deploy(query_plan, 4), SETTINGS, 50.0)
    second = MODELS[name](shuffled, deploy(query_plan, 4), SETTINGS, 50.0)
    assert [e.subject for e in first.estimates] == [e.subject for e in second.estimates]
    for a, b in zip(first.estimates, second.estimates, strict=True):
        assert a.value == pytest.approx(b.value)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("query_plan", QUERY_PLANS, ids=lambda q: q.name)
def test_every_subject_has_one_answer_or_a_reason(name, query_plan) -> None:
    source = observation(deploy(query_plan, 2), Truth.random(query_plan, 20.0, 1))
    proposed = deploy(query_plan, 4)
    prediction = MODELS[name](source, proposed, SETTINGS, 20.0)
    keys = [(e.measure, e.subject, e.statistic) for e in prediction.estimates]
    assert len(set(keys)) == len(keys)
    for measure in answers.MEASURES:
        for subject in answers.subjects(proposed, measure):
            for statistic in answers.STATISTICS.get(measure, ("mean",)):
                assert (measure, subject, statistic) in keys
    for e in prediction.estimates:
        assert (e.value is None) == (e.status != "ok") == bool(e.reason)
        assert e.value is None or (np.isfinite(e.value) and e.value >= 0)


def test_no_path_is_enumerated() -> None:
    names = [f"c{i}" for i in range(14)]
    query_plan = QueryPlan(
        name="long",
        components=tuple(component(n) for n in names),
        streams=tuple(stream(a, b) for a, b in pairwise(names)),
    )
    source = observation(deploy(query_plan, 1), Truth.random(query_plan, 1.0, 1), buckets=2, interval_s=4.0)
    prediction = MODELS["storm-tracer"](source, deploy(query_plan, 4), SETTINGS, 1.0)  # 4^14 = 268 million
    for measure, statistics in answers.STATISTICS.items():
        for statistic in statistics:
            assert only(prediction, measure, statistic).status == "ok"


def test_models_are_found_by_name() -> None:
    assert resolve("storm-tracer") is MODELS["storm-tracer"]
    assert resolve("harness.models.baselines.linear:linear") is resolve("linear")
    for wrong, why in {
        "nobody": "unknown model",
        "no.such.module:f": "cannot be loaded",
        "harness.models:nobody": "cannot be loaded",
        "harness.models.contract.answers:MEASURES": "not callable",
    }.items():
        with pytest.raises(UsageError, match=why):
            resolve(wrong)


@pytest.mark.parametrize("name", MODELS)
def test_models_say_what_they_are(name) -> None:
    assert len(describe(MODELS[name])) > 100


def test_the_storm_tracers_notes_name_what_is_not_storm_2() -> None:
    notes = describe(MODELS["storm-tracer"])
    for words in (
        "Disruptor",
        "JCTools",
        "topology.disruptor.batch.timeout.millis",
        "Windows are kept by task",
    ):
        assert words in notes
