"""The cluster that stays up, without servers: what is refused, and what is told of one that failed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner

from harness.backends.local import daemon as cluster_daemon
from harness.cli import main
from harness.errors import ClusterError, UsageError
from harness.machine import room
from harness.machine.servers import ServerHomes


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "storm-harness"


def state(shape: cluster_daemon.Shape | None = None) -> cluster_daemon.DaemonState:
    """What a cluster that this process holds would have written."""
    cluster_daemon.folder().mkdir(parents=True, exist_ok=True)
    return cluster_daemon.DaemonState(
        phase="up",
        shape=shape or cluster_daemon.Shape(),
        pid=os.getpid(),
        process_started=psutil.Process().create_time(),
        home=cluster_daemon.folder() / "home",
        homes=cluster_daemon.folder() / "servers",
        private_network=False,
    )


def await_failed() -> None:
    """Do what ``up`` does once the process that it started has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as daemon:
        cluster_daemon._await_up(daemon, cluster_daemon.folder() / "daemon.log", lambda _: None)


def test_of_two_starts_at_once_the_second_is_refused_before_it_touches_anything(cache: Path) -> None:
    with cluster_daemon.starting():  # the first has not said anything yet
        with pytest.raises(UsageError) as refused:
            cluster_daemon.up(ServerHomes(cache / "servers"), cluster_daemon.Shape())
        assert str(refused.value) == "a cluster is being started: wait for it, or harness cluster down"
        assert [p.name for p in cache.iterdir()] == ["cluster.lock"]
    with cluster_daemon.starting():  # the lock went with the first
        assert not cluster_daemon.folder().exists()


def test_one_for_which_there_is_no_memory_is_refused_before_it_touches_anything(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=4000 << 20))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=room.FREE_BYTES))
    shape = cluster_daemon.Shape(nodes=3, slots_per_node=2, worker_heap_mb=350)
    with pytest.raises(UsageError) as refused:
        cluster_daemon.up(ServerHomes(cache / "servers"), shape)
    # 6 workers of 350 + 150 MiB, and 2500 for the rest
    assert "4000 MiB of memory available, 6 workers need about 5500" in str(refused.value)
    assert not cluster_daemon.folder().exists()


@pytest.mark.parametrize(("option", "most"), [("--nodes", 20), ("--slots-per-node", 80)])
def test_more_than_a_local_cluster_can_have_is_wrong_usage(option: str, most: int) -> None:
    done = CliRunner().invoke(main, ["cluster", "up", option, str(most + 1)])
    assert done.exit_code == 2
    assert f"{most + 1} is not in the range 1<=x<={most}" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("text", ["{}", "", '{"phase": "up", "pid": 1', "\xff\xfe", "[1]"])
def test_a_state_file_of_something_else_is_named_with_what_to_do(text: str) -> None:
    cluster_daemon.folder().mkdir(parents=True)
    file = cluster_daemon.folder() / "state.json"
    file.write_bytes(text.encode("latin-1"))
    for typed in (["status"], ["down"], ["exec", sys.executable]):
        done = CliRunner().invoke(main, ["cluster", *typed])
        assert done.exit_code == 2, typed
        assert done.stderr == (
            f"error: {file}: not the state of a cluster that this harness started:"
            " end the process that its pid names, if that still runs, and remove the file\n"
        )
    with pytest.raises(UsageError, match="not the state of a cluster"):
        cluster_daemon.up(ServerHomes(cluster_daemon.folder() / "servers"), cluster_daemon.Shape())
    assert file.read_bytes() == text.encode("latin-1")  # nothing was removed of what nobody understands


def test_servers_that_do_not_answer_in_time_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster_daemon.folder().mkdir(parents=True)
    (cluster_daemon.folder() / "state.json").write_text(state().model_dump_json())

    def late(argv: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(argv, timeout)

    monkeypatch.setattr(subprocess, "run", late)
    done = CliRunner().invoke(main, ["cluster", "status"])
    assert done.exit_code == 1
    logs = cluster_daemon.folder() / "home" / "logs"
    assert done.stderr == (
        f"error: the cluster does not answer within 60 s: ask again, or harness cluster down (log: {logs})\n"
    )


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[cluster_daemon.DaemonState], None]:
    """Hold a cluster in this process, whose signals stay as they are."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return lambda of: cluster_daemon._serve(of.model_dump_json())


class Dying:
    """A cluster whose nimbus dies as it starts, with two lines in its log."""

    stopped = False

    def start(self, _: Callable[[str], None]) -> None:
        raise ClusterError("nimbus died with status 1", log="logs/nimbus.log", excerpt="first\nlast")

    def stop(self) -> None:
        Dying.stopped = True


def test_of_a_server_that_dies_the_last_lines_of_its_log_are_told(
    serve: Callable[[cluster_daemon.DaemonState], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_daemon, "_cluster", lambda _: Dying())
    serve(state())
    assert Dying.stopped
    with pytest.raises(ClusterError) as failed:
        await_failed()
    assert str(failed.value) == (
        "the cluster did not start: nimbus died with status 1 (log: logs/nimbus.log)"
    )
    assert failed.value.excerpt == "first\nlast"
    told = CliRunner().invoke(main, ["cluster", "status"])
    assert told.exit_code == 1
    assert told.stdout == "failed nimbus died with status 1 (log: logs/nimbus.log)\n    first\n    last\n"


def test_a_shape_that_cannot_be_is_refused_in_one_line(
    serve: Callable[[cluster_daemon.DaemonState], None],
) -> None:
    serve(state(cluster_daemon.Shape(nodes=21)))
    with pytest.raises(UsageError) as refused:
        await_failed()
    assert "nodes: Input should be less than or equal to 20" in str(refused.value)
    assert refused.value.excerpt == ""
