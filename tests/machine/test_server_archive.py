"""The archive that hosts get: the same bytes for the same contents, whatever the files' times and places."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.machine.server_archive import EPOCH_S, archive

NAMES = st.from_regex(r"[a-z]{1,8}/(bin|lib)/[a-z]{1,8}\.jar", fullmatch=True)


def write(folder: Path, contents: dict[str, bytes]) -> dict[str, Path | bytes]:
    found: dict[str, Path | bytes] = {}
    for n, (name, data) in enumerate(contents.items()):
        path = folder / f"{n}.jar"
        path.write_bytes(data)
        os.utime(path, (n, n))
        path.chmod(0o600 if n % 2 else 0o777)
        found[name] = path
    return found


def test_same_contents_same_bytes(tmp_path: Path) -> None:
    contents = {"storm/lib/b.jar": b"one", "storm/lib-worker/b.jar": b"one", "kafka/lib/a.jar": b"two"}
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first = archive("servers", write(folders[0], contents), tmp_path / "cache-1")
    reordered = dict(reversed(contents.items()))
    second = archive("servers", write(folders[1], reordered), tmp_path / "cache-2")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.version == second.version
    assert first.size_bytes == first.path.stat().st_size
    with tarfile.open(first.path) as tar:
        members = tar.getmembers()
    assert members[-1].name == f"servers-{first.version}/complete"
    assert {(m.uid, m.gid, m.mtime) for m in members} == {(0, 0, EPOCH_S)}
    assert [m.name.split("/", 1)[1] for m in members if m.islnk()] == ["storm/lib/b.jar"]


@given(st.dictionaries(NAMES, st.binary(max_size=40), min_size=1, max_size=6))
def test_what_is_unpacked_is_what_was_put_in(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    made = archive("x", dict(contents), folder / "cache")
    with tarfile.open(made.path) as tar:
        tar.extractall(folder, filter="data")
    root = folder / made.folder
    files = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    del files["complete"]
    assert files == contents


def test_another_content_is_another_version_and_replaces_the_old(tmp_path: Path) -> None:
    first = archive("servers", {"a": b"1"}, tmp_path)
    again = archive("servers", {"a": b"1"}, tmp_path)
    assert again == first
    second = archive("servers", {"a": b"2"}, tmp_path)
    assert second.version != first.version
    assert [p.name for p in tmp_path.iterdir()] == [second.path.name]
