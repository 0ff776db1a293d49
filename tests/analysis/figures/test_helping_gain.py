"""Section 3 of Leron, simulated: where its gain holds, for whom, and where helpers' queues spoil it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.models.simulator.helping_gain import HelpedStage, play

STAGES = [HelpedStage(2, 1, 1.0, 0.2), HelpedStage(3, 2, 1.0, 0.5), HelpedStage(4, 1, 0.5, 0.25)]


@pytest.mark.parametrize("stage", STAGES)
def test_all_bolts_are_busy_between_the_two_limits_only(stage: HelpedStage) -> None:
    """(M + N) X / 2 tuples of two services each, of N X without help; the marks are at least 50 tuples."""
    alone = stage.helped * 100.0
    middle = (stage.asked_from + stage.spoilt_from) / 2
    assert play(stage, "back-pressure", middle).out_tps == pytest.approx(alone, rel=0.01)
    assert play(stage, "helping", middle).out_tps == pytest.approx(alone * (1 + stage.most_gain), rel=0.01)
    assert play(stage, "helping", 0.9 * stage.asked_from).out_tps == pytest.approx(alone, rel=0.01)
    spoilt = play(stage, "helping", 1.1 * stage.spoilt_from)
    assert alone * 0.99 <= spoilt.out_tps < 0.95 * alone * (1 + stage.most_gain)


def test_a_share_at_all_times_keeps_some_of_it_where_help_with_all_is_spoilt() -> None:
    all_, share = (play(STAGES[0], m, 1.1 * STAGES[0].spoilt_from) for m in ("helping", "helping-ratio"))
    assert all_.out_tps < share.out_tps < 100.0 * (1 + STAGES[0].most_gain)


def test_the_published_formula_is_right_for_one_helped_bolt_only() -> None:
    for m in range(2, 9):
        for n in range(1, m):
            stage = HelpedStage(m, n, 1.0, 0.1)
            assert stage.published_gain == pytest.approx(n * stage.most_gain)


def test_the_command_draws_what_it_played(tmp_path: Path) -> None:
    given = ["helping-gain", "--bolts", "2", "1", "--marks", "0.5", "0.25", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 0, result.output
    rows = pd.read_csv(tmp_path / "helping-gain.csv")
    assert rows["under_way"].max() == np.inf
    best = {row["mechanism"]: row["gain"] for row in json.loads(result.stdout.splitlines()[-1])["best"]}
    assert best["helping"] == pytest.approx(0.5, abs=0.01)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".csv", ".png", ".svg"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--bolts", "1", "1"), "--bolts 1 1: more have to help than are helped"),
        (("--marks", "1", "2"), "--marks 1 2: the low mark must be below the high one"),
    ],
)
def test_a_mistake_is_one_line(given: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, ["helping-gain", *given])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line
