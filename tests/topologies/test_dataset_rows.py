"""Graphs that make keys and aggregates of rows: both topologies of Madsen et al., and refused ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from changed_files import Change, line_of_mistake, read_changed

from harness.app.simulated.campaign import carry_out
from harness.app.simulated.networks import emitted_keys
from harness.experiments.datasets import dataset_of
from harness.experiments.loading import dump, load
from harness.machine.environment import describe
from harness.runs import Run
from harness.topologies.dataset_rows import row_key
from harness.topologies.geohash import geohash
from harness.topologies.key_groups import first_table, key_group

GOOD = """\
name: rows
topology:
  load_aware: false
  tasks: 2
  components:
    in: {role: spout}
    parse: {role: json, key: [geohash-4]}
    top: {role: keyed, groups: 5, aggregate: {kind: top-k, of: article, k: 3, window_s: 60}, key: [article]}
    all: {role: keyed, groups: 7, aggregate: {kind: merge-top-k, k: 3}}
    out: {role: sender}
  streams:
    - {from: in, to: parse, grouping: shuffle}
    - {from: parse, to: top, grouping: fields}
    - {from: top, to: all, grouping: fields}
    - {from: all, to: out, grouping: shuffle}
workload: {rate_tps: 100, dataset: wikipedia-edits}
steps: {plan: [{executors: 1}]}
"""

MISTAKES: dict[str, tuple[Change, str]] = {
    "no dataset": (
        (", dataset: wikipedia-edits", ""),
        "topology.components.parse: key and aggregate are of rows: give workload.dataset",
    ),
    "another dataset": (
        ("dataset: wikipedia-edits", "dataset: airline-delays"),
        "topology.components.parse.key: there is no field 'lat'; there are tail, year,",
    ),
    "another field of an aggregate": (
        ("of: article", "of: artikle"),
        "topology.components.top.aggregate: there is no field 'artikle'; there are at_s, user,",
    ),
    "another field": (
        ("key: [article]", "key: [artikle]"),
        "topology.components.top.key: there is no field 'artikle'; there are at_s, user,",
    ),
    "a text as a number": (
        ("{kind: top-k, of: article, k: 3, window_s: 60}", "{kind: sum, of: article}"),
        "topology.components.top.aggregate: the field 'article' is no number",
    ),
    "a merge of nothing": (
        ("{kind: top-k, of: article, k: 3, window_s: 60}", "{kind: sum, of: lat}"),
        "topology.components.all.aggregate: there is no field 'window'",
    ),
    "a row that is gone": (
        ("parse: {role: json, ", "parse: {role: json, output_bytes: 9, "),
        "topology.components.top.aggregate: there is no field 'article'; there are no fields",
    ),
    "half an aggregate": (
        (", k: 3, window_s: 60}", ", k: 3}"),
        "top-k needs the key 'window_s'",
    ),
    "more than an aggregate": (
        ("{kind: merge-top-k, k: 3}", "{kind: merge-top-k, k: 3, of: article}"),
        "merge-top-k has no use for the key 'of'",
    ),
    "a sender's key": (
        ("out: {role: sender}", "out: {role: sender, key: [article]}"),
        "components.out: a sender has no use for the key 'key'",
    ),
    "a json's aggregate": (
        ("parse: {role: json, ", "parse: {role: json, aggregate: {kind: sum, of: lat}, "),
        "components.parse: a json has no use for the key 'aggregate'",
    ),
    "two sources of keys": (
        ("parse: {role: json, ", "parse: {role: json, forwarded_share: 1, "),
        "components.parse: give key or forwarded_share",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line(tmp_path: Path, mistake: str) -> None:
    change, said = MISTAKES[mistake]
    assert said in line_of_mistake(tmp_path / "rows.yaml", GOOD, change)


def test_a_component_has_its_key_and_aggregate(tmp_path: Path) -> None:
    topology = read_changed(tmp_path / "rows.yaml", GOOD).topology.own()
    assert topology.row_keys == {"parse": ("geohash-4",), "top": ("article",)}
    assert [a.kind for a in topology.aggregates.values()] == ["top-k", "merge-top-k"]


@pytest.mark.parametrize(
    ("lat", "lon", "cell"),
    [(57.64911, 10.40744, "u4pruydqqvj"), (42.605, -5.603, "ezs42"), (0, 0, "s00"), (90, 180, "zzz")],
)
def test_a_place_has_a_cell(lat: float, lon: float, cell: str) -> None:
    """Examples of Wikipedia's article "Geohash" and corners by the definition, as in RowTest.java."""
    assert geohash(lat, lon, len(cell)) == cell


@pytest.mark.parametrize("name", ["wikipedia-edits", "airline-delays"])
def test_a_topology_of_madsen_plays_on_the_simulator(tmp_path: Path, name: str) -> None:
    """Tasks get shares of the tuples as the rows' keys and the first tables say; nothing is lost."""
    made = load(
        name,
        [
            "cluster={kind: simulator, nodes: 4, slots_per_node: 1}",
            "steps.plan=[{executors: 4, workers: 4}]",
            "measure={interval: {least_s: 60, most_s: 60}, burn_in: {least_s: 1, most_s: 1}}",
        ],
    )
    run = Run.create(
        tmp_path, name, {"experiment.yaml": dump(made)}, describe("simulator", {"storm": "2.8.3"})
    )
    carry_out(made, run, lambda _: None)
    ledger = run.quality(0).ledger
    assert ledger is not None
    assert ledger.balanced
    assert ledger.complete
    rows = pq.read_table(run.step_path(0) / "metrics.parquet").to_pandas()
    dataset, topology = dataset_of(made.input), made.topology.own()
    assert dataset is not None
    assert len(topology.key_groups) == 3
    assert sum(topology.key_groups.values()) >= 60
    for source, fields in topology.row_keys.items():
        (target,) = (s.target for s in topology.query_plan().outputs(source))
        tasks = next(c.tasks for c in topology.query_plan().components if c.name == target)
        groups, due = topology.key_groups[target], np.zeros(tasks)
        for message_id in range(20_000):
            key = row_key(dataset.row(message_id), fields)
            due[first_table(groups, tasks)[key_group(key, groups)]] += 1
        sent = rows[(rows["measurement"] == "transferred") & (rows["component"] == source)]
        shares = sent.groupby(sent["peer"].astype(str).astype(int))["value"].sum().sort_index()
        assert shares.to_numpy() / shares.sum() == pytest.approx(due / due.sum(), abs=0.03)


def test_keys_that_are_forwarded_may_be_those_of_rows(tmp_path: Path) -> None:
    forwarding = ("aggregate: {kind: merge-top-k, k: 3}}", "forwarded_share: 0.5}")
    made = read_changed(tmp_path / "rows.yaml", GOOD, forwarding)
    articles, forwarded = emitted_keys(made, "top"), emitted_keys(made, "all")
    assert sum(articles.values()) == 20_000
    assert forwarded["A"] / sum(forwarded.values()) == pytest.approx(0.5)
    assert set(forwarded) == {*articles, "A"}
