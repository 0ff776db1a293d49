"""Writes the slowest tests of the JUnit files in a folder, slowest first.

python scripts/slowest_tests.py build/tests
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

MOST = 25


def main(folder: Path) -> None:
    """Write one line a test: seconds, group and name."""
    cases = [
        (float(case.get("time", "0")), file.stem, f"{case.get('classname')}::{case.get('name')}")
        for file in sorted(folder.glob("*.xml"))
        for case in ElementTree.parse(file).iter("testcase")
    ]
    for seconds, group, name in sorted(cases, reverse=True)[:MOST]:
        sys.stdout.write(f"{seconds:8.1f} s  {group}: {name}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
