"""Machines without namespaces: Nimbus, which runs what it is sent, is not opened to their other users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.commands.common import require_private_network
from harness.errors import UsageError
from harness.machine import sandbox

REASON = "unshare: Operation not permitted"
SAID = (
    f"no private network here ({REASON}): every user of this machine can reach Nimbus, which runs what it is"
    " sent as you: harness doctor says what allows one; or give --shared-loopback on a machine that is yours"
    " alone"
)


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "inside", lambda: False)
    monkeypatch.setattr(sandbox, "obstacle", lambda: REASON)


@pytest.mark.parametrize("command", [["run", "quick", "--runs", "RUNS"], ["cluster", "up"]])
@pytest.mark.usefixtures("no_namespaces")
def test_without_namespaces_nothing_is_started(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("harness.commands.running.require_tools", lambda: None)
    monkeypatch.setattr("harness.commands.cluster.require_tools", lambda: None)
    monkeypatch.setattr("harness.app.campaigning.require_room", lambda *_: None)
    done = CliRunner().invoke(main, [part.replace("RUNS", str(tmp_path / "runs")) for part in command])
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == f"error: {SAID}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_namespaces")
def test_whoever_owns_the_machine_may_go_on_and_is_warned(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as refused:
        require_private_network(shared_loopback=False)
    assert str(refused.value) == SAID
    require_private_network(shared_loopback=True)
    assert "every user of this machine can reach Nimbus" in capsys.readouterr().err


def test_inside_a_sandbox_there_is_nothing_to_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "inside", lambda: True)
    monkeypatch.setattr(sandbox, "obstacle", lambda: REASON)
    require_private_network(shared_loopback=False)


def test_a_machine_that_really_allows_no_namespaces(tmp_path: Path) -> None:
    """A user namespace in which no further one may be made, as where the kernel's switch is off."""
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec "
    enter = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*enter, f"{forbid} true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no user namespace can be made here to forbid others in")
    command = f"{sys.executable} -m harness run quick --runs {tmp_path}/runs"
    environment = {k: v for k, v in os.environ.items() if k not in (sandbox.MARK, "HARNESS_SHARED_LOOPBACK")}
    done = subprocess.run(
        [*enter, forbid + command], capture_output=True, text=True, check=False, env=environment
    )
    if "memory: " in done.stderr or "disk" in done.stderr:
        pytest.skip(f"this machine has no room for a run: {done.stderr}")
    assert done.returncode == 2, done.stderr
    assert "unshare: No space left on device): every user of this machine can reach Nimbus" in done.stderr
    assert not (tmp_path / "runs").exists()
