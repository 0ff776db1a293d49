"""Whole nights against a baseline, from known truths: what is found, what is not, and how often by chance."""

from __future__ import annotations

import numpy as np
import pytest
from made_scores import LATENCIES_MS, night
from scipy import stats

from harness.regression.outcomes import Limits, Regression
from harness.regression.outputs import lines
from harness.regression.regress import regress
from harness.regression.scores import RunScores


def families(found: Regression) -> set[str]:
    return {o.family for o in found.worse}


def test_an_equal_night_passes() -> None:
    found = regress([night("a")], [night("b")])
    assert found.status == 0
    assert found.tested >= 7
    assert "" not in [o.line for o in found.outcomes]


def test_a_model_that_errs_by_more_is_found_and_its_pairs_are_named() -> None:
    found = regress([night("a")], [night("b", low=0.4)])
    assert found.status == 1
    worst = found.worse[0]
    assert worst.name == "steady ground_truth_latency_ms mean"
    assert (worst.before, worst.now) == (pytest.approx(20), pytest.approx(60))
    assert "spec-0->spec-1 +40" in worst.detail
    assert "and 14 more" in worst.detail
    assert families(found) == {"accuracy"}


def test_one_pair_that_errs_by_more_is_found_alone() -> None:
    predicted = np.tile(LATENCIES_MS * 0.8, (5, 1))
    predicted[2, 4] *= 3
    found = regress([night("a")], [night("b", predicted_ms=predicted)])
    assert [o.name for o in found.worse] == ["steady ground_truth_latency_ms mean"]
    assert found.worse[0].detail.startswith("pairs spec-2->spec-4 +")
    assert "," not in found.worse[0].detail


def test_one_slower_step_is_found_and_named() -> None:
    steps = LATENCIES_MS.copy()
    steps[3] *= 1.3
    found = regress([night("a")], [night("b", steps_ms=steps)])
    measured = [o for o in found.worse if o.family == "measured"]
    assert [o.detail for o in measured] == ["step spec-3 19 -> 24.7"]


def test_a_better_model_is_no_finding() -> None:
    assert regress([night("a", low=0.5)], [night("b", low=0.98)]).status == 0


def test_noise_overhead_and_losses_are_found() -> None:
    found = regress([night("a")], [night("b", within=0.05, seconds=30.0, gone=15)])
    assert {o.name for o in found.worse} == {
        "noise of the mean ground truth within the interval",
        "rebalance until every executor is up",
        "messages lost, failed or duplicated",
    }, lines(found)


def test_a_night_as_far_off_as_nights_are_is_no_finding() -> None:
    assert regress([night("a")], [night("b", slower=1.03)]).status == 0


def test_more_nights_see_smaller_changes() -> None:
    """Ten nights on either side that repeat exactly: 12 % is then beyond doubt, and with one it is not."""
    few = regress([night("a0")], [night("b0", slower=1.12)])
    many = regress([night(f"a{i}") for i in range(10)], [night(f"b{i}", slower=1.12) for i in range(10)])
    assert few.status == 0
    assert "measured" in families(many)


def test_unusable_steps_are_left_out_and_too_few_are_not_enough() -> None:
    bad = night("b", slower=3.0)
    steps = tuple(s.model_copy(update={"unusable": "step: steady: drift"}) for s in bad.steps)
    empty = tuple(
        a.model_copy(update={"errors_pct": tuple((None,) * 5 for _ in range(5))}) for a in bad.accuracy
    )
    night_ = bad.model_copy(
        update={"steps": steps, "accuracy": empty, "verdict": "invalid", "failed": ("step 0: steady: drift",)}
    )
    found = regress([night("a")], [night_])
    assert found.status == 4, lines(found)
    assert any("accuracy cannot be compared: step 0: steady" in gap for gap in found.gaps)
    assert any("noisy" in note for note in found.notes)


def test_a_model_that_no_longer_answers_is_found() -> None:
    new = night("b")
    silent = tuple(a.model_copy(update={"unanswered": ((0, 1),)}) for a in new.accuracy[:1])
    found = regress([night("a")], [new.model_copy(update={"accuracy": silent + new.accuracy[1:]})])
    assert found.status == 1
    assert "no longer answers for 1 pairs: spec-0->spec-1" in found.worse[0].detail


def resampled(rng: np.random.Generator, run: str, between: float) -> RunScores:
    """An unchanged night: steps off by noise within the interval, and between nights in common and apart."""
    common, apart = rng.standard_normal() * between * 0.7, rng.standard_normal(5) * between * 0.7
    steps = LATENCIES_MS * np.exp(0.01 * rng.standard_normal(5) + common + apart)
    within = float(0.01 * np.sqrt(rng.chisquare(19) / 19))
    return night(run, steps_ms=steps, within=within, seconds=float(10 * np.exp(0.05 * rng.standard_normal())))


@pytest.mark.parametrize("between", [0.0, 0.03])
def test_unchanged_nights_alarm_no_more_often_than_said(between: float) -> None:
    """By simulation, with no margin at all, which is where alarms are most frequent."""
    rng = np.random.default_rng(5)
    limits = Limits(mean_points=0, pair_points=0)
    nights = 100
    alarms = sum(
        regress([resampled(rng, "a", between)], [resampled(rng, "b", between)], limits).status == 1
        for _ in range(nights)
    )
    assert alarms <= stats.binom.ppf(0.999, nights, limits.alpha)
