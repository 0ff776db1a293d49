"""Writes the slowest tests of the JUnit files in folders, slowest first, then those that failed and why.

python scripts/slowest_tests.py FOLDER...
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

MOST = 25
MOST_FAILED = 12
WIDTH = 300


def cases(folders: Iterable[Path]) -> Iterator[tuple[str, ElementTree.Element]]:
    """Give the group and the element of each test; those that a folder does not have are none."""
    for file in sorted(file for folder in folders for file in folder.glob("*.xml")):
        for case in ElementTree.parse(file).iter("testcase"):
            yield f"{file.stem}: {case.get('classname')}::{case.get('name')}", case


def reason(case: ElementTree.Element) -> str:
    """Return the first line of what a failed test says, and Java's last cause; nothing if it passed."""
    found = next((part for part in case if part.tag in {"failure", "error"}), None)
    if found is None:
        return ""
    lines = [line.strip() for line in (found.get("message") or found.text or "no reason given").splitlines()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return " | ".join(line[:WIDTH] for line in [*filter(None, lines[:1]), *causes[-1:]])


def main(folders: Iterable[Path]) -> None:
    """Write one line a test: seconds or the word failed, group and name."""
    found = list(cases(folders))
    for seconds, name in sorted(((float(case.get("time", "0")), name) for name, case in found), reverse=True)[
        :MOST
    ]:
        sys.stdout.write(f"{seconds:8.1f} s  {name}\n")
    failed = [(name, why) for name, case in found if (why := reason(case))]
    for name, why in failed[:MOST_FAILED]:
        sys.stdout.write(f"  failed  {name}: {why}\n")
    if len(failed) > MOST_FAILED:
        sys.stdout.write(f"  failed  {len(failed) - MOST_FAILED} more\n")


if __name__ == "__main__":
    main(map(Path, sys.argv[1:]))
