"""What git tracks stays small: a clone is a newcomer's first wait."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 1_000_000
MOST_BASELINE_BYTES = 500_000
MOST_RUNS_BYTES = 45_000_000
MOST_LATER_RUN_BYTES = 1_500_000
MOST_STEP_BYTES = 150_000
"""Of a run of more than ten steps, as repeats of several schedulers are."""
MOST_TREE_BYTES = 100_000_000
LATER = "20261125T000000Z"
"""Runs that were measured before this have a limit together; those after it one each."""


@pytest.fixture(scope="module")
def tracked() -> dict[str, int]:
    """Size of each tracked file by its path."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {name: ROOT / name for name in listed.stdout.split("\0") if name}
    return {name: path.stat().st_size for name, path in files.items() if path.is_file()}


def test_no_file_but_of_archived_runs_is_large(tracked: dict[str, int]) -> None:
    large = {n: s for n, s in tracked.items() if s > MOST_BYTES and not n.startswith("reports/runs/")}
    assert large == {}


def test_the_baseline_and_the_whole_tree_have_a_limit(tracked: dict[str, int]) -> None:
    assert tracked["reports/baseline.json"] < MOST_BASELINE_BYTES
    assert sum(tracked.values()) < MOST_TREE_BYTES


def test_archived_runs_have_a_limit_together_and_later_ones_one_each(tracked: dict[str, int]) -> None:
    runs: Counter[tuple[str, str]] = Counter()
    steps: Counter[tuple[str, str]] = Counter()
    for name, size in tracked.items():
        if name.startswith("reports/runs/"):
            experiment, started = name.split("/")[2:4]
            runs[experiment, started] += size
            steps[experiment, started] += name.endswith("/interval.json")
    first = {run: size for run, size in runs.items() if run[1] < LATER}
    assert sum(first.values()) < MOST_RUNS_BYTES
    assert all(
        f"reports/runs/{experiment}/{started}/archived.json" in tracked for experiment, started in first
    )
    most = {run: max(MOST_LATER_RUN_BYTES, MOST_STEP_BYTES * number) for run, number in steps.items()}
    assert {run: size for run, size in runs.items() if run not in first and size > most[run]} == {}


def test_figures_that_a_command_draws_are_not_tracked_but_those_a_page_shows(tracked: dict[str, int]) -> None:
    pages = [ROOT / name for name in tracked if name.endswith(".md") and not name.startswith("reports/")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    figures = [name for name in tracked if name.startswith("reports/figures/")]
    assert [name for name in figures if name not in shown] == []
