"""What git tracks stays small: a clone is a newcomer's first wait."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from click import Context

from harness.cli import main
from harness.experiments.loading import load

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 1_000_000
MOST_BASELINE_BYTES = 500_000
MOST_RUNS_BYTES = 45_000_000
MOST_LATER_RUN_BYTES = 1_500_000
MOST_STEP_BYTES = 200_000
"""Of a run of more than ten steps, as repeats of several schedulers are."""
MOST_TREE_BYTES = 100_000_000
MOST_REWRITTEN = 10
LATER = "20261128T000000Z"
"""Runs that were measured before this have a limit together; those after it one each."""
LATER_WORK = {"adapt-aniello", "batched-chain", "schedulers-debs", "schedulers-traffic", "schedulers-unequal"}
"""Experiments on schedulers and batches, whose runs have one each, too."""


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
    first = {run: size for run, size in runs.items() if run[1] < LATER and run[0] not in LATER_WORK}
    assert sum(first.values()) < MOST_RUNS_BYTES
    assert all(
        f"reports/runs/{experiment}/{started}/archived.json" in tracked for experiment, started in runs
    )
    most = {run: max(MOST_LATER_RUN_BYTES, MOST_STEP_BYTES * number) for run, number in steps.items()}
    assert {run: size for run, size in runs.items() if run not in first and size > most[run]} == {}


def test_a_configuration_has_one_archived_run_a_machine(tracked: dict[str, int]) -> None:
    """Repeats are the point within noise-floor only, whose steps they are."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in tracked:
        if name.startswith("reports/runs/") and name.endswith("/experiment.yaml"):
            run = (ROOT / name).parent
            machine = json.loads((run / "environment.json").read_text(encoding="utf-8"))["machine"]
            kind = f"{machine['cores']} x {machine['cpu']}"
            found.setdefault((load(ROOT / name).model_dump_json(), kind), []).append(str(run))
    assert [runs for runs in found.values() if len(runs) > 1] == []


def test_a_change_of_a_model_rewrites_at_most_ten_files_elsewhere(
    tracked: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page lists the commands, and names the files that each writes; none is of an archived run."""
    page = (ROOT / "docs" / "regression.md").read_text(encoding="utf-8")
    table = page.split("### After a change of a model")[1].split("\n#")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| `")]
    said = {command.split("`")[1]: set(re.findall(r"`([^`]+)`", files)) for command, files in rows}
    listed = set[str]().union(*said.values())
    assert listed <= tracked.keys()
    assert not any(name.startswith("reports/runs/") for name in listed)
    assert len([n for n in listed if not n.startswith(("harness/", "tests/", "docs/"))]) <= MOST_REWRITTEN

    written: list[Path] = []
    monkeypatch.setattr(Path, "write_text", lambda path, *_, **__: written.append(path))
    runpy.run_path(str(ROOT / "scripts" / "results.py"))["main"]()
    priced = runpy.run_path(str(ROOT / "scripts" / "mechanism_prices.py"))["PAGE"]
    assert said["python scripts/results.py"] == {str(path.relative_to(ROOT)) for path in written}
    assert said["python scripts/mechanism_prices.py"] == {str(priced.relative_to(ROOT))}
    for words, option in (("accuracy", "out"), ("regress reports/runs/*/* --update", "baseline_path")):
        command = main.get_command(Context(main), words.split()[0])
        assert command
        (default,) = (str(p.default) for p in command.params if p.name == option)
        assert said[f"harness {words}"] == {default}


def test_figures_that_a_command_draws_are_not_tracked_but_those_a_page_shows(tracked: dict[str, int]) -> None:
    pages = [ROOT / name for name in tracked if name.endswith(".md") and not name.startswith("reports/")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    figures = [name for name in tracked if name.startswith("reports/figures/")]
    assert [name for name in figures if name not in shown] == []
