"""InfluxDB and Neo4j: got or built once into the user's cache, then only looked up.

Neo4j comes as jars from Maven Central, as Storm and Kafka do. InfluxDB's server is in no package
registry, but its source is: the Go module is built here, with the Rust library of its query language.
The module is pinned by its checksum, and that pins everything else: its ``go.sum`` the other Go modules,
the query language among them, whose ``Cargo.lock`` pins the crates.

A build that was interrupted goes on where it was: sources and compilers' caches stay in a work folder
until the binary is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from harness.backends import servers
from harness.backends.servers import MANIFEST, Assembly, cache_folder, fetch, only_one, quiet, require_free
from harness.errors import HarnessError, MissingTool

INFLUXDB_VERSION = "2.7.12"
INFLUXDB_MODULE = "github.com/influxdata/influxdb/v2"
INFLUXDB_SUM = "h1:m25dUSO7h6nm3zFC4v/aCNeFFmnN/mlN/uPo1T63bmk="
FLUX_MODULE = "github.com/influxdata/flux"
INFLUXDB_DISK_BYTES = 5_000_000_000
"""Sources, crates and the compilers' caches; the binary that stays has 95 MB."""
BUILD_TOOLS: Mapping[str, str] = {
    "go": "install Go 1.23 or newer",
    "cargo": "install Rust 1.72 or newer",
    "cc": "apt-get install gcc libc6-dev",
    "pkg-config": "apt-get install pkg-config",
}
FAST_BUILD: Mapping[str, str] = {
    # A library that parses a few queries: built quickly rather than to be quick.
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",
    "RUSTUP_TOOLCHAIN": "stable",
}
TAGS = "sqlite_foreign_keys,sqlite_json"

NEO4J_VERSION = "5.26.30"
NEO4J_ASSEMBLIES: tuple[Assembly, ...] = (("lib", "neo4j", ""),)
NEO4J_DISK_BYTES = 400_000_000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Obstacle:
    """Why an optional part cannot be had on this machine, and what would mend it."""

    reason: str
    mend: str


def install_possible(progress: Progress) -> None:
    """Install what can be had on this machine, and say of the rest why not.

    Raises
    ------
    HarnessError
        When a download or a build fails.
    """
    for name, obstacle, install in (
        ("neo4j", neo4j_obstacle, install_neo4j),
        ("influxdb", influxdb_obstacle, install_influxdb),
    ):
        if name_is_there(name):
            continue
        if reason := obstacle():
            progress(f"{name} is left out: {reason.reason} -> {reason.mend}")
        else:
            install(progress=progress)


def name_is_there(name: str) -> bool:
    """Whether the part of that name is installed."""
    return (neo4j_home() if name == "neo4j" else influxd()) is not None


# -- Neo4j ----------------------------------------------------------------------------------------


def neo4j_home(cache: Path | None = None) -> Path | None:
    """Return the folder whose ``lib`` holds Neo4j's jars, or None when it is not installed."""
    root = _neo4j_root(cache)
    return root if (root / MANIFEST).exists() else None


def neo4j_obstacle() -> Obstacle | None:
    """Return what keeps Neo4j from being installed here."""
    if shutil.which("mvn") is None:
        return Obstacle("there is no mvn on PATH", "apt-get install maven")
    return None


def install_neo4j(cache: Path | None = None, progress: Progress = quiet) -> Path:
    """Fetch Neo4j's jars with Maven unless they are there already, and return their home.

    Raises
    ------
    MissingTool
        When there is no Maven.
    HarnessError
        When Maven fails or the disk is too full.
    """
    root = _neo4j_root(cache)
    fetch(root, NEO4J_ASSEMBLIES, NEO4J_DISK_BYTES, progress)
    return root


def _neo4j_root(cache: Path | None) -> Path:
    digest = hashlib.sha256(servers.pom("neo4j")).hexdigest()[:16]
    return (cache or cache_folder()) / "servers" / f"neo4j-{digest}"


# -- InfluxDB -------------------------------------------------------------------------------------


def influxd(cache: Path | None = None) -> Path | None:
    """Return InfluxDB's server program, or None when it is not installed."""
    root = _influxdb_root(cache)
    return root / "influxd" if (root / MANIFEST).exists() else None


def influxdb_obstacle() -> Obstacle | None:
    """Return what keeps InfluxDB from being built here."""
    for tool, mend in BUILD_TOOLS.items():
        if shutil.which(tool) is None:
            return Obstacle(f"there is no {tool} on PATH", mend)
    return None


def install_influxdb(cache: Path | None = None, progress: Progress = quiet) -> Path:
    """Build InfluxDB unless it is there already, and return its server program.

    Raises
    ------
    MissingTool
        When a compiler is missing.
    HarnessError
        When a download is not what it should be, the build fails or the disk is too full; what was
        done is kept for the next try.
    """
    root = _influxdb_root(cache)
    if (root / MANIFEST).exists():
        return root / "influxd"
    if obstacle := influxdb_obstacle():
        raise MissingTool(f"InfluxDB cannot be built: {obstacle.reason}", obstacle.mend)
    root.parent.mkdir(parents=True, exist_ok=True)
    require_free(root.parent, INFLUXDB_DISK_BYTES)
    with only_one(root.parent / ".lock-influxdb"):
        if not (root / MANIFEST).exists():  # else another process built it while this one waited
            work = root.parent / f".build-{root.name}"
            build = _Build(work, root.parent / "influxdb.log", progress)
            _put_in_place(build.influxd(), root)
            shutil.rmtree(work, ignore_errors=True)
    return root / "influxd"


def _influxdb_root(cache: Path | None) -> Path:
    return (cache or cache_folder()) / "servers" / f"influxdb-{INFLUXDB_VERSION}"


def _put_in_place(program: Path, root: Path) -> None:
    partial = Path(mkdtemp(prefix=".partial-", dir=root.parent))
    try:
        shutil.copy2(program, partial / "influxd")
        entry = {
            "program": "influxd",
            "version": INFLUXDB_VERSION,
            "bytes": program.stat().st_size,
            "sha256": hashlib.sha256(program.read_bytes()).hexdigest(),
        }
        (partial / MANIFEST).write_text(json.dumps(entry, indent=1) + "\n")
        partial.chmod(0o755)
        partial.rename(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class _Build:
    """Builds InfluxDB in a work folder, step by step; a step that was done is not done again."""

    def __init__(self, work: Path, log: Path, progress: Progress) -> None:
        self.work = work
        self.log = log
        self.progress = progress
        work.mkdir(exist_ok=True)
        log.write_text("")
        flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()  # so that it can be removed again
        # the compilers' caches are of no use to anybody afterwards, and go with the work folder
        self._environment = {
            "GOFLAGS": flags,
            "GOMODCACHE": str(work / "go-modules"),
            "GOCACHE": str(work / "go-cache"),
            "CARGO_TARGET_DIR": str(work / "rust"),
            **FAST_BUILD,
        }

    def influxd(self) -> Path:
        """Return the program that was built."""
        source = self._source()
        library = self._libflux(source)
        self.progress("influxdb: compiling the server (Go)")
        program = self.work / "influxd"
        packages = _Counter(r"^[a-z][\w.]*(/|$)", "influxdb: {} Go packages compiled", 200, self.progress)
        flags = ("-v", "-trimpath", "-tags", TAGS, "-ldflags", f"-s -w -X main.version=v{INFLUXDB_VERSION}")
        self._run(
            ["go", "build", *flags, "-o", str(program), "./cmd/influxd"],
            source,
            packages,
            PKG_CONFIG_PATH=str(self._pkg_config(library)),
        )
        said = self._output([str(program), "version"], source)
        if INFLUXDB_VERSION not in said:
            raise self._failure(f"the program says {said.strip()!r} when asked for its version")
        return program

    def _source(self) -> Path:
        source = self.work / "influxdb"
        if not source.exists():
            self.progress(f"influxdb: fetching the source of version {INFLUXDB_VERSION}")
            module = self._module(f"{INFLUXDB_MODULE}@v{INFLUXDB_VERSION}", self.work)
            if module["Sum"] != INFLUXDB_SUM:
                raise self._failure(f"its source has the checksum {module['Sum']}, not {INFLUXDB_SUM}")
            _copy_whole(Path(module["Dir"]), source)
        return source

    def _libflux(self, source: Path) -> Path:
        """Build the Rust library of the query language, and return a folder with nothing else."""
        flux = self.work / "flux"
        if not flux.exists():
            self.progress("influxdb: fetching the source of its query language")
            # Go checks it against InfluxDB's go.sum
            _copy_whole(Path(self._module(FLUX_MODULE, source)["Dir"]), flux)
        # it names one old compiler, which need not be here
        (flux / "libflux" / "rust-toolchain.toml").unlink(missing_ok=True)
        (flux / "rust-toolchain.toml").unlink(missing_ok=True)
        self.progress("influxdb: compiling its query language (Rust)")
        crates = _Counter(r"^\s*Compiling ", "influxdb: {} crates compiled", 50, self.progress)
        features = ("--no-default-features", "--features", "cffi")
        command = ["cargo", "build", "--release", "--locked", "-p", "flux", *features]
        self._run(command, flux / "libflux", crates)
        library = self.work / "lib"
        library.mkdir(exist_ok=True)
        # alone: the linker would prefer the shared library beside it
        shutil.copy2(self.work / "rust" / "release" / "libflux.a", library / "libflux.a")
        return library

    def _pkg_config(self, library: Path) -> Path:
        """Write what Go's compiler asks ``pkg-config`` for, and return its folder."""
        include = self.work / "flux" / "libflux" / "include"
        (library / "flux.pc").write_text(
            "Name: flux\nDescription: query language of InfluxDB\nVersion: 0\n"
            f"Libs: -L{library} -lflux -ldl -lm\nCflags: -I{include}\n"
        )
        return library

    def _module(self, module: str, folder: Path) -> dict[str, Any]:
        answer = self._output(["go", "mod", "download", "-json", module], folder)
        found: dict[str, Any] = json.loads(answer)
        if "Error" in found:
            raise self._failure(str(found["Error"]))
        return found

    def _output(self, command: Sequence[str], folder: Path) -> str:
        done = subprocess.run(
            command, cwd=folder, env=self._env(), capture_output=True, text=True, check=False
        )
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n{done.stderr}\n")
        if done.returncode and not done.stdout.strip():
            raise self._failure(_cause(done.stderr.splitlines()))
        return done.stdout

    def _run(self, command: Sequence[str], folder: Path, counter: _Counter, **environment: str) -> None:
        lines: list[str] = []
        with (
            self.log.open("a") as log,
            subprocess.Popen(
                command,
                cwd=folder,
                env=self._env(**environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process,
        ):
            assert process.stdout is not None  # asked for above
            log.write(f"$ {' '.join(command)}\n")
            for line in process.stdout:
                log.write(line)
                lines.append(line)
                counter.see(line)
        if process.returncode:
            raise self._failure(_cause(lines))

    def _env(self, **more: str) -> dict[str, str]:
        return {**os.environ, **self._environment, **more}

    def _failure(self, cause: str) -> HarnessError:
        return HarnessError(f"InfluxDB could not be built: {cause}", "try again: it goes on", str(self.log))


class _Counter:
    """Tells of every so many lines that match."""

    def __init__(self, pattern: str, said: str, every: int, progress: Progress) -> None:
        self._pattern = re.compile(pattern)
        self._said = said
        self._every = every
        self._progress = progress
        self._count = 0

    def see(self, line: str) -> None:
        if self._pattern.match(line):
            self._count += 1
            if self._count % self._every == 0:
                self._progress(self._said.format(self._count))


def _copy_whole(source: Path, target: Path) -> None:
    """Copy a module, which may be read-only, to a folder that can be written to."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source, partial)
    for path in (partial, *partial.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    partial.rename(target)


def _cause(lines: Sequence[str]) -> str:
    """Return the line of a build's output that most likely says what went wrong."""
    told = [line.strip() for line in lines if line.strip()]
    errors = [line for line in told if re.match(r"(error|fatal|go: )|.*\berror:", line)]
    return (errors or told[-1:] or ["it said nothing"])[0]
