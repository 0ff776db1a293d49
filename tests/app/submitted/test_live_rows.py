"""The last minutes of submitted topologies, read from servers that are away in one way or another."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from left_running import left_running

from harness.app.submitted.live_rows import LiveMetrics
from harness.errors import ClusterError


def test_a_store_that_is_slow_keeps_nobody_from_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server takes the question and says nothing; at the other's, the discard port, is nobody."""
    monkeypatch.setenv("INFLUXDB_TOKEN", "a token of nobody's")
    metrics = LiveMetrics()
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        slow = left_running(tmp_path, "slow", f"http://127.0.0.1:{silent.getsockname()[1]}")
        reading = pool.submit(metrics.rows, slow)
        silent.settimeout(60)
        taken, _ = silent.accept()
        with taken:
            with pytest.raises(ClusterError, match=r"influxdb at http://127\.0\.0\.1:9: "):
                metrics.rows(left_running(tmp_path, "away"))
            assert not reading.done()
        with pytest.raises(ClusterError):
            reading.result(60)
