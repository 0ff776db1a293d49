"""Goals over evidence, their intervals, and pairs that are left out: by hand, and by scipy's bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from evaluated import GROUND_TRUTH, row, run
from scipy.stats import bootstrap

from harness.analysis.judge import goals
from harness.analysis.judge.accuracy import GOALS, Goal, Pairs, gather
from harness.analysis.report import accuracy_goals
from harness.schemas import Measure

MEDIAN = GOALS[0]
NAMES = ("two", "three")


def experiment(name: str, own_pct: list[float], guess_pct: list[float], **other: object) -> list[object]:
    own = [row("composite", 0, 1, 10 * (1 + e / 100), **other) for e in own_pct]
    guess = [row("no-change", 0, 1, 10 * (1 + e / 100), **other) for e in guess_pct]
    return [run(name, own + guess)]


def pairs(*runs: list[object]) -> Pairs:
    return gather([r for of in runs for r in of])  # type: ignore[misc]


def test_only_experiments_in_which_a_guess_errs_are_evidence() -> None:
    rows = pairs(experiment("two", [8, 8], [30, 40]), experiment("three", [1, 1], [2, 3]))
    assert goals.evidence(rows, MEDIAN) == {"two"}
    found = goals.judge(rows, MEDIAN, "composite")
    assert found.evident.value == pytest.approx(8)
    assert found.overall == pytest.approx(4.5)  # of 8, 8, 1 and 1: what made a missed goal look reached
    assert found.found == "missed, by 1 experiment only"
    assert found.rival == ("no-change", pytest.approx(35))


def test_a_goal_that_a_null_model_reaches_is_none() -> None:
    rows = pairs(experiment("two", [1, 1], [11, 12]))
    goal = Goal("easy", "median_pct", 12, "%", [Measure.GROUND_TRUTH])
    assert goals.judge(rows, goal, "composite").found == "no goal: reached by no-change"
    rows.loc[rows["model"] == "no-change", "model"] = "jackson"
    assert goals.evidence(rows, goal) == frozenset()  # nobody guessed
    assert goals.judge(rows, goal, "composite").found == "nothing to judge"


def test_the_interval_is_that_of_resampled_experiments() -> None:
    """Experiments of one pair each: then it is scipy's percentile bootstrap of the median."""
    rng = np.random.default_rng(3)
    errors = rng.exponential(5, 12)
    rows = pairs(*(experiment(f"e{i}", [e], [50]) for i, e in enumerate(errors)))
    found = goals.judge(rows, MEDIAN, "composite").evident
    theirs = bootstrap((errors,), np.median, n_resamples=20_000, method="percentile", rng=1)
    assert (found.experiments, found.pairs) == (12, 12)
    assert found.value == pytest.approx(np.median(errors))
    assert found.low == pytest.approx(theirs.confidence_interval.low, rel=0.1)
    assert found.high == pytest.approx(theirs.confidence_interval.high, rel=0.1)


def test_pairs_of_one_experiment_do_not_narrow_the_interval() -> None:
    alone = pairs(*(experiment(f"e{i}", [e], [50]) for i, e in enumerate((1, 3, 6, 9))))
    many = pairs(*(experiment(f"e{i}", [e] * 40, [50]) for i, e in enumerate((1, 3, 6, 9))))
    one, other = (goals.judge(rows, MEDIAN, "composite").evident for rows in (alone, many))
    assert (one.low, one.high) == pytest.approx((other.low, other.high))


@pytest.mark.parametrize(
    ("errors", "says"),
    [((1, 1, 1, 1), "reached"), ((1, 1, 9, 1), "reached, not surely"), ((9, 9, 9, 9), "missed")],
)
def test_a_goal_is_reached_for_sure_where_the_whole_interval_is_below_it(
    errors: tuple[float, ...], says: str
) -> None:
    rows = pairs(*(experiment(f"e{i}", [e], [50]) for i, e in enumerate(errors)))
    assert goals.judge(rows, MEDIAN, "composite").found == says


def test_pairs_of_steps_that_failed_a_check_are_told_with_their_errors() -> None:
    rows = [
        row("m", 0, 1, 11.0),
        row("m", 1, 0, 15.0, verdict="invalid", low=14.0, high=16.0, abs_error_pct=None),
        row("m", 0, 2, 13.0, verdict="unsteady", low=9.0, high=16.0, abs_error_pct=None),
        row("m", 2, 1, None, verdict="invalid"),
    ]
    found = goals.not_usable(gather([run("two", rows)]))
    assert (found.pairs, found.answered) == (3, 2)
    assert found.median_pct == pytest.approx(40)  # of 50 and 30
    assert found.coverage == pytest.approx(0.5)


def test_models_in_short_are_over_the_evidence() -> None:
    rows = pairs(experiment("two", [8, 12], [30, 40]), experiment("three", [1, 1], [2, 3]))
    (own, guess) = goals.summary(rows, ("composite", "no-change"))
    assert own[1].value == pytest.approx(10)
    assert own[2:] == (pytest.approx(11.8), pytest.approx(12))
    assert guess[1].value == pytest.approx(35)
    assert GROUND_TRUTH == Measure.GROUND_TRUTH


def test_the_run_that_has_most_of_the_pairs_in_short_is_named() -> None:
    """Experiment three has more, but is no evidence."""
    two, three = experiment("two", [8, 12], [30, 40]), experiment("three", [1] * 5, [2] * 5)
    rows = pairs(experiment("one", [8], [30]), two, three)
    assert goals.largest_run(rows, "composite") == ("two/20260101T000000Z", 2)
    page = f"{accuracy_goals.short(rows, 'reporting')}\n## Goals\n\n| a |\n"
    below = "\n\nOf these 3 pairs 2 are of one run, `two/20260101T000000Z`.\n"
    assert page.count(below) == 1
    assert accuracy_goals.summary_of(page) == accuracy_goals.summary_rows(rows).rstrip() + below
    assert goals.largest_run(rows, "jackson") == ("", 0)
