"""Runs the tests that docs/reliability.md names, and writes the figures that they gave into its tables.

python scripts/reliability.py [WORD ...]: those whose name holds each word. Without one all of them are run,
and the rest of tests/reliability, which no other command runs. The last column of a row is the ``figure``
that its tests recorded; where they record none it stays as it is.
"""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
FOLDER = "tests/reliability"
OUTSIDE = f"{FOLDER}/test_host_faults.py"
"""Makes hosts, which have a sandbox of their own: those cannot be made inside another."""
RESULTS = ROOT / "build" / "tests"
TEST = re.compile(r"`(tests/[\w/.-]+\.py::\w+)`")


def tests(words: Iterable[str]) -> list[str]:
    """Return the tests that the page names, in its order, each once; without a word its folder whole."""
    named = dict.fromkeys(TEST.findall(PAGE.read_text(encoding="utf-8")))
    if not (wanted := tuple(words)):
        return [*(test for test in named if not test.startswith(f"{FOLDER}/")), FOLDER]
    return [test for test in named if all(word in test for word in wanted)]


def figures(results: Path) -> dict[str, str]:
    """Return what each test recorded as its figure, by its name in the page."""
    found: dict[str, str] = {}
    for case in ET.parse(results).iter("testcase"):
        module = "/".join(case.get("classname", "").split(".")) + ".py"
        name = case.get("name", "").split("[")[0]
        for prop in case.iter("property"):
            if prop.get("name") == "figure":
                told = found.get(f"{module}::{name}")  # of the same test with other parameters
                found[f"{module}::{name}"] = "; ".join(filter(None, (told, prop.get("value", ""))))
    return found


def written(text: str, found: Mapping[str, str]) -> str:
    """Return the page with figures in the last column of their tests' rows.

    Examples
    --------
    >>> written("| a | `tests/t.py::test_x` | old |", {"tests/t.py::test_x": "7 s"})
    '| a | `tests/t.py::test_x` | 7 s |'
    """
    return "\n".join(_row(line, found) for line in text.split("\n"))


def _row(line: str, found: Mapping[str, str]) -> str:
    told = [found[test] for test in TEST.findall(line) if test in found]
    if not line.startswith("| ") or not told:
        return line
    return f"{line.rpartition(' |')[0].rpartition(' |')[0]} | {'; '.join(told)} |"


def main(words: list[str]) -> int:
    """Run them, on one cluster of this machine and on hosts, and write the page."""
    chosen = tests(words)
    outside = [test for test in chosen if test.startswith(OUTSIDE)] or [OUTSIDE] * (FOLDER in chosen)
    sandbox = [sys.executable, "-m", "harness.machine.sandbox", "where-allowed"]
    inside = [test for test in chosen if not test.startswith(OUTSIDE)]
    statuses = [_run(sandbox, inside, "reliability"), _run([], outside, "reliability-hosts")]
    return max(statuses)


def _run(before: Sequence[str], chosen: Sequence[str], name: str) -> int:
    """Run tests, write their figures into the page, and return pytest's status."""
    if not chosen:
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    results = RESULTS / f"{name}.xml"
    command = [*before, sys.executable, "-m", "pytest", "-v", f"--junitxml={results}", *chosen]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if results.is_file():
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), figures(results)), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
