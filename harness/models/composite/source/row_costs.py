"""Costs of a batch's rows beside their message: bytes on the way, and messages that batches save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.models.contract.message_costs import ASSUMED_BYTES, MessageTimes
from harness.plans import Stream


@dataclass(frozen=True)
class RowCosts:
    """Costs of messages between workers.

    Attributes
    ----------
    message : MessageTimes
        n and s.
    tuple_bytes : mapping of str to float
        By ``component:stream``, where batches were written in the source.
    saved : mapping of component to float
        Messages to other workers that batches saved for each of its tuples in the source.
    """

    message: MessageTimes
    tuple_bytes: Mapping[str, float]
    saved: Mapping[str, float] = field(default_factory=dict)

    @property
    def n_ms(self) -> float:
        """A message's own time, in its sender's thread."""
        return self.message.n_us / 1e3

    def row_ms(self, stream: Stream) -> float:
        """Return the time that each further row adds to a hop between workers: its bytes times s.

        Examples
        --------
        >>> way = Stream(source="spout", stream="default", target="sink", grouping="shuffle")
        >>> RowCosts(MessageTimes(n_us=1.0, s_ns_per_byte=4.0), {"spout:default": 1000.0}).row_ms(way)
        0.004
        """
        size = self.tuple_bytes.get(f"{stream.source}:{stream.stream}", ASSUMED_BYTES)
        return size * self.message.s_ns_per_byte / 1e6
