"""How commands end, whatever a user types: one line that says what is wrong, a status, a last line."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.commands.running import headline, verdict_lines


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["report"], "Missing argument 'RUN'."),
        (["reprot"], "No such command 'reprot'."),
        (["list", "--rusn", "runs"], "No such option"),
        (["check", "no-such-experiment"], "no-such-experiment: no such experiment"),
        (["run"], "give either an EXPERIMENT or --resume RUN"),
        (["run", "--resume", "r", "--set", "a=1"], "r: not a run directory"),
        (["run", "--resume", "r", "--runs", "other"], "--runs cannot move a run that has begun"),
        (["run", "--resume", "r", "--runs", "runs"], "--runs cannot move a run that has begun"),
    ],
)
def test_wrong_usage_ends_with_status_2_and_its_last_line(typed: list[str], said: str) -> None:
    done = CliRunner().invoke(main, [*typed, "--json"])
    assert done.exit_code == 2
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["exit_status"], last["status"]) == (2, "failed")
    assert last["error"].startswith(said)
    assert said in done.stderr


def test_help_and_version_end_well() -> None:
    assert CliRunner().invoke(main, ["cluster", "--help"]).exit_code == 0
    assert CliRunner().invoke(main, ["--version"]).exit_code == 0


def test_what_the_system_refuses_is_named_with_its_path(tmp_path: Path) -> None:
    occupied = tmp_path / "accuracy.md"
    occupied.mkdir()
    split = "reports/evaluation-split.yaml"
    done = CliRunner().invoke(main, ["accuracy", str(tmp_path), "--split", split, "--out", str(occupied)])
    assert done.exit_code == 2
    assert str(occupied) in done.stderr
    assert "Traceback" not in done.output


SIGNALLED = """
import signal
from harness.commands import common

signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
common.stop_as_by_ctrl_c()
told = []
for common.ONE_WISH_S, number in (
    (1e9, signal.SIGTERM), (1e9, signal.SIGINT), (1e9, signal.SIGHUP), (-1.0, signal.SIGINT)
):
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt as stop:
        told.append(str(stop))
print(*told)
"""


def test_signals_that_come_together_stop_a_command_once_and_a_later_one_again() -> None:
    """SIGTERM raises; SIGINT within the same wish does not; SIGHUP is ignored; a later SIGINT raises."""
    done = subprocess.run([sys.executable, "-c", SIGNALLED], capture_output=True, text=True, check=True)
    assert done.stdout == "SIGTERM SIGINT\n"


def test_the_last_lines_say_what_was_measured_twice_and_what_did_not_pass() -> None:
    checks = [
        ("all-steps", "unknown", None, "1 of 2 steps finished"),
        ("measured-latency", "valid", 0, "ground truth"),
        ("measured-latency", "valid", 1, "ground truth"),
        ("attempts", "valid", 0, ""),
        ("attempts", "valid", 1, "measured again; before: burn-in: drift"),
        ("steady", "invalid", 1, "drift"),
        ("ledger", "valid", 1, "sent 3 = received 3"),
    ]
    named = ("check", "status", "step", "detail")
    verdict = {"verdict": "invalid", "checks": [dict(zip(named, c, strict=True)) for c in checks]}
    assert verdict_lines(verdict) == [
        "verdict: invalid",
        "latency: ground truth",
        "  all-steps: unknown: 1 of 2 steps finished",
        "  step 1 was measured again; before: burn-in: drift",
        "  steady (step 1): invalid: drift",
    ]


def test_the_table_that_ends_a_run_says_of_how_many_pairs_its_errors_are() -> None:
    kind = {"model": "composite", "measure": "ground_truth_latency_ms", "statistic": "mean"}
    judged = {"comparisons": 42, "judged": 30, "median_abs_error_pct": 12.04, "worst_abs_error_pct": 33.3}
    none = {"comparisons": 42, "judged": 0, "median_abs_error_pct": None, "worst_abs_error_pct": None}
    rows = [
        {**kind, **judged, "protocol": "ours"},
        {**kind, **none, "protocol": "ours", "model": "linear"},
        {**kind, **judged, "protocol": "thesis"},
    ]
    assert headline({"errors": rows}, [kind["measure"]]) == [
        ("composite", "ground_truth_latency_ms", "30 of 42", "12.0", "33.3"),
        ("linear", "ground_truth_latency_ms", "0 of 42", "-", "-"),
    ]


@pytest.mark.parametrize(
    ("pairs", "judged", "said"),
    [(20, 20, "12 / 33"), (20, 16, "12 / 33 (16 of 20)")],
)
def test_a_cell_of_the_results_says_of_how_many_pairs_it_is(pairs: int, judged: int, said: str) -> None:
    cell = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "results.py"))["cell"]
    column = ("ground_truth_latency_ms", "mean", "ours")
    row = {
        **dict(zip(("measure", "statistic", "protocol"), column, strict=True)),
        "model": "composite",
        "pairs": pairs,
        "judged": judged,
        "median_abs_error_pct": 12.04,
        "worst_abs_error_pct": 33.3,
    }
    assert cell({"errors": [row]}, "composite", column) == said


def test_check_promises_no_end_that_a_repeated_step_would_break() -> None:
    done = CliRunner().invoke(main, ["check", "quick", "--json"])
    assert done.exit_code == 0, done.output
    # two steps of at most 60 s of burn-in and 40 s of interval, and 15 s for what is around them: 230 s
    said = "quick: 2 steps of fields-to-fields, about 4 min, more if a step must be measured again"
    assert said in done.stdout.splitlines()
    assert json.loads(done.stdout.splitlines()[-1])["about_s"] == 230
