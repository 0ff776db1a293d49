"""Runs the jar's submitter, which captures the topology, instruments it and sends it to Nimbus."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from harness.errors import ClusterError, UsageError
from harness.machine.class_archive import class_archive
from harness.machine.java_environment import without_jvm_options
from harness.machine.servers import ServerHomes
from harness.plans import WindowKind
from harness.topologies.jar import MAIN_HEAP_MB

WAIT_S = 60.0
"""Longest time that the rest may take: a JVM's start, the upload of the jar, what Nimbus needs."""
BAD_SETTINGS = 2
MAIN = "harness.storm.submit.Submit"


class SubmitterWindow(BaseModel):
    """A window as its bolt declares it; one whose slide is above its length leaves tuples out."""

    model_config = ConfigDict(frozen=True)

    kind: WindowKind
    length: int
    slide: int


class SubmitterComponent(BaseModel):
    """A component of what main submitted; ``storms`` where Storm added it."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["spout", "bolt"]
    storms: bool
    executors: int
    tasks: int
    window: SubmitterWindow | None


class SubmitterDescription(BaseModel):
    """The topology that main submitted, before anything was changed.

    Attributes
    ----------
    components : mapping
        By name, Storm's own among them.
    streams : tuple of mapping
        Keys of ``Stream``; Storm's own checkpoints have groupings that no query plan has.
    settings, defaults : mapping
        The topology's own settings, and Storm's for topologies.
    """

    model_config = ConfigDict(frozen=True)

    components: Mapping[str, SubmitterComponent]
    streams: tuple[Mapping[str, str], ...]
    settings: Mapping[str, JsonValue]
    defaults: Mapping[str, JsonValue]


class SubmitterAnswer(BaseModel):
    """The answer of a submitter that ended well, as far as it is read here.

    Attributes
    ----------
    topology : str
        The name under which main submitted.
    unwrapped : mapping
        Components that are not instrumented, and why.
    description : SubmitterDescription
    """

    model_config = ConfigDict(frozen=True)

    topology: str
    unwrapped: Mapping[str, str]
    description: SubmitterDescription


def submit(
    homes: ServerHomes,
    submit_json: Path,
    *,
    instrumentation: Path,
    topology_jar: Path,
    hosts: Path | None,
    storm_conf: Path | None = None,
    heap_mb: int = MAIN_HEAP_MB,
) -> SubmitterAnswer:
    """Submit a topology and return the submitter's answer.

    Main runs in the folder of its jar, wherever the command was given. Its output is kept in ``submit.log``
    beside ``submit_json``; the answer comes in a file that ``submit_json`` names.

    Parameters
    ----------
    homes : ServerHomes
        Whose worker jars are the submitter's class path.
    submit_json : Path
        What to submit, where to and how it is instrumented.
    instrumentation, topology_jar : Path
        The wrappers' jar, and the jar whose main class builds the topology.
    hosts : Path, optional
        Hosts file of the cluster, for machines whose own name does not resolve.
    storm_conf : Path, optional
        Settings of Storm's by which Nimbus is reached, where it speaks TLS.
    heap_mb : int
        Heap of main.

    Raises
    ------
    UsageError
        When the settings or the jar are at fault.
    ClusterError
        When Nimbus refuses or is gone.
    """
    archive = class_archive(homes)
    settings = json.loads(submit_json.read_text())
    log, answer = submit_json.parent / "submit.log", Path(settings["answer"])
    answer.unlink(missing_ok=True)
    jar = topology_jar.resolve()
    command = [
        "java",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *((f"-XX:SharedArchiveFile={archive}",) if archive else ()),
        *((f"-Djdk.net.hosts.file={hosts}",) if hosts else ()),
        f"-Dstorm.jar={jar}",
        f"-Dstorm.conf.file={storm_conf or ''}",
        "-cp",
        # as in workers, and as the archive asks for: Storm's own jars first
        f"{homes.storm}/lib-worker/*:{instrumentation.resolve()}:{jar}",
        MAIN,
        os.path.abspath(submit_json),
    ]
    try:
        with log.open("wb") as said:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=settings["patience_s"] + WAIT_S,
                check=False,
                cwd=jar.parent,
                env=without_jvm_options(),
            )
    except subprocess.TimeoutExpired as late:
        message = f"submitting did not end within {late.timeout:g} s"
        raise ClusterError(message, "look at nimbus's log") from None
    found = _answer(answer)
    if done.returncode or "error" in found or not found:
        reason = found.get("error") or f"the submitter ended with status {done.returncode}: {_last_line(log)}"
        kind = UsageError if done.returncode == BAD_SETTINGS else ClusterError
        raise kind(f"submitting failed: {reason}", log=str(log))
    return SubmitterAnswer.model_validate(found)


def _answer(file: Path) -> dict[str, object]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
