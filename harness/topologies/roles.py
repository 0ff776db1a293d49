"""The table of roles: what follows from what a component of a test topology does.

The same table for the bolts themselves is ``Role.java`` of storm-topologies; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.plans import Role


@dataclass(frozen=True)
class RoleTraits:
    """What follows from a role.

    Attributes
    ----------
    inputs : int
        Components that it subscribes to: none (a spout), one or more, or just two (a join).
    windowed : bool
        Whether it gathers tuples in the topology's window.
    key : str
        Key of the topology's settings that it needs, and that nothing else may have; empty for none.
    emits_on : tuple of str
        Its output streams.
    multiplies : bool
        Whether it makes several tuples, a message's children, of one.
    """

    inputs: int = 1
    windowed: bool = False
    key: str = ""
    emits_on: tuple[str, ...] = ("default",)
    multiplies: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the topology's settings that it needs, its window included."""
        return tuple(key for key in (self.key, "window" if self.windowed else "") if key)

    @property
    def spout(self) -> bool:
        """Whether messages come in here; it then has no service time of its own."""
        return self.inputs == 0

    @property
    def joins(self) -> bool:
        """Whether it joins the branches of a message."""
        return self.inputs == 2


ROLES: Mapping[Role, RoleTraits] = {
    "spout": RoleTraits(inputs=0),
    "json": RoleTraits(),
    "multiplier": RoleTraits(key="multiplier", multiplies=True),
    "window": RoleTraits(windowed=True),
    "join": RoleTraits(inputs=2, windowed=True, key="routing", emits_on=("stream-5", "stream-6")),
    "sender": RoleTraits(emits_on=()),
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
