"""Bolts that are helped by those before them: the experiment's key ``topology.helping``, for any topology."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harness.plans import Help, QueryPlan
from harness.topologies.key_groups import goes_by_table
from harness.topologies.roles import traits

TICKS = "topology.tick.tuple.freq.secs"
"""Storm's setting that gives every bolt a tuple now and then."""
SHUFFLED = ("shuffle", "local-or-shuffle", "none")
"""Groupings by which it does not matter which task gets a tuple."""


def require_helped(
    helping: Mapping[str, Help], plan: QueryPlan, settings: Mapping[str, object], own_roles: bool
) -> None:
    """Require that every component of a helping can be helped: Leron, section 5.1.

    Whether a bolt is stateless nobody can see; the experiment says it by naming the bolt.

    Parameters
    ----------
    helping : mapping of str to Help
        By helped component.
    plan : QueryPlan
        The topology's components and streams.
    settings : mapping
        Storm settings that the experiment asks for.
    own_roles : bool
        Whether the roles of the plan's components are those of the harness's own topologies.

    Raises
    ------
    ValueError
        Naming the component and why it cannot be helped.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> parts = tuple(Component(name=n, role="other", tasks=1) for n in ("spout", "one", "two"))
    >>> ways = tuple(
    ...     Stream(source=s, stream="default", target=t, grouping="shuffle")
    ...     for s, t in (("spout", "one"), ("one", "two"))
    ... )
    >>> plan = QueryPlan(name="three", components=parts, streams=ways)
    >>> help_ = Help(delta=0.1, high_pct=50, low_pct=10)
    >>> require_helped({"two": help_}, plan, {}, own_roles=False)
    >>> require_helped({"one": help_}, plan, {}, own_roles=False)
    Traceback (most recent call last):
    ...
    ValueError: helping: one cannot be helped: it comes after a spout, spout, which cannot help
    """
    names = [c.name for c in plan.components]
    for name in helping:
        if name not in names:
            raise ValueError(f"helping: there is no component {name!r}; there are {', '.join(names)}")
        own = _by_name(name, plan) if own_roles else ""
        if reason := own or _unhelped(name, plan, settings, helping.keys()):
            raise ValueError(f"helping: {name} cannot be helped: it {reason}")


def _unhelped(name: str, plan: QueryPlan, settings: Mapping[str, object], helped: Collection[str]) -> str:
    """Say why a component cannot be helped; nothing where it can."""
    inputs = plan.inputs(name)
    if not inputs:
        return "is a spout"
    stream = inputs[0]
    same = [s.target for s in plan.streams if (s.source, s.stream) == (stream.source, stream.stream)]
    reasons = {
        "has windows": plan.component(name).window is not None,
        f"gets ticks ({TICKS})": settings.get(TICKS) is not None,
        f"has {len(inputs)} inputs": len(inputs) > 1,
        f"is grouped by {stream.grouping}, so it matters which task gets a tuple": (
            stream.grouping not in SHUFFLED
        ),
        f"has a helper that is helped itself, {stream.source}": stream.source in helped,
        f"comes after a spout, {stream.source}, which cannot help": not plan.inputs(stream.source),
        f"shares the stream {stream.source}:{stream.stream} with other subscribers": len(same) > 1,
    }
    return next((reason for reason, so in reasons.items() if so), "")


def _by_name(name: str, plan: QueryPlan) -> str:
    """Say why one of the harness's own bolts cannot be helped: what it does depends on its name."""
    role = traits(plan.component(name).role)
    if role.key == "keep":
        return "is a filter, which draws by its own name"
    if any(goes_by_table(plan, each) for each in (name, *(s.source for s in plan.inputs(name)))):
        return (
            "or its helper has key groups or sends to some, and a helper's tuples could overtake their tables"
        )
    return "writes to the output topic in its own name" if role.emits == "nothing" else ""
