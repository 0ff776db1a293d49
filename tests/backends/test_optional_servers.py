"""Getting InfluxDB and Neo4j: what needs no download. Compilers' part is to make a file or to fail."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.backends import optional_servers as optional
from harness.backends.influxdb import build as influxdb_build
from harness.errors import HarnessError, MissingTool, UsageError

pytestmark = pytest.mark.deep

POM = "{http://maven.apache.org/POM/4.0.0}"

# Downloads a "module" into a folder of its own, names its checksum, and "compiles" by copying.
GO = """
echo "go $*" >> "$CALLS"
case "$1 $2" in
  "mod download")
    name=$(echo "$4" | tr -c 'a-z0-9\\n' _)
    mkdir -p "$GOMODCACHE/$name/libflux/include"
    echo 'channel = "1.72"' > "$GOMODCACHE/$name/libflux/rust-toolchain.toml"
    chmod -w "$GOMODCACHE/$name/libflux/rust-toolchain.toml" "$GOMODCACHE/$name"
    echo "{\\"Dir\\": \\"$GOMODCACHE/$name\\", \\"Sum\\": \\"$SUM\\"}" ;;
  "build -v")
    grep -q "^Libs: -L.*/lib -lflux" "$PKG_CONFIG_PATH/flux.pc" || exit 3
    [ -e "$FAILS" ] && { echo "internal/flux"; echo "./a.go:1: error: it does not compile"; exit 1; }
    while [ "$1" != "-o" ]; do shift; done
    printf '#!/bin/sh\\necho InfluxDB v2.7.12\\n' > "$2"; chmod +x "$2" ;;
esac
"""
CARGO = """
echo "cargo $*" >> "$CALLS"
[ -e rust-toolchain.toml ] && exit 3
for i in $(seq 100); do echo "   Compiling crate$i v1.0.0" >&2; done
mkdir -p "$CARGO_TARGET_DIR/release" && echo library > "$CARGO_TARGET_DIR/release/libflux.a"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in (("go", GO), ("cargo", CARGO), ("cc", ""), ("pkg-config", "")):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("FAILS", str(tmp_path / "fails"))
    monkeypatch.setenv("SUM", influxdb_build.MODULE_SUM)
    return folder


def calls(tmp_path: Path) -> list[str]:
    return [" ".join(line.split()[:3]) for line in (tmp_path / "calls").read_text().splitlines()]


WHOLE = ["go mod download", "go mod download", "cargo build --release", "go build -v"]


def test_influxdb_is_built_once(tools: Path, tmp_path: Path) -> None:
    cache, said = tmp_path / "cache", list[str]()
    assert optional.influxd(cache) is None
    program = optional.install_influxdb(cache, said.append)
    assert program.read_text().startswith("#!/bin/sh")
    assert calls(tmp_path) == WHOLE
    assert [line for line in said if "crates" in line] == [
        "influxdb: 50 crates compiled",
        "influxdb: 100 crates compiled",
    ]
    manifest = json.loads((program.parent / "manifest.json").read_text())
    assert manifest["version"] == optional.INFLUXDB_VERSION
    assert manifest["sha256"] == hashlib.sha256(program.read_bytes()).hexdigest()
    assert [p.name for p in program.parent.parent.glob(".build-*")] == []
    for tool in tools.iterdir():  # the compilers are not asked again
        tool.unlink()
    assert optional.install_influxdb(cache, said.append) == program == optional.influxd(cache)


def test_a_build_that_failed_goes_on_where_it_was(tools: Path, tmp_path: Path) -> None:
    cache, fails = tmp_path / "cache", tmp_path / "fails"
    fails.touch()
    with pytest.raises(HarnessError) as failure:
        optional.install_influxdb(cache)
    assert failure.value.message == "InfluxDB could not be built: ./a.go:1: error: it does not compile"
    assert "it does not compile" in Path(failure.value.log).read_text()
    assert optional.influxd(cache) is None
    fails.unlink()
    optional.install_influxdb(cache)
    # sources are there; compilers look at their own caches
    assert calls(tmp_path) == [*WHOLE, "cargo build --release", "go build -v"]


def test_a_source_that_is_not_the_pinned_one_is_not_built(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUM", "h1:another")
    with pytest.raises(HarnessError, match=f"checksum h1:another, not {influxdb_build.MODULE_SUM[:10]}"):
        optional.install_influxdb(tmp_path / "cache")
    assert calls(tmp_path) == ["go mod download"]


@pytest.mark.parametrize("tool", ["go", "cargo", "cc", "pkg-config"])
def test_a_missing_compiler_is_named_with_its_remedy(tools: Path, tmp_path: Path, tool: str) -> None:
    path = tools / tool
    path.unlink()
    obstacle = optional.influxdb_obstacle()
    if obstacle is None:  # the machine has one of its own
        pytest.skip(f"there is a {tool} in /usr/bin")
    assert (obstacle.reason, obstacle.mend) == (f"there is no {tool} on PATH", influxdb_build.TOOLS[tool])
    with pytest.raises(MissingTool, match=f"InfluxDB cannot be built: there is no {tool} on PATH"):
        optional.install_influxdb(tmp_path / "cache")


def test_what_cannot_be_had_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said: list[str] = []
    optional.install_possible(said.append)
    assert said == [
        "neo4j is left out: there is no mvn on PATH -> apt-get install maven",
        f"influxdb is left out: there is no go on PATH -> {influxdb_build.TOOLS['go']}",
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
    monkeypatch.setattr(optional, "pinned", lambda _: {"lib/a.jar": hashlib.sha256(b"jar\n").hexdigest()})
    cache = tmp_path / "cache"
    assert optional.neo4j_home(cache) is None
    home = optional.install_neo4j(cache)
    assert (home / "lib" / "a.jar").exists()
    (entry,) = json.loads((home / "manifest.json").read_text())
    assert entry["jar"] == "lib/a.jar"
    mvn.unlink()
    assert optional.install_neo4j(cache) == home == optional.neo4j_home(cache)
    (home / "lib" / "a.jar").write_bytes(b"raj\n")
    with pytest.raises(HarnessError, match=r"lib/a\.jar: its SHA-256 is "):
        optional.install_neo4j(cache)
    with pytest.raises(HarnessError, match=r"lib/a\.jar: its SHA-256 is "):
        optional.require_intact_neo4j(home)


def test_a_program_that_is_not_the_built_one_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "influxd"
    program.write_bytes(b"built")
    (tmp_path / "manifest.json").write_text(json.dumps({"sha256": hashlib.sha256(b"built").hexdigest()}))
    optional.require_intact_influxd(program)
    program.write_bytes(b"other")  # printf other | sha256sum
    with pytest.raises(
        HarnessError, match="influxd: its SHA-256 is d9298a10d1b07358"
    ):  # sha256sum of "other"
        optional.require_intact_influxd(program)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(HarnessError, match="influxd: cannot be compared"):
        optional.require_intact_influxd(program)


def program_of(folder: Path, said: str) -> Path:
    """A program that says its version, as InfluxDB's do."""
    folder.mkdir()
    program = folder / "influxd"
    program.write_text(f"#!/bin/sh\n[ $1 = version ] && echo '{said}'\n")
    program.chmod(0o755)
    return program


# As influxd 2.7.12 (built here) and Debian's 1.6.7 say it.
SECOND = "InfluxDB v2.7.12 (git: none) build_date: 2026-11-27T15:52:19Z"
FIRST = "InfluxDB v1.6.7~rc0 (git: unknown unknown)"


def test_an_influxdb_that_is_there_is_used_and_nothing_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path, named = program_of(tmp_path / "path", SECOND), program_of(tmp_path / "named", SECOND)
    monkeypatch.delenv(optional.INFLUXD, raising=False)
    monkeypatch.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
    assert optional.influxd(tmp_path / "cache") == on_path
    monkeypatch.setenv(optional.INFLUXD, str(named))
    assert optional.install_influxdb(tmp_path / "cache") == named
    optional.require_intact_influxd(named)
    assert not (tmp_path / "cache").exists()


def test_another_version_on_the_path_is_passed_over_and_a_named_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = program_of(tmp_path / "path", FIRST)
    monkeypatch.delenv(optional.INFLUXD, raising=False)
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    assert optional.influxd(tmp_path / "cache") is None
    monkeypatch.setenv(optional.INFLUXD, str(old))
    with pytest.raises(UsageError, match=r"influxd: InfluxDB 1\.6\.7"):
        optional.influxd(tmp_path / "cache")
    monkeypatch.setenv(optional.INFLUXD, str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="nothing: no InfluxDB"):
        optional.influxd(tmp_path / "cache")
