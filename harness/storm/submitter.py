"""Runs the jar's submitter, which captures the topology, instruments it and sends it to Nimbus."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import ClusterError, UsageError
from harness.machine.class_archive import class_archive
from harness.machine.servers import ServerHomes

TIMEOUT_S = 120.0
BAD_SETTINGS = 2
MAIN = "harness.storm.submit.Submit"


def submit(
    homes: ServerHomes, submit_json: Path, *, instrumentation: Path, topology_jar: Path, hosts: Path | None
) -> dict[str, Any]:
    """Submit a topology and return what became of its components.

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

    Returns
    -------
    dict
        ``topology``, ``wrapped`` (components), ``unwrapped`` (component: reason), ``batched``
        (``component:stream``), ``unbatched`` (with the reason) and ``description`` (what main submitted,
        before anything was changed).

    Raises
    ------
    UsageError
        When the settings or the jar are at fault.
    ClusterError
        When Nimbus refuses or is gone.
    """
    archive = class_archive(homes)
    command = [
        "java",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *((f"-XX:SharedArchiveFile={archive}",) if archive else ()),
        *((f"-Djdk.net.hosts.file={hosts}",) if hosts else ()),
        f"-Dstorm.jar={topology_jar}",
        "-Dstorm.conf.file=",
        "-cp",
        # as in workers, and as the archive asks for: Storm's own jars first
        f"{homes.storm}/lib-worker/*:{instrumentation}:{topology_jar}",
        MAIN,
        str(submit_json),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"submitting did not end within {TIMEOUT_S:g} s", "look at nimbus's log") from None
    log = submit_json.parent / "submit.log"
    log.write_text(done.stdout + done.stderr)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        kind = UsageError if done.returncode == BAD_SETTINGS else ClusterError
        raise kind(f"submitting failed: {reason}", log=str(log))
    if (found := answer(done.stdout)) is None:
        raise ClusterError("the submitter ended without saying what it submitted", log=str(log))
    return found


def answer(said: str) -> dict[str, Any] | None:
    r"""Return the submitter's answer among what it and main said; a shutdown hook of main's may speak last.

    Examples
    --------
    >>> answer('{"topology": "t", "description": {}}\nKilled Topology')
    {'topology': 't', 'description': {}}
    """
    for line in reversed(said.splitlines()):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "description" in found:
                return found
    return None
