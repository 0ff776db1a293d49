"""The composite model as a whole, on the shipped observation of a real step and on networks made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from analytic_networks import exponential, network, query_plan, random_network
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Truth, deploy, fields_to_fields, observation

from harness.analysis.judge.predicting import observation as observation_of
from harness.app.conformance import example
from harness.errors import ModelDeclined
from harness.experiments.loading import load
from harness.models.baselines.no_change import no_change
from harness.models.composite.anchoring import CARRIED
from harness.models.composite.mechanisms import ANCHORING
from harness.models.composite.model import Composite, Prepared, composite
from harness.models.composite.proposal import weigh
from harness.models.composite.solved_measures import predicted
from harness.models.contract.conformance import Case
from harness.models.contract.layout import component_paths
from harness.models.solver.solve import solve
from harness.protocols import Estimate, Observation, Prediction
from harness.runs import Run
from harness.schemas import Measure

GROUND_TRUTH, COMPLETE, ACK = "ground_truth_latency_ms", "complete_latency_ms", "ack_latency_ms"
RUNS = Path(__file__).resolve().parents[3] / "reports" / "runs"
Known = dict[tuple[str, str, str], Estimate]


def known(prediction: Prediction) -> Known:
    return {(e.measure, e.statistic, e.subject): e for e in prediction.estimates}


@pytest.fixture(scope="module")
def case() -> Case:
    return example()


@pytest.fixture(scope="module")
def prepared(case: Case) -> Prepared:
    return composite.prepare(case.source)


@pytest.fixture(scope="module")
def answer(case: Case, prepared: Prepared) -> Known:
    return known(prepared.predict(case.proposed, case.settings, case.rate_tps))


def test_a_source_that_was_read_answers_as_the_model_does(case: Case, answer: Known) -> None:
    assert known(composite(case.source, case.proposed, case.settings, case.rate_tps)) == answer


def test_its_own_step_is_met(case: Case, prepared: Prepared) -> None:
    # The example is a few seconds of an all-in-one step, in which the windows dominate. What the source
    # itself measured is what no-change answers; rates are the counters' own, latencies are composed anew.
    source = case.source
    own = known(prepared.predict(source.plan, source.settings, source.rate_tps))
    measured = known(no_change(source, source.plan, source.settings, source.rate_tps))
    for key, limit in {
        (GROUND_TRUTH, "mean", ""): 0.15,
        (GROUND_TRUTH, "p50", ""): 0.25,
        (GROUND_TRUTH, "p90", ""): 0.25,
        ("arrival_rate_tps", "mean", "window"): 0.05,
        ("service_time_ms", "mean", "multiplier"): 0.15,
        ("io_ratio", "mean", "multiplier:default"): 0.05,
    }.items():
        assert own[key].value == pytest.approx(measured[key].value, rel=limit), key


def test_every_number_has_an_interval_around_it(answer: Known) -> None:
    for key, e in answer.items():
        if e.status == "ok":
            assert e.value is not None
            assert e.low is not None, key
            assert e.high is not None, key
            assert e.low <= e.value <= e.high, key
    latency = answer[GROUND_TRUTH, "mean", ""]
    assert latency.low < latency.value < latency.high


def test_every_measure_of_the_contract_is_answered(case: Case, answer: Known) -> None:
    worker = case.proposed.workers[0].label
    executor = case.proposed.of("window")[0].label
    for level in ("mean", "p50", "p90", "p95", "p99"):
        assert answer[GROUND_TRUTH, level, ""].status == "ok"
        assert answer[GROUND_TRUTH, level, "sender"].status == "ok"
        assert answer[ACK, level, ""].status == "ok"
        assert answer["service_time_ms", level, executor].status == "ok"
    for key in (
        (COMPLETE, "mean", ""),
        (Measure.UTILISATION, "mean", executor),
        (Measure.THROUGHPUT, "mean", ""),
        (Measure.SUSTAINABLE, "mean", ""),
        (Measure.WORKER_CPU, "mean", worker),
        ("node_cpu_cores", "mean", case.proposed.nodes[0].name),
        ("queue_wait_ms", "mean", "window"),
        ("window_residence_ms", "mean", "window"),
    ):
        assert answer[key].status == "ok", key


def test_saturation_begins_at_the_sustainable_rate(case: Case, prepared: Prepared, answer: Known) -> None:
    found = answer[Measure.SUSTAINABLE, "mean", ""]
    assert found.value is not None
    assert found.value > case.rate_tps
    assert answer[Measure.THROUGHPUT, "mean", ""].value == case.rate_tps
    below, beyond = (
        known(prepared.predict(case.proposed, case.settings, k * found.value)) for k in (0.98, 1.02)
    )
    assert below[GROUND_TRUTH, "mean", ""].status == "ok"
    gap = beyond[GROUND_TRUTH, "mean", ""]
    assert (gap.status, gap.value) == ("saturated", None)
    assert "load" in gap.reason
    assert "bottleneck: " in found.reason
    assert beyond[Measure.THROUGHPUT, "mean", ""].value == pytest.approx(found.value, rel=0.01)
    assert beyond[Measure.SUSTAINABLE, "mean", ""].value == pytest.approx(found.value, rel=0.01)
    assert beyond["arrival_rate_tps", "mean", "window"].status == "ok"


def of_a_jar(source: Observation) -> Observation:
    """Take the hop records away, as a topology that nobody here wrote has none."""
    return replace(source, latency=source.latency.drop(columns="hops", errors="ignore"), hop_records=False)


def test_the_source_of_a_jar_is_predicted_as_it_was_measured(case: Case) -> None:
    source = of_a_jar(case.source)
    found = known(composite(source, source.plan, source.settings, source.rate_tps))
    measured = known(no_change(source, source.plan, source.settings, source.rate_tps))
    kinds = [(m, s, "") for m in (GROUND_TRUTH, ACK) for s in ("mean", "p50", "p90", "p95", "p99")]
    for kind in [*kinds, (COMPLETE, "mean", "")]:
        assert found[kind].value == pytest.approx(measured[kind].value, rel=1e-9)
        assert found[kind].reason == CARRIED


def test_latencies_of_a_source_that_was_not_steady_move_none(case: Case) -> None:
    source = of_a_jar(case.source)
    asked = source.plan, source.settings, source.rate_tps
    found = composite(replace(source, steady=False), *asked)
    assert found == Composite(without=frozenset({ANCHORING}))(source, *asked)
    assert CARRIED not in {e.reason for e in found.estimates}


def test_a_jar_is_predicted_better_than_unchanged_and_worse_than_with_hop_records() -> None:
    """The 20 pairs of a measured run whose plan changes matter: no-change errs by 17 % in the median.

    Without hop records it was 16 % when they could first be done without, with them 9.5 (docs/model.md).
    """
    path = sorted((RUNS / "fields-to-fields").iterdir())[0]
    run = Run(path)
    experiment = load(run.path / "experiment.yaml")
    steps = {step: observation_of(run, experiment, step) for step in run.finished_steps}
    near = steps[2], steps[3]
    errors: dict[str, list[float]] = {"with": [], "without": [], "unchanged": []}
    for source in steps.values():
        models = {"with": composite.prepare(source), "without": composite.prepare(of_a_jar(source))}
        unchanged = known(no_change(source, source.plan, source.settings, source.rate_tps))
        for proposed in steps.values():
            if proposed is source:
                continue
            asked = proposed.plan, proposed.settings, proposed.rate_tps
            actual = known(no_change(proposed, *asked))[GROUND_TRUTH, "mean", ""].value
            found = {name: known(model.predict(*asked)) for name, model in models.items()}
            assert found["without"][GROUND_TRUTH, "mean", ""].status == "ok"
            if any(source is o for o in near) and any(proposed is o for o in near):
                assert found["without"][GROUND_TRUTH, "mean", ""].value == pytest.approx(actual, rel=0.25)
            for name, answer in {**found, "unchanged": unchanged}.items():
                errors[name].append(abs(answer[GROUND_TRUTH, "mean", ""].value / actual - 1))
    assert len(errors["with"]) == 20
    assert np.median(errors["with"]) < np.median(errors["without"]) < np.median(errors["unchanged"])


def test_without_latencies_none_is_predicted() -> None:
    plan = fields_to_fields()
    whole = observation(deploy(plan, 2), Truth.random(plan, 50.0, 1))
    other = ~whole.metrics["measurement"].isin(["ack", "ack_hist"])
    source = replace(
        of_a_jar(whole), latency=whole.latency.iloc[:0], complete_latency_ms={}, metrics=whole.metrics[other]
    )
    found = known(composite(source, source.plan, source.settings, 50.0))
    for measure in (GROUND_TRUTH, COMPLETE, ACK):
        assert "was not measured" in found[measure, "mean", ""].reason
        assert found[measure, "mean", ""].status == "declined"
    counted = known(no_change(source, source.plan, source.settings, 50.0))[
        "arrival_rate_tps", "mean", "sender"
    ]
    assert found["arrival_rate_tps", "mean", "sender"].value == pytest.approx(counted.value, rel=0.02)


def test_messages_of_ours_that_left_no_hop_records_are_missing() -> None:
    plan = fields_to_fields()
    source = observation(deploy(plan, 2), Truth.random(plan, 50.0, 1))
    with pytest.raises(ModelDeclined, match="no hop records"):
        composite.prepare(replace(source, latency=source.latency.iloc[:0]))


def test_rates_of_a_jar_are_those_counted_whatever_its_rate_counts() -> None:
    """A spout that emits every message on two streams has twice the rate of either."""
    plan = fields_to_fields()
    source = of_a_jar(observation(deploy(plan, 2), Truth.random(plan, 50.0, 1)))
    doubled = replace(source, rate_tps=2 * source.rate_tps)
    own, other = (known(composite(s, s.plan, s.settings, s.rate_tps)) for s in (source, doubled))
    kind = "arrival_rate_tps", "mean", "sender"
    assert other[kind].value == pytest.approx(own[kind].value)


def test_a_spout_without_hop_records_is_hardly_busy_in_the_source() -> None:
    """20,000 messages/s of four tasks: at 0.15 ms for an emit it could not do the half of it."""
    plan = fields_to_fields()
    source = of_a_jar(observation(deploy(plan, 2), Truth.random(plan, 20_000.0, 1, service_ms=0.01)))
    own = composite.prepare(source).solve(source.plan, source.settings, 20_000.0)
    assert own.loop.load.max() == pytest.approx(0.1, rel=0.2)


def test_replicates_are_other_intervals_of_the_same_source(prepared: Prepared) -> None:
    evidence = prepared.source.evidence
    assert len(prepared.replicates) > 4
    own = weigh(prepared.source, np.ones(evidence.blocks)).demand["multiplier"].wall_ms
    others = [r.demand["multiplier"].wall_ms for r in prepared.replicates]
    assert min(others) < own < max(others)
    assert others == pytest.approx([own] * len(others), rel=0.5)


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=budget(20))
def test_paths_make_up_the_whole(seed: int) -> None:
    # Rows of every path, weighted by how many take it, have the mean of all rows.
    net = random_network(seed)
    plan = net.layout.plan.query_plan
    paths = component_paths(plan)
    solution = solve(net)
    answer = known(predicted(solution, [], 1.0, {}))
    assert answer[GROUND_TRUTH, "mean", ""].low is None  # without replicates there is no interval
    if len(paths) <= len(plan.sinks):
        return
    values = [answer.get((GROUND_TRUTH, "mean", "/".join(p))) for p in paths]
    means = [e.value for e in values if e is not None]
    whole = answer[GROUND_TRUTH, "mean", ""].value
    assert min(means) * (1 - 1e-9) <= whole <= max(means) * (1 + 1e-9)


def test_paths_are_told_apart() -> None:
    # Two ways of the same number of rows, one 10 ms longer.
    plan = deploy(query_plan([("s", "quick"), ("s", "slow"), ("quick", "end"), ("slow", "end")]), 1)
    net = network(plan, 10.0, wait={"slow": exponential(10.0)})
    answer = known(predicted(solve(net), [], 10.0, {}))
    quick, slow = (answer[GROUND_TRUTH, "mean", f"s/{way}/end"].value for way in ("quick", "slow"))
    assert slow - quick == pytest.approx(10.0, rel=0.12)  # it waits for its like besides, at a load of 0.1
    assert answer[GROUND_TRUTH, "mean", ""].value == pytest.approx((quick + slow) / 2)
    assert answer[GROUND_TRUTH, "mean", "end"].value == answer[GROUND_TRUTH, "mean", ""].value


def test_a_host_without_cores_left_has_no_service_times() -> None:
    plan = deploy(query_plan([("s", "bolt")], {"s": 1, "bolt": 4}), {"s": 1, "bolt": 4})
    net = network(plan, 1000.0, cpu={"bolt": exponential(3.0)}, cores=2.0)
    net = replace(net, worker_cores=np.zeros(net.host.size))
    answer = known(predicted(solve(net), [], 1000.0, {}))
    for key in (
        (GROUND_TRUTH, "mean", ""),
        ("service_time_ms", "mean", "bolt"),
        (Measure.UTILISATION, "mean", "bolt"),
    ):
        assert (answer[key].status, answer[key].value) == ("saturated", None), key
    # Two cores make 667 tuples a second; a little before that, contention has filled the executors.
    assert 600.0 < answer[Measure.THROUGHPUT, "mean", ""].value <= 667.0
