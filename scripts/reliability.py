"""Runs the tests that docs/reliability.md names, and writes the figures that they gave into its tables.

python scripts/reliability.py [WORD ...]: those of the rows that hold each word. Without one all of them are
run, and the rest of tests/reliability, which no other command runs; the page says how long that took.

A row's last column has the ``figure`` that each of its tests recorded. It stays as it is where one of them
did not pass, and that test is named at the end. The exit status is then 1, or 4 where tests were only left
out: nothing is known of their rows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from marks import replaced

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
FOLDER = "tests/reliability"
OUTSIDE = f"{FOLDER}/test_host_faults.py"
"""Makes hosts, which have a sandbox of their own: those cannot be made inside another."""
RESULTS = ROOT / "build" / "tests"
TEST = re.compile(r"`(tests/[\w/.-]+\.py::\w+)`")
WHOLE_RUN = "whole run"
"""The part of the page that says how the last run without a word ended."""
WORST = ("passed", "skipped", "failed")
FAILED, UNKNOWN = 1, 4


class Group(NamedTuple):
    """Tests that are run by one pytest, in one sandbox with at most one cluster in it."""

    name: str
    tests: Sequence[str]
    """What pytest is told."""
    sandboxed: bool = True


class Outcome(NamedTuple):
    """Outcome of a test: of all of its parameters the worst, and their figures."""

    status: str = WORST[0]
    figures: tuple[str, ...] = ()


def groups(words: Iterable[str]) -> list[Group]:
    """Return the tests of rows that hold each word, in three groups; without a word the folder whole.

    Each cluster of this machine is at the same ports, so those of tests/system and of the folder, which each
    have one, are not in one process.
    """
    wanted = tuple(words)
    rows = [
        row for row in PAGE.read_text(encoding="utf-8").splitlines() if all(word in row for word in wanted)
    ]
    chosen = sorted({test for row in rows for test in TEST.findall(row)})  # those of a file together
    elsewhere = [test for test in chosen if not test.startswith(f"{FOLDER}/")]
    outside = [test for test in chosen if test.startswith(OUTSIDE)]
    inside = [test for test in chosen if test not in {*elsewhere, *outside}]
    if not wanted:
        inside, outside = [FOLDER, f"--ignore={OUTSIDE}"], [OUTSIDE]
    found = (
        Group("reliability-elsewhere", elsewhere),
        Group("reliability", inside),
        Group("reliability-hosts", outside, sandboxed=False),
    )
    return [group for group in found if group.tests]


def outcomes(results: Path) -> dict[str, Outcome]:
    """Return the outcome of each test in a JUnit file, by its name in the page."""
    found: dict[str, Outcome] = {}
    for case in ET.parse(results).iter("testcase"):
        module = "/".join(case.get("classname", "").split(".")) + ".py"
        test = f"{module}::{case.get('name', '').split('[')[0]}"
        before = found.get(test, Outcome())  # of the same test with other parameters
        figures = (p.get("value", "") for p in case.iter("property") if p.get("name") == "figure")
        tags = {part.tag for part in case}
        status = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        worse = max(before.status, status, key=WORST.index)
        found[test] = Outcome(worse, (*before.figures, *filter(None, figures)))
    return found


def written(text: str, found: Mapping[str, Outcome]) -> str:
    """Return the page with figures in the last column of the rows whose tests all were run and passed.

    Examples
    --------
    >>> row = "| a | `tests/t.py::test_x`, `tests/t.py::test_y` | old |"
    >>> told = {"tests/t.py::test_x": Outcome("passed", ("7 s",)), "tests/t.py::test_y": Outcome("passed")}
    >>> written(row, told)
    '| a | `tests/t.py::test_x`, `tests/t.py::test_y` | 7 s |'
    >>> written(row, {**told, "tests/t.py::test_y": Outcome("failed")}) == row
    True
    """
    return "\n".join(_row(line, found) for line in text.split("\n"))


def _row(line: str, found: Mapping[str, Outcome]) -> str:
    tests = [found.get(test, Outcome("skipped")) for test in TEST.findall(line)]
    figures = dict.fromkeys(figure for test in tests for figure in test.figures)  # each once
    if not line.startswith("| ") or not figures or any(test.status != WORST[0] for test in tests):
        return line
    return f"{line.rpartition(' |')[0].rpartition(' |')[0]} | {'; '.join(figures)} |"


def counted(found: Mapping[str, Outcome], took_s: float) -> str:
    """Return how a run ended and how long it took, in a sentence.

    Examples
    --------
    >>> counted({"a": Outcome(), "b": Outcome("skipped"), "c": Outcome()}, 1234.0).partition(", on ")[0]
    '2 tests passed, 0 failed and 1 skipped, in 20.6 minutes'
    """
    of = Counter(test.status for test in found.values())
    ended = f"{of['passed']} tests passed, {of['failed']} failed and {of['skipped']} skipped"
    return f"{ended}, in {took_s / 60:.1f} minutes, on {os.cpu_count()} cores"


def main(words: list[str]) -> int:
    """Run them, write the page, and name each test that did not pass."""
    chosen = groups(words)
    if not chosen:
        sys.stderr.write(f"error: no row of docs/reliability.md with tests holds: {' '.join(words)}\n")
        return 2
    began, found, broken = time.monotonic(), dict[str, Outcome](), list[str]()
    for group in chosen:
        status, told = run(group)
        found |= told
        if status not in (0, FAILED) or not told:  # an interruption, or a sandbox that could not be made
            broken.append(f"failed: {group.name}: pytest or its sandbox ended with status {status}")
    ended = counted(found, time.monotonic() - began)
    text = written(PAGE.read_text(encoding="utf-8"), found)
    if not words and not broken:
        today = datetime.now(UTC).date()
        text = replaced(text, WHOLE_RUN, f"The last run of all of them, of {today:%d %B %Y}: {ended}.\n")
    PAGE.write_text(text, encoding="utf-8")
    others = [f"{told.status}: {test}" for test, told in sorted(found.items()) if told.status != WORST[0]]
    sys.stdout.write("\n".join(["", *others, *broken, ended, ""]))
    if broken or any(told.status == "failed" for told in found.values()):
        return FAILED
    return UNKNOWN if others else 0


def run(group: Group) -> tuple[int, Mapping[str, Outcome]]:
    """Run a group; return pytest's status and the outcomes of its tests."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    results = RESULTS / f"{group.name}.xml"
    results.unlink(missing_ok=True)  # of the last time
    sandbox = [sys.executable, "-m", "harness.machine.sandbox", "where-allowed"] if group.sandboxed else []
    command = [*sandbox, sys.executable, "-m", "pytest", "-vv", f"--junitxml={results}", *group.tests]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            status = process.wait()
        except KeyboardInterrupt:  # the tests get it, too: they take down their hosts before they end
            process.wait()
            raise
    return status, outcomes(results) if results.is_file() else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
