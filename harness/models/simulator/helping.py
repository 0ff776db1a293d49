"""Tuples that an executor serves in the place of the component behind it (Leron's versatile bolt, 5.1)."""

from __future__ import annotations

from harness.models.simulator.compiled import apart, inlined
from harness.models.simulator.kinds import HELPED, NONE, World

ROUNDING = 1e-9
"""Shares that add up to a whole one but for this are one (``Share.java``)."""


@apart
def helps(world: World, sender: int, watched: int, task: int) -> bool:
    """Return whether a task serves the next tuple to a helped component itself.

    All in Leron back-pressure; else a share of them, dealt by error diffusion: of any number in a row as many
    as the shares add up to, within one.
    """
    care = world.cares[world.executors[sender]["worker"] * world.watched.size + watched]
    share = 1.0 if care["in_force"] == HELPED else care["ratio"]
    of = world.watched[watched]
    first_task = world.components[world.watched[of["helper"]]["component"]]["first_task"]
    at = of["first_share"] + task - first_task
    world.shares[at] += share
    if world.shares[at] < 1.0 - ROUNDING:
        return False
    world.shares[at] -= 1.0
    return True


@apart
def keep(world: World, executor: int, item: int, time: float) -> None:
    """Put a tuple at the end of an executor's helping queue."""
    own = world.executors[executor]
    world.visits[item]["queued"] = time
    world.visits[item]["link"] = NONE
    if own["help"] == NONE:
        own["help"] = item
    else:
        world.visits[own["help_end"]]["link"] = item
    own["help_end"] = item


@inlined
def next_help(world: World, executor: int, item: int) -> int:
    """Take the first tuple of the helping queue; ``item`` is the one served before it."""
    own = world.executors[executor]
    if own["whole"] == NONE:
        own["whole"] = item
    first = own["help"]
    own["help"] = world.visits[first]["link"]
    return int(first)


@inlined
def whole(world: World, executor: int, item: int) -> int:
    """Return the tuple that is done with the service of ``item``: itself, or the one behind it."""
    own = world.executors[executor]
    if own["whole"] == NONE:
        return item
    item = int(own["whole"])
    own["whole"] = NONE
    return item
