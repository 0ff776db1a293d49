"""One table of tuners' and schedulers' proposals, made of what both commands say of an archived step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.runs import Run
from harness.service import building
from harness.service.job_process import joined
from harness.service.proposal_table import proposal_rows

RAMP = Path(__file__).resolve().parents[2] / "reports" / "runs" / "loaded-ramp" / "20261122T004256Z"
STEP, RATE_TPS = 0, 225.0


def answer(command: str, *typed: str) -> dict[str, object]:
    asked = [command, str(RAMP), "--step", str(STEP), "--rate", str(RATE_TPS), "--json", *typed]
    found: dict[str, object] = json.loads(CliRunner().invoke(main, asked).stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def result() -> dict[str, object]:
    one_too_few = ("--set", "model-guided.most_executors=5")
    tuned = answer("tune", "--tuner", "ds2", "--tuner", "model-guided", *one_too_few)
    return joined([tuned, answer("schedule", "--scheduler", "even")])


def test_all_stand_in_one_table_the_least_latency_first(result: dict[str, object]) -> None:
    """225/s keep 2.2 of bolt-a's executors busy: ds2 asks for three; even keeps two, too few."""
    rows = proposal_rows(result, Run(RAMP), STEP, RATE_TPS)
    assert [(row["name"], row["by"], row["status"]) for row in rows] == [
        ("ds2", "tuner", "ok"),
        ("even", "scheduler", "unpredicted"),
        ("model-guided", "tuner", "declined"),
    ]
    tuned, placed, declined = rows
    assert (tuned["executors"], placed["executors"]) == (
        "spout:2 bolt-a:3 bolt-b:1 sender:1",
        "spout:2 bolt-a:2 bolt-b:2 sender:2",
    )
    full = placed["full"]
    assert full.subject.startswith("bolt-a[")  # type: ignore[attr-defined]
    assert full.max_rate_tps < RATE_TPS < tuned["full"].max_rate_tps  # type: ignore[attr-defined]
    assert tuned["moved"] > 0  # type: ignore[operator]
    assert (declined["moved"], declined["full"], declined["files"]) == (None, None, ())


def test_each_has_the_files_that_measure_it(result: dict[str, object]) -> None:
    tuned, placed, _ = proposal_rows(result, Run(RAMP), STEP, RATE_TPS)
    for row, files in ((tuned, 3), (placed, 1)):
        texts = row["files"]
        assert isinstance(texts, tuple)
        assert len(texts) == files
        both = building.checked(texts[0]).steps.plan
        assert [step.rate_tps for step in both] == [RATE_TPS, RATE_TPS]


def test_an_answer_of_before_has_dashes() -> None:
    """Tuners did not say what is full first, nor executors moved; jobs keep their results."""
    old = {"tuner": "ds2", "status": "ok", "reason": "", "executors": {"spout": 2}, "workers": 2}
    result = {"step": STEP, "proposals": [{**old, "batching": {}, "predicted": None, "decisions": []}]}
    (row,) = proposal_rows(result, Run(RAMP), STEP, None)
    assert (row["executors"], row["workers"], row["moved"], row["full"]) == ("spout:2", 2, None, None)
