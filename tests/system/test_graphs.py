"""A graph with all roles on the real cluster: each copy of each member comes where the graph says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from submitted import submitted_topology
from waiting import until

from harness.backends.local.cluster import LocalCluster
from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.experiments.expected_members import expected_members
from harness.experiments.ledger import LedgerEvidence, settle
from harness.experiments.schedule import Trace
from harness.topologies.ways import child_names, numberings
from harness.workload.load import KafkaLoad
from harness.workload.wire import OwnWire

pytestmark = pytest.mark.system

MESSAGES = 120
EACH = {"kind": "count", "length": 1, "slide": 1}
"""A window that holds nothing back."""
COMPONENTS: dict[str, dict[str, Any]] = {
    "in-a": {"role": "spout", "tasks": 2},
    "in-b": {"role": "spout", "tasks": 1},
    "few": {"role": "filter", "keep": 0.4},
    "two": {"role": "multiplier", "multiplier": {"min": 1, "max": 3, "mean": 2, "sd": 1}},
    "more": {"role": "multiplier", "multiplier": {"min": 1, "max": 2, "mean": 1.5, "sd": 1}},
    "win": {"role": "window", "output_bytes": 500},
    "meet": {"role": "join", "routing": "one-per-window"},
    "twice": {"role": "multiplier", "multiplier": {"min": 2, "max": 2, "mean": 2, "sd": 0}},
    "out-1": {"role": "sender"},
    "out-2": {"role": "sender"},
}
WAYS = (
    ("in-a", "two", "shuffle", "default"),
    ("in-b", "few", "shuffle", "default"),
    ("few", "more", "fields", "default"),
    ("two", "more", "fields", "default"),
    ("more", "win", "all", "default"),
    ("win", "meet", "fields", "default"),
    ("few", "meet", "none", "default"),
    ("two", "meet", "partial-key", "default"),
    ("meet", "out-1", "global", "fish"),
    ("meet", "twice", "shuffle", "chips"),
    ("twice", "out-2", "local-or-shuffle", "default"),
)


def test_every_copy_of_every_member_is_where_the_graph_says(cluster: LocalCluster, tmp_path: Path) -> None:
    """Two of three messages enter by in-a. Behind the windows `twice` always makes two, so all is exact."""
    experiment = Experiment.model_validate(
        {
            "name": "all-roles",
            "topology": {
                "load_aware": False,
                "ackers": 1,
                "tasks": 2,
                "window": EACH,
                "components": COMPONENTS,
                "streams": [{"from": a, "to": b, "grouping": g, "stream": s} for a, b, g, s in WAYS],
            },
            "workload": {"rate_tps": 50, "shares": {"in-a": 2, "in-b": 1}},
            "cluster": {"nodes": 2, "slots_per_node": 2},
            "measure": {"instrument": False},
            "steps": {"plan": [{"executors": 1, "workers": 2}]},
        }
    )
    expected, ids = expected_members(experiment), np.arange(MESSAGES)
    most = {name: m.max for name, m in experiment.topology.own().multipliers.items()}
    due: Counter[tuple[str, int, int]] = Counter()
    for sink in expected.sinks:
        ways = numberings(experiment.topology.query_plan(), most)[sink]
        for child in {name for way in ways for name in child_names(way)}:
            copies = expected.copies(sink, ids, np.full(MESSAGES, child))
            assert (copies.least == copies.most).all()
            due.update({(sink, int(i), child): int(n) for i, n in zip(ids, copies.most, strict=True) if n})
    assert {sink for sink, _, _ in due} == {"out-1", "out-2"}
    with submitted_topology(cluster, experiment, tmp_path) as name:
        topics = TopicNames.of(name, experiment.topology.entrances)
        inputs = {topics.inputs[e]: share for e, share in experiment.shares.items()}
        trace = Trace(np.arange(MESSAGES) * 20_000_000)
        with KafkaLoad(cluster.bootstrap, inputs, topics.output, OwnWire("text"), group=name) as load:
            load.start(trace)
            until(lambda: load.sent().num_rows == MESSAGES, "all messages sent")
            load.stop()
            until(
                lambda: load.received().num_rows >= due.total() and load.taken(), "all that should come out"
            )
            sent, rows = load.sent(), load.received()
            counts = load.counts()
            ledger = settle(
                LedgerEvidence(
                    sent=sent,
                    received=rows,
                    interval_ns=(0, 2**62),
                    input_records=counts[0],
                    output_records=counts[1],
                    records_read=load.records_read,
                    expected=expected,
                )
            )
    assert np.bincount(sent["partition"].to_numpy() // 16).tolist() == [80, 40]
    seen = Counter(zip(*(rows[c].to_pylist() for c in ("sink", "message_id", "child")), strict=True))
    assert seen == due
    assert ledger.complete, ledger
    assert ledger.filtered == (expected.members(ids).most == 0).sum() > 0
    assert ledger.received + ledger.filtered == MESSAGES
