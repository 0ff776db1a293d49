"""A small file system in memory is filled to the last page, seen from outside as a local host's is."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.backends.hosts import full_disk
from harness.backends.hosts.full_disk import PAGE_BYTES, filled
from harness.errors import ClusterError

SIZE_MB = 1


@pytest.fixture
def disk() -> Iterator[Path]:
    """A tmpfs in a mount namespace of its own, by way of the process that is in there."""
    own = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    inside = f"mount -t tmpfs -o size={SIZE_MB}m tmpfs /mnt && echo there && exec cat"
    with subprocess.Popen(
        [*own, "sh", "-c", inside], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "there\n":
            pytest.skip("nothing may be mounted here")
        yield Path(f"/proc/{process.pid}/root/mnt")


def test_nothing_can_be_written_until_the_block_ends_and_nothing_is_left(disk: Path) -> None:
    (disk / "before").write_bytes(b"x" * 3 * PAGE_BYTES)
    with filled("node-1", disk, SIZE_MB) as taken:
        there = os.statvfs(disk)
        assert there.f_bavail == 0
        assert taken == (there.f_blocks * there.f_frsize) - 3 * PAGE_BYTES
        with pytest.raises(OSError, match="No space left") as full:
            (disk / "late").write_bytes(b"x" * PAGE_BYTES)
        assert full.value.errno == errno.ENOSPC
    assert os.statvfs(disk).f_bavail > 0
    (disk / "late").write_bytes(b"x" * PAGE_BYTES)
    assert sorted(os.listdir(disk)) == ["before", "late"]


def test_only_a_hosts_own_file_system_is_filled_and_never_this_machines_memory(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = filled("node-1", disk, 2048)
    with pytest.raises(ClusterError, match="node-1 has no disk of its own: 1 MB, not 2048"), block:
        pass
    monkeypatch.setattr(full_disk, "LEFT_BYTES", psutil.virtual_memory().total)
    block = filled("node-1", disk, SIZE_MB)
    with (
        pytest.raises(ClusterError, match=r"to fill it takes 1 MB, .* are available: lower hosts\.disk_mb"),
        block,
    ):
        pass
    assert os.statvfs(disk).f_bavail == os.statvfs(disk).f_blocks
