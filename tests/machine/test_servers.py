"""Installing the servers: what needs no download."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.backends.optional_servers import NEO4J_ASSEMBLIES
from harness.errors import HarnessError, MissingTool, UsageError
from harness.machine import servers
from harness.machine.class_archive import select
from harness.machine.server_pins import pinned, require_pinned
from harness.machine.servers import ASSEMBLIES, KAFKA_VERSION, STORM_VERSION, ServerHomes

POM = "{http://maven.apache.org/POM/4.0.0}"


def pom(name: str) -> ElementTree.Element:
    return ElementTree.fromstring((files("harness") / "assets" / "servers" / name / "pom.xml").read_bytes())


def fake_maven(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven's part is to fill a folder or to fail; that is all that is replaced."""
    mvn = folder / "bin" / "mvn"
    mvn.parent.mkdir()
    mvn.write_text(f"#!/bin/sh\n{script}\n")
    mvn.chmod(0o755)
    monkeypatch.setenv("PATH", f"{mvn.parent}:/usr/bin:/bin")


JAR = hashlib.sha256(b"jar\n").hexdigest()
PINNED = dict.fromkeys(("storm/lib/a.jar", "storm/lib-worker/a.jar", "kafka/lib/a.jar"), JAR)
FILLS = """
for word in "$@"; do case "$word" in -DoutputDirectory=*) out="${word#*=}" ;; esac; done
mkdir -p "$out" && echo jar > "$out/a.jar"
echo "Downloaded from central: https://example.org/a/b/a.jar (4 B at 1 B/s)"
"""


def test_the_poms_say_the_versions_that_runs_record() -> None:
    storm = pom("storm").find(f"{POM}properties/{POM}storm.version")
    assert storm is not None
    assert storm.text == STORM_VERSION
    kafka = [
        d for d in pom("kafka").iter(f"{POM}dependency") if d.findtext(f"{POM}artifactId") == "kafka_2.13"
    ]
    assert [d.findtext(f"{POM}version") for d in kafka] == [KAFKA_VERSION]


def test_installing_is_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_maven(tmp_path, FILLS, monkeypatch)
    monkeypatch.setattr(servers, "pinned", lambda _: PINNED)
    said: list[str] = []
    cache = tmp_path / "cache"
    assert servers.installed(cache) is None
    homes = servers.install(cache, said.append)
    assert said == ["fetched a.jar"] * 3
    assert {str(p.relative_to(homes.root)) for p in homes.root.glob("*/*/*.jar")} == {
        "storm/lib/a.jar",
        "storm/lib-worker/a.jar",
        "kafka/lib/a.jar",
    }
    entries = json.loads(homes.manifest.read_text())
    assert [(e["jar"], e["bytes"]) for e in entries] == [
        ("kafka/lib/a.jar", 4),
        ("storm/lib/a.jar", 4),
        ("storm/lib-worker/a.jar", 4),
    ]
    assert {e["sha256"] for e in entries} == {hashlib.sha256(b"jar\n").hexdigest()}
    shutil.rmtree(tmp_path / "bin")  # Maven is not asked again
    assert servers.install(cache, said.append) == homes == servers.installed(cache)
    assert len(said) == 3
    assert [p.name for p in homes.root.parent.glob(".partial-*")] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lib: (lib / "a.jar").open("ab").write(b"\n"), "a.jar: its SHA-256 is 4828f1a5"),
        (lambda lib: (lib / "a.jar").unlink(), "a.jar: is missing"),
        (lambda lib: (lib / "b.jar").write_bytes(b"jar\n"), "b.jar: is none of the pinned jars"),
        (lambda lib: (lib / "B.JAR").write_bytes(b"jar\n"), "B.JAR: is none of the pinned jars"),
    ],
)
def test_a_jar_that_was_changed_in_the_cache_is_refused_at_every_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], said: str
) -> None:
    """Also where its size, its time and the list beside the jars fit."""
    fake_maven(tmp_path, FILLS, monkeypatch)
    monkeypatch.setattr(servers, "pinned", lambda _: PINNED)
    homes = servers.install(tmp_path / "cache")
    change(homes.storm / "lib")
    entries = [{**e, "sha256": ""} for e in json.loads(homes.manifest.read_text())]
    homes.manifest.write_text(json.dumps(entries))
    for _ in range(2):
        with pytest.raises(HarnessError) as refused:
            servers.install(tmp_path / "cache")
        assert said in str(refused.value)
        assert str(refused.value).endswith(f"remove {homes.root}, and it is fetched anew")


def test_a_download_that_is_not_pinned_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_maven(tmp_path, FILLS, monkeypatch)
    with pytest.raises(HarnessError, match=r"a\.jar: is none of the pinned jars|: is missing"):
        servers.install(tmp_path / "cache")
    assert servers.installed(tmp_path / "cache") is None


@pytest.mark.parametrize(("name", "folders"), [("storm-kafka", ASSEMBLIES), ("neo4j", NEO4J_ASSEMBLIES)])
def test_every_class_path_is_pinned(name: str, folders: tuple[servers.Assembly, ...]) -> None:
    expected = pinned(name)
    lines = (files("harness") / "assets" / "servers" / f"{name}.sha256").read_text().splitlines()
    assert len(expected) == len(lines) > 20
    assert {str(Path(jar).parent) for jar in expected} == {assembly.folder for assembly in folders}


def test_the_installed_servers_are_the_pinned_ones() -> None:
    homes = servers.installed()
    if homes is None:
        pytest.skip("the servers are not in the cache")
    require_pinned(homes.root, pinned("storm-kafka"))


def test_a_failed_download_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_maven(
        tmp_path, "echo '[ERROR] Could not transfer artifact a:b'; echo '[ERROR] more'; exit 1", monkeypatch
    )
    with pytest.raises(HarnessError) as e:
        servers.install(tmp_path / "cache")
    assert e.value.message == "Maven could not fetch the servers: Could not transfer artifact a:b"
    assert Path(e.value.log).read_text().startswith("[ERROR] Could not transfer artifact a:b")
    assert servers.installed(tmp_path / "cache") is None
    assert [p.name for p in (tmp_path / "cache" / "servers").iterdir() if p.is_dir()] == []


def test_without_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="there is no mvn on PATH: apt-get install maven"):
        servers.install(tmp_path)


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert servers.cache_folder() == tmp_path / "storm-harness"
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    with pytest.raises(UsageError, match="XDG_CACHE_HOME: 'here' is no absolute path: begin it with /"):
        servers.cache_folder()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert servers.cache_folder() == tmp_path / ".cache" / "storm-harness"


def test_homes() -> None:
    homes = ServerHomes(Path("/c"))
    assert (homes.storm, homes.kafka) == (Path("/c/storm"), Path("/c/kafka"))


def test_archived_classes_are_those_of_java_and_of_known_jars() -> None:
    lists = [
        ["# a comment", "java/lang/Object id: 0", "org/apache/storm/Config", "my/own/Bolt", "listed/Already"],
        [
            "org/apache/storm/Config",
            "a/B source: file:/x.jar",
            "@lambda-form-invoker [X] y",
            "@lambda-proxy my/own/Bolt z",
        ],
    ]
    known = frozenset({"org/apache/storm/Config", "listed/Already"})
    assert select(lists, known, frozenset({"listed/Already"})) == [
        "@lambda-form-invoker [X] y",
        "java/lang/Object id: 0",
        "org/apache/storm/Config",
    ]
