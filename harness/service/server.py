"""Serving the application on loopback until a signal says to end, with nothing left open."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from harness.errors import UsageError

HOST = "127.0.0.1"
NICENESS = 10
"""Below generator, receiver and servers of a run on the same cores."""
CLOSING_S = 3
"""For answers that are being computed when the service is asked to end."""
LEAVING_S = 0.5
"""For threads that have nothing more to do."""


class LoopbackServer(uvicorn.Server):
    """A server that ends at once when a signal asks: it ends the streams of events first.

    Parameters
    ----------
    application : FastAPI
    ready : callable
        Called once requests are taken.
    """

    def __init__(self, application: FastAPI, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=CLOSING_S)
        )
        self._application = application
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take requests from now on, and load the model meanwhile."""
        await super().startup(sockets)
        self._ready()
        self._application.state.model.start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, as a signal asks; a second one asks nothing more. None is raised again afterwards.

        uvicorn would leave the application as it is at a second one, with a traceback for its lifespan.
        """
        del sig, frame
        self._application.state.stopping = True
        self._application.state.jobs.interrupt()
        self.should_exit = True


def listen(port: int) -> socket.socket:
    """Return a socket that listens on loopback; port 0 takes a free one.

    Raises
    ------
    UsageError
        When the port is taken, or may not be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise UsageError(f"port {port}: {error.strerror}", "give another with --port") from None
    return listening


def serve(application: FastAPI, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, giving way to whatever is measured on this machine."""
    os.nice(NICENESS)
    server = LoopbackServer(application, ready)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which is how nohup starts it
        signal.signal(signal.SIGHUP, server.handle_exit)
    server.run(sockets=[listening])


def leave() -> None:
    """End this process without waiting for what nobody waits for any more; to be called last.

    Neither a computation nor the loading of a model can be told to stop, and Python joins their threads.
    """
    limit = time.monotonic() + LEAVING_S
    for thread in threading.enumerate():
        if thread.daemon or thread is threading.current_thread():
            continue
        thread.join(max(0.0, limit - time.monotonic()))
        if thread.is_alive():
            sys.stderr.flush()
            os._exit(0)
