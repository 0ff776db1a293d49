"""The module that puts a service's files into place, called as Ansible calls it."""

from __future__ import annotations

import base64
import json
import runpy
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

MODULE = Path(__file__).resolve().parents[2] / "infra/ansible/library/placed.py"
Placing = Callable[..., dict[str, Any]]


@pytest.fixture
def placing(capsys: pytest.CaptureFixture[str]) -> Placing:
    def place(**asked: Any) -> dict[str, Any]:
        with patch_module_args(asked), pytest.raises(SystemExit):
            runpy.run_path(str(MODULE), run_name="__main__")
        answer = capsys.readouterr().out
        assert "very secret" not in answer
        told: dict[str, Any] = json.loads(answer)
        return told

    return place


def service(folder: Path, configuration: str = "a=1\n", token: str = "very secret\n") -> dict[str, Any]:
    return {
        "folders": [{"path": str(folder / "etc" / "x"), "mode": "0750"}],
        "files": [
            {"path": str(folder / "etc/x/settings"), "mode": "0644", "content": configuration},
            {"path": str(folder / "etc/x/token"), "mode": "0400", "content": token, "at_start": False},
        ],
        "links": [{"path": str(folder / "link"), "target": str(folder / "etc")}],
        "stale": [str(folder / "stale" / "x")],
    }


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_is_made_and_then_stays_untouched(placing: Placing, tmp_path: Path) -> None:
    first = placing(**service(tmp_path))
    made = [str(tmp_path / p) for p in ("etc/x", "etc/x/settings", "etc/x/token", "link")]
    assert (first["changed"], first["placed"]) == (True, made)
    assert (tmp_path / "link/x/settings").read_text() == "a=1\n"
    assert (tmp_path / "etc/x/token").read_text() == "very secret\n"
    assert [mode(tmp_path / p) for p in ("etc/x", "etc/x/settings", "etc/x/token")] == [0o750, 0o644, 0o400]
    (tmp_path / "stale" / "x").unlink()  # as who started it does
    again = placing(**service(tmp_path))
    assert (again["changed"], again["placed"]) == (False, [])
    assert not (tmp_path / "stale" / "x").exists()


def test_only_what_is_read_at_the_start_makes_stale(placing: Placing, tmp_path: Path) -> None:
    placing(**service(tmp_path))
    mark = tmp_path / "stale" / "x"
    mark.unlink()
    assert placing(**service(tmp_path, token="other\n"))["placed"] == [str(tmp_path / "etc/x/token")]
    assert mode(tmp_path / "etc/x/token") == 0o400
    assert not mark.exists()
    told = placing(**service(tmp_path, configuration="a=2\n", token="other\n"))
    assert told["placed"] == [str(tmp_path / "etc/x/settings")]
    assert mark.exists()


def test_a_mode_is_set_right(placing: Placing, tmp_path: Path) -> None:
    placing(**service(tmp_path))
    (tmp_path / "etc/x/token").chmod(0o444)
    (tmp_path / "etc/x").chmod(0o777)
    told = placing(**service(tmp_path))
    assert told["placed"] == [str(tmp_path / "etc/x"), str(tmp_path / "etc/x/token")]
    assert (mode(tmp_path / "etc/x"), mode(tmp_path / "etc/x/token")) == (0o750, 0o400)


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("", "# BEGIN harness\n1 one\n# END harness\n"),
        ("0 zero", "0 zero\n# BEGIN harness\n1 one\n# END harness\n"),
        (
            "0 zero\n# BEGIN harness\n7 old\n8 old\n# END harness\n2 two",
            "0 zero\n# BEGIN harness\n1 one\n# END harness\n2 two",
        ),
    ],
)
def test_a_part_of_a_file_is_ours(placing: Placing, tmp_path: Path, there: str, wanted: str) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(there)
    hosts.chmod(0o640)
    asked = {"path": str(hosts), "part": True, "content": "1 one\n"}
    assert placing(files=[asked])["changed"]
    assert (hosts.read_text(), mode(hosts)) == (wanted, 0o640)
    assert not placing(files=[asked])["changed"]


def test_what_fails_names_the_file_and_not_what_is_in_it(placing: Placing, tmp_path: Path) -> None:
    told = placing(files=[{"path": str(tmp_path / "none" / "a"), "content": "very secret"}])
    assert told["failed"]
    assert told["msg"] == f"[Errno 2] No such file or directory: '{tmp_path}/none/a.harness-new'"


def test_bytes_are_given_in_base_64(placing: Placing, tmp_path: Path) -> None:
    """Any byte, also those that are no text and the ends of lines of other systems."""
    contents = bytes(range(256)) + b"a\r\nb\rc\n"
    given = base64.b64encode(contents).decode()
    asked: dict[str, Any] = {"files": [{"path": str(tmp_path / "store"), "content": given, "encoded": True}]}
    assert placing(**asked)["changed"]
    assert (tmp_path / "store").read_bytes() == contents
    assert not placing(**asked)["changed"]
