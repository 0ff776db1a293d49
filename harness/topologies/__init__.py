"""The test topologies of the thesis (5.3): their query plans, defined here once for all sides.

The jar builds what it is told; a query plan is sent to it as JSON (``harness.topologies.submission``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from harness.plans import Component, Grouping, QueryPlan, Role, Stream, Window
from harness.topologies import all_in_one, fields_to_fields, join_split, multiplier, windowed

TOPOLOGIES: Mapping[str, ModuleType] = {
    m.NAME: m for m in (fields_to_fields, multiplier, windowed, all_in_one, join_split)
}
"""The topologies by name."""


def query_plan(
    name: str, tasks: Mapping[str, int], window: Window | None, groupings: Mapping[str, Grouping]
) -> QueryPlan:
    """Return the query plan of a test topology.

    Parameters
    ----------
    name : str
        A key of ``TOPOLOGIES``.
    tasks : mapping
        Number of tasks of every component.
    window : Window, optional
        The window of the components that have one.
    groupings : mapping
        Groupings that replace the drawn ones, by stream as ``source->target``.
    """
    module = TOPOLOGIES[name]
    roles: Mapping[str, Role] = module.COMPONENTS
    streams: tuple[Stream, ...] = module.STREAMS
    return QueryPlan(
        name=name,
        components=tuple(
            Component(
                name=c, role=role, tasks=tasks[c], window=window if role in ("window", "join") else None
            )
            for c, role in roles.items()
        ),
        streams=tuple(
            s.model_copy(update={"grouping": groupings.get(f"{s.source}->{s.target}", s.grouping)})
            for s in streams
        ),
    )
