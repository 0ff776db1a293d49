"""One Spark session for all of the analysis' tests, and synthetic runs made once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from synthetic_run import UNUSUAL, FakeRun, FakeStep, build, lognormal

from harness.analysis.judge.computing import compute, compute_all
from harness.analysis.judge.predicting import predict
from harness.analysis.judge.results import Results
from harness.analysis.spark.inputs import RunRecord, read_run
from harness.analysis.spark.session import spark_session
from harness.runs import Run


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session() as session:
        yield session


@pytest.fixture(scope="session")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps of fields-to-fields: 1, 2, 4 executors, and 4 again as a repeat."""
    steps = [FakeStep(e, latency_ms=lognormal(m)) for e, m in ((1, 12.0), (2, 9.0), (4, 7.0), (4, 7.2))]
    return build(tmp_path_factory.mktemp("runs") / "fields-to-fields", FakeRun(steps=steps))


@pytest.fixture(scope="session")
def run(run_path: Path) -> RunRecord:
    return read_run(run_path)


@pytest.fixture(scope="session")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What the analysis finds of a run that the harness's own models predicted."""
    steps = [FakeStep(e, latency_ms=lognormal(m)) for e, m in ((1, 12.0), (2, 9.0), (4, 7.0), (4, 7.2))]
    path = build(tmp_path_factory.mktemp("runs") / "predicted", FakeRun(steps=steps))
    predict(Run(path), ("no-change", "caladrius", "storm-tracer"))
    return compute(spark, read_run(path))


@pytest.fixture(scope="session")
def unusual(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Results]:
    """What the analysis finds of unusual runs, by what is unusual about them; all from one job."""
    folder = tmp_path_factory.mktemp("unusual")
    runs = [read_run(build(folder / str(i), fake)) for i, fake in enumerate(UNUSUAL.values())]
    return dict(zip(UNUSUAL, compute_all(spark, runs), strict=True))


@pytest.fixture(scope="session")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """Two steps of the windowed topology: ten members leave in one output."""
    steps = (FakeStep(2), FakeStep(4))
    fake = FakeRun(topology="windowed", steps=steps, members=10, tasks=4)
    return read_run(build(tmp_path_factory.mktemp("runs") / "windowed", fake))
