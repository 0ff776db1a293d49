"""Windowed (thesis 5.3.1, figure 5.7): one output for each window of tuples.

Ground truth: every member of a window has its own, from its spout's emit to the sender's send of the
window's output; the thesis's view (one path of the window, chosen at random) is kept beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import Role, Stream

NAME = "windowed"
COMPONENTS: Mapping[str, Role] = {"spout": "spout", "window": "window", "sender": "sender"}
STREAMS = (
    Stream(source="spout", target="window", grouping="shuffle"),
    Stream(source="window", target="sender", grouping="fields"),
)
