"""Pages on what can be added, carried out word by word on a copy of the code.

A page has blocks of Python, each the whole of the new file named before it, and blocks of changed lines
(``diff``): a line that begins with ``+`` is put before or after its neighbour, one with ``-`` is taken out.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES = 40
MOST_FILES = 3
RUN = ROOT / "reports" / "runs" / "windowed" / "20261122T005431Z"
BLOCK = re.compile(r"`([\w/.-]+\.\w+)`[^`]*?\n\n```(python|diff)\n(.*?)```", re.DOTALL)


def carry_out(page: str, folder: Path) -> list[str]:
    """Do what a page says to a copy of the code in a folder; return the files that it made or changed."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES, page
    for name in ("harness", "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    touched = []
    for name, kind, block in BLOCK.findall(text):
        file = folder / name
        if kind == "python":
            assert not file.exists(), f"{name} is there already"
            file.write_text(block, encoding="utf-8")
        else:
            file.write_text(changed(file.read_text(encoding="utf-8"), block, name), encoding="utf-8")
        touched.append(name)
    assert 0 < len(touched) <= MOST_FILES
    return touched


def changed(text: str, block: str, name: str) -> str:
    """Apply changed lines to a file's text: each stands beside a line of the file that occurs once."""
    place: int | None = None
    lines, waiting = text.splitlines(), list[str]()
    for line in block.splitlines():
        sign, rest = line[:1], line[1:]
        if sign == "+" and place is None:
            waiting.append(rest)
        elif sign == "+":
            lines.insert(place, rest)
            place += 1
        else:
            assert lines.count(rest) == 1, f"{name} has {lines.count(rest)} lines {rest!r}"
            place = lines.index(rest)
            if sign == "-":
                del lines[place]
            lines[place:place] = waiting
            place += len(waiting) + (sign != "-")
            waiting = []
    return "\n".join(lines) + "\n"


def harness(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the changed copy."""
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_command(tmp_path: Path) -> None:
    carry_out("add-a-command.md", tmp_path)
    done = harness(tmp_path, "steps", str(RUN), "--json")
    assert done.returncode == 0, done.stderr
    rates_tps = json.loads(done.stdout.splitlines()[-1])["rates_tps"]
    steps = sorted((RUN / "steps").iterdir())
    recorded = [json.loads((step / "interval.json").read_text())["rate_tps"] for step in steps]
    assert list(rates_tps.values()) == recorded
    assert done.stdout.startswith(f"step 0: {recorded[0]:g}/s\n")


def test_a_check(tmp_path: Path) -> None:
    """A step that is said to have been measured on a full machine is doubted, the others are not."""
    carry_out("add-a-check.md", tmp_path)
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    interval = run / "steps" / "01" / "interval.json"
    interval.write_text(json.dumps(json.loads(interval.read_text()) | {"machine_busy_pct": 99.0}))
    program = """
import json, pathlib
from harness.analysis.judge.checks import run_checks
from harness.analysis.spark.inputs import read_raw
found = run_checks(read_raw(pathlib.Path("run")), {})
print(json.dumps([[c.step, c.status, c.detail] for c in found if c.check == "spare-time"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    outcomes = json.loads(done.stdout)
    assert outcomes[0] == [0, "valid", ""]
    assert outcomes[1] == [1, "unknown", "the machine was busy for 99 % of the interval"]


@pytest.mark.deep
def test_a_figure(tmp_path: Path) -> None:
    carry_out("add-a-figure.md", tmp_path)
    shutil.copytree(RUN, tmp_path / "run")
    assert harness(tmp_path, "predict", "run", "--model", "no-change").returncode == 0
    done = harness(tmp_path, "figures", "run", "--only", "machine-busy", "--out", "pictures")
    assert done.returncode == 0, done.stderr
    assert [p.suffix for p in sorted((tmp_path / "pictures").rglob("machine-busy.*"))] != []
