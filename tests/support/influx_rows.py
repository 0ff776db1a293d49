"""What is in InfluxDB, read as rows that can be compared; and a small experiment that writes to it."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
from short_experiments import SMALL_ALL_IN_ONE

from harness.backends.influxdb import api as influxdb_api
from harness.backends.influxdb.server import InfluxServer
from harness.backends.influxdb.store import InfluxBucket, InfluxStore
from harness.machine import secret_files
from harness.schemas import METRICS

SINCE_MS = 1_750_000_000_000
FAR_MS = 2 * SINCE_MS
KEYS = [name for name in METRICS.names if name != "value"]
EXPERIMENT: Mapping[str, object] = {
    "name": "both-stores",
    **SMALL_ALL_IN_ONE,
    "metrics": {"store": "influxdb"},
    "measure": {
        "attempts": 1,
        "burn_in": {"least_s": 2, "most_s": 4, "drift_pct": 90},
        "interval": {"least_s": 10, "most_s": 10, "looks": 1, "precision_pct": 50},
    },
    "steps": {"plan": [{"executors": 2, "workers": 4}, {"executors": 4, "workers": 2}]},
}


def frame(rows: pa.Table) -> pd.DataFrame:
    """Rows in an order of their own, as plain text and numbers."""
    assert rows.schema == METRICS
    plain = rows.to_pandas().astype({n: str for n in KEYS if n not in ("bucket_end_ms", "task")})
    return plain.sort_values(KEYS).reset_index(drop=True)


def store_of(server: InfluxServer, topology: str, patience_s: float = 60.0) -> InfluxStore:
    token = secret_files.read(server.token_file)
    return InfluxStore(bucket_of(server), token, topology, patience_s=patience_s)


def bucket_of(server: InfluxServer) -> InfluxBucket:
    return InfluxBucket(server.url, influxdb_api.ORG, influxdb_api.BUCKET)
