"""``harness figures``: whole or not at all, beside each other, and the runs as they were."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.figures import all_figures
from harness.analysis.judge.computing import results
from harness.analysis.judge.results import Results
from harness.analysis.report import figure_files
from harness.analysis.report.figure_files import publish, write
from harness.cli import main
from harness.errors import UsageError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of one experiment, and one of another as the archive keeps it: without predictions."""
    folder = tmp_path_factory.mktemp("runs")
    steps = [FakeStep(e, seconds=10, burn_in_s=4) for e in (1, 2, 4)]
    same = [build(folder / "f" / stamp, FakeRun(steps=steps, seed=i)) for i, stamp in enumerate(("a", "b"))]
    archived = build(folder / "w" / "c", FakeRun(topology="windowed", steps=steps, members=10))
    (archived / "predictions.parquet").unlink()
    return [*same, archived]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def found(spark: SparkSession, runs: list[Path]) -> list[Results]:
    before = [contents(run) for run in runs]
    computed = results(runs)
    assert [contents(run) for run in runs] == before, "the runs are only read"
    return computed


FEW = (
    *("latency-by-step", "service-time-error", "queue-waits", "error-by-distance"),
    "error-matrix-ground-truth-latency",
)


@pytest.fixture(scope="module", params=[FEW, pytest.param((), marks=pytest.mark.deep)], ids=["few", "all"])
def published(
    request: pytest.FixtureRequest, found: list[Results], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """All files of three runs; in the quick circle as if there were four kinds of figures."""
    out = tmp_path_factory.mktemp("out") / "figures"
    kinds = all_figures.chosen(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_figures, "chosen", lambda _: kinds)
        write(found, out)
    return out


def test_a_folder_a_run_with_every_figure_in_three_formats(published: Path) -> None:
    folders = sorted(p.name for p in published.iterdir() if p.is_dir())
    assert folders == [
        "synthetic-fields-to-fields-a",
        "synthetic-fields-to-fields-b",
        "synthetic-windowed",
    ]
    for folder in folders:
        kinds = {p.suffix for p in (published / folder).iterdir() if p.stem == "latency-by-step"}
        assert kinds == {".pdf", ".svg", ".png"}
    names = {p.stem for p in (published / "synthetic-windowed").glob("*.pdf")}
    assert {"service-time-error", "queue-waits", "error-by-distance"} <= names, "predicted anew"
    assert (published / "leaderboard.pdf").is_file()
    assert not list(published.glob(".*"))


def test_tables_stand_beside_them(published: Path) -> None:
    with (published / "errors.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {r["experiment"] for r in rows} == {p.name for p in published.iterdir() if p.is_dir()}
    mean = next(r for r in rows if r["model"] == "no-change" and r["statistic"] == "mean")
    assert float(mean["pair_median_low_pct"]) <= float(mean["median_abs_error_pct"])
    with (published / "synthetic-windowed" / "steps.csv").open() as file:
        steps = list(csv.DictReader(file))
    assert [s["executors"] for s in steps] == ["1 each", "2 each", "4 each"]
    assert (published / "matrices.csv").read_text().count("\n") > len(rows)


def test_the_latex_table_is_whole_and_escaped(published: Path) -> None:
    text = (published / "errors.tex").read_text()
    assert "booktabs" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.strip()]
    assert {line.count("&") for line in lines} == {6}
    assert all(line.endswith(r"\\") for line in lines)
    assert not re.search(r"(?<!\\)[_%#$]", body)


def test_the_index_shows_every_picture_there_is(published: Path) -> None:
    text = (published / "README.md").read_text()
    shown = set(re.findall(r"\]\(([^)]+\.png)\)", text))
    assert shown == {str(p.relative_to(published)) for p in published.rglob("*.png")}
    assert "5.24" in text


def test_only_one_figure_and_what_was_there_stays(found: list[Results], tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "synthetic-fields-to-fields").mkdir(parents=True)
    (out / "mine.txt").write_text("mine")
    made = write(found[:1], out, "screen", ["latency-by-step"])
    assert [p.name for p in made.files] == ["latency-by-step.png", "latency-by-step.svg"]
    assert set(contents(out)) == {
        "mine.txt",
        "synthetic-fields-to-fields/latency-by-step.png",
        "synthetic-fields-to-fields/latency-by-step.svg",
    }


def test_nothing_appears_when_a_figure_cannot_be_drawn(
    found: list[Results], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no more disk")

    kinds = all_figures.chosen(FEW)  # which are drawn before the tables
    monkeypatch.setattr(all_figures, "chosen", lambda _: kinds)
    monkeypatch.setattr(figure_files.paper_tables, "write", broken)
    with pytest.raises(RuntimeError):
        write(found[:1], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_figure_that_no_run_has_data_for_is_said(found: list[Results], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        write(found[:1], tmp_path / "out", only=["error-matrix-ack-latency"])
    assert "error-matrix-ack-latency" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_bad_run_is_named_before_anything_is_computed(runs: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(runs[0], copy)
    file = copy / "steps" / "01" / "metrics.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UsageError, match="not a whole Parquet file") as caught:
        publish([runs[1], copy], tmp_path / "out")
    assert str(file) in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_command_ends_with_what_was_written(
    spark: SparkSession, runs: list[Path], tmp_path: Path
) -> None:
    asked = ["figures", str(runs[0]), "--out", str(tmp_path), "--only", "timeline", "--json"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["runs"] == {"synthetic-fields-to-fields": ["timeline"]}
    assert all(Path(p).is_file() for p in said["files"])
    wrong = CliRunner().invoke(main, [*asked[:4], "--only", "time-line"])
    assert wrong.exit_code == 2
    assert "there is no figure 'time-line'" in wrong.output
    assert set(all_figures.BY_NAME) <= set(re.findall(r"[a-z0-9-]+", wrong.output))
