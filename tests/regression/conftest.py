"""One Spark session, and every archived run scored once, for all of the regression's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from altered_runs import ALL_IN_ONE, REPORTS
from pyspark.sql import SparkSession

from harness.analysis.rescoring import rescore
from harness.analysis.session import spark_session
from harness.regression import baseline
from harness.regression.scores import RunScores


@pytest.fixture(scope="session")
def regression_spark() -> Iterator[SparkSession]:
    with spark_session() as session:  # the one that is there, where other tests have started one
        yield session


@pytest.fixture(scope="session")
def archive(regression_spark: SparkSession) -> dict[Path, RunScores]:
    """Every archived run, scored from its raw data with today's models."""
    paths = sorted(p.parent for p in (REPORTS / "runs").glob("*/*/environment.json"))
    return dict(zip(paths, rescore(paths), strict=True))


@pytest.fixture(scope="session")
def scored(archive: dict[Path, RunScores]) -> RunScores:
    """The all-in-one run: five steps, twenty pairs."""
    return archive[ALL_IN_ONE]


@pytest.fixture(scope="session")
def night_before(scored: RunScores) -> RunScores:
    """The all-in-one run as a baseline: with what the archive's baseline knows of how far it all repeats."""
    known = next(n for n in baseline.read(REPORTS / "baseline.json") if n.run == scored.run)
    moved = {a.key: a.moved_pct for a in known.accuracy}
    within = {(m.name, m.protocol): m.within for m in known.measured}
    return scored.model_copy(
        update={
            "accuracy": tuple(
                a.model_copy(update={"moved_pct": moved.get(a.key, ())}) for a in scored.accuracy
            ),
            "measured": tuple(
                m.model_copy(update={"within": within[m.name, m.protocol]}) for m in scored.measured
            ),
        }
    )
