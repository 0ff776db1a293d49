"""A topology's jar with the instrumentation in it."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from harness.backends.running.carried_jar import TOKEN_ENTRY, carry
from harness.errors import UsageError


def jar(path: Path, **entries: str) -> Path:
    with ZipFile(path, "w") as made:
        for name, text in entries.items():
            made.writestr(name, text)
    return path


def test_all_of_both_is_there_and_the_topologys_entries_win(tmp_path: Path) -> None:
    manifest, signature = "META-INF/MANIFEST.MF", "META-INF/SIGNER.SF"
    topology = jar(
        tmp_path / "t.jar", **{manifest: "own", "a.class": "own", signature: "s", "defaults.yaml": "y"}
    )
    added = jar(tmp_path / "i.jar", **{manifest: "added", "a.class": "added", "b.class": "added"})
    with ZipFile(carry(topology, added, "secret", tmp_path / "both.jar")) as both:
        found = {name: both.read(name).decode() for name in both.namelist()}
        assert len(both.namelist()) == len(found)
    assert found == {
        manifest: "own",
        "a.class": "own",
        "defaults.yaml": "y",
        "b.class": "added",
        TOKEN_ENTRY: "secret",
    }


def test_without_a_token_there_is_no_entry_for_it(tmp_path: Path) -> None:
    one = jar(tmp_path / "one.jar", **{"a.class": "x"})
    with ZipFile(carry(one, one, "", tmp_path / "both.jar")) as both:
        assert both.namelist() == ["a.class"]


def test_what_is_no_jar_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jar"
    broken.write_text("no jar")
    with pytest.raises(UsageError, match=r"broken\.jar is not a jar: "):
        carry(broken, broken, "", tmp_path / "both.jar")
