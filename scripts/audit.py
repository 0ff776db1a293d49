"""Compare the locked packages with the known vulnerabilities, by pip-audit.

Exit status: 0 none is known; 1 some are, one line each; 4 the advisory service does not answer, so that
nothing is known either way.

    python scripts/audit.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
WITHIN_S = 600
UNKNOWN = 4


@click.command()
@click.option("--lock", type=click.Path(path_type=Path, exists=True, dir_okay=False), default=LOCK)
@click.option("--service", type=click.Choice(["osv", "pypi"]), default="osv", show_default=True)
def main(lock: Path, service: str) -> None:
    """Ask an advisory service about every package of a lock file."""
    program = [sys.executable, "-m", "pip_audit", "--vulnerability-service", service, "--disable-pip"]
    options = ["--require-hashes", "--progress-spinner", "off", "--timeout", "30", "--format", "json"]
    try:
        done = subprocess.run(
            [*program, *options, "--requirement", str(lock)],
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        click.echo(f"audit: no answer within {WITHIN_S} s")
        sys.exit(UNKNOWN)
    packages = answered(done.stdout)
    if packages is None:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        click.echo(
            f"audit: the advisory service does not answer ({lines[-1][:200] if lines else 'silently'})"
        )
        sys.exit(UNKNOWN)
    lines = findings(packages)
    for line in lines:
        click.echo(line)
    click.echo(f"audit: {len(packages)} packages, {len(lines)} findings")
    sys.exit(1 if lines else 0)


def answered(said: str) -> list[dict[str, Any]] | None:
    """Return what was said of each package; None where there is no answer."""
    try:
        packages = json.loads(said)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return packages if isinstance(packages, list) and packages else None


def findings(packages: list[dict[str, Any]]) -> list[str]:
    """Return a line for each vulnerability, and for each package that nothing could be said of."""
    lines = []
    for package in packages:
        if "skip_reason" in package:
            lines.append(f"{package['name']}: not compared: {package['skip_reason']}")
        for known in package.get("vulns", ()):
            mended = ", ".join(known.get("fix_versions", ())) or "no version yet"
            lines.append(f"{package['name']} {package['version']}: {known['id']}, mended in {mended}")
    return lines


if __name__ == "__main__":
    main()
