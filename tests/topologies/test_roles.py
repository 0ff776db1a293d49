"""The two tables of roles, and the topologies that are made of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.plans import Stream
from harness.topologies import TOPOLOGIES, graph
from harness.topologies.roles import ROLES

JAVA = Path(__file__).parents[2] / "storm-topologies/topologies/src/main/java/harness/storm/topologies"
ROW = re.compile(
    r'@JsonProperty\("(?P<name>[a-z-]+)"\)\s+[A-Z_]+\(\s*(?P<inputs>\d),\s*(?P<windowed>true|false),'
    r'\s*(?P<key>null|"\w+"),\s*Emits\.(?P<emits>[A-Z]+),'
)


def test_the_bolts_have_the_same_table() -> None:
    """Every row of ``Role.java``, read as text: a column that one side changes alone is a difference."""
    text = (JAVA / "Role.java").read_text(encoding="utf-8")
    rows = list(ROW.finditer(text))
    assert [r["name"] for r in rows] == list(ROLES)
    for row in rows:
        ours = ROLES[row["name"]]
        assert int(row["inputs"]) == ours.inputs
        assert (row["windowed"] == "true") == ours.windowed
        assert row["key"].strip('"').replace("null", "") == ours.key
        assert row["emits"].lower() == ours.emits
    forwarding = re.findall(r"this == ([A-Z_]+)", text.partition("boolean mayForward()")[2].partition(";")[0])
    assert [name.lower() for name in forwarding] == [name for name, role in ROLES.items() if role.forwards]


def test_the_topologies_are_those_of_the_thesis() -> None:
    """Figures 5.4 and 5.6 to 5.9: components, and streams with their groupings."""
    drawn = {
        "fields-to-fields": "spout-s-bolt-a bolt-a-f-bolt-b bolt-b-f-sender",
        "multiplier": "spout-s-multiplier multiplier-f-sender",
        "windowed": "spout-s-window window-f-sender",
        "all-in-one": "spout-s-multiplier multiplier-f-window window-f-sender",
        "join-split": "spout-s-json spout-s-multiplier json-f-join multiplier-f-join join-f-sender-1"
        " join-f-sender-2",
    }
    for name, topology in TOPOLOGIES.items():
        said = [f"{s.source}-{s.grouping[0]}-{s.target}" for s in topology.streams]
        assert " ".join(said) == drawn[name]
        assert topology.doc.startswith("Thesis 5.3.")
    assert list(TOPOLOGIES) == list(drawn)


def test_a_role_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="t: bolt: there is no role 'sieve': spout, json"):
        graph.TestTopology("t", {"spout": "spout", "bolt": "sieve"}, (), "")


def test_a_stream_that_a_role_does_not_have_is_named() -> None:
    end = Stream(source="sender", target="spout", grouping="shuffle")
    with pytest.raises(ValueError, match=r"t: sender->spout:default: sender does not emit there"):
        graph.TestTopology("t", {"spout": "spout", "sender": "sender"}, (end,), "")
