"""``harness compare``: differences whose truth is known, paired where the steps are the same."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from synthetic_run import FakeRun, FakeStep, build, lognormal

from harness.analysis.analyse import analyse
from harness.analysis.judge import comparing
from harness.analysis.judge.comparing import Comparison, Row, cells, compare, sides
from harness.analysis.judge.results import Results
from harness.cli import main
from harness.errors import UsageError

pytestmark = pytest.mark.deep

MEAN = ("ours", "ground_truth_latency_ms", "mean")


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two nights of one experiment, the second a fifth slower, and a run of another."""
    folder = tmp_path_factory.mktemp("runs")

    def steps(factor: float) -> list[FakeStep]:
        means = ((1, 12.0), (2, 9.0), (4, 7.0), (4, 7.0))
        return [FakeStep(e, seconds=20, latency_ms=lognormal(factor * m)) for e, m in means]

    made = [
        build(folder / "a", FakeRun(steps=steps(1.0))),
        build(folder / "b", FakeRun(steps=steps(1.2), seed=99)),
        build(folder / "c", FakeRun(topology="windowed", steps=steps(1.0), members=10)),
    ]
    analyse(made[0])  # has its pair table; the others' are computed
    return made


@pytest.fixture(scope="module")
def given(spark: SparkSession, runs: list[Path]) -> list[comparing.Side]:
    return sides(runs)


def row(found: Comparison, model: str = "") -> Row:
    return next(r for r in found.rows if (r.protocol, r.measure, r.statistic) == MEAN and r.model == model)


def test_reading_a_runs_pair_table_and_computing_it_are_the_same(
    spark: SparkSession, runs: list[Path], given: list[comparing.Side], tmp_path: Path
) -> None:
    table = pq.read_table(runs[0] / "errors.parquet").to_pandas()
    pd.testing.assert_frame_equal(table, given[0].errors)
    assert not (runs[1] / "errors.parquet").exists(), "nothing is written into a run"


def test_cells_are_those_of_the_error_matrices(results: Results) -> None:
    mine = cells(results.frame)
    theirs = results.matrices
    off = theirs["source_step"] != theirs["proposed_step"]
    theirs = theirs[off & (theirs["judged"] > 0)]
    keys = ["model", "protocol", "measure", "statistic", "source_step", "proposed_step"]
    both = mine.merge(theirs, on=keys, how="outer", suffixes=("_a", "_b"), indicator=True)
    assert (both["_merge"] == "both").all()
    assert both["abs_error_pct_a"].to_numpy() == pytest.approx(both["abs_error_pct_b"].to_numpy())


def test_two_models_are_compared_on_the_same_pairs(given: list[comparing.Side]) -> None:
    found = compare(given[:1], ["no-change", "tenth-high"])
    mean = row(found)
    table = cells(given[0].errors)
    table = table[(table["measure"] == MEAN[1]) & (table["statistic"] == "mean")]
    a, b = (table[table["model"] == m]["abs_error_pct"].median() for m in ("no-change", "tenth-high"))
    assert (mean.first_pct, mean.second_pct) == (a, b)
    assert mean.difference == pytest.approx(b - a)
    assert mean.paired
    assert mean.pairs == 12
    assert mean.low is not None
    assert mean.high is not None
    assert mean.low <= mean.difference <= mean.high
    assert found.measured == []


def test_a_model_against_itself_in_two_nights_of_the_same_truth(given: list[comparing.Side]) -> None:
    found = compare(given[:2])
    assert {r.model for r in found.rows} == {"no-change", "tenth-high"}
    assert all(r.paired for r in found.rows)
    assert abs(row(found, "no-change").difference) < 10, "a factor on all latencies changes no relative error"


def test_what_two_nights_measured_stands_beside_each_other(given: list[comparing.Side]) -> None:
    found = compare(given[:2])
    means = [r for r in found.measured if (r.measure, r.statistic) == MEAN[1:]]
    assert len(means) == 4
    assert len({r.configuration for r in means}) == 4, "a repeat is a configuration of its own"
    for r in means:
        assert r.difference_pct == pytest.approx(100 * (r.second / r.first - 1))
        assert r.low_pct is not None
        assert r.high_pct is not None
        assert r.low_pct <= r.difference_pct <= r.high_pct
    assert sum(10 < r.difference_pct < 30 for r in means) >= 3, "a fifth slower"


def test_runs_of_different_experiments_are_not_matched(given: list[comparing.Side]) -> None:
    found = compare([given[0], given[2]])
    assert not any(r.paired for r in found.rows)
    assert found.measured == []
    assert "different experiments" in found.notes[0]


def test_several_runs_are_pooled_for_two_models(given: list[comparing.Side]) -> None:
    found = compare(given, ["no-change", "tenth-high"])
    assert row(found).pairs == 36
    assert "over the pairs of" in found.notes[0]


@pytest.mark.parametrize(
    ("how_many", "models", "says"),
    [
        (1, [], "two runs, or two models"),
        (3, [], "two runs, or two models"),
        (2, ["nobody"], "nobody: has no predictions"),
        (2, ["no-change", "tenth-high", "no-change"], "two runs, or two models"),
    ],
)
def test_what_cannot_be_compared_is_said(
    given: list[comparing.Side], how_many: int, models: list[str], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        compare(given[:how_many], models)
    assert says in str(caught.value)


def test_the_same_run_twice_is_refused(runs: list[Path]) -> None:
    with pytest.raises(UsageError, match="given twice"):
        sides([runs[0], runs[0]])


def test_the_command_prints_a_table_and_writes_a_figure(
    spark: SparkSession, runs: list[Path], tmp_path: Path
) -> None:
    asked = ["compare", str(runs[0]), "--model", "no-change", "--model", "tenth-high"]
    done = CliRunner().invoke(main, [*asked, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["first"], said["second"]) == ("no-change", "tenth-high")
    mean = next(r for r in said["errors"] if (r["protocol"], r["measure"], r["statistic"]) == MEAN)
    assert {"low", "high", "difference", "better"} <= set(mean)
    assert "mean ground-truth latency" in done.stdout
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"comparison.pdf", "comparison.svg", "comparison.png", "comparison.csv"}
    assert len(pd.read_csv(tmp_path / "out" / "comparison.csv")) == len(said["errors"])


def test_a_foreign_pair_table_is_named(runs: list[Path], tmp_path: Path) -> None:
    path = build(tmp_path / "run", FakeRun(steps=[FakeStep(1, seconds=10)]))
    (path / "errors.parquet").write_bytes(b"PAR1 not really")
    done = CliRunner().invoke(main, ["compare", str(path), str(runs[0]), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "errors.parquet" in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()
