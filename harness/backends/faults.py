"""Faults on a cluster of this machine: processes of its parts are found, killed, stopped and made to go on.

A cluster's processes are told from those of another by their file of hosts, and from each other by the names
that Storm gives to its daemons and workers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import psutil

from harness.errors import ClusterError
from harness.experiments.step_faults import Fault
from harness.plans import WorkerNode

WORKER = "org.apache.storm.daemon.worker.Worker"
DAEMONS = {"broker": "kafka", "nimbus": "nimbus", "zookeeper": "zookeeper"}
"""The names under which a local cluster starts its servers; a supervisor's is its node's."""


class LocalFaults:
    """Makes faults on a cluster of this machine (a ``harness.experiments.step_faults.FaultMaker``).

    Parameters
    ----------
    hosts : Path
        The cluster's file of hosts, which all of its Java programs are started with.
    nodes : sequence of WorkerNode
    own : mapping of str to int
        Processes of the harness itself by what they are: ``generator``, ``receiver``.

    Examples
    --------
    >>> faults = LocalFaults(cluster.hosts, cluster.nodes)  # doctest: +SKIP
    >>> done, go_on = faults.make(Fault(at_s=0, stop="broker", for_s=10))  # doctest: +SKIP
    """

    def __init__(
        self, hosts: Path, nodes: Sequence[WorkerNode], own: Mapping[str, int] | None = None
    ) -> None:
        self._hosts = f"-Djdk.net.hosts.file={hosts}"
        self._slots = {node.name: node.slots for node in nodes}
        self._own = dict(own or {})

    def make(self, fault: Fault) -> tuple[str, Callable[[], None]]:
        """Make a fault; return what was done to which process, and what ends it."""
        pid = self.find(fault)
        os.kill(pid, signal.SIGKILL if fault.kill else signal.SIGSTOP)
        return f"{fault.what} (process {pid})", partial(os.kill, pid, signal.SIGCONT)

    def find(self, fault: Fault) -> int:
        """Return the process that a fault is for.

        Raises
        ------
        ClusterError
            When there is none.
        """
        if fault.part in self._own:
            return self._own[fault.part]
        found = self._workers(fault) if fault.part == "worker" else self._daemons(fault)
        if not found:
            raise ClusterError(f"{fault.what}: there is no such process")
        return found[0]

    def _daemons(self, fault: Fault) -> list[int]:
        name = f"-Ddaemon.name={DAEMONS.get(fault.part, fault.node)}"
        return [pid for pid, command in self._commands() if name in command]

    def _workers(self, fault: Fault) -> list[int]:
        """Return the workers of a fault's node, by port."""
        slots = self._slots.get(fault.node or "", ())
        by_port = {f"-Dworker.port={port}": port for port in slots}
        found = [
            (by_port[option], pid)
            for pid, command in self._commands()
            if WORKER in command and "-Dlogfile.name=worker.log" in command
            for option in command
            if option in by_port
        ]
        return [pid for _, pid in sorted(found)]

    def _commands(self) -> list[tuple[int, list[str]]]:
        processes = psutil.process_iter(["cmdline"])
        commands = [(p.pid, p.info["cmdline"] or []) for p in processes]
        return [(pid, command) for pid, command in commands if self._hosts in command]
