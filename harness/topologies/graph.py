"""Components and streams of a test topology: the data that its query plan is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.plans import Component, Grouping, QueryPlan, Role, Stream, Window
from harness.topologies.roles import ROLES, RoleTraits


@dataclass(frozen=True)
class TestTopology:
    """A test topology.

    Attributes
    ----------
    name : str
        Key of the experiment's file, and name of the query plan.
    components : mapping
        Role of each component, spouts first.
    streams : tuple of Stream
        With the groupings as drawn.
    doc : str
        Its place in the thesis, and what has a ground truth of its own.

    Raises
    ------
    ValueError
        When there is no such role, or a component emits on a stream that its role has not.
    """

    name: str
    components: Mapping[str, Role]
    streams: tuple[Stream, ...]
    doc: str

    def __post_init__(self) -> None:
        """Check roles and streams."""
        for component, role in self.components.items():
            if role not in ROLES:
                raise ValueError(f"{self.name}: {component}: there is no role {role!r}: {', '.join(ROLES)}")
        for stream in self.streams:
            if not self.traits(stream.source).emits_on(stream.stream):
                raise ValueError(f"{self.name}: {stream.label}: {stream.source} does not emit there")

    def traits(self, component: str) -> RoleTraits:
        """Return what follows from a component's role."""
        return ROLES[self.components[component]]

    def query_plan(
        self,
        tasks: Mapping[str, int],
        window: Window | None,
        groupings: Mapping[str, Grouping],
        windows: Mapping[str, Window] | None = None,
    ) -> QueryPlan:
        """Return the query plan.

        Parameters
        ----------
        tasks : mapping
            Number of tasks of every component.
        window : Window, optional
            The window of the components that have one.
        groupings : mapping
            Groupings that replace the drawn ones, by stream as ``source->target``.
        windows : mapping, optional
            Windows of components that have one of their own.
        """
        return QueryPlan(
            name=self.name,
            components=tuple(
                Component(
                    name=c,
                    role=role,
                    tasks=tasks[c],
                    window=(windows or {}).get(c, window) if ROLES[role].windowed else None,
                )
                for c, role in self.components.items()
            ),
            streams=tuple(
                s.model_copy(update={"grouping": groupings.get(f"{s.source}->{s.target}", s.grouping)})
                for s in self.streams
            ),
        )
