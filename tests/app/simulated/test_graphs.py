"""What is expected of each message at each sink, on random graphs, against the simulator."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from budgets import budget
from hypothesis import assume, given, settings
from random_graphs import ROLES, experiment, graphs

from harness.app.simulated.campaign import carry_out
from harness.app.simulated.networks import emitted_keys
from harness.experiments.config import Experiment
from harness.experiments.expected_members import expected_members
from harness.experiments.loading import dump, load
from harness.machine.environment import describe
from harness.quality import Ledger
from harness.runs import Run
from harness.topologies.drawing import LETTERS, WIDTH, draw
from harness.topologies.ways import child_names, numberings

MOST_ROWS = 300
"""Members of a message, by all ways, that are still played quickly."""


def played(made: Experiment) -> tuple[pd.DataFrame, Ledger]:
    """Return the rows of the one step's interval, and its ledger."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(
            Path(folder), "random", {"experiment.yaml": dump(made)}, describe("simulator", {"storm": "2.8.3"})
        )
        carry_out(made, run, lambda _: None)
        rows = pq.read_table(run.step_path(0) / "latency.parquet").to_pandas()
        ledger = run.quality(0).ledger
    assert ledger is not None
    return rows[rows["in_interval"]], ledger


def names(made: Experiment) -> list[int]:
    """Return the names that members may have at sinks, and one that none has."""
    topology = made.topology.own()
    plan = topology.query_plan()
    ways = numberings(plan, {name: m.max for name, m in topology.multipliers.items()})
    found = {name for sink in plan.sinks for way in ways[sink] for name in child_names(way)}
    return sorted(found | {max(found) + 1})


def few(made: Experiment) -> None:
    """Leave out graphs that make too much of a message."""
    expected, ids = expected_members(made), np.arange(3)
    rows = sum(
        expected.copies(sink, ids, np.full(3, name)).most for sink in expected.sinks for name in names(made)
    )
    assume(rows.max() <= MOST_ROWS)


@given(graphs())
@settings(max_examples=budget(60), deadline=None)
def test_every_copy_of_every_member_comes_to_the_sinks_that_the_graph_says(topology: dict[str, Any]) -> None:
    """Windows of one tuple hold nothing back, multipliers always make two: each count is exact."""
    made = experiment(topology)
    few(made)
    mine, ledger = played(made)
    assert ledger.balanced, ledger.reason
    assert ledger.complete, ledger
    seen = Counter(zip(mine["sink"], mine["message_id"], mine["child"], strict=True))
    expected, due = expected_members(made), Counter[tuple[str, int, int]]()
    ids = np.unique(mine["message_id"].to_numpy())
    assert ids.size == 25
    for sink in expected.sinks:
        for child in names(made):
            copies = expected.copies(sink, ids, np.full(ids.size, child))
            assert (copies.least == copies.most).all()
            due.update({(sink, int(i), child): int(n) for i, n in zip(ids, copies.most, strict=True) if n})
    assert seen == due
    members = Counter(message for _, message, _ in {("", m, c) for _, m, c in seen})
    assert members == Counter(dict(zip(ids.tolist(), expected.members(ids).most.tolist(), strict=True)))


@given(graphs(roles=(*ROLES, "filter", "filter")))
@settings(max_examples=budget(30), deadline=None)
def test_with_filters_nothing_comes_out_that_the_graph_does_not_allow(topology: dict[str, Any]) -> None:
    """The simulator leaves out others than the topology would: what it keeps is part of what could come."""
    made = experiment(topology)
    few(made)
    mine, ledger = played(made)
    assert ledger.balanced, ledger.reason
    assert ledger.complete, ledger
    assert ledger.sent == 25 == ledger.received + ledger.filtered
    assert len(mine["message_id"].unique()) == ledger.received
    for component in topology["components"].values():
        if component["role"] == "filter":
            component["keep"] = 1.0
    expected = expected_members(experiment(topology))
    seen = Counter(zip(mine["sink"], mine["message_id"], mine["child"], strict=True))
    for (sink, message, child), count in seen.items():
        assert count <= expected.copies(sink, np.array([message]), np.array([child])).most[0]


def test_what_is_not_forwarded_has_the_first_key() -> None:
    """Behind two bolts that forward half, A has 1/2 + 1/4 + a quarter of its 16/136."""
    made = load("aniello-reference")
    drawn, once, twice = (emitted_keys(made, name) for name in ("in-2", "simple-1", "stateful-1"))
    shares = [keys["A"] / sum(keys.values()) for keys in (drawn, once, twice)]
    assert shares == pytest.approx([16 / 136, 1 / 2 + 8 / 136, 3 / 4 + 4 / 136])
    assert once["P"] / sum(once.values()) == pytest.approx(1 / 272)


@given(graphs())
@settings(max_examples=budget(150), deadline=None)
def test_a_drawing_has_every_component_and_stream_once_within_80_columns(topology: dict[str, Any]) -> None:
    plan = experiment(topology).topology.query_plan()
    lines = draw(plan)
    assert max(map(len, lines)) <= WIDTH
    picture = "\n".join(lines[: 2 * len(plan.components) - 1])
    words = Counter(word.strip(",") for line in lines for word in line.split())
    drawn = Counter(picture.split())
    for number, c in enumerate(plan.components, start=1):
        assert words[f"{c.name}:{c.tasks}"] == 1
        assert drawn[f"{c.name}:{c.tasks}"] + drawn[str(number)] == 1
    for grouping, letter in LETTERS.items():
        assert picture.count(letter) == sum(s.grouping == grouping for s in plan.streams)
