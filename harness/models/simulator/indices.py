"""Where a thing's own things are: ranges that the records' fields stand for, a first one and a number."""

from __future__ import annotations

from harness.models.simulator.compiled import inlined
from harness.models.simulator.kinds import Counters, World


@inlined
def executors_of(world: World, component: int) -> range:
    """Return a component's executors."""
    of = world.components[component]
    return range(of["first_executor"], of["first_executor"] + of["executors"])


@inlined
def tasks_of(world: World, executor: int) -> range:
    """Return an executor's tasks."""
    of = world.executors[executor]
    return range(of["first_task"], of["first_task"] + of["tasks"])


@inlined
def streams_of(world: World, fan: int) -> range:
    """Return the streams that a fan's tuples go to."""
    of = world.fans[fan]
    return range(of["stream"], of["stream"] + of["streams"])


@inlined
def anchors_of(world: World, firing: int) -> range:
    """Return where in ``anchors`` the messages are that a window's firing comes from."""
    of = world.firings[firing]
    return range(of["anchors"], of["end"])


@inlined
def later_threads_of(world: World, host: int) -> range:
    """Return a host's threads without the first."""
    of = world.hosts[host]
    return range(of["first"] + 1, of["first"] + of["threads"])


@inlined
def links_of(first: Counters, window: int) -> range:
    """Return the links of a window's firing, which begin where ``first`` says (``lineage``)."""
    return range(first[window], first[window + 1])
