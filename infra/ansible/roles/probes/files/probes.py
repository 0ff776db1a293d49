"""Round-trip times from this host to the others with fping (thesis 4.11), as InfluxDB line protocol.

    probes.py HOST PERIOD_S PACKETS NAME=ADDRESS...

A line a packet: ``round_trip,source=HOST,target=NAME ms=0.043 TIME`` or, where none came back, ``lost=1i``.
Lines go to standard output, which is the service's log.
"""

from __future__ import annotations

import subprocess
import sys
import time

APART_MS = 20
"""Between two packets to a host: no more than what a probing of thousands of hosts would be."""
WAITED_MS = 1000
"""For a packet: fping alone counts one as lost that takes longer than the next one waits."""


def lines(source: str, names: dict[str, str], output: str, began_ns: int) -> list[str]:
    """Return the lines for fping's own, ``ADDRESS : 0.05 - 0.04``, a number or a dash a packet.

    Each packet has about the time at which it was sent.
    """
    found = []
    for line in output.splitlines():
        target, colon, times = line.partition(" : ")
        if not colon or target.strip() not in names:
            continue
        tags = f"round_trip,source={source},target={names[target.strip()]}"
        for i, value in enumerate(times.split()):
            field = "lost=1i" if value == "-" else f"ms={float(value)}"
            found.append(f"{tags} {field} {began_ns + i * APART_MS * 1_000_000}")
    return found


def main(source: str, period_s: float, packets: int, targets: list[str]) -> None:
    """Probe until the process is ended."""
    names = {address: name for name, address in (t.split("=") for t in targets)}
    while True:
        began, began_ns = time.monotonic(), time.time_ns()
        command = ["fping", "-q", "-C", str(packets), "-p", str(APART_MS), "-t", str(WAITED_MS), *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print("\n".join(lines(source, names, done.stderr, began_ns)))
        time.sleep(max(0.0, period_s - (time.monotonic() - began)))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
