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
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

WAIT_S = 300.0
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


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


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


def carry_out(folder: Path, begun: list[str], name: str, moment: str, trouble: Callable[[], None]) -> Ended:
    """Run the command, make trouble when it has said that the moment is there, and tell how it ended."""
    log = folder / f"{name}.log"
    with log.open("w") as out:
        harness = subprocess.Popen(
            [sys.executable, "-m", "harness", "run", *begun, "--json"],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    until(lambda: moment in log.read_text() or harness.poll() is not None, f"{name}: {moment}")
    trouble()
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
        "left": [
            p.info["cmdline"] for p in psutil.process_iter(["cmdline", "name"]) if "java" in p.info["name"]
        ],
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
    troubles: dict[str, tuple[str, Callable[[], None]]] = {
        "kafka": ("measure", lambda: kill("kafka.Kafka")),
        "nimbus": ("rebalance", lambda: kill("org.apache.storm.daemon.nimbus.Nimbus")),
        "worker": ("submit", lambda: take_the_free_slot(taken)),
        "disk": ("measure", disk.fill),
        "zookeeper": ("measure", lambda: kill(zookeeper)),
        "supervisor": ("measure", lambda: kill("org.apache.storm.daemon.supervisor.Supervisor")),
        "generator": ("measure", lambda: kill_own("generator")),
        "receiver": ("measure", lambda: kill_own("receiver")),
        "none": ("measure", lambda: None),
    }
    ended = []
    for name in sys.argv[2:]:
        phase, trouble = troubles[name]
        ended.append(carry_out(folder, begun, name, f"{second} {phase}", trouble))
        begun = ["--resume", str(folder / str(ended[0]["run"]))]
        disk.free()
        while taken:
            taken.pop().close()
    json.dump(ended, sys.stdout)


if __name__ == "__main__":
    main()
