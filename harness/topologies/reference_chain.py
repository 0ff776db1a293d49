"""The reference topology of Aniello, Baldoni and Querzoni (DEBS 2013): the chain that its parameters make."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, model_validator

from harness.plans import Frozen
from harness.topologies.component_settings import ServiceTime
from harness.topologies.own_graph import ComponentName, GraphComponent, GraphStream

MOST_REPLICAS = 50
"""Each spout is a component with a topic of its own, and each is looked at by itself when a file is read."""
ReplicaCount = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]


class Replication(Frozen):
    """Tasks by the kind of component; in a file also one number for all kinds.

    Attributes
    ----------
    spout : int
        Number of spouts, of one task and one input topic each.
    simple : int
        Tasks of each simple bolt.
    stateful : int
        Tasks of each stateful bolt.
    ack : int
        Tasks of the last bolt.
    """

    spout: ReplicaCount
    simple: ReplicaCount
    stateful: ReplicaCount
    ack: ReplicaCount

    @model_validator(mode="before")
    @classmethod
    def _of_a_number(cls, value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            return dict.fromkeys(cls.model_fields, value)
        return value


class ReferenceChain(Frozen):
    """The chain: spouts, then simple bolts (shuffle) and stateful ones (fields) in turn, and one that acks.

    The stages are the spouts' and those of the simple and stateful bolts; the acking bolt comes after them.
    That is a reading of slide 42, where the chain ends with ``<fields> stateful <shuffle> ack``; the settings
    that follow have 5 and 7 stages. So the number is odd.

    Stateful bolts keep no state here, their work is a service time. The acking bolt is a sender: it emits
    nothing, which completes each message's tree, and its write to Kafka is how latency is measured.

    Attributes
    ----------
    stages : int
        Stages from the spouts to the last stateful bolt, an odd number; an acking bolt comes after them.
    replication : Replication
        Tasks of each component: one number for all, or a mapping. Of spouts there are as many, with one task
        and an input topic each, so that their rates can differ.
    forwarded_share : float
        Share of the tuples whose key a bolt passes on; others get the workload's first key. The default is a
        reading: the share is lost in our text of the paper.
    simple : ServiceTime
        Work on each tuple in simple bolts; none by default.
    stateful : ServiceTime
        The same in stateful ones.

    Examples
    --------
    >>> chain = ReferenceChain(stages=5, replication=2)
    >>> list(chain.components)
    ['in-1', 'in-2', 'simple-1', 'stateful-1', 'simple-2', 'stateful-2', 'ack']
    >>> [f"{s.source} {s.grouping} {s.target}" for s in chain.streams[-2:]]
    ['simple-2 fields stateful-2', 'stateful-2 shuffle ack']
    """

    stages: Annotated[int, Field(ge=3, le=49)]
    replication: Replication
    forwarded_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    simple: ServiceTime | None = None
    stateful: ServiceTime | None = None

    @model_validator(mode="after")
    def _pairs_behind_the_spouts(self) -> Self:
        if self.stages % 2 == 0:
            raise ValueError(
                f"stages {self.stages} is even: behind the spouts come pairs of a simple and a stateful bolt"
            )
        return self

    @cached_property
    def components(self) -> Mapping[ComponentName, GraphComponent]:
        """The components of the graph, by name."""
        spouts = {name: GraphComponent(role="spout", tasks=1) for name in self._spouts}
        bolts = {
            f"{kind}-{pair}": GraphComponent(
                role="json", tasks=tasks, service=service, forwarded_share=self.forwarded_share
            )
            for pair in range(1, self.stages // 2 + 1)
            for kind, tasks, service in (
                ("simple", self.replication.simple, self.simple),
                ("stateful", self.replication.stateful, self.stateful),
            )
        }
        return {**spouts, **bolts, "ack": GraphComponent(role="sender", tasks=self.replication.ack)}

    @cached_property
    def streams(self) -> tuple[GraphStream, ...]:
        """The streams of the graph; to stateful bolts by fields, to all others by shuffle."""
        spouts, bolts = self._spouts, [name for name in self.components if name not in self._spouts]
        ways = [*((spout, bolts[0]) for spout in spouts), *pairwise(bolts)]
        return tuple(
            GraphStream(
                source=source,
                target=target,
                grouping="fields" if target.startswith("stateful") else "shuffle",
            )
            for source, target in ways
        )

    @property
    def _spouts(self) -> tuple[str, ...]:
        return tuple(f"in-{number}" for number in range(1, self.replication.spout + 1))
