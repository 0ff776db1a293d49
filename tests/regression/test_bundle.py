"""Sealed runs: intact ones verify, any changed byte is noticed, and what is extracted can be scored."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import pytest
from altered_runs import ALL_IN_ONE
from budgets import budget
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli import main
from harness.errors import UsageError
from harness.regression import bundle as bundle_module
from harness.regression.bundle import (
    KIND,
    MANIFEST,
    MOST_DIRECTORY_BYTES,
    MOST_MANIFEST_BYTES,
    bundle,
    extract,
    verify,
)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small files of an archived run's first step, and little Parquet: bytes are what is tested here."""
    run = tmp_path_factory.mktemp("runs") / "all-in-one" / "20261121T210350Z"
    step = run / "steps" / "00"
    step.mkdir(parents=True)
    for name in ("environment.json", "experiment.yaml", "steps/00/plan.json", "steps/00/interval.json"):
        (run / name).write_bytes((ALL_IN_ONE / name).read_bytes())
    (step / "latency.parquet").write_bytes(bytes(range(256)) * 8)
    return run


@pytest.fixture(scope="module")
def sealed(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle(small_run, tmp_path_factory.mktemp("sealed") / "run.zip")[0]


def test_an_intact_bundle_verifies(sealed: Path) -> None:
    found = verify(sealed)
    assert found.problems == ()
    assert found.name == "all-in-one/20261121T210350Z"
    assert found.files == 5


def test_the_same_run_gives_the_same_bytes(small_run: Path, sealed: Path, tmp_path: Path) -> None:
    again, seal = bundle(small_run, tmp_path / "again.zip")
    assert again.read_bytes() == sealed.read_bytes()
    assert seal == verify(sealed).seal
    assert [p.name for p in tmp_path.iterdir()] == ["again.zip"]


def test_the_bundle_says_versions_and_schema(sealed: Path) -> None:
    with zipfile.ZipFile(sealed) as archive:
        manifest = json.loads(archive.read(f"all-in-one/20261121T210350Z/{MANIFEST}"))
    assert manifest["schema"] == 1
    assert manifest["measured_with"]["cluster"]["storm"] == "2.8.3"
    assert manifest["measured_with"]["commit"]


@settings(max_examples=budget(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_no_byte_can_be_changed_unnoticed(place: float, mask: int, sealed: Path, tmp_path: Path) -> None:
    contents = bytearray(sealed.read_bytes())
    contents[int(place * len(contents))] ^= mask
    changed = tmp_path / "changed.zip"
    changed.write_bytes(contents)
    try:
        noticed = bool(verify(changed).problems)
    except UsageError as error:
        noticed = str(changed) in str(error)
    assert noticed


@pytest.mark.parametrize("name", ["steps/00/latency.parquet", "experiment.yaml", MANIFEST])
def test_a_changed_byte_s_file_is_named(name: str, sealed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(sealed) as archive:
        entry = archive.getinfo(f"all-in-one/20261121T210350Z/{name}")
    contents = bytearray(sealed.read_bytes())
    contents[entry.header_offset + 30 + len(entry.filename) + entry.file_size // 2] ^= 1
    changed = tmp_path / "changed.zip"
    changed.write_bytes(contents)
    assert verify(changed).problems == (f"{name}: changed",)
    shown = CliRunner().invoke(main, ["verify", str(changed)])
    assert shown.exit_code == 1
    assert f"{name}: changed" in shown.output


def test_a_bundle_packed_again_with_other_files_is_noticed(sealed: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.zip"
    root = "all-in-one/20261121T210350Z"
    with zipfile.ZipFile(sealed) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            if not name.endswith("interval.json"):
                new.writestr(name, old.read(name))
        new.writestr(f"{root}/steps/00/more.json", "{}")
    assert verify(packed).problems == (
        "steps/00/interval.json: missing",
        "steps/00/more.json: does not belong to the bundle",
    )


def test_what_is_extracted_is_the_run(small_run: Path, sealed: Path, tmp_path: Path) -> None:
    target = extract(sealed, tmp_path)
    assert target == tmp_path / "all-in-one" / "20261121T210350Z"
    for path in (p for p in small_run.rglob("*") if p.is_file()):
        assert (target / path.relative_to(small_run)).read_bytes() == path.read_bytes()
    assert verify(target).problems == ()
    (target / "experiment.yaml").write_text("name: other\n")
    (target / "predictions.parquet").write_bytes(b"")
    assert verify(target).problems == (
        "experiment.yaml: changed",
        "predictions.parquet: does not belong to the bundle",
    )
    with pytest.raises(UsageError, match="exists already"):
        extract(sealed, tmp_path)


def test_a_damaged_bundle_is_not_extracted(sealed: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.zip"
    contents = bytearray(sealed.read_bytes())
    contents[len(contents) // 2] ^= 1
    changed.write_bytes(contents)
    with pytest.raises(UsageError, match="it is not extracted"):
        extract(changed, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("contents", "message"),
    [(b"", "not a whole bundle"), (b"PAR1 something else", "not a whole bundle"), (None, "no such bundle")],
)
def test_what_is_no_bundle_is_named_in_one_line(contents: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    if contents is not None:
        path.write_bytes(contents)
    shown = CliRunner().invoke(main, ["verify", str(path)])
    assert shown.exit_code == 2
    assert message in shown.output
    assert str(path) in shown.output
    assert shown.output.count("\n") == 1


def test_a_bundle_cut_short_is_named(sealed: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.zip"
    path.write_bytes(sealed.read_bytes()[:-200])
    with pytest.raises(UsageError, match=r"cut\.zip: not a whole bundle"):
        verify(path)


@pytest.mark.parametrize(("key", "message"), [("schema", "schema 99"), ("version", "version 99")])
def test_a_newer_bundle_is_refused(key: str, message: str, sealed: Path, tmp_path: Path) -> None:
    folder = extract(sealed, tmp_path)
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {key: 99}))
    with pytest.raises(UsageError, match=message):
        verify(folder)


def test_a_run_without_a_finished_step_is_not_sealed(small_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "steps").mkdir(parents=True)
    (run / "environment.json").write_bytes((small_run / "environment.json").read_bytes())
    with pytest.raises(UsageError, match="nothing to seal"):
        bundle(run, tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


# ---- bundles that somebody made to do harm ----


def write_sealed(path: Path, root: str, entries: Iterable[tuple[str, bytes]], **manifest: object) -> Path:
    """Seal anything: whoever makes a bundle can make its seal."""
    listed = list(entries)
    files = {n.removeprefix(f"{root}/"): {"sha256": hashlib.sha256(c).hexdigest()} for n, c in listed}
    experiment, _, run = root.rpartition("/")
    named = {"kind": KIND, "version": 1, "schema": 1, "experiment": experiment, "run": run, "files": files}
    with path.open("w+b") as file:
        with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
            warnings.simplefilter("ignore")  # of names that come twice
            archive.comment = b"sha256:" + b"0" * 64
            archive.writestr(f"{root}/{MANIFEST}", json.dumps(named | manifest))
            for name, contents in listed:
                archive.writestr(name, contents)
        seal(file)
    return path


def seal(file: IO[bytes]) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    digest = hashlib.sha256(file.read(size - 71)).hexdigest()
    file.seek(size - 71)
    file.write(f"sha256:{digest}".encode())


def require_refused(path: Path, tmp_path: Path) -> str:
    """Neither verified nor extracted, in one line; nothing written."""
    before = sorted(tmp_path.rglob("*"))
    shown = CliRunner().invoke(main, ["verify", str(path), "--extract", str(tmp_path / "out")])
    assert shown.exit_code in (1, 2)
    with pytest.raises(UsageError) as refused:
        extract(path, tmp_path / "out")
    assert "\n" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before
    return shown.output


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("e/r", "../../evil"),
        ("e/r", "e/r/../../evil"),
        ("e/r", "/tmp/evil"),
        ("e/r", "e/r//tmp/evil"),
        ("e/r", "e/r/a\\..\\evil"),
        ("e/r", "e/r/a\nb"),
        ("e/r", "e/r/./evil"),
        ("e/r", "other/r/evil"),
        ("../r", "../r/evil"),
        ("e/..", "e/../evil"),
        ("/e", "/e/evil"),
        ("r", "r/evil"),
        ("a/b/c", "a/b/c/evil"),
    ],
)
def test_names_that_lead_out_are_named_and_nothing_written(root: str, name: str, tmp_path: Path) -> None:
    path = write_sealed(tmp_path / "b.zip", root, [(name, b"evil")])
    said = require_refused(path, tmp_path)
    assert "leads out of its folder" in said or "no experiment and run" in said
    # one line for each thing that is wrong, and nothing of the name ends it
    assert all(line.startswith(f"{path}: ") for line in said.splitlines())


def test_a_list_of_files_that_names_what_is_outside_is_one_line(tmp_path: Path) -> None:
    listed = {"../../evil": {"sha256": "0" * 64}}
    path = write_sealed(tmp_path / "b.zip", "e/r", [], files=listed)
    assert require_refused(path, tmp_path) == f"{path}: ../../evil: leads out of its folder\n"


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """100 MB of blanks in 100 kB: as the list of files, and as a file."""
    for number, name in enumerate((f"e/r/{MANIFEST}", "e/r/steps/00/latency.parquet")):
        path = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            with archive.open(name, "w", force_zip64=True) as out:
                for _ in range(100):
                    out.write(b" " * (1 << 20))
            if number:
                archive.writestr(f"e/r/{MANIFEST}", "{}")
        tracemalloc.start()
        try:
            said = require_refused(path, tmp_path)
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert f"{name}: compressed, as no file of a bundle is" in said
        assert peak_bytes < 20 << 20


def test_a_list_of_files_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = write_sealed(tmp_path / "b.zip", "e/r", [], padding=" " * MOST_MANIFEST_BYTES)
    assert f"{MANIFEST}: larger than {MOST_MANIFEST_BYTES} bytes" in require_refused(path, tmp_path)


def test_a_nested_list_of_files_is_named(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"e/r/{MANIFEST}", "[" * 1_000_000)
    assert f"{MANIFEST}: changed" in require_refused(path, tmp_path)


def test_files_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """A thousand entries of the zip's list lead to the same megabyte."""
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"e/r/{MANIFEST}", "{}")
        archive.writestr("e/r/a", b" " * (1 << 20))
        first = archive.getinfo("e/r/a")
        for number in range(1000):
            again = zipfile.ZipInfo(f"e/r/{number}")
            again.header_offset, again.CRC = first.header_offset, first.CRC
            again.file_size = again.compress_size = first.file_size
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
    assert "its files are larger than the archive" in require_refused(path, tmp_path)


def test_a_zip_s_own_list_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    """Its end says so; a list of so many bytes is there."""
    path = tmp_path / "b.zip"
    directory = MOST_DIRECTORY_BYTES + 1
    with path.open("wb") as file:
        file.truncate(directory)
        file.seek(0, os.SEEK_END)
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, directory, 0, 0))
    assert f"its list of files has {directory} bytes" in require_refused(path, tmp_path)


def test_a_file_that_is_there_twice_is_named(tmp_path: Path) -> None:
    path = write_sealed(tmp_path / "b.zip", "e/r", [("e/r/a", b"one"), ("e/r/a", b"two")])
    assert "e/r/a: is in it twice" in require_refused(path, tmp_path)


def test_too_many_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_module, "MOST_FILES", 5)
    path = write_sealed(tmp_path / "b.zip", "e/r", [(f"e/r/{n}", b"") for n in range(5)])
    assert "6 files, and a bundle has at most 5" in require_refused(path, tmp_path)


def test_what_a_link_leads_to_is_not_sealed(small_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "e" / "r"
    shutil.copytree(small_run, run)
    (run / "leak").symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="leak: a link, and no file of the run"):
        bundle(run, tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


def test_a_bundle_under_another_run_s_name_is_noticed(tmp_path: Path) -> None:
    path = write_sealed(tmp_path / "b.zip", "e/r", [("e/r/a", b"one")], run="s")
    assert f"{MANIFEST}: is of another run than e/r" in require_refused(path, tmp_path)
