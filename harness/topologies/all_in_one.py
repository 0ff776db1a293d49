"""All-in-one (thesis 5.3.1, figure 5.8): multiplier and window, with consecutive fields groupings.

Ground truth: every member of a window (message and child) has its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import Role, Stream

NAME = "all-in-one"
COMPONENTS: Mapping[str, Role] = {
    "spout": "spout",
    "multiplier": "multiplier",
    "window": "window",
    "sender": "sender",
}
STREAMS = (
    Stream(source="spout", target="multiplier", grouping="shuffle"),
    Stream(source="multiplier", target="window", grouping="fields"),
    Stream(source="window", target="sender", grouping="fields"),
)
