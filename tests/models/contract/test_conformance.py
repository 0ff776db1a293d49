"""Every registered model conforms; and models that break their word in one way are caught by that check."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from harness.app.conformance import assert_conforms, example
from harness.errors import ModelDeclined
from harness.models import MODELS
from harness.models.contract.answers import require_rate
from harness.models.contract.conformance import CHECKS, Case, conform, stretched
from harness.models.contract.layout import lay_out, require_same_topology
from harness.models.contract.observe import observe
from harness.protocols import Estimate, Model, Observation, Prediction

MEAN = ("ground_truth_latency_ms", "mean")


@pytest.fixture(scope="module")
def case() -> Case:
    return example()


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_harness_conforms(name: str, case: Case) -> None:
    assert {o.check: o.problem for o in conform(MODELS[name], case)} == dict.fromkeys(CHECKS, "")


def test_the_example_is_an_observation_of_every_task(case: Case) -> None:
    measured = observe(case.source)
    assert measured.arrivals("window").shape == (16,)
    assert len(case.source.latency) > 1000
    assert case.source.latency["ground_truth_ms"].gt(0).all()
    require_same_topology(case.source.plan, case.proposed)
    assert case.source.plan != case.proposed


def honest(source: Observation, proposed, settings, rate_tps) -> float:
    """The mean, declined wherever something is wrong."""
    require_rate(rate_tps, "proposed")
    require_rate(source.rate_tps, "source")
    require_same_topology(source.plan, proposed)
    lay_out(proposed)
    values = source.latency["ground_truth_ms"]
    if values.empty or not (values > 0).all():
        raise ModelDeclined("messages without a ground truth")
    return float(values.mean())


def model(change: Callable[[float], Estimate]) -> Model:
    def made(source, proposed, settings, rate_tps) -> Prediction:
        return Prediction((change(honest(source, proposed, settings, rate_tps)),))

    return made


def failed(broken: Model, case: Case) -> set[str]:
    return {o.check for o in conform(broken, case) if o.problem}


def test_an_honest_model_passes(case: Case) -> None:
    assert_conforms(model(lambda v: Estimate(*MEAN, v)), case)


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("answers", lambda v: Estimate(*MEAN, None, status="declined", reason="no")),
        ("well-formed", lambda v: Estimate(*MEAN, float("nan"))),
        ("well-formed", lambda v: Estimate(*MEAN, -v)),
        ("well-formed", lambda v: Estimate(*MEAN, v, low=2 * v, high=3 * v)),
        ("well-formed", lambda v: Estimate(*MEAN, v, low=v / 2)),
        ("well-formed", lambda v: Estimate(*MEAN, v, status="perhaps")),
        ("well-formed", lambda v: Estimate(*MEAN, None, status="declined")),
        ("well-formed", lambda v: Estimate(*MEAN, v, status="saturated", reason="overloaded")),
        ("every-subject", lambda v: Estimate("arrival_rate_tps", "mean", v, "window")),
        ("every-subject", lambda v: Estimate(*MEAN, v, "nobody")),
        ("magnitude", lambda v: Estimate(*MEAN, v / 1000)),
        ("units", lambda v: Estimate(*MEAN, v**2 / 100)),
    ],
)
def test_a_broken_answer_is_caught(check: str, change: Callable[[float], Estimate], case: Case) -> None:
    assert check in failed(model(change), case)


def test_a_model_with_a_memory_is_caught(case: Case) -> None:
    calls = itertools.count()
    assert "deterministic" in failed(model(lambda v: Estimate(*MEAN, v + 0.001 * next(calls))), case)


@pytest.mark.parametrize("frame", ["metrics", "latency"])
def test_a_model_that_writes_into_its_input_is_caught(frame: str) -> None:
    def writes(source, proposed, settings, rate_tps) -> Prediction:
        value = honest(source, proposed, settings, rate_tps)
        rows = getattr(source, frame)
        column = {"metrics": "value", "latency": "left_ns"}[frame]
        rows.loc[rows.index[:5], column] += 1
        return Prediction((Estimate(*MEAN, value),))

    assert "pure" in failed(writes, example())


def test_a_model_that_reads_the_first_row_is_caught(case: Case) -> None:
    def first(source, proposed, settings, rate_tps) -> Prediction:
        honest(source, proposed, settings, rate_tps)
        return Prediction((Estimate(*MEAN, float(source.latency["ground_truth_ms"].iloc[0])),))

    assert "order-of-rows" in failed(first, case)


def test_a_model_that_takes_any_plan_is_caught(case: Case) -> None:
    def any_plan(source, proposed, settings, rate_tps) -> Prediction:
        return Prediction((Estimate(*MEAN, honest(source, source.plan, settings, rate_tps)),))

    assert "foreign-plan" in failed(any_plan, case)


def test_a_model_that_skips_what_is_no_number_is_caught(case: Case) -> None:
    def skips(source, proposed, settings, rate_tps) -> Prediction:
        require_same_topology(source.plan, proposed)
        lay_out(proposed)
        return Prediction((Estimate(*MEAN, float(source.latency["ground_truth_ms"].mean())),))

    found = {o.check: o.problem for o in conform(skips, case)}
    assert found["declines"].startswith("no latencies: ")  # the mean of nothing is NaN


def test_a_crash_is_a_failure_with_its_name(case: Case) -> None:
    def crashes(source, proposed, settings, rate_tps) -> Prediction:
        raise ZeroDivisionError("nothing to divide by")

    with pytest.raises(AssertionError, match="ZeroDivisionError: nothing to divide by"):
        assert_conforms(crashes, case)


def test_a_stretched_world_is_twice_as_slow(case: Case) -> None:
    slow = stretched(case.source)
    assert slow.rate_tps == case.source.rate_tps / 2
    assert slow.interval_s == case.source.interval_s * 2
    fast_rate, slow_rate = (
        (m.arrivals("window") / m.seconds["window"]).sum() for m in map(observe, (case.source, slow))
    )
    assert slow_rate == pytest.approx(fast_rate / 2)
    service, twice = (observe(s).service_ms("multiplier") for s in (case.source, slow))
    assert np.allclose(twice, 2 * service)
    for source, factor in ((case.source, 1), (slow, 2)):
        rows = source.latency
        assert np.allclose((rows["left_ns"] - rows["entered_ns"]) / 1e6, rows["ground_truth_ms"])
        hops = rows["hops"].iloc[0]
        assert hops[-1]["emitted_ns"] == rows["left_ns"].iloc[0]
        assert rows["ground_truth_ms"].mean() == pytest.approx(
            factor * case.source.latency["ground_truth_ms"].mean()
        )
