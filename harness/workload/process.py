"""A worker process of the harness: commands in, results out, and it never outlives its parent.

Results go through a queue with a thread of its own in the child, so a parent that is busy holds
nobody up, and nothing that was handed over is lost when the child ends.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.queues import Queue
from typing import Any, NamedTuple

from harness.errors import ClusterError, HarnessError

START_TIMEOUT_S = 60.0


class Ready(NamedTuple):
    """The child has connected and takes commands."""


class Failed(NamedTuple):
    """The child gave up; it sends nothing after this."""

    message: str
    hint: str


class Inbox:
    """The child's side of the commands."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection

    def wait(self, timeout_s: float) -> bool:
        """Sleep until a command is there or the time is up, to the precision of the kernel's timer."""
        return bool(select.select([self._connection], [], [], max(timeout_s, 0.0))[0])

    def take(self) -> Any:
        """Return the next command; ends the process when the parent has hung up."""
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            os._exit(1)


Body = Callable[[Inbox, "Queue[Any]", Any], None]


class Process:
    """A child that runs ``body(inbox, results, settings)``, seen from the parent.

    Parameters
    ----------
    name : str
        Names it in errors.
    body : callable
        A module's function: it puts ``Ready()`` first, then its results, and returns when told to.
    settings : object
        Anything that can be pickled.
    """

    def __init__(self, name: str, body: Body, settings: Any) -> None:
        # A fresh interpreter: a fork would share the parent's threads' locks and its Kafka sockets.
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._results: Queue[Any] = context.Queue()
        theirs, self._commands = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_main, args=(body, theirs, self._results, settings), name=name, daemon=True
        )
        self._process.start()
        theirs.close()
        self._failure: Failed | None = None

    def wait_ready(self) -> None:
        """Wait until the child is ready.

        Raises
        ------
        ClusterError
            When it fails or does not answer.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not isinstance(self.result(deadline - time.monotonic()), Ready):
            if time.monotonic() >= deadline:
                raise ClusterError(f"{self.name} process: not ready within {START_TIMEOUT_S:g} s")

    def tell(self, command: Any) -> None:
        """Give the child a command."""
        try:
            self._commands.send(command)
        except OSError:
            self._raise_ended()

    def result(self, timeout_s: float = 0.0) -> Any | None:
        """Return the child's next result, or None when there is none in that time.

        Raises
        ------
        ClusterError
            When the child failed, or ended without being told to.
        """
        deadline = time.monotonic() + timeout_s
        while self._failure is None:
            try:
                result = self._results.get(timeout=min(0.2, max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                if not self._process.is_alive():
                    self._raise_ended()
                if time.monotonic() >= deadline:
                    return None
                continue
            if not isinstance(result, Failed):
                return result
            self._failure = result
        raise ClusterError(f"{self.name}: {self._failure.message}", self._failure.hint)

    def _raise_ended(self) -> None:
        self._process.join(1.0)
        # What it said last may still be on its way through the queue.
        try:
            while True:
                result = self._results.get(timeout=0.2)
                if isinstance(result, Failed):
                    raise ClusterError(f"{self.name}: {result.message}", result.hint)
        except queue.Empty:
            raise ClusterError(f"{self.name} process ended (exit status {self._process.exitcode})") from None

    @property
    def pid(self) -> int:
        """Its process identifier."""
        assert self._process.pid is not None
        return self._process.pid

    def end(self) -> None:
        """End the child, whatever it is doing; what it has not handed over is dropped."""
        self._commands.close()
        self._process.join(2.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._results.close()
        self._results.cancel_join_thread()


def _main(body: Body, commands: Connection[Any, Any], results: Queue[Any], settings: Any) -> None:
    # Ctrl-C goes to the whole terminal; it is the parent that decides what becomes of the workload.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        body(Inbox(commands), results, settings)
    except HarnessError as e:
        results.put(Failed(e.message, e.hint))
    except Exception as e:  # the parent reports it: a child has nobody to print to
        results.put(Failed(f"{type(e).__name__}: {e}", ""))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
