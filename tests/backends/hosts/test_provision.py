"""What provisioning says to the runs that are measured beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.backends.hosts import provision
from harness.backends.hosts.state import ProvisionedState
from harness.errors import ClusterError
from harness.experiments.cluster_file import ClusterFile, load
from harness.machine.machine_lock import came_up

CLUSTERS = Path(__file__).resolve().parents[3] / "configs" / "clusters"


@pytest.mark.parametrize(("file", "seen"), [("namespaces-3", [os.getpid()]), ("existing-3", [])])
def test_only_hosts_of_this_machine_are_a_cluster_that_comes_up_beside_a_run(
    file: str,
    seen: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    """Until it ends, however it ends; hosts elsewhere take nothing from a run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    began_ns = time.monotonic_ns()
    found = []

    def make_hosts(_state: ProvisionedState, _cluster: ClusterFile) -> None:
        found.append(came_up(began_ns, time.monotonic_ns()))
        raise ClusterError("no host is made by this test")

    monkeypatch.setattr(provision, "_require_tools", lambda _cluster: None)
    monkeypatch.setattr(provision.servers, "install", lambda progress: None)
    monkeypatch.setattr(provision, "_make_hosts", make_hosts)
    key, written = tmp_path / "key", tmp_path / f"{file}.yaml"
    key.touch()
    written.write_text((CLUSTERS / written.name).read_text().replace("~/.ssh/id_ed25519", str(key)))
    with pytest.raises(ClusterError, match="no host is made"):
        provision.provision(load(written), tmp_path / "jar", lambda _line: None, lambda _done: None)
    ended_ns = time.monotonic_ns()
    assert found == [seen]
    assert came_up(began_ns, ended_ns) == seen
    assert came_up(ended_ns, ended_ns + 10**12) == []
    figure(f"{file}: {len(seen)} seen")
