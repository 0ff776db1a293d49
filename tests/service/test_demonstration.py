"""The simulated run beside the runs that there are: live, in a process that ends with the service."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest
from harness_command import started
from served import Served


@pytest.mark.deep
def test_the_demonstration_plays_live_and_leaves_nothing(served: Served) -> None:
    process, url = started("--demo", "--runs", str(served.runs))
    try:
        limit = time.monotonic() + 120
        address = None
        while address is None and time.monotonic() < limit:
            address = re.search(r'href="(runs/quick/[^"]*)"', httpx.get(f"{url}/", timeout=60).text)
        assert address
        with httpx.stream("GET", f"{url}/{address[1]}/events", timeout=120) as stream:
            assert any('"phase":"burn-in"' in line for line in stream.iter_lines())
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        assert not [pid for pid in children if os.path.exists(f"/proc/{pid}")]
    finally:
        process.kill()
