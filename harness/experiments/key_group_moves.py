"""Key groups that move while messages flow: moves asked for, and moves made as tasks report them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from harness.plans import RoutingTables
from harness.schemas import Metric, MetricField

REPORTED = {MetricField.TABLE_VERSION, MetricField.STATE_BYTES, MetricField.PAUSE_NS}
"""Fields of the metric ``key_group_moved`` that are read."""


class GroupMove(NamedTuple):
    """A key group's move to another task.

    Attributes
    ----------
    component : str
    group : int
    table_version : int
        Of the routing table that moves the group.
    """

    component: str
    group: int
    table_version: int


class MovedGroup(NamedTuple):
    """A key group whose new task has its state.

    Attributes
    ----------
    move : GroupMove
    state_bytes : int
    pause_ms : float
        From the first marker with the table to the state's installation, at the new task.
    """

    move: GroupMove
    state_bytes: int
    pause_ms: float


class KeyGroupRoutes(Protocol):
    """The routing tables of the submitted topology."""

    def tables(self) -> RoutingTables:
        """Return the tables that were published last, or that the topology began with."""

    def move(self, tables: RoutingTables) -> frozenset[GroupMove]:
        """Publish the tables that differ from those in force, and return the moves that follow."""


class NoKeyGroups:
    """Routes of a topology without key groups."""

    def tables(self) -> RoutingTables:
        """Return none."""
        return {}

    def move(self, tables: RoutingTables) -> frozenset[GroupMove]:
        """Move nothing."""
        del tables
        return frozenset()


def moved_groups(metrics: pa.Table) -> list[MovedGroup]:
    """Return the key groups that came to other tasks, by their tasks' reports.

    Parameters
    ----------
    metrics : Table
        Of the columns of ``metrics.parquet``.
    """
    rows = metrics.filter(pc.equal(metrics["measurement"].cast(pa.string()), str(Metric.KEY_GROUP_MOVED)))
    found: dict[tuple[int, int, str, str], dict[str, float]] = {}
    columns = ("bucket_end_ms", "task", "component", "peer", "field", "value")
    for *reported, field, value in zip(*(rows[c].to_pylist() for c in columns), strict=True):
        end_ms, task, component, group = reported
        found.setdefault((end_ms, task, component, group), {})[field] = value
    return [
        MovedGroup(
            GroupMove(component, int(group), round(fields[MetricField.TABLE_VERSION])),
            state_bytes=round(fields[MetricField.STATE_BYTES]),
            pause_ms=fields[MetricField.PAUSE_NS] / 1e6,
        )
        for (_, _, component, group), fields in found.items()
        if fields.keys() >= REPORTED
    ]
