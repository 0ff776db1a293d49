"""Measures what 5 ms between two nodes do, and draws it beside what is predicted. Root; some 20 minutes.

    .venv/bin/python scripts/slowed_link.py                      # provision, measure twice, draw
    .venv/bin/python scripts/slowed_link.py --draw FAST SLOW     # draw two runs that are there

Hosts that it makes it takes away again; those that were provisioned before stay.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from harness.analysis.figures.slowed_link import MODEL, between, publish
from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.slow_link import LinkEnd, slowed
from harness.backends.hosts.state import ProvisionedState, known
from harness.errors import HarnessError
from harness.experiments.cluster_file import load
from harness.runs import Run

ROOT = Path(__file__).resolve().parent.parent
CLUSTER = ROOT / "configs" / "clusters" / "namespaces-4.yaml"
EXPERIMENT = ROOT / "configs" / "experiments" / "slowed-link.yaml"
FIGURES = ROOT / "reports" / "figures"
VERDICTS = (0, 4)
"""Exit statuses of a run whose verdict is valid, or unknown; no other is worth comparing."""


def harness(*arguments: str, ends: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """Run a command, which shows what it does, and return its result."""
    command = [sys.executable, "-m", "harness", *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in ends:
        raise SystemExit(done.returncode)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@contextmanager
def provisioned(file: Path) -> Iterator[ProvisionedState]:
    """Provision a cluster, and take it away again if it was not there before."""
    name = load(file).name
    there = name in known()
    try:
        harness("provision", str(file))
        yield ProvisionedState(name)
    finally:
        if not there and name in known():
            harness("deprovision", name, "--yes")


def measured(options: argparse.Namespace) -> Path:
    """Measure the experiment on the cluster as it now is, and return the run."""
    overrides = [f"cluster={options.cluster}", *options.set]
    given = [f"--set={option}" for option in overrides]
    result = harness("run", str(options.experiment), *given, "--runs", str(options.runs), ends=VERDICTS)
    click.echo(f"{result['run']}: {result['verdict']}")
    return Path(result["run"])


def measure(options: argparse.Namespace) -> tuple[Path, Path]:
    """Measure without and with the slowed link."""
    with provisioned(options.cluster) as state:
        fast = measured(options)
        addresses = state.addresses()
        one, other = (LinkEnd(name, addresses[name]) for name in between(Run(fast)))
        click.echo(
            f"the link between {one.name} and {other.name} is slowed by {options.delay_ms:g} ms each way"
        )
        with slowed(HostNetwork(state.hosts), one, other, options.delay_ms):
            return fast, measured(options)


def main() -> None:
    """Do what is asked, and say how far apart measured and predicted are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--delay-ms", type=float, default=5.0)
    parser.add_argument("--cluster", type=Path, default=CLUSTER)
    parser.add_argument("--experiment", type=Path, default=EXPERIMENT)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=FIGURES)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--draw", nargs=2, type=Path, metavar=("FAST", "SLOW"))
    options = parser.parse_args()
    try:
        fast, slow = options.draw or measure(options)
        rows = publish(fast, slow, options.out)
    except HarnessError as error:
        raise SystemExit(f"error: {error}" + (f" ({error.hint})" if error.hint else "")) from None
    click.echo(rows.to_string(index=False, float_format="%.3g"))
    for run in (fast, slow):
        if (verdict := Run(run).verdict) != "valid":
            click.echo(f"{run}: its verdict is {verdict}")
    crossed = rows[rows["crossings"] > 0]
    if crossed.empty:
        raise SystemExit("error: no predicted step crosses the link")
    worst = crossed["relative_error"].abs().max()
    click.echo(
        f"{MODEL}: the predicted effect is within {worst:.1%} of the measured one in {len(crossed)} pairs"
    )


if __name__ == "__main__":
    main()
