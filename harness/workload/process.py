"""A worker process of the harness: commands in, results out, and it never outlives its parent.

Results leave the child through a thread of its own, and a thread of the parent takes them. So a busy parent
holds nobody up and finds everything at its next look, even more than a pipe holds. Nothing that was handed
over is lost when the child ends.

The pipes are plain. A queue of the standard library between processes would leave named semaphores behind
when everything is killed at once.
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
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import NamedTuple, TypeVar

from harness.errors import ClusterError, HarnessError
from harness.machine.short_turns import ask_for_short_turns

START_TIMEOUT_S = 60.0


class Ready(NamedTuple):
    """The child has connected and takes commands."""


class Failed(NamedTuple):
    """The child gave up; it sends nothing after this."""

    message: str
    hint: str


class Inbox:
    """The child's side of the commands."""

    def __init__(self, connection: Connection[object, object]) -> None:
        self._connection = connection

    def wait(self, timeout_s: float) -> bool:
        """Sleep until a command is there or the time is up, to the precision of the kernel's timer."""
        return bool(select.select([self._connection], [], [], max(timeout_s, 0.0))[0])

    def take(self) -> object:
        """Return the next command; ends the process when the parent has hung up."""
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            os._exit(1)


class Outbox:
    """The child's side of the results."""

    def __init__(self, connection: Connection[object, object]) -> None:
        self._connection = connection
        self._waiting: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._deliver, daemon=True)
        self._thread.start()

    def put(self, result: object) -> None:
        """Hand over a result; never waits."""
        self._waiting.put(result)

    def close(self) -> None:
        """Wait until the parent has taken everything."""
        self._waiting.put(_END)
        self._thread.join()

    def _deliver(self) -> None:
        with suppress(OSError):  # the parent has gone: this process is about to end
            while (result := self._waiting.get()) is not _END:
                self._connection.send(result)


_END = object()

Settings = TypeVar("Settings")


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

    def __init__(
        self, name: str, body: Callable[[Inbox, Outbox, Settings], None], settings: Settings
    ) -> None:
        # A fresh interpreter: a fork would share the parent's threads' locks and its Kafka sockets.
        context = multiprocessing.get_context("spawn")
        self.name = name
        their_commands, self._commands = context.Pipe(duplex=False)
        self._results, their_results = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_main, args=(body, their_commands, their_results, settings), name=name, daemon=True
        )
        self._process.start()
        their_commands.close()
        their_results.close()
        self._taken: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._taker = threading.Thread(target=self._take, name=f"{name} results", daemon=True)
        self._taker.start()
        self._failure: ClusterError | None = None

    def _take(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._taken.put(self._results.recv())
        self._taken.put(_END)

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

    def tell(self, command: object) -> None:
        """Give the child a command; one that has ended says so at the next result."""
        with suppress(OSError):
            self._commands.send(command)

    def result(self, timeout_s: float = 0.0) -> object | None:
        """Return the child's next result, or None if none comes in that time.

        Raises
        ------
        ClusterError
            When the child failed, or ended without being told to.
        """
        if self._failure is None:
            try:
                result = self._taken.get(timeout=max(timeout_s, 0.0))
            except queue.Empty:
                return None
            if isinstance(result, Failed):
                self._failure = ClusterError(f"{self.name}: {result.message}", result.hint)
            elif result is _END:
                self._process.join(5.0)
                self._failure = ClusterError(
                    f"{self.name} process ended (exit status {self._process.exitcode})"
                )
            else:
                return result
        raise self._failure

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
        self._taker.join()
        self._results.close()


def _main(
    body: Callable[[Inbox, Outbox, Settings], None],
    commands: Connection[object, object],
    results: Connection[object, object],
    settings: Settings,
) -> None:
    # Ctrl-C goes to the whole terminal; it is the parent that decides what becomes of the workload.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ask_for_short_turns()  # before it has other threads: they ask for the same
    threading.Thread(target=_end_with_parent, daemon=True).start()
    outbox = Outbox(results)
    failure: Exception | None = None
    try:
        body(Inbox(commands), outbox, settings)
    except Exception as e:  # the parent reports it: a child has nobody to print to
        failure = e
    if isinstance(failure, HarnessError):
        outbox.put(Failed(failure.message, failure.hint))
    elif failure is not None:
        outbox.put(Failed(f"{type(failure).__name__}: {failure}", ""))
    outbox.close()
    # At once, while the failure still holds its frames: the Kafka client's destructor would wait for
    # a broker that may be gone.
    os._exit(failure is not None)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
