"""Measuring an experiment with the link between two hosts of this machine as it is, and slowed.

Hosts that are made for it are taken away again; those that were provisioned before stay.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.analysis.figures.slowed_link import between
from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.slow_link import LinkEnd, slowed
from harness.backends.hosts.state import ProvisionedState, known
from harness.errors import HarnessError
from harness.experiments.cluster_file import load
from harness.runs import Run

VERDICTS = (0, 4)
"""Exit statuses of a run whose verdict is valid, or unknown; no other is worth comparing."""


def _carry_out(*arguments: str, ends: tuple[int, ...] = (0,)) -> dict[str, object]:
    """Run a command, which shows its progress, and return its result."""
    command = [sys.executable, "-m", "harness", *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in ends:
        raise HarnessError(f"harness {arguments[0]} ended with {done.returncode}", "its own error is above")
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


@contextmanager
def _provisioned(file: Path) -> Iterator[ProvisionedState]:
    """Provision a cluster, and take it away again if it was not there before."""
    name = load(file).name
    there = name in known()
    try:
        _carry_out("provision", str(file))
        yield ProvisionedState(name)
    finally:
        if not there and name in known():
            _carry_out("deprovision", name, "--yes")


def measure(
    experiment: str,
    cluster: Path,
    delay_ms: float,
    runs: Path,
    overrides: Sequence[str],
    say: Callable[[str], None],
) -> tuple[Path, Path]:
    """Return two runs of an experiment: with the link as it is, and with each packet ``delay_ms`` later.

    Parameters
    ----------
    experiment : str
        A file, or the name of a shipped one.
    cluster : Path
        File of a cluster whose hosts are of this machine.
    delay_ms : float
        Each way.
    runs : Path
        Where runs go.
    overrides : sequence of str
        ``KEY=VALUE``.
    say : callable
        Takes lines of progress.

    Raises
    ------
    HarnessError
        When a command fails, or a run's verdict is invalid.
    """
    given = [f"--set={option}" for option in (f"cluster={cluster}", *overrides)]

    def measured() -> Path:
        result = _carry_out("run", experiment, *given, "--runs", str(runs), ends=VERDICTS)
        say(f"{result['run']}: {result['verdict']}")
        return Path(str(result["run"]))

    with _provisioned(cluster) as state:
        fast = measured()
        addresses = state.addresses()
        one, other = (LinkEnd(name, addresses[name]) for name in between(Run(fast)))
        say(f"the link between {one.name} and {other.name} is slowed by {delay_ms:g} ms each way")
        with slowed(HostNetwork(state.hosts), one, other, delay_ms):
            return fast, measured()
