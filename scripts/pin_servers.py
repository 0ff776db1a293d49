"""Fetch the servers' jars anew, and write their package URLs and the SHA-256 that every start compares.

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
REPOSITORY = Path.home() / ".m2" / "repository"


@click.command()
@click.option("--repository", type=click.Path(path_type=Path, file_okay=False), default=REPOSITORY)
def main(repository: Path) -> None:
    """Write harness/assets/servers/*.sha256, and purls.txt by what is in Maven's local repository."""
    maven = shutil.which("mvn")
    if maven is None:
        raise click.UsageError("there is no mvn on PATH")
    jars: set[str] = set()
    for name, assemblies in SETS.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / name
            root.mkdir()
            assemble(maven, root, assemblies, Path(folder) / "maven.log", click.echo)
            found = sha256_of(root)
            jars |= {Path(jar).name for jar in found}
            lines = [f"{digest}  {jar}\n" for jar, digest in sorted(found.items())]
        (ASSETS / f"{name}.sha256").write_text("".join(lines), encoding="ascii")
        click.echo(f"{name}: {len(lines)} jars")
    known = {path.name: purl_of(path.relative_to(repository)) for path in repository.rglob("*.jar")}
    (ASSETS / "purls.txt").write_text("".join(f"{known[jar]}\n" for jar in sorted(jars)), encoding="ascii")


def purl_of(path: Path) -> str:
    """Return the package URL of a jar by its place in a repository: GROUP/ARTIFACT/VERSION/NAME."""
    *group, artifact, version, name = path.parts
    classifier = name.removeprefix(f"{artifact}-{version}").removesuffix(".jar").removeprefix("-")
    purl = f"pkg:maven/{'.'.join(group)}/{artifact}@{version}"
    return f"{purl}?classifier={classifier}" if classifier else purl


if __name__ == "__main__":
    main()
