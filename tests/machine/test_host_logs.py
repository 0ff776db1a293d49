"""Logs of hosts whose workers are hostile: nothing is read for them here, and nothing planted.

The cases are those of a log folder that a jar's code owns: links to this machine's files, setuid programs,
names that lead out, streams without end.
"""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from budgets import budget
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.app.campaigning import keep_logs
from harness.backends.hosts.remote import LOGS
from harness.machine.host_logs import LogLimits, copy, unpack

SECRET = b"of the controller"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode, member.uid, member.gid = kind, link, mode, 65534, 65534
    return member


def stream(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member, contents in members:
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))
    out.seek(0)
    return out


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if not p.is_dir()}


def test_what_a_worker_planted_comes_as_plain_files_or_not_at_all(target: Path, secret: Path) -> None:
    sent = stream(
        (entry("./storm", tarfile.DIRTYPE, mode=0o7777), b""),
        (entry("./storm/leak", tarfile.SYMTYPE, str(secret)), b""),
        (entry("./storm/gone", tarfile.SYMTYPE, "/nonexistent"), b""),
        (entry("./storm/hard", tarfile.LNKTYPE, str(secret)), b""),
        (entry("./storm/su", mode=0o6755), b"program"),
        (entry("./storm/pipe", tarfile.FIFOTYPE), b""),
        (entry("./storm/disk", tarfile.BLKTYPE), b""),
        (entry("./storm/worker.log"), b"a line\n"),
        (entry("../escaped"), b"evil"),
        (entry("storm/../../escaped"), b"evil"),
        (entry(f"{target.parent}/escaped"), b"evil"),
    )
    complaints = unpack(sent, target)
    assert everything(target) == {"storm/su": b"program", "storm/worker.log": b"a line\n"}
    for path in target.rglob("*"):
        mode = path.lstat().st_mode
        assert not path.is_symlink()
        assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX | stat.S_IWOTH)
        assert path.is_dir() or not mode & 0o111
        assert path.lstat().st_uid == os.getuid()
    assert not (target.parent / "escaped").exists()
    assert [c.split(": ")[0] for c in complaints[:5]] == [f"./storm/{n}" for n in _LEFT_OUT]
    assert len(complaints) == 8


_LEFT_OUT = ("leak", "gone", "hard", "pipe", "disk")


def test_a_link_of_the_stream_is_not_written_through(target: Path, secret: Path) -> None:
    """First a link, then a file of its name, or below it: a naive unpacker follows."""
    sent = stream(
        (entry("a", tarfile.SYMTYPE, str(secret)), b""),
        (entry("a"), b"through the link"),
        (entry("up", tarfile.SYMTYPE, ".."), b""),
        (entry("up/escaped"), b"evil"),
    )
    unpack(sent, target)
    assert secret.read_bytes() == SECRET
    assert everything(target) == {"a": b"through the link", "up/escaped": b"evil"}
    assert not (target.parent / "escaped").exists()


def test_a_name_that_comes_twice_is_kept_as_it_came_first(target: Path) -> None:
    unpack(stream((entry("a"), b"first"), (entry("a"), b"second"), (entry("a/b"), b"below a file")), target)
    assert everything(target) == {"a": b"first"}


def test_sizes_and_numbers_are_limited_and_small_logs_kept(target: Path) -> None:
    sent = stream(
        *((entry(name), b"x" * size) for name, size in (("big", 5000), ("small", 10), ("more", 900)))
    )
    complaints = unpack(sent, target, LogLimits(file_bytes=1000, host_bytes=1500, files=10))
    assert {name: len(contents) for name, contents in everything(target).items()} == {
        "big": 1000,
        "small": 10,
        "more": 490,  # 1500 - 1000 - 10
    }
    assert complaints == ("big: cut after 1000 of 5000 bytes", "more: cut after 490 of 900 bytes")
    many = stream(*((entry(f"m{i}"), b"") for i in range(12)))
    assert unpack(many, target, LogLimits(files=10)) == ("m10: beyond 10 files",)


class _Endless(io.BytesIO):
    """The header of a file of 8 GiB, and blanks for ever."""

    def __init__(self, header: bytes) -> None:
        super().__init__()
        self.header, self.given = header, 0

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        block = self.header[self.given : self.given + size] if self.given < len(self.header) else b" " * size
        self.given += len(block)
        return block


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_stream_without_end_is_left_at_the_limit(target: Path, kind: bytes) -> None:
    """Also where the size is that of a header, which an unpacker reads into memory."""
    member = entry("endless", kind)
    member.size = (8 << 30) - 1
    endless = _Endless(member.tobuf(tarfile.GNU_FORMAT))
    complaints = unpack(endless, target, LogLimits(file_bytes=1 << 20, host_bytes=2 << 20, files=100))
    assert complaints
    assert endless.given <= (2 << 20) + 100 * 1024 + tarfile.RECORDSIZE
    assert sum(len(contents) for contents in everything(target).values()) <= 1 << 20


@settings(
    max_examples=budget(150), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=8))
def test_a_damaged_stream_raises_nothing_and_leaves_the_folder(
    changes: list[tuple[float, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    contents = bytearray(
        stream((entry("a"), b"1" * 700), (entry("b/c"), b"2"), (entry("d"), b"3")).getvalue()
    )
    for place, mask in changes:
        contents[int(place * 4096)] ^= mask
    base = tmp_path_factory.mktemp("damaged")
    (base / "logs").mkdir()
    unpack(io.BytesIO(contents), base / "logs", LogLimits(file_bytes=10_000, host_bytes=100_000))
    assert [p.name for p in base.iterdir()] == ["logs"]


def test_a_host_sends_regular_files_alone_and_none_too_large(tmp_path: Path, target: Path) -> None:
    """The command that a host is given, carried out here in another folder and without sudo."""
    host = tmp_path / "host"
    (host / "storm").mkdir(parents=True)
    (host / "storm" / "worker.log").write_text("a line\n")
    (host / "storm" / "-odd name\n").write_text("odd")
    (host / "storm" / "leak").symlink_to("/etc/hostname")
    with (host / "storm" / "sparse.log").open("wb") as sparse:
        sparse.truncate(1 << 40)
    command = LOGS.replace("sudo ", "").replace("/var/log/harness", str(host))
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE) as sent:
        assert sent.stdout is not None
        assert unpack(sent.stdout, target) == ()
    assert everything(target) == {"storm/worker.log": b"a line\n", "storm/-odd name\n": b"odd"}


# -- copies into the run ---------------------------------------------------------------------------


def test_kept_logs_hold_nothing_of_what_links_lead_to(tmp_path: Path, target: Path, secret: Path) -> None:
    storm = target / "node-1" / "storm"
    storm.mkdir(parents=True)
    (storm / "worker.log").write_text("a line\n")
    (storm / "leak").symlink_to(secret)
    (storm / "gone").symlink_to("/nonexistent")
    (storm / "etc").symlink_to("/etc")
    (storm / "su").write_bytes(b"program")
    (storm / "su").chmod(0o4755)
    os.mkfifo(storm / "pipe")
    kept = tmp_path / "run" / "servers"
    assert keep_logs(target, kept)
    assert everything(kept) == {"node-1/storm/worker.log": b"a line\n", "node-1/storm/su": b"program"}
    assert not any(p.is_symlink() for p in kept.rglob("*"))
    assert not (kept / "node-1/storm/su").stat().st_mode & 0o7111


def test_a_dangling_link_loses_none_of_the_other_logs(tmp_path: Path, target: Path) -> None:
    (target / "nimbus.log").write_text("why it ended\n")
    (target / "gone").symlink_to("/nonexistent")
    assert keep_logs(target, tmp_path / "servers")
    assert everything(tmp_path / "servers") == {"nimbus.log": b"why it ended\n"}


def test_a_log_that_cannot_be_opened_is_named_and_the_others_kept(tmp_path: Path, target: Path) -> None:
    (target / "nimbus.log").write_text("why it ended\n")
    (target / "gone").symlink_to("/nonexistent")
    assert copy(target, tmp_path / "servers") == ("gone: Too many levels of symbolic links",)


def test_logs_replace_those_of_the_attempt_before(tmp_path: Path, target: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "old.log").write_text("old")
    (target / "new.log").write_text("new")
    assert keep_logs(target, tmp_path / "servers")
    assert everything(tmp_path / "servers") == {"new.log": b"new"}
