"""Bodies that do not say their length."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.types import Message

from harness.service.application import create_application
from harness.service.guarding import MOST_BYTES


def test_a_body_without_an_end_is_read_to_the_limit_only(tmp_path: Path) -> None:
    """It comes in chunks of 64 KiB; the one that is above the limit is the last that is taken."""
    application = create_application([tmp_path], submitted=tmp_path / "submitted")
    chunk, chunks = b" " * (1 << 16), 0
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal chunks
        chunks += 1
        assert chunks <= MOST_BYTES // len(chunk) + 1
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    path = "/model/topology/storm/proposed/any"
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asyncio.run(application(scope, receive, send))
    start, body = sent
    assert start["status"] == 413
    assert f"a body of more than {MOST_BYTES} bytes" in body["body"].decode()
