"""A Nimbus that sends what a real one sent (``tests/storm/nimbus-2.8.3/README.md``)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.storm.nimbus import Nimbus

ANSWERS = Path(__file__).parents[1] / "storm" / "nimbus-2.8.3"


@contextmanager
def nimbus_that_sends(answer: bytes, *, busy_for: int = 0) -> Iterator[Nimbus]:
    """A client whose server sends these bytes to whoever asks anything, then hangs up.

    As many questions as ``busy_for`` says wait for an answer until their client gives up.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(busy_for):
                connection, _ = server.accept()
                with connection:
                    while connection.recv(65536):
                        pass
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Nimbus("127.0.0.1", server.getsockname()[1])
        thread.join(30)
