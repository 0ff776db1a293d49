"""Round trips that the probes of provisioned hosts saw, as rows of ``metrics.parquet``.

Each host keeps the lines of its own probes (``infra/ansible/roles/probes``). They are read after an interval,
not sent in it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

import pyarrow as pa
from line_protocol_parser import LineFormatError, parse_line

from harness.schemas import METRICS, Metric, MetricField

log = logging.getLogger(__name__)

LOG = "/var/log/harness/probes.log"
FIELDS = {"ms": MetricField.RTT_MS, MetricField.LOST: MetricField.LOST}
"""Fields of a line, and what they are called in ``metrics.parquet``."""
NO_TASK = -1


def reader(since_ms: int, until_ms: int) -> str:
    """Return the command by which a host gives its lines of a span of time."""
    span = f"$3 > {since_ms}000000 && $3 <= {until_ms}000000"
    return f"sudo awk '/^round_trip,/ && {span}' {LOG}"


def rows(said: str, nodes: Collection[str]) -> pa.Table:
    """Return the round trips between worker nodes (schema ``METRICS``), in the order of the lines.

    Text that is no line of the probes is passed over, which the log says: a host whose disk was full has
    parts of lines.

    Examples
    --------
    >>> line = "round_trip,source=node-1,target=node-2 ms=0.25 1700000000000000000"
    >>> rows(line, {"node-1", "node-2"}).select(["stream", "peer", "field", "value"]).to_pylist()
    [{'stream': 'node-1', 'peer': 'node-2', 'field': 'rtt_ms', 'value': 0.25}]
    """
    found, others = [], []
    for line in said.splitlines():
        try:
            point = parse_line(line)
            source, target = point["tags"]["source"], point["tags"]["target"]
            fields = [(FIELDS[name], float(value)) for name, value in point["fields"].items()]
            end_ms = point["time"] // 1_000_000
        except (LineFormatError, KeyError, TypeError, ValueError):
            others.append(line)
            continue
        if {source, target} <= set(nodes):
            found += [_row(end_ms, source, target, *each) for each in fields]
    if others:
        log.warning("%d lines are none of the probes', e.g. %r", len(others), others[0][:120])
    return pa.Table.from_pylist(found, schema=METRICS)


def _row(end_ms: int, source: str, target: str, field: str, value: float) -> dict[str, object]:
    return {
        "bucket_end_ms": end_ms,
        "measurement": Metric.ROUND_TRIP,
        "component": "",
        "task": NO_TASK,
        "worker": "",
        "stream": source,
        "peer": target,
        "field": field,
        "value": value,
    }
