"""Figures over the evaluation set, against numbers that can be worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evaluated import GROUND_TRUTH, SPLIT, row, run
from scipy.stats import t as student
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.judge import accuracy
from harness.analysis.judge.accuracy import GOALS, clustered_share, figures, gather
from harness.analysis.judge.code_digest import models_digest
from harness.analysis.judge.evaluation import Evaluated, evaluate, find_runs, read_split
from harness.analysis.judge.placements import PlacementGroup, rank_plans
from harness.analysis.judge.predicted_with import stamp
from harness.analysis.report.accuracy_page import out_of_date, page
from harness.errors import UsageError
from harness.runs import Run
from harness.schemas import ERRORS, Measure

pytestmark = pytest.mark.deep


def test_figures_of_pairs() -> None:
    rows = [
        row("m", 0, 1, 11.0),
        row("m", 1, 0, 8.0),
        row("m", 0, 2, 10.5),
        row("m", 2, 0, None),
        row("m", 0, 0, 99.0),
    ]
    found = figures(gather([run("two", rows)]))
    assert (found.usable, found.judged) == (4, 3)
    assert found.judged_pct == 75
    assert found.median_pct == pytest.approx(10)
    assert found.worst_pct == pytest.approx(20)
    assert found.p95_pct == pytest.approx(19)  # linear between 10 and 20
    assert found.q_error == pytest.approx(1.1)
    assert found.over_noise == pytest.approx(2)
    assert found.coverage is None


def test_runs_of_one_experiment_add_to_its_noise_what_they_differ_by() -> None:
    """Two runs, by hand: variances of two values a and b are (a - b)^2 / 2."""
    first = run("two", [row("m", 0, 1, 11.0, actual=10.0), row("m", 1, 0, 21.0, actual=20.0)])
    second = run("two", [row("m", 0, 1, 11.0, actual=12.0), row("m", 1, 0, 21.0, actual=20.0)], day=2)
    alone = run("three", [row("m", 0, 1, 11.0, actual=10.0)])
    rows = gather([first, second, alone])
    # each has a noise of 0.5 within its interval; of step 0 the runs agree, which says less than nothing
    share = np.sqrt(np.mean([(2.0 - 0.25) / 11.0**2, (0.0 - 0.25) / 20.0**2]))
    noise = [np.hypot(0.5, share * actual) for actual in (10.0, 20.0, 12.0, 20.0)] + [0.5]
    assert rows["noise"].tolist() == pytest.approx(noise)
    assert rows["error_over_noise"].tolist() == pytest.approx([1.0 / n for n in noise[:-1]] + [2.0])


def test_what_runs_differ_by_is_told_of_whole_topologies_and_of_steps_that_can_be_used() -> None:
    def runs(**other: object) -> list[Evaluated]:
        return [
            run("two", [row("m", 0, 1, 11.0, actual=a, **other)], day=d) for d, a in ((1, 10.0), (2, 14.0))
        ]

    assert gather(runs(subject="", noise=None))["noise"].tolist() == pytest.approx(
        [np.sqrt(8.0) / 12 * actual for actual in (10.0, 14.0)]
    )
    slower = run("two", [row("m", 0, 1, 11.0, actual=14.0)], day=2, rate_tps=90)
    elsewhere = run("two", [row("m", 0, 1, 11.0, actual=14.0)], day=3, machine="2 x other CPU")
    one = run("two", [row("m", 0, 1, 11.0, actual=10.0)])
    assert gather([one, slower, elsewhere])["noise"].tolist() == [0.5, 0.5, 0.5]
    other = gather([*runs(), elsewhere])  # what was learnt on one machine says nothing of another
    assert other["noise"].tolist()[:2] == pytest.approx(
        [np.hypot(0.5, np.sqrt((8.0 - 0.25) / 144) * actual) for actual in (10.0, 14.0)]
    )
    assert other["noise"].tolist()[2] == 0.5
    assert other["error_over_noise_within"].tolist() == pytest.approx([2.0, 6.0, 6.0])
    unsteady = gather(runs(verdict="unsteady"))
    assert unsteady["noise"].tolist() == [0.5, 0.5]
    by_worker = gather(runs(measure="worker_cpu_cores", subject="node-1:6700"))
    assert by_worker["noise"].tolist() == [0.5, 0.5]


def test_steps_that_were_saturated_are_no_pairs_of_a_latency() -> None:
    rows = [
        row("m", 0, 1, 11.0),
        row("m", 0, 2, None, verdict="saturated", status="saturated"),
        row("m", 2, 0, None, verdict="saturated"),
        row("m", 0, 2, 9.0, measure="throughput_tps"),
        row("m", 2, 0, 9.0, measure="throughput_tps", verdict="saturated"),
    ]
    rows_of = gather([run("two", rows, saturated=(2,))])
    latency, through = (figures(rows_of[rows_of["measure"] == m]) for m in (GROUND_TRUTH, "throughput_tps"))
    assert (latency.usable, latency.judged) == (1, 1)
    assert (through.usable, through.judged) == (1, 1)


def test_a_plan_that_kept_up_and_was_called_saturated_counts_as_not_judged() -> None:
    rows = [row("m", 0, 1, 11.0), row("m", 1, 0, None, verdict="saturated", status="saturated")]
    found = figures(gather([run("two", rows)]))
    assert (found.usable, found.judged) == (2, 1)
    score = accuracy.saturation([run("two", rows)], "m")
    assert (score.called, score.missed, score.false_alarms, score.kept_up) == (0, 0, 1, 1)


def test_saturation_is_called_or_missed() -> None:
    rows = [
        row("m", 0, 2, None, verdict="saturated", status="saturated"),
        row("m", 1, 2, 12.0, verdict="saturated"),
        row("m", 2, 1, 12.0, verdict="saturated"),  # a saturated source: nothing can be learnt from it
    ]
    score = accuracy.saturation([run("two", rows, saturated=(2,))], "m")
    assert (score.called, score.missed, score.false_alarms, score.kept_up) == (1, 1, 0, 0)


def test_clustered_coverage_by_hand() -> None:
    """Shares 3/4 of four rows and 1/2 of two: the ratio estimator, worked out for two clusters."""
    covered = pd.Series([True, True, True, False, True, False])
    share, low, high = clustered_share(covered, pd.Series(list("aaaabb")))
    p = 4 / 6
    deviation = [3 - 4 * p, 1 - 2 * p]
    half = student.ppf(0.975, 1) * np.sqrt(2 / 1 * sum(d * d for d in deviation)) / 6
    assert share == pytest.approx(p)
    assert (low, high) == pytest.approx((p - half, p + half))
    assert clustered_share(covered, pd.Series(["a"] * 6)) == (pytest.approx(p), None, None)
    assert clustered_share(pd.Series([None, None], dtype=object), pd.Series(["a", "b"])) == (None, None, None)


def test_clusters_widen_the_interval() -> None:
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(10), 40)
    together = pd.Series(rng.random(10)[cluster] < 0.9)
    apart = pd.Series(rng.random(400) < 0.9)
    (_, low, high), (_, low_apart, high_apart) = (
        clustered_share(c, pd.Series(cluster.astype(str))) for c in (together, apart)
    )
    assert high - low > 2 * (high_apart - low_apart)


def test_the_busiest_executor_of_a_step() -> None:
    rows = [
        row("m", 0, 1, 11.0, statistic="p99"),
        row("m", 0, 1, 1.0, actual=50.0, measure="arrival_rate_tps", subject="a[1-2]"),
        row("m", 0, 1, 1.0, actual=18.0, measure="service_time_ms", subject="a[1-2]"),
        row("m", 0, 1, 1.0, actual=10.0, measure="arrival_rate_tps", subject="b[3-3]"),
        row("m", 0, 1, 1.0, actual=99.0, measure="service_time_ms", subject="b[3-3]"),
    ]
    found = gather([run("two", rows)])
    assert found["busiest"].unique().tolist() == [pytest.approx(0.99)]
    tail = next(g for g in GOALS if g.statistic == "p99")
    assert tail.reached(found) is None  # above 0.9 tails are not asked for
    rows[4]["actual"] = 80.0
    assert tail.reached(gather([run("two", rows)])) == pytest.approx(10)


def test_the_split_is_by_experiment_and_disjoint(tmp_path: Path) -> None:
    assert [SPLIT.part(name) for name in ("one", "two", "four")] == ["tuning", "development", "neither"]
    file = tmp_path / "split.yaml"
    file.write_text("tuning: [a]\ndevelopment: [a, b]\nreporting: []\n")
    with pytest.raises(UsageError, match=r"split\.yaml: a: in several sets"):
        read_split(file)
    file.write_text("tuning: [a]\nreport: [b]\n")
    with pytest.raises(UsageError, match=r"split\.yaml"):
        read_split(file)
    with pytest.raises(UsageError, match="No such file"):
        read_split(tmp_path / "nothing.yaml")


def test_the_committed_split_names_each_shipped_experiment_once() -> None:
    root = Path(__file__).resolve().parents[3]
    split = read_split(root / "reports" / "evaluation-split.yaml")
    shipped = {p.stem for p in (root / "configs" / "experiments").glob("*.yaml")}
    assert {*split.tuning, *split.development, *split.reporting} == shipped
    assert split.shown == "reporting"


def test_the_page_says_what_is_reached_and_missed() -> None:
    own = [row("composite", s, p, v) for s, p, v in ((0, 1, 10.2), (1, 0, 11.5), (0, 2, 10.1))]
    rivals = [row("no-change", s, p, v) for s, p, v in ((0, 1, 12.0), (1, 0, 9.8), (0, 2, 13.0))]
    text = page(
        [run("two", own + rivals), run("one", own)], "composite", "split.yaml", "## Causes\n\nA text."
    )
    reached, only = (
        "at most 5 % | 2.0 % | 1; 3 | reached, by 1 experiment only",
        "reached, by 1 experiment only",
    )
    assert f"| ground-truth latency, mean: median error | {reached} | no-change 20.0 % | 2.0 % |" in text
    tail = f"at most 15 % | 13.7 % | 1; 3 | {only} | no-change 29.0 % | 13.7 % |"
    assert f"| ground-truth latency, mean: 95th percentile | {tail}" in text
    nothing = "at most 8 % | - | 0; 0 | nothing to judge | - | - |"
    assert f"| complete latency, mean: median error | {nothing}" in text
    assert "## Causes\n\nA text." in text
    assert "| two | 1 | 5.0 | 0.40 | 0.40 |" in text  # 0.5 of 10; errors of 0.2, 1.5 and 0.1 over 0.5
    assert "| development | two/20260101T000000Z | valid | 3 | 6 | 0 | 2 x CPU | 2.5 | abc |" in text
    late = [row("composite", 0, 1, 14.0), row("no-change", 0, 1, 20.0)]
    assert "| 40.0 % | 1; 1 | missed, by 1 experiment only |" in page(
        [run("two", late)], "composite", "split"
    )
    assert "No run of the development set" in page([run("one", own)], "composite", "split.yaml")


def test_the_page_says_how_models_ranked_placements() -> None:
    """From either source the model picks the plan of 11 ms, and 10 ms was best."""
    ranking = rank_plans(
        "m", np.array([[2.0, 1.0], [3.0, 2.0]]), np.array([10.0, 11.0]), np.array([0.1, 0.1])
    )
    group = PlacementGroup("1 each, 3 workers asked, 60/s", Measure.GROUND_TRUTH, (), (ranking,))
    own = [row("composite", 0, 1, 10.2)]
    text = page([replace(run("two", own), placements=(group,))], "composite", "split.yaml")
    told = f"| m | -1.00 | 10.0 ({ranking.low_pct:.1f} to {ranking.high_pct:.1f}) |"
    assert f"| two/20260101T000000Z | 1 each, 3 workers asked, 60/s | 0 | {told[2:]}" in text
    assert "## Placements" not in page([run("two", own)], "composite", "split.yaml")


def test_pairs_are_told_apart_by_how_busy_the_machine_was_in_the_busier_step() -> None:
    """Steps 0 and 1 used 50 and 85 % of the machine; of step 2 it is not known."""
    rows = [row("m", 0, 1, 11.0), row("m", 1, 0, 8.0), row("m", 0, 2, 30.0)]
    found = accuracy.by_busy(gather([run("two", rows)]), GROUND_TRUTH)
    assert {name: of.judged for name, of in found.items() if of.judged} == {"80 to 90 %": 2}
    assert found["80 to 90 %"].median_pct == pytest.approx(15)
    own = [dict(r, model="composite") for r in rows]
    assert "| development | 80 to 90 % | 15.0 / 19.5 | - | - |" in page(
        [run("two", own)], "composite", "split"
    )


def test_a_page_is_out_of_date_when_runs_or_models_differ() -> None:
    own = [row("composite", 0, 1, 10.2)]
    text = page([run("two", own), run("one", own)], "composite", "split.yaml")
    names = ["one/20260101T000000Z", "two/20260101T000000Z"]
    assert out_of_date(text, names) == []
    assert out_of_date(text, [*names, "three/20260102T000000Z"]) == ["three/20260102T000000Z is not on it"]
    assert out_of_date(text, names[:1]) == ["two/20260101T000000Z is on it and not there"]
    older = text.replace(models_digest(), "0" * 12)
    assert out_of_date(older, names) == ["the models have changed since"]


def test_the_shipped_page_is_of_todays_models_and_of_every_archived_run() -> None:
    root = Path(__file__).resolve().parents[3]
    text = (root / "docs" / "accuracy.md").read_text(encoding="utf-8")
    runs = find_runs([root / "reports" / "runs"])
    why = out_of_date(text, [f"{path.parent.name}/{path.name}" for path in runs])
    again = "run `harness accuracy`, then `python scripts/results.py`"
    assert not why, f"docs/accuracy.md: {'; '.join(why)}: {again}"


def test_a_reported_run_is_taken_as_it_was_judged(tmp_path: Path) -> None:
    path = build(tmp_path / "two" / "20260101T000000Z", FakeRun(steps=[FakeStep(1, seconds=4, burn_in_s=2)]))
    judged = pa.Table.from_pylist([row("m", 0, 1, 11.0)], schema=ERRORS)
    judged = judged.replace_schema_metadata(stamp(Run(path), ["m"]))
    pq.write_table(judged, path / "errors.parquet")
    (path / "verdict.json").write_text(json.dumps({"verdict": "valid"}))
    assert find_runs([tmp_path]) == find_runs([path]) == [path]
    (found,) = evaluate([path], SPLIT)
    assert (found.experiment, found.part, found.verdict, found.steps) == ("two", "development", "valid", 1)
    assert len(found.pairs) == 1
    (path / "verdict.json").unlink()
    with pytest.raises(UsageError, match="verdict"):
        evaluate([path], SPLIT)
    with pytest.raises(UsageError, match="no run directory"):
        find_runs([tmp_path / "two" / "20260101T000000Z" / "steps"])


def test_an_archived_run_is_predicted_and_judged_anew(tmp_path: Path) -> None:
    steps = [FakeStep(e, seconds=8, burn_in_s=2) for e in (1, 2)]
    path = build(tmp_path / "two" / "20260101T000000Z", FakeRun(steps=steps))
    (path / "predictions.parquet").unlink()
    before = sorted(p.name for p in path.iterdir())
    (found,) = evaluate([path], SPLIT)
    assert sorted(p.name for p in path.iterdir()) == before
    assert {"no-change", "jackson", "storm-tracer", "caladrius"} <= set(found.pairs["model"])
    assert figures(gather([found]).query("model == 'no-change' and measure == @GROUND_TRUTH")).judged > 0
