"""Whole nights against a baseline, from known truths: what is found, what is not, and how often by chance."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from made_scores import LATENCIES_MS, night
from scipy import stats

from harness.analysis.judge.scores import RunScores
from harness.regression.outcomes import Limits, Outcome, Regression
from harness.regression.outputs import lines
from harness.regression.regress import regress


def families(found: Regression) -> set[str]:
    return {o.family for o in found.worse}


def test_an_equal_night_passes() -> None:
    found = regress([night("a")], [night("b")])
    assert found.status == 0
    assert found.tested == 10  # a latency, two models' errors and answers, noise, loss, three times
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


def test_one_source_that_errs_by_more_is_found_and_only_its_pairs_are_named() -> None:
    predicted = np.tile(LATENCIES_MS * 0.8, (5, 1))
    predicted[2] *= 3
    found = regress([night("a")], [night("b", predicted_ms=predicted)])
    assert [o.name for o in found.worse] == ["steady ground_truth_latency_ms mean"]
    assert found.worse[0].detail.count("spec-2->spec-") == 4
    assert found.worse[0].detail.count("->") == 4


def test_one_slower_step_is_found_and_named() -> None:
    steps = LATENCIES_MS.copy()
    steps[3] *= 1.3
    found = regress([night("a")], [night("b", steps_ms=steps)])
    measured = [o for o in found.worse if o.family == "measured"]
    assert [o.detail for o in measured] == ["step spec-3 19 -> 24.7"]  # 30 % more


def test_a_better_model_is_no_finding() -> None:
    assert regress([night("a", low=0.5)], [night("b", low=0.98)]).status == 0


def test_noise_overhead_and_losses_are_found() -> None:
    found = regress([night("a")], [night("b", within=0.05, seconds=30.0, gone=15)])
    assert {o.name for o in found.worse} == {
        "noise of the mean ground truth within the interval",
        "rebalance until every executor is up",
        "messages lost, failed, repeated or incomplete",
    }, lines(found)


def test_a_night_as_far_off_as_nights_are_is_no_finding() -> None:
    assert regress([night("a")], [night("b", slower=1.03)]).status == 0


def test_more_nights_see_smaller_changes() -> None:
    """Ten nights on either side that repeat exactly: 15 % is then beyond doubt, and with one it is not."""
    few = regress([night("a0")], [night("b0", slower=1.15)])
    many = regress([night(f"a{i}") for i in range(10)], [night(f"b{i}", slower=1.15) for i in range(10)])
    assert few.status == 0
    assert "measured" in families(many)


def test_a_pass_says_what_it_would_have_found_and_noise_too_large_is_no_pass() -> None:
    found = regress([night("a")], [night("b")])
    assert any("finds a step's mean latency moved by 2" in note for note in found.notes), found.notes
    blind = regress([night("a", within=0.2)], [night("b", within=0.2)])
    assert blind.status == 4
    assert any("could move by" in gap for gap in blind.gaps)
    assert not any("could move by" in gap for gap in regress([night("a")], [night("b")]).gaps)


def test_what_is_found_as_often_as_is_said() -> None:
    """The change that a pass is said to find 4 times in 5, put into nights that differ by chance."""
    rng = np.random.default_rng(6)
    said = next(n for n in regress([night("a")], [night("b")]).notes if "finds a step" in n)
    factor = 1 + float(said.split("moved by ")[1].split(" %")[0]) / 100
    nights = 200
    found = 0
    for _ in range(nights):
        before, after = (LATENCIES_MS * np.exp(rng.normal(0, math.hypot(0.01, 0.03), 5)) for _ in range(2))
        after[3] *= factor
        outcomes = regress([night("a", steps_ms=before)], [night("b", steps_ms=after)]).worse
        found += any("step spec-3" in o.detail for o in outcomes)
    low, high = stats.binom.ppf([0.001, 0.999], nights, 0.8)
    assert low <= found <= min(nights, high + 0.1 * nights)  # the last digit of the percentage is cut


def test_a_baseline_that_was_not_resampled_cannot_judge_a_new_night() -> None:
    bare = night("a")
    forgotten = bare.model_copy(
        update={
            "measured": tuple(m.model_copy(update={"within": ()}) for m in bare.measured),
            "accuracy": tuple(
                a.model_copy(update={"spread_points": None, "silent": None}) for a in bare.accuracy
            ),
        }
    )
    found = regress([forgotten], [night("b", low=0.1)])
    assert found.status == 4
    assert any("--update" in gap for gap in found.gaps)


def test_what_rests_on_too_few_blocks_is_not_tested_and_says_so() -> None:
    def thin(of: RunScores, *carriers: float, learnt: bool = True) -> RunScores:
        spread = {} if learnt else {"spread_points": None}
        return of.model_copy(
            update={
                "measured": tuple(m.model_copy(update={"carriers": carriers}) for m in of.measured),
                "accuracy": tuple(a.model_copy(update=spread) for a in of.accuracy),
            }
        )

    slow = LATENCIES_MS.copy()
    slow[3] *= 2
    new = night("b", steps_ms=slow, low=0.1)
    found = regress([thin(night("a"), *[4.0] * 5, learnt=False)], [new])
    outcomes = [o for o in found.outcomes if o.family in ("measured", "accuracy")]
    assert {o.found for o in outcomes} == {"untested"}
    assert all("rests on 4 blocks of an interval at most, 8 are needed" in o.detail for o in outcomes)
    assert found.status == 4

    partly = regress([thin(night("a"), 20.0, 20.0, 20.0, 4.0, 20.0)], [new])  # all but the slow step
    assert families(partly) == {"accuracy"}
    assert "spec-3" not in next(o for o in partly.worse if o.name.startswith("steady")).detail

    firm = regress([thin(night("a"), *[20.0] * 5)], [night("b")]).notes[-1]
    for one in (1.0, 1.3, 1.9):  # a step that is not tested does not decide what would be seen in the others
        assert regress([thin(night("a"), 20.0, 20.0, 20.0, one, 20.0)], [night("b")]).notes[-1] == firm
    assert "finds a step's mean latency moved by" in firm


def test_the_fewer_blocks_carry_a_statistic_the_less_is_certain() -> None:
    def p(carriers: float) -> float:
        base = night("a", within=0.05)
        measured = tuple(m.model_copy(update={"carriers": (carriers,) * 5}) for m in base.measured)
        slow = regress([base.model_copy(update={"measured": measured})], [night("b", slower=1.5)])
        return next(o.p for o in slow.outcomes if o.family == "measured" and o.p is not None)

    assert p(8.0) > 2 * p(20.0) > 0


def test_a_model_that_says_nothing_more_of_a_kind_is_found_and_one_not_asked_is_not() -> None:
    new = night("b")
    silent = new.model_copy(update={"accuracy": new.accuracy[:1]})
    assert regress([night("a")], [silent]).status == 1
    assert regress([night("a")], [silent.model_copy(update={"models": ("no-change",)})]).status == 0


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
    assert any("noisy: invalid: step 0: steady" in gap for gap in found.gaps)


def test_an_invalid_night_is_named_beside_others_and_does_not_fail_the_gate() -> None:
    """Three times slower, on a machine that was disturbed; a run of no baseline is set aside as well."""
    disturbed = {"verdict": "invalid", "failed": ("step 0: stolen: 20 %",)}
    bad = night("c", slower=3.0).model_copy(update=disturbed)
    unknown = bad.model_copy(update={"experiment": "never-valid"})
    found = regress([night("a")], [night("b"), bad, unknown])
    assert found.status == 0, lines(found)
    assert found.gaps == ()
    assert sum("noisy: invalid: step 0: stolen: 20 %" in note for note in found.notes) == 2
    valid = bad.model_copy(update={"verdict": "valid", "failed": ()})
    assert regress([night("a")], [night("b"), valid]).status == 1


def test_a_model_that_no_longer_answers_is_found_unless_chance_explains_it() -> None:
    """P-values of Fisher's test, by hand: hypergeometric, against none silent of 100."""

    def answers(*unanswered: tuple[int, int]) -> Regression:
        new = night("b")
        silent = new.accuracy[0].model_copy(update={"unanswered": unanswered})
        return regress([night("a")], [new.model_copy(update={"accuracy": (silent, *new.accuracy[1:])})])

    def of(found: Regression) -> Outcome:
        return next(o for o in found.outcomes if o.family == "answers" and o.detail)

    one = answers((0, 1), (0, 2))  # one source step in five: 5/105
    assert one.status == 0
    assert of(one).p == pytest.approx(5 / 105)
    three = answers((0, 1), (1, 2), (3, 2))  # 5*4*3 / (105*104*103)
    assert of(three).p == pytest.approx(60 / (105 * 104 * 103))
    assert three.status == 1
    assert "no longer answers for 3 pairs: spec-0->spec-1" in three.worse[0].detail


def resampled(rng: np.random.Generator, run: str, between: float) -> RunScores:
    """An unchanged night: steps off by noise within the interval, and between nights in common and apart."""
    common, apart = rng.standard_normal() * between * 0.7, rng.standard_normal(5) * between * 0.7
    steps = LATENCIES_MS * np.exp(0.01 * rng.standard_normal(5) + common + apart)
    within = 0.01 * np.sqrt(rng.chisquare(19, 5) / 19)
    return night(run, steps_ms=steps, within=within)


@pytest.mark.parametrize("between", [0.0, 0.03])
def test_unchanged_nights_alarm_no_more_often_than_said(between: float) -> None:
    """By simulation, with no margin at all, which is where alarms are most frequent."""
    rng = np.random.default_rng(5)
    limits = Limits(mean_points=0, step_pct=0, noise_factor=1, seconds_factor=1, between_pct=100 * between)
    nights = 100
    alarms = sum(
        regress([resampled(rng, "a", between)], [resampled(rng, "b", between)], limits).status == 1
        for _ in range(nights)
    )
    assert alarms <= stats.binom.ppf(0.999, nights, limits.alpha), alarms


def test_a_run_whose_files_were_changed_is_named_and_fails_unless_it_may_pass(
    figure: Callable[[str], None],
) -> None:
    """What was changed is what the checks of a run's files say, which the replay of an edited copy shows."""
    line = "step 1: seal: plan.json was changed"
    new = night("b").model_copy(update={"edited": (line,)})
    refused, passed = (regress([night("a")], [new], edited=may) for may in (False, True))
    assert [(o.family, o.detail) for o in refused.worse] == [("data", line)]
    assert (refused.status, passed.status) == (1, 0)
    for found in (refused, passed):
        assert any(note.endswith(f"b: edited: {line}") for note in found.notes), found.notes
    figure(f"edited: {line}: exit status {refused.status}, with --edited {passed.status}")
