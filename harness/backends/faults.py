"""Faults on a cluster of this machine: processes of its parts are found, killed, stopped and made to go on.

A cluster's processes are told from those of another by their file of hosts, and from each other by the names
that Storm gives to its daemons and workers.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil

from harness.errors import ClusterError
from harness.experiments.step_faults import Fault
from harness.plans import WorkerNode

WORKER = "org.apache.storm.daemon.worker.Worker"
DAEMONS = {"broker": "kafka", "nimbus": "nimbus", "zookeeper": "zookeeper"}
"""The names under which a local cluster starts its servers; a supervisor's is its node's."""
KEEPER = 'kill -STOP "$1" && echo stopped && cat > /dev/null; kill -CONT "$1"'
"""Stops a process until its own standard input ends: so what is stopped goes on, however who asked ends."""

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

    Examples
    --------
    >>> faults = LocalFaults(cluster.hosts, cluster.nodes)  # doctest: +SKIP
    >>> with faults.made(Fault(at_s=0, stop="broker", for_s=10)) as done:  # doctest: +SKIP
    ...     wait()
    """

    def __init__(
        self, hosts: Path, nodes: Sequence[WorkerNode], own: Mapping[str, int] | None = None
    ) -> None:
        self._hosts = f"-Djdk.net.hosts.file={hosts}"
        self._slots = {node.name: node.slots for node in nodes}
        self._own = dict(own or {})

    def made(self, fault: Fault) -> AbstractContextManager[str]:
        """Make a fault for a block, and give what was done to which process."""
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
            return first(fault, workers(self._commands(), self._slots.get(fault.node or "", ())))
        name = f"-Ddaemon.name={DAEMONS.get(fault.part or '', fault.node)}"
        return first(fault, (pid for pid, command in self._commands() if name in command))

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
    with subprocess.Popen(
        ["sh", "-c", KEEPER, "sh", str(pid)],
        stdin=subprocess.PIPE,  # the keeper ends with it: when the block ends, or this process
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # what ends who asks must not end it in the middle
    ) as keeper:
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        if keeper.stdout.readline() != "stopped\n":
            raise ClusterError(f"{done}: it cannot be stopped: {keeper.stderr.readline().strip()}")
        yield done
