"""Builds InfluxDB's server, which is in no package registry, from its source, which is.

The Go module is compiled here with the Rust library of its query language. The module is pinned by its
checksum, and that pins everything else: its ``go.sum`` the other Go modules, the query language among
them, whose ``Cargo.lock`` pins the crates.

A build that was interrupted goes on where it was: sources and compilers' caches stay in a work folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from harness.errors import HarnessError

VERSION = "2.7.12"
MODULE = "github.com/influxdata/influxdb/v2"
MODULE_SUM = "h1:m25dUSO7h6nm3zFC4v/aCNeFFmnN/mlN/uPo1T63bmk="
FLUX_MODULE = "github.com/influxdata/flux"
DISK_BYTES = 5_000_000_000
"""Sources, crates and the compilers' caches; the binary that stays has 95 MB."""
TOOLS: Mapping[str, str] = {
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
}
TAGS = "sqlite_foreign_keys,sqlite_json"

Progress = Callable[[str], None]


class GoModule(TypedDict, total=False):
    """A line of ``go mod download -json``: a module's checksum and folder, or an error."""

    Sum: str
    Dir: str
    Error: str


class Build:
    """Builds InfluxDB in a work folder, step by step; a step that was done is not done again.

    Parameters
    ----------
    work : Path
        The work folder, made when it is not there.
    log : Path
        File that takes what the compilers say.
    progress : callable
        Told what is being done, in short lines.
    """

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
        """Return the program that was built.

        Raises
        ------
        HarnessError
            When the source is not the pinned one, or a compiler fails.
        """
        source = self._source()
        library = self._libflux(source)
        self.progress("influxdb: compiling the server (Go)")
        program = self.work / "influxd"
        packages = _Counter(r"^[a-z][\w.]*(/|$)", "influxdb: {} Go packages compiled", 200, self.progress)
        flags = ("-v", "-trimpath", "-tags", TAGS, "-ldflags", f"-s -w -X main.version=v{VERSION}")
        self._run(
            ["go", "build", *flags, "-o", str(program), "./cmd/influxd"],
            source,
            packages,
            PKG_CONFIG_PATH=str(self._pkg_config(library)),
        )
        said = self._output([str(program), "version"], source)
        if VERSION not in said:
            raise self._failure(f"the program says {said.strip()!r} when asked for its version")
        return program

    def _source(self) -> Path:
        source = self.work / "influxdb"
        if not source.exists():
            self.progress(f"influxdb: fetching the source of version {VERSION}")
            module = self._module(f"{MODULE}@v{VERSION}", self.work)
            if module["Sum"] != MODULE_SUM:
                raise self._failure(f"its source has the checksum {module['Sum']}, not {MODULE_SUM}")
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

    def _module(self, module: str, folder: Path) -> GoModule:
        answer = self._output(["go", "mod", "download", "-json", module], folder)
        found: GoModule = json.loads(answer)
        if "Error" in found:
            raise self._failure(found["Error"])
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
