"""Settings of small experiments on the real cluster whose steps end by time, whatever was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RATE_TPS = 40
SMALL_ALL_IN_ONE: Mapping[str, Any] = {
    "topology": {
        "name": "all-in-one",
        "load_aware": False,
        "tasks": 4,
        "ackers": 2,
        "multiplier": {"min": 1, "max": 5, "mean": 3, "sd": 1.0},
        "window": {"kind": "count", "length": 5, "slide": 5},
    },
    "workload": {"rate_tps": RATE_TPS},
    "cluster": {"nodes": 2, "slots_per_node": 2},
}
"""The thesis's whole topology with windows that fill soon, four tasks of each bolt and two ackers."""


def short_measure(burn_in_s: float, least_s: float, most_s: float | None = None) -> dict[str, Any]:
    """Return the key ``measure``: a burn-in and an interval of one length each, unless a longest is given."""
    return {
        "bucket_s": 1,
        "burn_in": {"least_s": burn_in_s, "most_s": burn_in_s, "drift_pct": 500},
        "interval": {"least_s": least_s, "most_s": most_s or least_s, "looks": 1, "precision_pct": 500},
    }


def short_experiment(
    name: str, measure: Mapping[str, Any], *, tasks: int, ackers: int, slots_per_node: int
) -> dict[str, Any]:
    """Return all of an experiment but its steps: messages every 25 ms, on two nodes."""
    return {
        "name": name,
        "models": ["no-change"],
        "topology": {"name": "fields-to-fields", "load_aware": False, "tasks": tasks, "ackers": ackers},
        "workload": {"rate_tps": RATE_TPS},
        "cluster": {"nodes": 2, "slots_per_node": slots_per_node},
        "measure": dict(measure),
    }
