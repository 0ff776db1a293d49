"""Tuples that travel in batches: the experiment's key ``topology.batching``, for any topology."""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import BatchSize, QueryPlan
from harness.topologies.key_groups import goes_by_table


def require_batched(batching: Mapping[str, BatchSize], plan: QueryPlan, timeout_s: float) -> None:
    """Require that every key of a batching means a stream of the query plan.

    Parameters
    ----------
    batching : mapping of str to BatchSize
        Sizes by component, for all of its streams, or by ``component:stream``, which goes first.
    plan : QueryPlan
        The topology's components and streams.
    timeout_s : float
        Storm's message timeout.

    Raises
    ------
    ValueError
        For a component or stream that the plan has not, a component that sends nothing, one with key groups
        or that sends to such, and a wait that is not below the message timeout.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> ends = (Component(name="spout", role="spout", tasks=1), Component(name="sink", role="other", tasks=1))
    >>> way = Stream(source="spout", stream="default", target="sink", grouping="shuffle")
    >>> plan = QueryPlan(name="two", components=ends, streams=(way,))
    >>> require_batched({"spout": BatchSize(size=5), "spout:default": BatchSize(size=9)}, plan, 30)
    >>> require_batched({"sauce": BatchSize(size=5)}, plan, 30)
    Traceback (most recent call last):
    ...
    ValueError: batching: there is no component 'sauce'; there are spout, sink
    """
    components = [c.name for c in plan.components]
    streams: dict[str, list[str]] = {name: [] for name in components}
    for stream in plan.streams:
        if stream.stream not in streams[stream.source]:
            streams[stream.source].append(stream.stream)
    for key, rule in batching.items():
        if rule.flush_ms >= 1000 * timeout_s:
            raise ValueError(
                f"batching: {key} waits for {rule.flush_ms} ms, and messages time out after {timeout_s:g} s;"
                " make flush_ms smaller"
            )
        if (name := key.partition(":")[0]) in streams and goes_by_table(plan, name):
            raise ValueError(
                f"batching: {name} has key groups or sends to some, and a table could overtake a batch:"
                " leave it out"
            )
        if key in streams:
            if not streams[key]:
                raise ValueError(f"batching: {key} sends nothing that could be batched")
            continue
        senders = [name for name in components if key.startswith(f"{name}:")]
        if not senders:
            name = key.partition(":")[0]
            raise ValueError(f"batching: there is no component {name!r}; there are {', '.join(components)}")
        if not any(key == f"{name}:{stream}" for name in senders for stream in streams[name]):
            sent = ", ".join(streams[senders[0]]) or "none"
            raise ValueError(
                f"batching: {senders[0]} has no stream {key.removeprefix(senders[0] + ':')!r} that anybody"
                f" subscribes to; it has {sent}"
            )
