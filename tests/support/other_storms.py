"""Older versions of Storm that clusters of others may have: jars, fetched into the user's cache and pinned.

python tests/support/other_storms.py            # fetch what is not there yet (make storms)
python tests/support/other_storms.py --pin      # write what tests/system/storms pins anew
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.machine.server_pins import read_pins, sha256_of
from harness.machine.servers import Assembly, assemble, cache_folder, fetch, quiet

VERSIONS = ("2.6.4", "2.7.1")
"""The newest of 2.6 and of 2.7; the newest of 2.8 is the harness's own (``STORM_VERSION``)."""
PINS = Path(__file__).parents[1] / "system" / "storms"
DISK_NEEDED_BYTES = 400_000_000


def install(version: str, progress: Callable[[str], None] = quiet) -> Path:
    """Return a folder with ``lib`` and ``lib-worker`` of a version; fetched unless it is there."""
    root = cache_folder() / "servers" / f"storm-{version}"
    pins = read_pins((PINS / f"{version}.sha256").read_text(encoding="ascii"))
    fetch(root, _assemblies(version), DISK_NEEDED_BYTES, pins, progress)
    return root


def _assemblies(version: str) -> tuple[Assembly, ...]:
    given = (f"storm.version={version}",)
    return Assembly("lib", "storm", "daemons", given), Assembly("lib-worker", "storm", "workers", given)


def _pin(version: str) -> None:
    maven = shutil.which("mvn")
    assert maven is not None, "there is no mvn on PATH"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / version
        root.mkdir()
        assemble(maven, root, _assemblies(version), Path(folder) / "maven.log", quiet)
        lines = [f"{digest}  {jar}\n" for jar, digest in sorted(sha256_of(root).items())]
    (PINS / f"{version}.sha256").write_text("".join(lines), encoding="ascii")


if __name__ == "__main__":
    for one in VERSIONS:
        if "--pin" in sys.argv[1:]:
            _pin(one)
        else:
            install(one, print)
