"""Getting the servers that not every run needs: what needs no download."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.backends import optional_servers as optional

POM = "{http://maven.apache.org/POM/4.0.0}"


def test_what_cannot_be_had_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said: list[str] = []
    optional.install_possible(said.append)
    assert said == [
        "neo4j is left out: there is no mvn on PATH -> apt-get install maven",
    ]


def test_the_pom_says_neo4js_version() -> None:
    pom = ElementTree.fromstring((files("harness") / "assets/servers/neo4j/pom.xml").read_bytes())
    (dependency,) = pom.iter(f"{POM}dependency")
    assert dependency.findtext(f"{POM}version") == optional.NEO4J_VERSION


def test_neo4j_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mvn = tmp_path / "bin" / "mvn"
    mvn.parent.mkdir()
    mvn.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case "$word" in -DoutputDirectory=*) out="${word#*=}" ;; esac; done\n'
        'mkdir -p "$out" && echo jar > "$out/a.jar"\n'
    )
    mvn.chmod(0o755)
    monkeypatch.setenv("PATH", f"{mvn.parent}:/usr/bin:/bin")
    cache = tmp_path / "cache"
    assert optional.neo4j_home(cache) is None
    home = optional.install_neo4j(cache)
    assert (home / "lib" / "a.jar").exists()
    (entry,) = json.loads((home / "manifest.json").read_text())
    assert entry["jar"] == "lib/a.jar"
    mvn.unlink()
    assert optional.install_neo4j(cache) == home == optional.neo4j_home(cache)
