"""What the doctor finds on a machine that lacks something."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.app import doctor as machine
from harness.app.doctor import MachineFinding, doctor


def program(folder: Path, name: str, output: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    file.chmod(0o755)


def found(name: str) -> MachineFinding:
    return next(f for f in doctor() if f.name == name)


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("what is this", None),
    ],
)
def test_java_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, version: int | None
) -> None:
    program(tmp_path, "java", output)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert machine.java_version() == version
    assert found("java").ok == (version is not None and version >= 17)


def test_every_lack_has_a_command_that_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no program at all
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    findings = {f.name: f for f in doctor()}
    assert not findings["java"].ok
    assert findings["java"].mend == "apt-get install openjdk-17-jdk-headless"
    assert not findings["maven"].ok
    assert findings["maven"].needed  # the servers are not in this cache
    assert not findings["servers"].ok
    for finding in findings.values():
        assert bool(finding.mend) != finding.ok, finding
