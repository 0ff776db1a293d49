"""The five test topologies of the thesis (5.3), as data."""

from __future__ import annotations

from harness.plans import Stream
from harness.topologies.graph import TestTopology

FIELDS_TO_FIELDS = TestTopology(
    name="fields-to-fields",
    doc="""Thesis 5.3.1, figure 5.4: two one-to-one bolts, fields grouped one after the other.

    Ground truth: one output a message, from the spout's emit to the sender's send.
    """,
    components={"spout": "spout", "bolt-a": "json", "bolt-b": "json", "sender": "sender"},
    streams=(
        Stream(source="spout", target="bolt-a", grouping="shuffle"),
        Stream(source="bolt-a", target="bolt-b", grouping="fields"),
        Stream(source="bolt-b", target="sender", grouping="fields"),
    ),
)
MULTIPLIER = TestTopology(
    name="multiplier",
    doc="""Thesis 5.3.1, figure 5.6: each message becomes a normally distributed number of tuples.

    Ground truth: one output a child, from the spout's emit of the message to the sender's send of the child.
    """,
    components={"spout": "spout", "multiplier": "multiplier", "sender": "sender"},
    streams=(
        Stream(source="spout", target="multiplier", grouping="shuffle"),
        Stream(source="multiplier", target="sender", grouping="fields"),
    ),
)
WINDOWED = TestTopology(
    name="windowed",
    doc="""Thesis 5.3.1, figure 5.7: one output for each window of tuples.

    Ground truth: every member of a window has its own, from its spout's emit to the sender's send of the
    window's output; the thesis's view (one path of the window, chosen at random) is kept beside it.
    """,
    components={"spout": "spout", "window": "window", "sender": "sender"},
    streams=(
        Stream(source="spout", target="window", grouping="shuffle"),
        Stream(source="window", target="sender", grouping="fields"),
    ),
)
ALL_IN_ONE = TestTopology(
    name="all-in-one",
    doc="""Thesis 5.3.1, figure 5.8: multiplier and window, with consecutive fields groupings.

    Ground truth: every member of a window (message and child) has its own.
    """,
    components={"spout": "spout", "multiplier": "multiplier", "window": "window", "sender": "sender"},
    streams=(
        Stream(source="spout", target="multiplier", grouping="shuffle"),
        Stream(source="multiplier", target="window", grouping="fields"),
        Stream(source="window", target="sender", grouping="fields"),
    ),
)
JOIN_SPLIT = TestTopology(
    name="join-split",
    doc="""Thesis 5.3.2, figure 5.9: two branches joined in a window, then split onto two streams.

    The outgoing streams carry the numbers of 5.4.2 (5 and 6; appendix E calls them 3 and 4).
    Ground truth: every member of a joined window, once for each sender that its output reached.
    """,
    components={
        "spout": "spout",
        "json": "json",
        "multiplier": "multiplier",
        "join": "join",
        "sender-1": "sender",
        "sender-2": "sender",
    },
    streams=(
        Stream(source="spout", target="json", grouping="shuffle"),
        Stream(source="spout", target="multiplier", grouping="shuffle"),
        Stream(source="json", target="join", grouping="fields"),
        Stream(source="multiplier", target="join", grouping="fields"),
        Stream(source="join", target="sender-1", grouping="fields", stream="stream-5"),
        Stream(source="join", target="sender-2", grouping="fields", stream="stream-6"),
    ),
)
THESIS = (FIELDS_TO_FIELDS, MULTIPLIER, WINDOWED, ALL_IN_ONE, JOIN_SPLIT)
"""All of them, in the order of the thesis."""
