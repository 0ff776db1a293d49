"""Fields-to-fields (thesis 5.3.1, figure 5.4): two one-to-one bolts, fields grouped one after the other.

Ground truth: one output a message, from the spout's emit to the sender's send.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import Role, Stream

NAME = "fields-to-fields"
COMPONENTS: Mapping[str, Role] = {"spout": "spout", "bolt-a": "json", "bolt-b": "json", "sender": "sender"}
STREAMS = (
    Stream(source="spout", target="bolt-a", grouping="shuffle"),
    Stream(source="bolt-a", target="bolt-b", grouping="fields"),
    Stream(source="bolt-b", target="sender", grouping="fields"),
)
