"""Exports of an archived run, read back by what other tools read them with."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from rocrate.rocrate import ROCrate

from harness.app import exports
from harness.cli import main
from harness.errors import UsageError
from harness.runs import Run, read_latency

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "reports" / "runs" / "noise-floor" / "20261121T181833Z"


@pytest.fixture(autouse=True)
def _unchanged() -> object:
    before = digests(RUN)
    yield
    assert digests(RUN) == before


def digests(folder: Path) -> dict[str, str]:
    files = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def exact_ms(step: int) -> np.ndarray:
    rows = read_latency(RUN / f"steps/{step:02d}").to_pandas()
    return rows.loc[rows["in_interval"], "ground_truth_ms"].dropna().to_numpy()


def test_percentiles_of_the_text_are_those_of_the_latencies(tmp_path: Path) -> None:
    path = tmp_path / "step.hgrm"
    exact = exact_ms(2)
    assert exports.write_histogram(Run(RUN), 2, path) == len(exact)
    lines = path.read_text().splitlines()
    rows = [line.split() for line in lines[2:] if not line.startswith("#")]
    assert len(rows) > 20
    for value, share, *_ in rows:
        rank = max(int(np.ceil(float(share) * len(exact))) - 1, 0)
        # three significant digits; the share itself is printed with twelve
        assert float(value) == pytest.approx(np.sort(exact)[rank], rel=1.1e-3, abs=1.1e-3)
    words = (
        " ".join(lines[-3:]).replace("=", " ").replace(",", " ").replace("[", " ").replace("]", " ").split()
    )
    said = {w.lstrip("#"): float(words[i + 1]) for i, w in enumerate(words[:-1]) if w[-1].isalpha()}
    assert said["TotalCount"] == len(exact)
    assert said["Mean"] == pytest.approx(exact.mean(), rel=1e-3)
    assert said["StdDeviation"] == pytest.approx(exact.std(), rel=5e-3)
    assert said["Max"] == pytest.approx(exact.max(), rel=1e-3)


def test_every_check_is_a_case_and_what_is_not_valid_is_none_that_passed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(RUN, tmp_path / "run"))
    verdict = json.loads((run / "verdict.json").read_text())
    verdict["checks"][0]["status"] = "unknown"
    verdict["checks"][-1].update(status="invalid", detail='by <hand> & "quotes" \x1b[0m')
    (run / "verdict.json").write_text(json.dumps(verdict))
    assert exports.write_junit(Run(run), "noise-floor", tmp_path / "checks.xml") == len(verdict["checks"])
    root = ET.parse(tmp_path / "checks.xml").getroot()
    assert [s.get("name") for s in root] == ["run", "step 0", "step 1", "step 2", "step 3"]
    cases = list(root.iter("testcase"))
    assert len(cases) == len(verdict["checks"])
    assert len(list(root.iter("error"))) == 1
    (failure,) = root.iter("failure")
    assert failure.get("message") == 'by <hand> & "quotes" \ufffd[0m'
    assert sum(int(s.get("failures", "0")) for s in root) == 1


def test_rows_and_values_of_the_csv_files_are_those_of_the_tables(tmp_path: Path) -> None:
    written, missing = exports.write_csv(Run(RUN), tmp_path / "tables")
    assert written == ["latency.csv"]
    assert missing == ["predictions", "errors"]
    latency = pd.read_csv(tmp_path / "tables" / "latency.csv")
    assert "hops" not in latency
    for step, rows in latency.groupby("step"):
        judged = rows.loc[rows["in_interval"], "ground_truth_ms"].dropna()
        assert judged.to_numpy() == pytest.approx(exact_ms(int(step)), rel=1e-12)


def test_predictions_are_exported_where_there_are_any(tmp_path: Path) -> None:
    run = Path(shutil.copytree(RUN, tmp_path / "run"))
    pd.DataFrame({"model": ["composite"], "value": [0.1]}).to_parquet(run / "predictions.parquet")
    written, missing = exports.write_csv(Run(run), tmp_path / "tables")
    assert (written, missing) == (["latency.csv", "predictions.csv"], ["errors"])
    assert (tmp_path / "tables" / "predictions.csv").read_text() == '"model","value"\n"composite",0.1\n'


def test_the_crate_has_every_file_as_it_is_and_names_it(tmp_path: Path) -> None:
    count = exports.write_crate(Run(RUN), "noise-floor", tmp_path / "crate")
    copied = digests(tmp_path / "crate")
    copied.pop("ro-crate-metadata.json")
    assert copied == digests(RUN)
    assert len(copied) == count
    crate = ROCrate(tmp_path / "crate")
    assert {e.id for e in crate.data_entities} == copied.keys()
    assert "verdict: valid" in crate.description
    known = Run(RUN).environment
    assert crate.get("#measuring")["startTime"] == known["started"]
    assert f"cpu: {known['machine']['cpu']}" in crate.get("#measuring")["description"]
    assert crate.get("#measuring")["instrument"]["identifier"] == known["commit"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", "export", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hgrm",), "several steps: give --step: one of 0, 1, 2, 3"),
        (("--hgrm", "--step", "9"), "no finished step 9"),
        (("--csv", "--step", "0"), "--csv takes the whole run"),
        (("--csv", "--junit"), "--csv and --junit: give one of --hgrm, --junit, --csv, --ro-crate"),
        ((), "no format: give one of"),
    ],
)
def test_wrong_input_is_one_line_and_makes_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    asked = CliRunner().invoke(main, ["export", str(RUN), *words, "--out", str(tmp_path / "new")])
    assert asked.exit_code == 2
    assert said in asked.stderr
    assert len(asked.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "write",
    [
        exports.write_csv,
        lambda run, path: exports.write_histogram(run, 0, path),
        lambda run, path: exports.write_junit(run, "noise-floor", path),
        lambda run, path: exports.write_crate(run, "noise-floor", path),
    ],
)
def test_what_exists_is_not_written_over(tmp_path: Path, write: object) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write(Run(RUN), tmp_path / "there")
    with pytest.raises(UsageError, match="is no folder"):
        write(Run(RUN), tmp_path / "nowhere" / "new")
    assert (tmp_path / "there").read_text() == "mine"


def test_a_run_without_a_verdict_has_no_checks_to_export(tmp_path: Path) -> None:
    run = Path(shutil.copytree(RUN, tmp_path / "run"))
    (run / "verdict.json").unlink()
    with pytest.raises(UsageError, match="no verdict: make it with: harness report"):
        exports.write_junit(Run(run), "noise-floor", tmp_path / "checks.xml")


def test_the_command_writes_what_it_says(tmp_path: Path) -> None:
    asked = command(str(RUN), "--hgrm", "--step", "1", "--out", str(tmp_path / "a.hgrm"), "--json")
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout.splitlines()[-1]) == {
        "exit_status": 0,
        "format": "hgrm",
        "out": str(tmp_path / "a.hgrm"),
        "step": 1,
        "latencies": len(exact_ms(1)),
    }
