"""Archived runs scored once, for all of the regression's tests that a process runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from altered_runs import ALL_IN_ONE, REPORTS

from harness.analysis.judge.rescoring import rescore
from harness.analysis.judge.scores import RunScores
from harness.regression import baseline


@pytest.fixture(scope="session")
def archive() -> dict[Path, RunScores]:
    """Every archived run, scored from raw data with today's models."""
    paths = sorted(p.parent for p in (REPORTS / "runs").glob("*/*/environment.json"))
    return dict(zip(paths, rescore(paths), strict=True))


@pytest.fixture(scope="session")
def scored() -> RunScores:
    """The all-in-one run alone, since the whole archive takes minutes: five steps, twenty pairs."""
    return rescore([ALL_IN_ONE])[0]


@pytest.fixture(scope="session")
def night_before() -> RunScores:
    """The all-in-one run as the archive's baseline has it: with how far it all repeats."""
    return next(n for n in baseline.read(REPORTS / "baseline.json") if n.run == ALL_IN_ONE.name)
