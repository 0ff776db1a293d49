"""Join-split (thesis 5.3.2, figure 5.9): two branches joined in a window, then split onto two streams.

The outgoing streams carry the numbers of 5.4.2 (5 and 6; appendix E calls them 3 and 4).
Ground truth: every member of a joined window, once for each sender that its output reached.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.plans import Role, Stream

NAME = "join-split"
COMPONENTS: Mapping[str, Role] = {
    "spout": "spout",
    "json": "json",
    "multiplier": "multiplier",
    "join": "join",
    "sender-1": "sender",
    "sender-2": "sender",
}
STREAMS = (
    Stream(source="spout", target="json", grouping="shuffle"),
    Stream(source="spout", target="multiplier", grouping="shuffle"),
    Stream(source="json", target="join", grouping="fields"),
    Stream(source="multiplier", target="join", grouping="fields"),
    Stream(source="join", target="sender-1", grouping="fields", stream="stream-5"),
    Stream(source="join", target="sender-2", grouping="fields", stream="stream-6"),
)
