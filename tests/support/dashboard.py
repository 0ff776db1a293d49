"""The Flux queries of the Grafana dashboard, with what Grafana would fill in."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "infra" / "grafana"
DASHBOARD: dict[str, Any] = json.loads(
    (FOLDER / "dashboards" / "storm-harness.json").read_text(encoding="utf-8")
)


def panels() -> dict[str, str]:
    """Return the query of each panel by its title."""
    return {p["title"]: t["query"] for p in DASHBOARD["panels"] for t in p["targets"]}


def annotations() -> str:
    """Return the query of the campaign's events."""
    (only,) = DASHBOARD["annotations"]["list"]
    return str(only["target"]["query"])


def topologies() -> str:
    """Return the query of the values that the variable ``topology`` may have."""
    return str(next(v["query"] for v in DASHBOARD["templating"]["list"] if v["name"] == "topology"))


def filled(query: str, bucket: str, topology: str, since_ms: int, until_ms: int) -> str:
    """Return a query with a bucket, a topology and a time span."""
    start, stop = (datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (since_ms, until_ms))
    given = {
        "${bucket}": bucket,
        "${topology}": topology,
        "v.timeRangeStart": start,
        "v.timeRangeStop": stop,
    }
    for name, value in given.items():
        query = query.replace(name, value)
    return query
