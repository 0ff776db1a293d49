"""Faults on a cluster of this machine: processes of its parts are found, killed, stopped and made to go on.

A cluster's processes are told from those of another by their file of hosts, and from each other by the names
that Storm gives to its daemons and workers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil

from harness.backends import worker_clocks
from harness.errors import ClusterError
from harness.experiments.step_faults import Fault
from harness.machine.keeper import kept
from harness.plans import WorkerNode

WORKER = "org.apache.storm.daemon.worker.Worker"
DAEMONS = {"broker": "kafka", "nimbus": "nimbus", "zookeeper": "zookeeper"}
"""The names under which a local cluster starts its servers; a supervisor's is its node's."""

Commands = Iterable[tuple[int, Sequence[str]]]
"""Processes, each with the words of its command line."""


class LocalFaults:
    """Makes faults on a cluster of this machine (a ``harness.experiments.step_faults.FaultMaker``).

    Parameters
    ----------
    hosts : Path
        The cluster's file of hosts, which all of its Java programs are started with.
    nodes : sequence of WorkerNode
    own : mapping of str to int
        Processes of the harness itself by what they are: ``generator``, ``receiver``.
    clocks : mapping of str to Path
        Folder of each node that moves its workers' clocks (``harness.backends.worker_clocks``).

    Examples
    --------
    >>> faults = LocalFaults(cluster.hosts, cluster.nodes)  # doctest: +SKIP
    >>> with faults.made(Fault(at_s=0, stop="broker", for_s=10)) as done:  # doctest: +SKIP
    ...     wait()
    """

    def __init__(
        self,
        hosts: Path,
        nodes: Sequence[WorkerNode],
        own: Mapping[str, int] | None = None,
        clocks: Mapping[str, Path] | None = None,
    ) -> None:
        self._hosts = f"-Djdk.net.hosts.file={hosts}"
        self._slots = {node.name: node.slots for node in nodes}
        self._own = dict(own or {})
        self._clocks = dict(clocks or {})

    def made(self, fault: Fault) -> AbstractContextManager[str]:
        """Make a fault for a block, and give what was done to what."""
        if fault.skew_clock:
            return clock_moved(fault, self._clocks[fault.skew_clock], self._workers(fault.skew_clock))
        return done_to(fault, self.find(fault))

    def find(self, fault: Fault) -> int:
        """Return the process that a fault is for.

        Raises
        ------
        ClusterError
            When there is none.
        """
        if fault.part in self._own:
            return self._own[fault.part]
        if fault.part == "worker":
            return first(fault, self._workers(fault.node or ""))
        name = f"-Ddaemon.name={DAEMONS.get(fault.part or '', fault.node)}"
        return first(fault, (pid for pid, command in self._commands() if name in command))

    def _workers(self, node: str) -> list[int]:
        return workers(self._commands(), self._slots.get(node, ()))

    def _commands(self) -> Commands:
        processes = psutil.process_iter(["cmdline"])
        commands = [(p.pid, p.info["cmdline"] or []) for p in processes]
        return [(pid, command) for pid, command in commands if self._hosts in command]


def workers(commands: Commands, slots: Sequence[int]) -> list[int]:
    """Return the workers in some slots, by port."""
    by_port = {f"-Dworker.port={port}": port for port in slots}
    found = [
        (by_port[option], pid)
        for pid, command in commands
        if WORKER in command and "-Dlogfile.name=worker.log" in command
        for option in command
        if option in by_port
    ]
    return [pid for _, pid in sorted(found)]


def first(fault: Fault, found: Iterable[int]) -> int:
    """Return the first process that was found for a fault.

    Raises
    ------
    ClusterError
        When there is none.
    """
    pid = next(iter(found), None)
    if pid is None:
        raise ClusterError(f"{fault.what}: there is no such process")
    return pid


@contextmanager
def clock_moved(fault: Fault, folder: Path, pids: Sequence[int]) -> Iterator[str]:
    """Move the time of day of a node's workers while the block lasts; give what was done in words.

    Raises
    ------
    ClusterError
        When there are none, or one was started with a clock that cannot be moved.
    """
    first(fault, pids)
    for pid in pids:
        if worker_clocks.LIBRARY not in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"):
            raise ClusterError(f"{fault.what}: process {pid} was started with a clock that cannot be moved")
    with worker_clocks.moved(folder, fault.by_s or 0):
        yield f"{fault.what} (process {', '.join(map(str, pids))})"


@contextmanager
def done_to(fault: Fault, pid: int) -> Iterator[str]:
    """Kill a process, or keep it stopped while the block lasts; give what was done in words.

    Raises
    ------
    ClusterError
        When it cannot be stopped.
    ProcessLookupError
        When it has ended already.
    """
    done = f"{fault.what} (process {pid})"
    if fault.kill:
        os.kill(pid, signal.SIGKILL)
        yield done
        return
    with kept('kill -STOP "$1"', 'kill -CONT "$1"', str(pid), otherwise=f"{done}: it cannot be stopped"):
        yield done
