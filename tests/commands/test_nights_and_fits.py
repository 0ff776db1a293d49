"""Commands of a night, of fits and of a slowed link: wrong input in one line, one whole fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.app.interval_fit import CALIBRATION
from harness.cli import main
from harness.schemas import Measure

ROOT = Path(__file__).resolve().parents[2]
TUNING_RUN = str(ROOT / "reports" / "runs" / "noise-floor" / "20261121T181833Z")
REPORTING_RUN = str(ROOT / "reports" / "runs" / "windowed" / "20261122T005431Z")
SPLIT = ("--split", str(ROOT / "reports" / "evaluation-split.yaml"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nightly", "--config", "nowhere.yaml"), "nowhere.yaml: there is no such file"),
        (("slowed-link",), "give --cluster FILE, or --draw FAST SLOW"),
        (("calibrate", "background", *SPLIT, REPORTING_RUN), "not of the tuning set"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line


@pytest.mark.deep
def test_intervals_are_fitted_to_a_file_of_ones_own(tmp_path: Path) -> None:
    before, file = CALIBRATION.read_bytes(), tmp_path / "calibration.json"
    result = CliRunner().invoke(main, ["calibrate", "intervals", *SPLIT, TUNING_RUN, "--out", str(file)])
    assert result.exit_code == 0, result.output
    made = json.loads(file.read_text(encoding="utf-8"))
    assert made["schema"] == json.loads(before)["schema"]
    assert "mean" in made["measures"][Measure.GROUND_TRUTH]
    assert CALIBRATION.read_bytes() == before
