"""Many runs in one job, steps of very different sizes, very many paths: the same numbers, small results."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from synthetic_run import FakeRun, FakeStep, build, lognormal

from harness.analysis.judge.computing import compute, compute_all
from harness.analysis.judge.judging import all_judged
from harness.analysis.judge.results import Results
from harness.analysis.judge.summary import summaries
from harness.analysis.spark import distribution, latencies, tables
from harness.analysis.spark.inputs import Archive, read_run
from harness.errors import HarnessError, UsageError
from harness.schemas import HOP, LATENCY, PERCENTILES

pytestmark = pytest.mark.deep

TABLES = ("actuals", "matrices", "histogram", "stages", "timeline", "pace", "frame")


def ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in an order of their own, for Spark promises none."""
    text = frame.select_dtypes(exclude="number").columns.tolist()
    rest = [c for c in frame.columns if c not in text]
    whole = [c for c in rest if pd.api.types.is_integer_dtype(frame[c])]
    return frame.sort_values([*text, *whole, *(c for c in rest if c not in whole)], ignore_index=True)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of several topologies: with repeats, with windows and an empty step, with a faulty step."""
    folder = tmp_path_factory.mktemp("runs")
    short = {"seconds": 10, "burn_in_s": 4}
    repeated = [FakeStep(e, latency_ms=lognormal(9 / e), **short) for e in (1, 2, 2)]
    return [
        build(folder / "repeated", FakeRun(steps=repeated)),
        build(
            folder / "windowed",
            FakeRun(
                topology="windowed",
                steps=[FakeStep(2, **short), FakeStep(1, empty=True, **short)],
                members=10,
            ),
        ),
        build(
            folder / "branches",
            FakeRun(
                topology="join-split",
                steps=[
                    FakeStep(1, **short),
                    FakeStep(4, **short),
                    FakeStep(2, interval={"evidence": False}, **short),
                ],
                seed=3,
            ),
        ),
    ]


@pytest.fixture(scope="module")
def together(spark: SparkSession, paths: list[Path]) -> list[Results]:
    return list(compute_all(spark, [read_run(path) for path in paths]))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_runs_of_one_job_are_what_each_is_alone_to_the_last_bit(
    spark: SparkSession, paths: list[Path], together: list[Results], place: int
) -> None:
    alone = compute(spark, read_run(paths[place]))
    same = together[place]
    assert same.run.path == paths[place]
    assert same.checks == alone.checks
    assert same.summary == alone.summary
    for name in TABLES:
        pd.testing.assert_frame_equal(
            ordered(getattr(same, name)), ordered(getattr(alone, name)), check_exact=True, obj=name
        )


def test_a_hundred_runs_are_one_job(spark: SparkSession, tmp_path: Path) -> None:
    """Fifty of each of two runs: each gets the errors of the run that it is a copy of."""
    steps = [FakeStep(e, seconds=4, burn_in_s=2) for e in (1, 2)]
    originals = [build(tmp_path / name, FakeRun(steps=steps, seed=i)) for i, name in enumerate("ab")]
    copies = [shutil.copytree(originals[i % 2], tmp_path / f"{i}") for i in range(100)]
    with all_judged(spark, Archive.of([read_run(path) for path in copies])) as found:
        by_run = summaries(found.pairs)
        actuals = [run.actuals for run in found.runs]
    assert sorted(by_run) == list(range(100))
    assert by_run[0] != by_run[1]
    assert all(by_run[i] == by_run[i % 2] for i in range(100))
    checks = [run.checks for run in found.runs]
    assert checks == [checks[0], checks[1]] * 50
    for i in (2, 51, 98, 99):
        pd.testing.assert_frame_equal(ordered(actuals[i]), ordered(actuals[i % 2]), check_exact=True)


def test_a_run_given_twice_is_named(paths: list[Path]) -> None:
    with pytest.raises(UsageError, match="repeated: given twice"):
        Archive.of([read_run(paths[0]), read_run(paths[0])])


def with_latencies(path: Path, step: int, ns: np.ndarray) -> None:
    """Give a step's interval these latencies, scheduled evenly over it."""
    file = path / "steps" / f"{step:02d}" / "latency.parquet"
    s = next(s for s in read_run(path).steps if s.index == step)
    first = pq.read_table(file).slice(0, 1)
    one = {f.name: first[f.name].combine_chunks() for f in LATENCY}
    n = len(ns)
    length_ns = s.interval.end_ns - s.interval.start_ns
    scheduled = s.interval.start_ns + np.linspace(0, length_ns - 1, n).astype(int)
    made = {name: column.take(pa.array(np.zeros(n, int))) for name, column in one.items()} | {
        "message_id": pa.array(np.arange(n)),
        "in_interval": pa.array(np.ones(n, bool)),
        "scheduled_ns": pa.array(scheduled),
        "entered_ns": pa.array(scheduled),
        "left_ns": pa.array(scheduled + ns),
        "ground_truth_ms": pa.array(ns / 1e6),
        "output_offset": pa.array(np.arange(n)),
    }
    pq.write_table(pa.table([made[f.name] for f in LATENCY], schema=LATENCY), file)


def test_steps_of_very_different_sizes_have_exact_percentiles(spark: SparkSession, tmp_path: Path) -> None:
    """Nearly all rows in one step and most of them equal, one row in another, none in a third."""
    path = build(tmp_path / "run", FakeRun(steps=[FakeStep(1, seconds=10, burn_in_s=4)] * 3))
    rng = np.random.default_rng(5)
    values = {
        0: np.where(rng.random(200_000) < 0.97, 3_000_000, (rng.pareto(0.9, 200_000) * 1e6).astype(int) + 1),
        1: np.array([123_456_789]),
        2: np.array([], int),
    }
    for step, ns in values.items():
        with_latencies(path, step, ns)
    run = read_run(path)
    counted = distribution.histogram(spark, run)
    assert counted.groupby("step")["n"].sum().to_dict() == {0: 200_000, 1: 1}
    rows = [a for a in latencies.ground_truth(spark, run, counted) if a.subject == ""]
    found = {(a.step, a.statistic): a for a in rows}
    assert {step for step, _ in found} == {0, 1}
    for step in (0, 1):
        ns = np.sort(values[step])
        assert found[step, "mean"].value == int(ns.sum()) / len(ns) / 1e6
        for statistic, fraction in PERCENTILES.items():
            place = fraction * (len(ns) - 1)
            low = int(place)
            high = min(low + 1, len(ns) - 1)
            expected = int(ns[low]) + (int(ns[high]) - int(ns[low])) * (place - low)
            assert found[step, statistic].value == expected / 1e6


def test_a_million_paths(spark: SparkSession, tmp_path: Path) -> None:
    """Every member of 100,000 windows has a path of its own; the chosen one is that whose latency fits."""
    path = build(tmp_path / "run", FakeRun(topology="windowed", steps=[FakeStep(4, seconds=10)], members=10))
    run = read_run(path)
    (s,) = run.steps
    plan = s.plan.start
    windows, members = 100_000, 10
    n = windows * members
    rng = np.random.default_rng(8)
    latency_ns = rng.permuted(np.tile(np.arange(1, members + 1) * 1_000_000, (windows, 1)), axis=1)
    latency_ns += rng.integers(0, 1000, (windows, members))
    chosen = rng.integers(0, members, windows)
    thesis_ns = latency_ns[np.arange(windows), chosen]
    spouts, senders = ([t for e in plan.of(c) for t in e.tasks] for c in ("spout", "sender"))
    first = rng.choice(spouts, (windows, members)).astype(np.int32)
    last = np.repeat(rng.choice(senders, windows).astype(np.int32), members)
    left = np.repeat(np.linspace(s.interval.start_ns, s.interval.end_ns - 1, windows).astype(int), members)
    entered = left - latency_ns.ravel()
    times = np.stack([entered, left], axis=1).ravel()
    hops = pa.StructArray.from_arrays(
        [pa.array(np.stack([first.ravel(), last], axis=1).ravel()), pa.array(times), pa.array(times)],
        fields=list(HOP),
    )
    numbers = np.arange(n)
    columns = {
        "message_id": numbers,
        "child": np.zeros(n, np.int32),
        "in_interval": np.ones(n, bool),
        **dict.fromkeys(("scheduled_ns", "sent_ns", "left_ns"), left),
        "entered_ns": entered,
        **dict.fromkeys(("ground_truth_ms", "broker_ms", "scheduled_ms"), latency_ns.ravel() / 1e6),
        "thesis_ground_truth_ms": np.repeat(thesis_ns, members) / 1e6,
        "path": pa.DictionaryArray.from_arrays(
            pa.array(numbers.astype(np.int32)), pa.array([f"path {i}" for i in numbers])
        ),
        "sink": pa.array(["sender"] * n).dictionary_encode(),
        "output_partition": ((numbers // members) % 16).astype(np.int32),
        "output_offset": numbers // members // 16,
        "hops": pa.ListArray.from_arrays(pa.array(np.arange(0, 2 * n + 1, 2, dtype=np.int32)), hops),
    }
    table = pa.table([columns[f.name] for f in LATENCY], schema=LATENCY)
    pq.write_table(table, s.folder / "latency.parquet")
    node = np.vectorize(lambda t: plan.by_task[t].worker.node)
    same = node(first[np.arange(windows), chosen]) == node(last[::members])
    cut_ns = latencies.complete_mean_ms(s) * 1e6
    kept = same & (thesis_ns <= cut_ns)
    found = latencies.thesis_counts(spark, read_run(path))
    assert found["outputs"].sum() == windows
    assert found["same"].sum() == same.sum()
    assert found["kept"].sum() == kept.sum() > 0
    assert found["sum_ns"].sum() == thesis_ns[kept].sum()


def test_a_result_that_is_not_small_never_comes_to_the_driver(spark: SparkSession) -> None:
    with pytest.raises(HarnessError, match="more than 1000 rows"):
        tables.collect(spark.range(1_000_000), "everything", most=1000)


def test_results_come_to_the_driver_in_one_place_only() -> None:
    """No other module of the analysis asks Spark for rows: so none can ask for raw ones."""
    asks = {"toPandas", "toArrow", "collect", "toLocalIterator", "head", "take", "first", "show", "foreach"}
    folder = Path(tables.__file__).parents[1]
    found = {}
    for path in folder.rglob("*.py"):
        if "pyspark" not in path.read_text():
            continue
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        methods = {
            c.func.attr
            for c in calls
            if isinstance(c.func, ast.Attribute) and not isinstance(c.func.value, ast.Name)
        }
        found[path.name] = methods & asks
    assert found.pop("tables.py") == {"toArrow"}
    assert set().union(*found.values()) == set()
