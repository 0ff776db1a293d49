"""Sealed runs: intact ones verify, any changed byte is noticed, and what is extracted can be scored."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from altered_runs import ALL_IN_ONE
from budgets import budget
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli import main
from harness.errors import UsageError
from harness.regression.bundle import MANIFEST, bundle, extract, verify


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
