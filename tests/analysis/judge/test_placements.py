"""Rankings of plans worked out by hand, and a synthetic run whose steps differ by placement alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from made_records import step_plan
from pyspark.sql import SparkSession
from synthetic_run import FakeRun, FakeStep, build, lognormal

from harness.analysis.judge.computing import compute
from harness.analysis.judge.placements import placement_groups, rank_plans, ranked_placements
from harness.analysis.judge.predicting import predict
from harness.analysis.judge.results import Results
from harness.analysis.spark.inputs import read_run
from harness.plans import AskedPlacement, Worker
from harness.runs import Run

MEASURED_MS = np.array([10.0, 20.0, 20.1, 40.0])
NOISE_MS = np.full(4, 0.5)


def test_tau_counts_pairs_that_differ_by_more_than_noise() -> None:
    """20 and 20.1 ms differ by 0.14 standard deviations: five pairs are left, of which one is turned."""
    found = rank_plans("m", np.array([[2.0, 1.0, 3.0, 4.0]]), MEASURED_MS, NOISE_MS)
    assert (found.pairs, found.tau) == (5, pytest.approx((4 - 1) / 5))


def test_the_regret_is_of_the_plan_that_the_model_picks() -> None:
    """It picks 20 ms where 10 ms was best: 100 %, give or take what 0.5 ms on either makes of it."""
    found = rank_plans("m", np.array([[2.0, 1.0, 3.0, 4.0]]), MEASURED_MS, NOISE_MS)
    assert found.regret_pct == pytest.approx(100)
    around = 1.645 * 100 * float(np.hypot(0.5 / 10, 20 * 0.5 / 100))
    assert found.low_pct == pytest.approx(100 - around, abs=3)
    assert found.high_pct == pytest.approx(100 + around, abs=4)


def test_a_right_ranking_has_no_regret() -> None:
    found = rank_plans("m", MEASURED_MS[None, :], MEASURED_MS, NOISE_MS)
    assert (found.tau, found.regret_pct, found.low_pct, found.high_pct) == (1.0, 0.0, 0.0, 0.0)


def test_without_pairs_that_differ_there_is_no_tau() -> None:
    assert rank_plans("m", np.array([[1.0, 2.0]]), np.array([5.0, 5.0]), np.array([1.0, 1.0])).tau is None


@pytest.fixture(scope="module")
def placed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Five steps for which the same was asked: two by Storm's own scheduler, the others placed.

    Of these the first has each executor in the next worker, the second the same with the slots of each node
    exchanged, and the third has all in one of the four workers.
    """
    steps = [FakeStep(2, latency_ms=lognormal(m)) for m in (12.0, 9.0, 12.1, 9.1, 6.0)]
    path = build(tmp_path_factory.mktemp("placed") / "placed", FakeRun(steps=steps))
    a, b, c, d = Run(path).plan(0).start.workers
    assert (a.node, c.node) == (b.node, d.node)
    _move(Run(path), 1, {a: b, b: c, c: d, d: a})
    _move(Run(path), 3, {a: a, b: d, c: c, d: b})
    _move(Run(path), 4, dict.fromkeys((a, b, c, d), a))
    predict(Run(path), ("no-change",))
    return compute(spark, read_run(path))


def _move(run: Run, step: int, to: Mapping[Worker, Worker]) -> None:
    plan = run.plan(step)
    everyone = tuple(e.model_copy(update={"worker": to[e.worker]}) for e in plan.start.executors)
    there = plan.start.model_copy(update={"executors": everyone})
    asked = AskedPlacement(by="by-test", workers={e.label: e.worker.label for e in everyone})
    changed = step_plan(there, placement=asked)
    (run.step_path(step) / "plan.json").write_text(changed.model_dump_json(), encoding="utf-8")


def test_plans_for_which_the_same_was_asked_are_compared(placed: Results) -> None:
    """The best one first; of a model that says the same of every plan no pair is ranked right or wrong."""
    (group,) = placement_groups(placed)
    assert group.words == "2 each, 4 workers asked, 50/s"
    assert [(p.placed_by, p.steps) for p in group.plans] == [
        ("by-test", (4,)),
        ("by-test", (1, 3)),
        ("Storm's own", (0, 2)),
    ]
    assert group.plans[1].mean_ms < group.plans[2].mean_ms
    costs = group.plans[0].costs
    assert costs is not None
    assert costs.executors_moved == 0
    ranking = next(r for r in group.rankings if r.model == "no-change")
    assert (ranking.sources, ranking.tau) == (5, 0.0)


def test_judged_pairs_alone_give_the_same_rankings(placed: Results) -> None:
    (group,), (ranked,) = placement_groups(placed), ranked_placements(placed.run, placed.frame)
    assert (ranked.words, ranked.measure, ranked.rankings) == (group.words, group.measure, group.rankings)
    assert [p.costs for p in ranked.plans] == [None] * 3


def test_repeats_of_one_placement_are_no_comparison(results: Results) -> None:
    """Steps with 1, 2, 4 and again 4 executors."""
    assert placement_groups(results) == ()
