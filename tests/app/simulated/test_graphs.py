"""What is expected of each message at each sink, on random graphs, against the simulator."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.app.simulated.campaign import carry_out
from harness.experiments.config import Experiment
from harness.experiments.draws import expected_members
from harness.experiments.loading import dump
from harness.machine.environment import describe
from harness.runs import Run
from harness.topologies.drawing import LETTERS, WIDTH, draw

EACH = {"kind": "count", "length": 1, "slide": 1}
"""A window that holds nothing back: every tuple is one."""
GROUPINGS = ("shuffle", "fields", "local-or-shuffle", "all", "global", "none", "partial-key")
CHILDREN = 3


@st.composite
def graphs(draw_: st.DrawFn) -> dict[str, Any]:
    """Return components and streams: what a bolt hears is anything before it that it may follow."""
    components: dict[str, dict[str, Any]] = {"in": {"role": "spout", "tasks": draw_(st.integers(1, 2))}}
    streams: list[dict[str, str]] = []
    behind: dict[str, set[str]] = {"in": set()}

    def hear(target: str, sources: list[str]) -> None:
        for source in sources:
            emits = ["stream-5", "stream-6"] if components[source]["role"] == "join" else ["default"]
            way = {"from": source, "to": target, "grouping": draw_(st.sampled_from(GROUPINGS))}
            streams.append({**way, "stream": draw_(st.sampled_from(emits))})
        behind[target] = set().union(*(behind[s] | {components[s]["role"]} for s in sources))

    for i in range(draw_(st.integers(1, 5))):
        role = draw_(st.sampled_from(("json", "json", "multiplier", "window", "join")))
        refused = {
            **{"json": set(), "window": {"window", "join"}, "join": {"window", "join"}},
            "multiplier": {"multiplier", "window", "join"},
        }[role]
        fit = [n for n in behind if not refused & (behind[n] | {components[n]["role"]})]
        if role == "join" and len(fit) < 2:
            continue
        most = 2 if role == "join" else 3
        least = 2 if role == "join" else 1
        sources = draw_(st.lists(st.sampled_from(fit), min_size=least, max_size=most, unique=True))
        name = f"bolt-{i}"
        components[name] = {"role": role, "tasks": draw_(st.integers(1, 2))}
        hear(name, sources)
    for name in list(behind):
        if name not in {s["from"] for s in streams}:
            components[f"out-{name}"] = {"role": "sender", "tasks": draw_(st.integers(1, 2))}
            hear(f"out-{name}", [name])
    several = draw_(st.lists(st.sampled_from(list(behind)), unique=True, max_size=3))
    if emitting := [name for name in several if components[name]["role"] != "sender"]:
        components["also"] = {"role": "sender", "tasks": 1}
        hear("also", emitting)
    roles = {c["role"] for c in components.values()}
    for role, key, value in (
        ("multiplier", "multiplier", {"min": 1, "max": CHILDREN, "mean": CHILDREN, "sd": 0}),
        ("join", "routing", "one-per-window"),
    ):
        for component in components.values():
            if component["role"] == role:
                component[key] = value
    window = {"window": EACH} if roles & {"window", "join"} else {}
    return {"load_aware": False, "ackers": 1, **window, "components": components, "streams": streams}


def experiment(topology: dict[str, Any]) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "random",
            "topology": topology,
            "workload": {"rate_tps": 5},
            "cluster": {"kind": "simulator", "nodes": 2, "slots_per_node": 1},
            "measure": {
                "bucket_s": 1,
                "burn_in": {"least_s": 1, "most_s": 1},
                "interval": {"least_s": 5, "most_s": 5},
            },
            "steps": {"plan": [{"executors": 1}]},
        }
    )


@given(graphs())
@settings(max_examples=budget(60), deadline=None)
def test_every_copy_of_every_member_comes_to_the_sinks_that_the_graph_says(topology: dict[str, Any]) -> None:
    """Windows of one tuple hold nothing back, multipliers always make three: each count is exact."""
    made = experiment(topology)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(
            Path(folder), "random", {"experiment.yaml": dump(made)}, describe("simulator", {"storm": "2.8.3"})
        )
        carry_out(made, run, lambda _: None)
        rows = pq.read_table(run.step_path(0) / "latency.parquet").to_pandas()
        ledger = run.quality(0).ledger
    assert ledger["balanced"], ledger["reason"]
    assert ledger["complete"], ledger
    mine = rows[rows["in_interval"]]
    seen = Counter(zip(mine["sink"], mine["message_id"], mine["child"], strict=True))
    expected, due = expected_members(made), Counter[tuple[str, int, int]]()
    ids = np.unique(mine["message_id"].to_numpy())
    assert ids.size == 25
    for sink in expected.sinks:
        for child in range(CHILDREN + 2):
            copies = expected.copies(sink, ids, np.full(ids.size, child))
            due.update({(sink, int(i), child): int(n) for i, n in zip(ids, copies, strict=True) if n})
    assert seen == due
    assert expected.sure == set(expected.sinks)
    members = Counter(message for _, message, _ in {("", m, c) for _, m, c in seen})
    assert members == Counter(dict(zip(ids.tolist(), expected.members(ids).tolist(), strict=True)))


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
