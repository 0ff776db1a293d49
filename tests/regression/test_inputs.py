"""Runs that cannot be read or compared: one line with the file's name, the right status, nothing written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import altered_runs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from altered_runs import ALL_IN_ONE
from click.testing import CliRunner
from made_scores import night

import harness.app.night
from harness.analysis.judge.rescoring import rescore
from harness.analysis.judge.scores import RunScores
from harness.cli import main
from harness.regression import baseline, history, nightly
from harness.regression.outputs import lines
from harness.regression.regress import regress

LATENCY = "steps/02/latency.parquet"


def cut_short(run: Path) -> None:
    whole = (run / LATENCY).read_bytes()
    (run / LATENCY).write_bytes(whole[: len(whole) // 2])


def foreign(run: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), run / LATENCY)


def text(run: Path) -> None:
    (run / LATENCY).write_text("latency")


def another_type(run: Path) -> None:
    table = pq.read_table(run / LATENCY)
    at = table.schema.get_field_index("ground_truth_ms")
    pq.write_table(
        table.set_column(at, "ground_truth_ms", table["ground_truth_ms"].cast(pa.string())), run / LATENCY
    )


def missing(run: Path) -> None:
    (run / LATENCY).unlink()


def newer(run: Path) -> None:
    (run / "environment.json").write_text(json.dumps({"schema": 99}))


def broken(run: Path) -> None:
    (run / "environment.json").write_text('{"schema": 1')


def no_steps(run: Path) -> None:
    shutil.rmtree(run / "steps")
    (run / "steps").mkdir()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (cut_short, f"{LATENCY}: not a whole Parquet file"),
        (foreign, f"{LATENCY}: there is no column"),
        (text, f"{LATENCY}: not a whole Parquet file"),
        (another_type, f"{LATENCY}: column 'ground_truth_ms' is string"),
        (missing, f"{LATENCY}: no such file"),
        (newer, "schema 99 is newer than this harness reads"),
        (broken, "environment.json: not readable as JSON"),
        (no_steps, "no finished step"),
    ],
)
@pytest.mark.parametrize("update", [False, True])
def test_a_damaged_run_is_named_and_nothing_is_written(
    damage: Callable[[Path], None], named: str, update: bool, tmp_path: Path
) -> None:
    run = altered_runs.copy(ALL_IN_ONE, tmp_path)
    damage(run)
    kept = tmp_path / "baseline.json"
    baseline.write(kept, [night("20260101T000000Z")])
    before = sorted(tmp_path.rglob("*")), kept.read_bytes()
    options = ["--update"] if update else ["--junit", str(tmp_path / "junit.xml")]
    shown = CliRunner().invoke(main, ["regress", str(run), "--baseline", str(kept), *options])
    assert shown.exit_code == 2, shown.output
    assert named in shown.output
    assert str(run) in shown.output
    assert shown.output.count("\n") == 1
    assert (sorted(tmp_path.rglob("*")), kept.read_bytes()) == before


def test_runs_that_are_not_valid_are_left_out_of_a_baseline_by_name(tmp_path: Path) -> None:
    """Where no run is valid, that is a mistake."""
    run = altered_runs.copy(ALL_IN_ONE, tmp_path)
    kept = json.loads((run / "verdict.json").read_text())
    (run / "verdict.json").write_text(json.dumps({**kept, "verdict": "invalid"}))
    asked = ["regress", str(run), "--baseline", str(tmp_path / "b.json"), "--update"]
    shown = CliRunner().invoke(main, asked)
    assert shown.exit_code == 2, shown.output
    for words in ("left out, its verdict is invalid", "a baseline is made of valid runs only"):
        assert words in " ".join(shown.output.split())
    assert not (tmp_path / "b.json").exists()


def test_a_step_without_samples_leaves_the_others_and_is_called_invalid(
    night_before: RunScores, tmp_path: Path
) -> None:
    run = altered_runs.copy(ALL_IN_ONE, tmp_path, stamp="20270101T000000Z")
    for name in ("latency.parquet", "metrics.parquet"):
        path = run / "steps" / "02" / name
        pq.write_table(pq.read_table(path).slice(0, 0), path)
    before = sorted(run.rglob("*"))
    now = rescore([run], ["no-change"])
    assert sorted(run.rglob("*")) == before
    assert now[0].verdict == "invalid"
    assert now[0].steps[2].rows == 0
    assert any(f.startswith("step 2: samples: no latency was measured") for f in now[0].failed)
    found = regress([night_before], now)
    assert found.status == 4, lines(found)
    assert any("noisy: invalid" in gap for gap in found.gaps)


@pytest.mark.deep
def test_a_night_of_finished_runs_leaves_page_history_and_summaries(
    scored: RunScores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    settings = nightly.Nightly(
        experiments=("all-in-one",),
        baseline=tmp_path / "baseline.json",
        history=tmp_path / "history.parquet",
        page=tmp_path / "page",
    )
    baseline.write(settings.baseline, [scored])
    monkeypatch.setattr(harness.app.night, "rescore", lambda *_, **__: [scored])
    assert harness.app.night.carry_out(settings, (ALL_IN_ONE,), said.append, said.append) == 0
    assert any("no regression" in line for line in said)
    quiet = history.read(settings.history)
    loud = scored.model_copy(
        update={"run": "20270101T000000Z", "verdict": "invalid", "failed": ("step 1: steady: it drifts",)}
    )
    monkeypatch.setattr(harness.app.night, "rescore", lambda *_, **__: [loud])
    assert harness.app.night.carry_out(settings, (ALL_IN_ONE,), said.append, said.append) == 4
    page = (settings.page / "index.html").read_text()
    assert "A noisy night" in page
    assert "it drifts" in page
    assert "<svg" in page
    whole = history.read(settings.history).to_pandas()
    assert len(whole) == 2 * quiet.num_rows
    assert (whole[whole["run"] == loud.run]["noisy"] != "").all()
    names = {p.name for p in settings.page.iterdir()}
    assert names == {"index.html", "summary.md", "junit.xml", "trend.svg", "trend.png"}


def test_an_experiment_that_cannot_be_measured_is_named(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text("name: e\n")
    attempt = nightly.measure(str(tmp_path / "e.yaml"), tmp_path / "runs")
    assert attempt.run is None
    assert "e.yaml:1: the key 'topology' is missing" in attempt.problem
