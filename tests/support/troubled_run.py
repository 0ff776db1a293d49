"""Runs a two-step experiment into one trouble after another, inside a sandbox of its own.

    python troubled_run.py FOLDER TROUBLE...

Prints, as JSON, for each command how it ended, what it said, and the digests of the first step's files
after it. Each trouble comes in the second step; the trouble ``none`` is none.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
import waiting

from harness.machine import sandbox

WAIT_S = 300.0
until = partial(waiting.until, within_s=WAIT_S)
Ended = dict[str, object]
PORTS = (6700, 6701)
EXPERIMENT = """\
name: troubled
topology: {name: fields-to-fields, load_aware: false, tasks: 2, ackers: 1}
workload: {rate_tps: 50}
cluster: {nodes: 1, slots_per_node: 2}
measure:
  bucket_s: 1
  attempts: 1
  burn_in: {least_s: 1, most_s: 2, drift_pct: 90}
  interval: {least_s: 5, most_s: 5, looks: 1, precision_pct: 50}
steps:
  plan:
    - {executors: 1, workers: 1}
    - {executors: 2, workers: 2}
models: [no-change]
"""


def kill(main_class: str) -> None:
    """End a server as a crash would."""
    for process in psutil.process_iter(["cmdline"]):
        if main_class in (process.info["cmdline"] or []):
            os.kill(process.pid, signal.SIGKILL)
            return
    raise LookupError(main_class)


def kill_own(part: str) -> None:
    """End a process of the harness's own: it starts the receiver first, then the generator."""
    started = sorted(
        (p.create_time(), p.pid)
        for p in psutil.process_iter(["cmdline"])
        if "multiprocessing.spawn import spawn_main" in " ".join(p.info["cmdline"] or [])
    )
    receiver, generator = (pid for _, pid in started)
    os.kill({"receiver": receiver, "generator": generator}[part], signal.SIGKILL)


def kill_whole(run: subprocess.Popen[bytes]) -> None:
    """End the run itself, with the receiver of metrics in it; its own sandbox ends with it."""
    run.kill()
    until(lambda: not servers_left(), "its servers end")


def servers_left() -> list[list[str]]:
    """Return the commands of all that still run."""
    found = psutil.process_iter(["cmdline", "name"])
    return [p.info["cmdline"] for p in found if "java" in p.info["name"]]


class Trouble(NamedTuple):
    """What is done to a run, when it has said that this phase of its second step is there."""

    phase: str
    make: Callable[[subprocess.Popen[bytes]], None]
    own_sandbox: bool = False
    """As it has for a user; else the run is in this process's, where its ports can be taken."""


def listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Disk:
    """A file system of its own for the runs, whose size can be changed while it is in use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._mount("size=4g")

    def _mount(self, options: str) -> None:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "none", str(self.folder)],
            check=True,
        )

    def fill(self) -> None:
        """Leave room for a few pages only."""
        used = os.statvfs(self.folder)
        size = (used.f_blocks - used.f_bfree) * used.f_frsize + 4 * used.f_frsize
        self._mount(f"remount,size={size}")

    def free(self) -> None:
        self._mount("remount,size=4g")


def take_the_free_slot(taken: list[socket.socket]) -> None:
    """Take the port of the slot that the first step's only worker does not use."""
    until(lambda: any(listening(port) for port in PORTS), "a worker")
    (port,) = (p for p in PORTS if not listening(p))
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind(("0.0.0.0", port))
    other.listen()
    taken.append(other)


def carry_out(folder: Path, begun: list[str], name: str, step: str, trouble: Trouble) -> Ended:
    """Run the command, make trouble when its moment is there, and tell how it ended."""
    log, moment = folder / f"{name}.log", f"{step} {trouble.phase}"
    outside = {k: v for k, v in os.environ.items() if k != sandbox.MARK}
    with log.open("w") as out:
        harness = subprocess.Popen(
            [sys.executable, "-m", "harness", "run", *begun, "--json"],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=outside if trouble.own_sandbox else None,
        )
    until(lambda: moment in log.read_text() or harness.poll() is not None, f"{name}: {moment}")
    trouble.make(harness)
    harness.wait(WAIT_S)
    (run,) = folder.glob("disk/troubled/*")
    said = log.read_text()
    named = [word.rstrip(")") for word in said.split() if word.endswith(".log)")]
    return {
        "trouble": name,
        "status": harness.returncode,
        "said": said,
        "run": os.path.relpath(run, folder),
        "steps": sorted(os.listdir(run / "steps")),
        "first": {
            p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted((run / "steps/00").iterdir())
        },
        "logs": [path for path in named if (folder / path).is_file()],
        "left": servers_left(),
    }


def main() -> None:
    """Carry out the commands."""
    folder = Path(sys.argv[1])
    disk = Disk(folder / "disk")
    (folder / "troubled.yaml").write_text(EXPERIMENT)
    taken: list[socket.socket] = []
    begun = [str(folder / "troubled.yaml"), "--runs", str(disk.folder)]
    second = "step 2/2 spec-1/2x2@50"
    zookeeper = "org.apache.storm.shade.org.apache.zookeeper.server.quorum.QuorumPeerMain"
    troubles = {
        "kafka": Trouble("measure", lambda _: kill("kafka.Kafka")),
        "nimbus": Trouble("rebalance", lambda _: kill("org.apache.storm.daemon.nimbus.Nimbus")),
        "worker": Trouble("submit", lambda _: take_the_free_slot(taken)),
        "disk": Trouble("measure", lambda _: disk.fill()),
        "zookeeper": Trouble("measure", lambda _: kill(zookeeper)),
        "supervisor": Trouble("measure", lambda _: kill("org.apache.storm.daemon.supervisor.Supervisor")),
        "generator": Trouble("measure", lambda _: kill_own("generator")),
        "receiver": Trouble("measure", lambda _: kill_own("receiver")),
        "run": Trouble("measure", kill_whole, own_sandbox=True),
        "none": Trouble("measure", lambda _: None),
    }
    ended = []
    for name in sys.argv[2:]:
        ended.append(carry_out(folder, begun, name, second, troubles[name]))
        begun = ["--resume", str(folder / str(ended[0]["run"]))]
        disk.free()
        while taken:
            taken.pop().close()
    json.dump(ended, sys.stdout)


if __name__ == "__main__":
    main()
