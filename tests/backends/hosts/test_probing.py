"""Lines of the probes as rows of metrics; the examples are what their program writes (infra/ansible)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.backends.hosts.probing import LOG, reader, rows
from harness.schemas import METRICS

LINES = """\
round_trip,source=node-1,target=control ms=0.058 1700000010000000000
round_trip,source=node-1,target=node-2 ms=0.043 1700000010000000000
round_trip,source=node-1,target=node-2 lost=1i 1700000010020000000
fping: something else
round_trip,source=node-1,target=node-2 ms=0.051 1700000020000000000
round_trip,source=node-1,target=no"""
"""The last line is not whole yet."""


def test_rows_are_those_between_worker_nodes() -> None:
    whole = "".join(line for line in LINES.splitlines(keepends=True) if line.startswith("round_trip"))
    found = rows(whole.rpartition("\n")[0], {"node-1", "node-2"})
    assert found.schema == METRICS
    same = {"measurement": "round_trip", "component": "", "task": -1, "worker": "", "stream": "node-1"}
    assert found.to_pylist() == [
        {"bucket_end_ms": at, **same, "peer": "node-2", "field": field, "value": value}
        for at, field, value in (
            (1700000010000, "rtt_ms", 0.043),
            (1700000010020, "lost", 1.0),
            (1700000020000, "rtt_ms", 0.051),
        )
    ]
    assert rows("", {"node-1"}).schema == METRICS


def test_a_line_that_is_no_probes_is_passed_over_and_told(caplog: pytest.LogCaptureFixture) -> None:
    """A write that found the disk full ended early, and the next went on in the same line."""
    first, *_, last = (line for line in LINES.splitlines()[1:5] if line.startswith("round_trip"))
    torn = f"{first[:40]}{last}"
    assert torn.startswith("round_trip,")
    nodes = {"node-1", "node-2"}
    said = f"{first}\n{torn}\n{last} 7\ncpu,host=a use=1 3\n\ufffd\n{last}\n"
    assert rows(said, nodes).equals(rows(f"{first}\n{last}\n", nodes))
    assert rows(said, nodes).num_rows == 2
    assert "4 lines are none of the probes'" in caplog.text


@pytest.mark.skipif(shutil.which("awk") is None, reason="there is no awk here")
def test_a_host_gives_the_whole_lines_of_a_span(tmp_path: Path) -> None:
    log = tmp_path / "probes.log"
    log.write_text(LINES)
    command = reader(1700000010000, 1700000020000).replace("sudo ", "").replace(LOG, str(log))
    said = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [LINES.splitlines()[i] for i in (2, 4)]  # after the one, up to the other
