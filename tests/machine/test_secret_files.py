"""Secrets come from the environment or from a file of the owner's alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.machine import secret_files


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    made = secret_files.read_or_make(path)
    assert len(made) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert secret_files.read_or_make(path) == made
    assert secret_files.read_or_make(tmp_path / "other") != made


def test_a_given_secret_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    secret_files.replace(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600
    assert secret_files.read(path) == "new"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    secret_files.read_or_make(path)
    path.chmod(mode)
    with pytest.raises(UsageError, match=f"chmod 600 {path}"):
        secret_files.read(path)


def test_nothing_in_it_or_no_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(UsageError, match="cannot be read"):
        secret_files.read(path)
    path.touch(mode=0o600)
    with pytest.raises(UsageError, match="there is no secret in it"):
        secret_files.read(path)


def test_the_environment_holds_it_or_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A_PASSWORD", "A_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert secret_files.from_environment("A_PASSWORD") is None
    path = tmp_path / "password"
    made = secret_files.read_or_make(path)
    monkeypatch.setenv("A_PASSWORD_FILE", str(path))
    assert secret_files.from_environment("A_PASSWORD") == made
    monkeypatch.setenv("A_PASSWORD", "given")
    assert secret_files.from_environment("A_PASSWORD") == "given"
