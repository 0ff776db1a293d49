"""Fetch the servers' jars anew and write the SHA-256 that every start compares them with.

For a change of versions in ``harness/assets/servers/*/pom.xml``; what changes is to be reviewed like code.

    python scripts/pin_servers.py
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from harness.backends.optional_servers import NEO4J_ASSEMBLIES
from harness.machine.server_pins import sha256_of
from harness.machine.servers import ASSEMBLIES, Assembly, assemble

ASSETS = Path(__file__).resolve().parents[1] / "harness" / "assets" / "servers"
SETS: dict[str, tuple[Assembly, ...]] = {"storm-kafka": ASSEMBLIES, "neo4j": NEO4J_ASSEMBLIES}


@click.command()
def main() -> None:
    """Write harness/assets/servers/*.sha256."""
    maven = shutil.which("mvn")
    if maven is None:
        raise click.UsageError("there is no mvn on PATH")
    for name, assemblies in SETS.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / name
            root.mkdir()
            assemble(maven, root, assemblies, Path(folder) / "maven.log", click.echo)
            lines = [f"{digest}  {jar}\n" for jar, digest in sorted(sha256_of(root).items())]
        (ASSETS / f"{name}.sha256").write_text("".join(lines), encoding="ascii")
        click.echo(f"{name}: {len(lines)} jars")


if __name__ == "__main__":
    main()
