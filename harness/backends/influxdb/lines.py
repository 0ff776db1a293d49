"""Rows of ``metrics.parquet`` as lines of InfluxDB's line protocol, times in milliseconds."""

from __future__ import annotations

import math

import pyarrow as pa

TAGS = ("component", "task", "host", "port", "stream", "peer")
_ESCAPED = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ ", "\n": r"\ "})


def encode_rows(table: pa.Table, topology: str) -> list[bytes]:
    r"""Return a line for each bucket of a measurement and its tags, with all of its fields.

    Parameters
    ----------
    table : Table
        Of schema ``harness.schemas.METRICS``.
    topology : str
        Value of the tag that the lines carry.

    Examples
    --------
    >>> row = {"bucket_end_ms": 5, "measurement": "received", "component": "bolt a", "task": 3,
    ...        "worker": "node-1:6700", "stream": "default", "peer": "", "field": "count", "value": 2.0}
    >>> encode_rows(pa.Table.from_pylist([row]), "quick")
    [b'received,topology=quick,component=bolt\\ a,task=3,host=node-1,port=6700,stream=default count=2.0 5']
    """
    fields: dict[tuple[str, int], list[str]] = {}
    batches = table.to_batches(max_chunksize=100_000)
    for row in (row for batch in batches for row in batch.to_pylist()):
        if row["value"] is None or not math.isfinite(row["value"]):
            continue
        host, _, port = row["worker"].rpartition(":")
        values = {**row, "host": host, "port": port}
        tags = "".join(f",{tag}={_escaped(values[tag])}" for tag in TAGS if values[tag] not in ("", None))
        series = f"{_escaped(row['measurement'])},topology={_escaped(topology)}{tags}"
        fields.setdefault((series, row["bucket_end_ms"]), []).append(
            f"{_escaped(row['field'])}={float(row['value'])!r}"
        )
    return [f"{series} {','.join(values)} {at}".encode() for (series, at), values in fields.items()]


def _escaped(value: object) -> str:
    return str(value).translate(_ESCAPED)
