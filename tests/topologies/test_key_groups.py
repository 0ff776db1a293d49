"""Graphs with key groups: what is refused, and where the simulator sends a key."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from changed_files import Change, line_of_mistake, read_changed

from harness.app.simulated.campaign import carry_out
from harness.experiments.loading import dump
from harness.machine.environment import describe
from harness.runs import Run
from harness.topologies.key_groups import first_table, key_group

GOOD = """\
name: keyed
topology:
  load_aware: false
  tasks: 2
  components:
    in: {role: spout}
    parse: {role: json}
    count: {role: keyed, groups: 5, forwarded_share: 1}
    total: {role: keyed, groups: 7}
    meet: {role: window, window: {kind: count, length: 1, slide: 1}}
    out: {role: sender}
  streams:
    - {from: in, to: parse, grouping: shuffle}
    - {from: parse, to: count, grouping: fields}
    - {from: count, to: total, grouping: fields}
    - {from: total, to: meet, grouping: shuffle}
    - {from: meet, to: out, grouping: shuffle}
workload: {rate_tps: 100}
steps: {plan: [{executors: 1}]}
"""
PARSED = "    - {from: parse, to: count, grouping: fields}\n"
LAST = "    - {from: total, to: meet, grouping: shuffle}\n    - {from: meet, to: out, grouping: shuffle}\n"

MISTAKES: dict[str, tuple[Change, str]] = {
    "groups of another role": (
        ("parse: {role: json}", "parse: {role: json, groups: 4}"),
        "components.parse: a json has no use for the key 'groups'",
    ),
    "no groups": (("groups: 7", "tasks: 2"), "components.total needs the key 'groups'"),
    "fewer groups than tasks": (
        ("groups: 7", "groups: 1"),
        "components.total: 1 groups are fewer than its 2 tasks",
    ),
    "another grouping": (
        ("to: total, grouping: fields", "to: total, grouping: shuffle"),
        "streams: total has key groups: count->total:default must have grouping fields",
    ),
    "another grouping by name": (
        ("  tasks: 2\n", "  tasks: 2\n  groupings: {parse->count: global}\n"),
        "streams: count has key groups: parse->count:default must have grouping fields",
    ),
    "a spout before": (
        (PARSED, f"{PARSED}    - {{from: in, to: count, grouping: fields}}\n"),
        "streams: in cannot send to count, which has key groups: put a json component between them",
    ),
    "a window before": (
        (
            LAST,
            "    - {from: count, to: meet, grouping: shuffle}\n"
            "    - {from: meet, to: total, grouping: fields}\n"
            "    - {from: total, to: out, grouping: shuffle}\n",
        ),
        "streams: meet cannot send to total, which has key groups: put a json component between them",
    ),
    "batches to it": (
        ("  tasks: 2\n", "  tasks: 2\n  batching: {parse: 5}\n"),
        "batching: parse has key groups or sends to some",
    ),
    "batches of a step": (
        ("[{executors: 1}]", "[{executors: 1, batching: {'count:default': 5}}]"),
        "batching: count has key groups or sends to some",
    ),
    "help": (
        ("  tasks: 2\n", "  tasks: 2\n  helping: {parse: {delta: 0.1, high_pct: 50, low_pct: 10}}\n"),
        "helping: parse cannot be helped: it or its helper has key groups or sends to some",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line(tmp_path: Path, mistake: str) -> None:
    change, said = MISTAKES[mistake]
    assert said in line_of_mistake(tmp_path / "keyed.yaml", GOOD, change)


def test_a_component_has_its_groups(tmp_path: Path) -> None:
    topology = read_changed(tmp_path / "keyed.yaml", GOOD).topology.own()
    assert topology.key_groups == {"count": 5, "total": 7}
    assert topology.forwarded_shares == {"count": 1.0}


def test_the_simulator_sends_a_key_where_its_group_is_at_first(tmp_path: Path) -> None:
    """Of 200 messages, all that ``parse`` sends to each task of ``count`` are those of the task's keys."""
    weights = ", ".join(f"k{i}: {i + 1}" for i in range(9))
    drawn = f"workload: {{rate_tps: 100, keys: {{{weights}}}}}\ncluster: {{kind: simulator}}\n"
    short = "measure: {bucket_s: 1, interval: {least_s: 5, most_s: 5}, burn_in: {least_s: 1, most_s: 1}}"
    steps = "steps: {plan: [{executors: 1}]}"
    changes = (("workload: {rate_tps: 100}\n", drawn), (steps, f"{steps}\n{short}"))
    made = read_changed(tmp_path / "keyed.yaml", GOOD, *changes)
    run = Run.create(
        tmp_path, "keyed", {"experiment.yaml": dump(made)}, describe("simulator", {"storm": "2.8.3"})
    )
    carry_out(made, run, lambda _: None)
    rows = pq.read_table(run.step_path(0) / "metrics.parquet").to_pandas()
    sent = rows[(rows["measurement"] == "transferred") & (rows["component"] == "parse")]
    shares = sent.groupby(sent["peer"].astype(str).astype(int))["value"].sum().sort_index()
    table, due = first_table(5, 2), [0.0, 0.0]
    for i in range(9):
        due[table[key_group(f"k{i}", 5)]] += (i + 1) / 45
    assert shares.to_numpy() / shares.sum() == pytest.approx(due, abs=0.1)
