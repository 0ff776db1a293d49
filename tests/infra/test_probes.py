"""The probes' program reads fping's own output; the examples are fping 5.1's."""

from __future__ import annotations

import runpy
from pathlib import Path

PROBES = Path(__file__).resolve().parents[2] / "infra/ansible/roles/probes/files/probes.py"
OUTPUT = """\
10.97.0.12 : 0.058 0.043 -
10.97.0.13 : - - -
ICMP Host Unreachable from 10.97.0.11 for ICMP Echo sent to 10.97.0.13
"""


def test_a_line_a_packet_every_20_ms() -> None:
    lines = runpy.run_path(str(PROBES))["lines"]
    assert lines("control", {"10.97.0.12": "node-1", "10.97.0.13": "node-2"}, OUTPUT, 1_000) == [
        "round_trip,source=control,target=node-1 ms=0.058 1000",
        "round_trip,source=control,target=node-1 ms=0.043 20001000",
        "round_trip,source=control,target=node-1 lost=1i 40001000",
        "round_trip,source=control,target=node-2 lost=1i 1000",
        "round_trip,source=control,target=node-2 lost=1i 20001000",
        "round_trip,source=control,target=node-2 lost=1i 40001000",
    ]
