"""One cluster on namespace hosts for all tests of this folder: made once, taken down at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import EXISTING, NAME, Provisioned, Traces, cluster_file, existing_file, harness, obstacle

from harness.backends.hosts.state import SECRETS


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if reason := obstacle():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("state")
    os.environ["XDG_STATE_HOME"] = str(folder)
    yield folder
    del os.environ["XDG_STATE_HOME"]
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def before(state_folder: Path) -> Traces:
    """What there was before the cluster."""
    return Traces.now()


@pytest.fixture(scope="session")
def provisioned(
    before: Traces, state_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Provisioned]:
    probes = "\nprobes: { period_s: 2, packets: 3 }\n"  # some in any interval
    cluster = Provisioned(cluster_file(tmp_path_factory.mktemp("file"), extra=probes))
    try:  # also one that takes too long leaves nothing
        made = cluster.provision()
        assert made.status == 0, made.err
        yield cluster
    finally:
        if (state_folder / "storm-harness" / "clusters" / NAME).exists():
            harness("deprovision", NAME, "--yes")


@pytest.fixture(scope="session")
def existing(provisioned: Provisioned, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provisioned]:
    """The same hosts once more, as a cluster of hosts that exist: reached from their network, with a key."""
    cluster = Provisioned(existing_file(tmp_path_factory.mktemp("file"), provisioned))
    secrets = {f"HARNESS_{n.upper()}": provisioned.state.secret(n) for n in SECRETS}
    there = provisioned.state.certificates.certificate().parent  # the servers keep theirs, whoever asks
    shutil.copytree(there, cluster.state.certificates.certificate().parent)
    with provisioned.network.entered():
        made = cluster.provision(**secrets)
    assert made.status == 0, made.err
    yield cluster
    if cluster.state.folder.exists() and provisioned.network.alive:
        with provisioned.network.entered():
            harness("deprovision", EXISTING, "--yes")
