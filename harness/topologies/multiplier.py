"""Multiplier (thesis 5.3.1, figure 5.6): each message becomes a normally distributed number of tuples.

Ground truth: one output a child, from the spout's emit of the message to the sender's send of the child.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import Role, Stream

NAME = "multiplier"
COMPONENTS: Mapping[str, Role] = {"spout": "spout", "multiplier": "multiplier", "sender": "sender"}
STREAMS = (
    Stream(source="spout", target="multiplier", grouping="shuffle"),
    Stream(source="multiplier", target="sender", grouping="fields"),
)
