"""The table of roles: traits that follow from the work that a component of a test topology does.

The same table for the bolts themselves is ``Role.java`` of storm-topologies; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness.plans import Role

Emits = Literal["default", "named", "nothing"]
"""On which streams a component emits: Storm's default, those that its subscribers name, or none."""


@dataclass(frozen=True)
class RoleTraits:
    """Traits that follow from a role.

    Attributes
    ----------
    inputs : int
        Components that it subscribes to, at least: none (a spout), one, or two (a join).
    windowed : bool
        Whether it gathers tuples in the topology's window.
    key : str
        Key of the topology's settings that it needs, and that nothing else may have; empty for none.
    emits : {'default', 'named', 'nothing'}
        On which streams.
    forwards : bool
        Whether it may pass on the key of a tuple, by ``forwarded_share``.
    """

    inputs: int = 1
    windowed: bool = False
    key: str = ""
    emits: Emits = "default"
    forwards: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the topology's settings that it needs, its window included."""
        return tuple(key for key in (self.key, "window" if self.windowed else "") if key)

    @property
    def keyed(self) -> bool:
        """True if its state is in key groups, which move between its tasks."""
        return self.key == "groups"

    @property
    def routing(self) -> bool:
        """True if a component with key groups may subscribe to it: it emits when it gets a tuple.

        Examples
        --------
        >>> ROLES["filter"].routing, ROLES["window"].routing, ROLES["sender"].routing
        (True, False, False)
        """
        return self.inputs > 0 and not self.windowed and self.emits == "default"

    @property
    def spout(self) -> bool:
        """True if messages enter the topology here; such a component has no service time of its own."""
        return self.inputs == 0

    def emits_on(self, stream: str) -> bool:
        """Return whether it emits on a stream that somebody subscribes to.

        Examples
        --------
        >>> ROLES["join"].emits_on("fish"), ROLES["json"].emits_on("fish")
        (True, False)
        """
        return self.emits == "named" or (self.emits == "default" and stream == "default")


ROLES: Mapping[Role, RoleTraits] = {
    "spout": RoleTraits(inputs=0),
    "json": RoleTraits(forwards=True),
    "filter": RoleTraits(key="keep"),
    "multiplier": RoleTraits(key="multiplier"),
    "keyed": RoleTraits(key="groups", forwards=True),
    "window": RoleTraits(windowed=True),
    "join": RoleTraits(inputs=2, windowed=True, key="routing", emits="named"),
    "sender": RoleTraits(emits="nothing"),
}
"""The roles of test topologies."""


def traits(role: Role) -> RoleTraits:
    """Return what follows from a role; of roles that others' components have nothing does.

    Examples
    --------
    >>> traits("join").key, traits("other").key
    ('routing', '')
    """
    return ROLES.get(role, RoleTraits())
