"""Write the software bill of materials: locked Python packages and the servers' pinned jars, as CycloneDX.

Packages by cyclonedx-py, from the lock file alone; jars from the SHA-256 that every start compares. The same
inputs give the same bytes.

    python scripts/sbom.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.machine.server_pins import pinned, purls

ROOT = Path(__file__).resolve().parents[1]
SETS = ("storm-kafka", "neo4j")


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=ROOT / "sbom.json")
def main(out: Path) -> None:
    """Write sbom.json."""
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder) / "packages.json"
        command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(ROOT / "requirements.lock")]
        options = ["--output-format", "JSON", "--output-reproducible", "--output-file", str(packages)]
        subprocess.run([*command, *options], check=True, capture_output=True)
        bill = json.loads(packages.read_text(encoding="utf-8"))
    jars = [component for name in SETS for component in jar_components(name, pinned(name))]
    bill["components"] += jars
    out.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    click.echo(f"{out.name}: {len(bill['components'])} components, {len(jars)} of them jars")


def jar_components(name: str, jars: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a component for each jar of a set of servers; one that is on two class paths is one."""
    by_digest = {(Path(jar).name, digest) for jar, digest in jars.items()}
    known = purls()
    return [_jar(name, jar, digest, known[jar]) for jar, digest in sorted(by_digest)]


def _jar(of: str, jar: str, digest: str, purl: str) -> dict[str, Any]:
    group, _, artifact = purl.partition("?")[0].removeprefix("pkg:maven/").partition("/")
    name, _, version = artifact.partition("@")
    return {
        "type": "library",
        "bom-ref": f"{of}/{jar}",
        "group": group,
        "name": name,
        "version": version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


if __name__ == "__main__":
    main()
