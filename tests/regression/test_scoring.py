"""A run's scores: what Spark's tables say, errors by hand, and how far they move between nights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from altered_runs import ALL_IN_ONE, REPORTS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.analysis.judge import raw_steps
from harness.analysis.judge.judging import judged
from harness.analysis.judge.pair_errors import Errors, _relative
from harness.analysis.judge.predicting import predict
from harness.analysis.judge.rescoring import Scorer, linked_copy, rescore
from harness.analysis.judge.scores import Accuracy, RunScores
from harness.analysis.spark.inputs import read_raw, read_run
from harness.analysis.spark.session import spark_session
from harness.models import resolve
from harness.regression.outputs import lines
from harness.regression.regress import regress
from harness.runs import Run
from harness.schemas import Measure

MODELS = ("storm-tracer", "no-change")
ROUGHER = {"arrival_rate_tps": 1e-2, "complete_latency_ms": 1e-3}


@pytest.fixture(scope="module")
def of_spark() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The analysis' own tables of the same run: what was measured, and the pairs."""
    with linked_copy(ALL_IN_ONE) as copy:
        predict(Run(copy), MODELS)
        with spark_session() as spark, judged(spark, read_run(copy)) as found:
            return found.actuals, found.pairs.to_pandas()


@pytest.mark.deep
def test_what_was_measured_is_what_the_analysis_measured(
    scored: RunScores, of_spark: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    """Complete latency to 0.1 %: a model's observation does not know how many tuples Storm says that each
    spout executor got acked (the wrappers' counts take their place). Rates to 1 %: nor does it know where the
    first bucket began, and of the 20 of each of up to 16 executors one more or less may be in the interval.
    """
    actuals = of_spark[0].set_index(["protocol", "measure", "statistic", "subject", "step"])["value"]
    assert {m.measure for m in scored.measured} == {
        "ground_truth_latency_ms",
        "complete_latency_ms",
        "ack_latency_ms",
        "arrival_rate_tps",
        "service_time_ms",
    }
    for m in scored.measured:
        for step, value in enumerate(m.values):
            wanted = actuals[(*m.key, step)]
            if value is None:
                assert np.isnan(wanted), (m.name, step)
            else:
                rel = ROUGHER.get(m.measure, 1e-6)
                assert value == pytest.approx(wanted, rel=rel), (m.name, step)


@pytest.mark.deep
def test_a_steps_noise_is_what_the_analysis_found(
    scored: RunScores, of_spark: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    actuals = of_spark[0]
    ours = (actuals["measure"] == Measure.GROUND_TRUTH) & (actuals["protocol"] == "ours")
    means = actuals[ours & (actuals["subject"] == "") & (actuals["statistic"] == "mean")].set_index("step")
    theirs = 100 * means["within"] / means["value"]
    assert [s.noise_pct for s in scored.steps] == pytest.approx(theirs.sort_index().tolist(), abs=1e-6)


@pytest.mark.deep
def test_workers_use_the_cpu_time_that_the_analysis_found(
    of_spark: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    actuals = of_spark[0]
    rows = actuals[actuals["measure"] == Measure.WORKER_CPU]
    theirs = rows.set_index(["step", "subject"])["value"].to_dict()
    steps = read_raw(ALL_IN_ONE).steps
    cores = {s.index: raw_steps.worker_cpu_cores(raw_steps.read_step(s)) for s in steps}
    ours = {(step, worker): value for step, of in cores.items() for worker, value in of.items()}
    assert len(ours) >= len(steps)
    assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.deep
def test_errors_are_what_the_analysis_judged(of_spark: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    pairs = of_spark[1]
    pairs = pairs[(pairs["verdict"] == "judged") & (pairs["source_step"] != pairs["proposed_step"])]
    compared = 0
    for a in rescore([ALL_IN_ONE], MODELS)[0].accuracy:
        kind = (pairs["model"] == a.model) & (pairs["measure"] == a.measure)
        rows = pairs[kind & (pairs["statistic"] == a.statistic) & (pairs["protocol"] == a.protocol)]
        rows = (
            rows[rows["subject"] == ""]
            if a.subjects == "one"
            else rows[rows["subject"].str.contains("[", regex=False)]
        )
        of_pairs = rows.groupby(["source_step", "proposed_step"])
        theirs = (
            of_pairs["relative_error"].median() * 100
            if a.subjects == "one"
            else of_pairs["abs_error_pct"].median()
        )
        for (i, j), error in theirs.items():  # type: ignore[misc]
            near = 0.2 if a.measure in ROUGHER else 1e-3
            assert a.errors_pct[i][j] == pytest.approx(error, abs=near), (a.name, i, j)
            compared += 1
    assert compared > 20 * 20


sizes = st.tuples(st.integers(1, 6), st.integers(1, 4))


@given(st.data(), sizes)
def test_the_error_of_many_subjects_is_their_median_over_those_known(
    data: st.DataObject, size: tuple[int, int]
) -> None:
    """Against numpy's own median, subject by subject; some are not known in every night."""
    numbers = st.one_of(st.floats(0.5, 50), st.just(float("nan")))
    predicted, actual = (data.draw(arrays(float, size, elements=numbers)) for _ in range(2))
    found = _relative(predicted, actual, one=False)
    for a in range(size[1]):
        for b in range(size[1]):
            each = np.abs(predicted[:, a] / actual[:, b] - 1) * 100
            known = each[np.isfinite(each)]
            wanted = np.median(known) if len(known) else np.nan
            assert found[a, b] == pytest.approx(wanted, nan_ok=True)


def only(errors: Errors, again: Errors) -> Accuracy:
    return next(errors.accuracy(again))


def nights_of(pairs: dict[tuple[int, int], np.ndarray]) -> Errors:
    kind = ("m", "ground_truth_latency_ms", "mean")
    return Errors({kind: pairs}, {kind: {}}, {}, (0, 1, 2), len(next(iter(pairs.values()))))


def test_nights_without_an_answer_are_counted_by_source() -> None:
    """By hand: of four nights of each of three sources, source 0 is silent in two, and source 2 in one."""
    kind = ("m", "ground_truth_latency_ms", "mean")
    lost = {
        (0, 1): np.array([True, False, False, False]),
        (0, 2): np.array([True, False, False, True]),
        (2, 0): np.array([False, True, False, False]),
    }
    errors = Errors({kind: {(1, 2): np.zeros((4, 4))}}, {kind: lost}, {}, (0, 1, 2), 4)
    assert errors.silent(kind, set()) == (3, 12)
    assert only(nights_of({(0, 1): np.array([[0.0]])}), errors).silent == (3, 12)
    assert errors.silent(kind, {(0, 1), (2, 0)}) == (2, 8)  # what is never answered cannot get lost


def test_pairs_that_share_a_step_move_together() -> None:
    """By hand: one proposed step's measurement moves its two pairs alike (sd 10), and all others stand still.

    The mean of six errors then moves by 2/6 of 10; were pairs independent it would be by sqrt(2)/6 of it.
    """
    nights = np.random.default_rng(1).normal(50, 10, 400)
    every = [(i, j) for i in range(3) for j in range(3) if i != j]
    one = nights_of({p: np.array([[50.0]]) for p in every})
    again = nights_of({(i, j): np.tile(nights if j == 0 else np.full(400, 50.0), (400, 1)) for i, j in every})
    found = only(one, again)
    assert found.spread_points == pytest.approx(10 / 3, rel=0.1)
    assert found.grown_points == pytest.approx(0, abs=0.5)


def test_errors_as_small_as_their_noise_grow_when_they_are_measured_again() -> None:
    """By hand: an error of 0 that moves by 1 (normal) has a mean size of sqrt(2 / pi)."""
    nights = np.random.default_rng(2).standard_normal(2000)
    one = nights_of({(0, 1): np.array([[0.0]])})
    again = nights_of({(0, 1): np.tile(nights, (2000, 1))})
    assert only(one, again).grown_points == pytest.approx(np.sqrt(2 / np.pi), abs=0.06)


def test_an_answer_that_no_source_could_give_is_not_lost() -> None:
    """In night 1003 of windowed no block that was drawn of step 3 has a tuple of the sender's last task.

    Step 4 runs each task in an executor of its own. No model says what that one's service is.
    """
    models = {name: resolve(name) for name in MODELS}
    scorer = Scorer(read_raw(REPORTS / "runs" / "windowed" / "20261122T005431Z"), models)
    night = scorer.night(1003)
    asked = scorer.asked(night)
    told = asked.told["service_time_ms", "mean", (3, 4)]
    of_executors = {s for s in asked.measured["service_time_ms", "mean", 4] if "[" in s}
    assert of_executors - told == {"sender[21-21]"}
    served = [a for a in scorer.score(night).accuracy if a.measure == "service_time_ms"]
    assert {a.model for a in served} == set(MODELS)
    assert not any(a.unanswered for a in served)


def test_one_archived_run_is_as_good_as_the_baseline_says(scored: RunScores, night_before: RunScores) -> None:
    """Within the limits of docs/regression.md; ``make test-deep`` does so for all runs (test_replay)."""
    found = regress([night_before], [scored])
    assert found.status == 0, "\n".join(lines(found))
    assert found.tested > 20
