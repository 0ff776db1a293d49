"""The cluster that stays up: two starts at once; with real servers it is in tests/system."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.backends import cluster_daemon
from harness.backends.servers import ServerHomes
from harness.errors import UsageError


def test_of_two_starts_at_once_the_second_is_refused_before_it_touches_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with cluster_daemon.starting():  # the first has not said anything yet
        with pytest.raises(UsageError) as refused:
            cluster_daemon.up(ServerHomes(tmp_path / "servers"), cluster_daemon.Shape())
        assert str(refused.value) == "a cluster is being started: wait for it, or harness cluster down"
        assert [p.name for p in (tmp_path / "storm-harness").iterdir()] == ["cluster.lock"]
    with cluster_daemon.starting():  # the lock went with the first
        assert not cluster_daemon.folder().exists()
