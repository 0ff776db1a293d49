"""harness tune on an archived run: what is printed, the last line, wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.commands.tuning import tuner_parameters
from harness.errors import UsageError
from harness.tuning import TUNERS

RAMP = str(Path(__file__).resolve().parents[2] / "reports" / "runs" / "loaded-ramp" / "20261122T004256Z")


def tune(*typed: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["tune", *typed])
    assert "Traceback" not in done.output
    return done.exit_code, done.stdout, done.stderr


def last(stdout: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stdout.splitlines()[-1])
    return found


def test_proposals_stand_side_by_side_and_the_last_line_has_all_of_them() -> None:
    status, stdout, stderr = tune(RAMP, "--step", "0", "--rate", "225", "--json")
    assert status == 0
    assert "step 0 for 225 messages/s" in stdout
    assert stderr.splitlines() == [f"asking {name}" for name in TUNERS]
    row = next(line for line in stdout.splitlines() if line.startswith("ds2 "))
    assert "spout:2 bolt-a:3 bolt-b:1 sender:1" in row
    assert "saturated" in next(line for line in stdout.splitlines() if line.startswith("(step 0 as it is)"))
    found = last(stdout)
    assert list(found) == ["exit_status", "step", "nearest", "proposals"]
    assert (found["exit_status"], found["step"], found["nearest"]) == (0, 0, None)
    assert [p["tuner"] for p in found["proposals"]] == ["aeolus", "ds2", "flink", "model-guided"]
    for proposal in found["proposals"]:
        assert list(proposal) == [
            "tuner",
            "status",
            "reason",
            "executors",
            "workers",
            "batching",
            "predicted",
            "executors_moved",
            "workers_restarted",
            "limits",
            "decisions",
        ]
        first = proposal["limits"][0]  # an executor's time is in proportion to the rate
        assert first["resource"] == "time"
        assert first["max_rate_tps"] * first["utilisation"] == pytest.approx(225)
        assert proposal["executors_moved"] > 0
        assert {tuple(d) for d in proposal["decisions"]} == {("node", "formula", "values", "result", "why")}
        assert proposal["predicted"]["status"] == "ok"
        assert (
            proposal["predicted"]["low_ms"]
            < proposal["predicted"]["mean_ms"]
            < proposal["predicted"]["high_ms"]
        )
        assert proposal["predicted"]["throughput_tps"] == 225
    by_tuner = {p["tuner"]: p["predicted"]["mean_ms"] for p in found["proposals"]}
    assert by_tuner["model-guided"] < by_tuner["ds2"]


def test_without_a_step_the_one_nearest_to_the_rate_is_taken_and_named() -> None:
    """Step 1 was measured at 150 messages/s, its neighbours at 100 and 185."""
    status, stdout, stderr = tune(RAMP, "--rate", "150", "--tuner", "ds2", "--json")
    assert status == 0
    found = last(stdout)
    assert (found["step"], found["nearest"]["step"]) == (1, 1)
    assert found["nearest"]["distance"] == found["nearest"]["rate"] < 0.01
    assert stderr.splitlines()[0] == found["nearest"]["why"]


def test_decisions_are_explained_one_by_one() -> None:
    status, stdout, _ = tune(RAMP, "--step", "1", "--tuner", "aeolus", "--explain")
    assert status == 0
    lines = stdout[stdout.index("aeolus: ", stdout.index("aeolus: ") + 1) :].splitlines()
    numbered = [line for line in lines if line.lstrip().split(".")[0].isdigit()]
    assert lines[0] == f"aeolus: {len(numbered)} decisions"
    assert numbered[0].strip() == "1. spout: dop given"
    assert "     n, s: not measured here: shipped, Kryo's part of a message alone" in lines
    assert sum("-> " in line for line in lines) == len(numbered)


def test_a_tuner_that_declines_is_a_row_and_no_failure() -> None:
    status, stdout, _ = tune(
        RAMP, "--rate", "400", "--tuner", "model-guided", "--set", "model-guided.most_executors=7", "--json"
    )
    assert status == 0
    assert any(line.split() == ["model-guided", "declined"] for line in stdout.splitlines())
    (proposal,) = last(stdout)["proposals"]
    assert (proposal["status"], proposal["predicted"], proposal["executors"]) == ("declined", None, {})
    assert (proposal["limits"], proposal["executors_moved"]) == ([], None)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([RAMP, "--step", "7"], f"{RAMP}: no finished step 7: finished are 0, 1, 2, 3, 4, 5, 6"),
        ([RAMP, "--tuner", "aeolos"], "unknown tuner 'aeolos': use one of aeolus, ds2, flink, model-guided"),
        ([RAMP, "--rate", "0"], "Invalid value for '--rate'"),
        ([RAMP, "--rate", "many"], "Invalid value for '--rate'"),
        ([RAMP, "--set", "ds2.utilisation=2"], "tuner 'ds2': utilisation: "),
        ([RAMP, "--set", "utilisation=2"], "--set utilisation=2: expected TUNER.KEY=VALUE"),
        ([RAMP, "--tuner", "ds2", "--set", "aeolus.flush_ms=1"], "--set aeolus.flush_ms=1: expected"),
        ([RAMP, "--tuner", "aeolus", "--set", "aeolus.tuple_bytes.nobody=1"], "tuple_bytes names 'nobody'"),
        (["no-such-run"], "no-such-run: not a run directory"),
        ([], "Missing argument 'RUN'."),
    ],
)
def test_wrong_input_is_one_line_and_status_2(typed: list[str], said: str) -> None:
    status, stdout, stderr = tune(*typed, "--json")
    assert status == 2
    assert said in stderr
    assert last(stdout)["status"] == "failed"
    assert last(stdout)["error"].startswith(said)


@pytest.mark.parametrize("rate", ["nan", "inf"])
def test_a_rate_that_is_no_number_is_one_line_and_status_2(rate: str) -> None:
    status, _, stderr = tune(RAMP, "--rate", rate)
    assert status == 2
    assert "--rate" in stderr


def test_parameters_keep_the_dots_of_names_and_the_longest_tuner() -> None:
    options = ["aeolus.tuple_bytes.my.bolt:out=12", "m:t.a=[1, 2]", "aeolus.message.n_us=1.5"]
    assert tuner_parameters(options, ["aeolus", "m:t", "m"]) == {
        "aeolus": {"tuple_bytes": {"my.bolt:out": 12}, "message": {"n_us": 1.5}},
        "m:t": {"a": [1, 2]},
        "m": {},
    }
    with pytest.raises(UsageError, match="has a value already that has no keys"):
        tuner_parameters(["ds2.ppt_ms=1", "ds2.ppt_ms.a=1"], ["ds2"])
    with pytest.raises(UsageError, match="not readable as YAML"):
        tuner_parameters(["ds2.ppt_ms={"], ["ds2"])


def test_the_page_names_every_tuner_and_parameter_and_its_example_runs() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
    rows = {
        row.split("`")[1]: row for row in page.split("## Parameters")[1].splitlines() if row.startswith("| `")
    }
    assert list(rows) == list(TUNERS)
    for name, factory in TUNERS.items():
        for field in factory.model_fields:  # type: ignore[attr-defined]
            assert f"`{field}" in rows[name], f"{name}.{field}"
    typed = next(line for line in page.splitlines() if line.startswith("$ harness tune ")).split()[3:]
    typed[0] = str(Path(__file__).resolve().parents[2] / typed[0])
    status, stdout, _ = tune(*typed)
    assert status == 0
    shown = [" ".join(line.split()[:6]) for line in stdout.splitlines()]
    for line in page.split("```")[1].splitlines()[
        2:-3
    ]:  # title's and reasons' numbers apart: names and counts
        assert " ".join(line.split()[:6]) in shown
