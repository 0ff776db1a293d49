"""The rewriting layer's settings in an experiment's file: keys that every topology has, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import Backpressure, BatchSize, Frozen, Help, Relief


class RewritableTopology(Frozen):
    """A topology that is rewritten when it is submitted, by the keys that say how.

    Attributes
    ----------
    batching : mapping
        Components, or ``component:stream``, whose tuples travel in batches: a number is the size
        (docs/rewriting.md).
    helping : mapping
        Stateless bolts that those directly before them help: ``{delta, high_pct, low_pct}``
        (docs/rewriting.md).
    backpressure : Backpressure
        Spouts pause for full queues, as Heron's do: ``{kind: heron, high_pct, low_pct}``; Storm's own
        by default.
    """

    batching: Mapping[str, BatchSize] = {}
    helping: Mapping[str, Help] = {}
    backpressure: Backpressure | None = None

    @property
    def relief(self) -> Relief:
        """Helping and back-pressure that its steps have, where they ask for nothing else."""
        return Relief(helping=self.helping, backpressure=self.backpressure)
