"""The graph that a user asked for, word for word: read, drawn, expected of, played."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from changed_files import Change, read_changed
from click.testing import CliRunner

from harness.app.simulated.campaign import carry_out
from harness.cli import main
from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.expected_members import expected_members
from harness.experiments.loading import dump
from harness.machine.environment import describe
from harness.plans import Window
from harness.runs import Run

ASKED = """\
topology:
  components:
    in-a:  {role: spout, tasks: 3}
    in-b:  {role: spout, tasks: 2}
    few:   {role: filter, tasks: 2, keep: 0.3}
    parse: {role: json, tasks: 4, service: {kind: cpu, distribution: exponential, mean_ms: 0.4}}
    spread: {role: multiplier, tasks: 4, multiplier: {min: 1, max: 4, mean: 2, sd: 1}}
    meet:  {role: join, tasks: 5, window: {kind: count, length: 7, slide: 7}, routing: parity}
    out-1: {role: sender, tasks: 2}
  streams:
    - {from: in-a, to: parse, grouping: shuffle}
    - {from: parse, to: spread, grouping: shuffle}
    - {from: spread, to: meet, grouping: fields}
    - {from: in-b, to: few, grouping: shuffle}
    - {from: few, to: meet, grouping: fields}
    - {from: meet, to: out-1, grouping: local-or-shuffle, stream: stream-5}
"""
REST = """\
  load_aware: false
name: asked
workload: {rate_tps: 60, shares: {in-a: 2, in-b: 1}}
cluster: {kind: simulator, nodes: 2, slots_per_node: 1}
measure:
  burn_in: {least_s: 2, most_s: 4}
  interval: {least_s: 20, most_s: 20}
steps: {plan: [{executors: 1}]}
"""
DRAWN = """\
in-a:3 -S
        |
in-b:2 -|-S
        | |
        | +-> few:2 -----------------F
        |                            |
        +---> parse:4 -S             |
                       |             |
                       +-> spread:4 -F
                                     |
                                     +-> meet:5 -L
                                                 |
                                                 +-> out-1:2
component:tasks; S shuffle, F fields, L local-or-shuffle
"""
SIMPLER: Change = ("routing: parity", "routing: one-per-window")
"""What the simulator plays."""


def asked(folder: Path, *changes: Change) -> Experiment:
    return read_changed(folder / "asked.yaml", ASKED + REST, *changes)


def test_each_component_and_stream_is_as_written(tmp_path: Path) -> None:
    topology = asked(tmp_path).topology.own()
    plan = topology.query_plan()
    tasks = {"in-a": 3, "in-b": 2, "few": 2, "parse": 4, "spread": 4, "meet": 5, "out-1": 2}
    assert {c.name: c.tasks for c in plan.components} == tasks
    assert [f"{s.label} {s.grouping}" for s in plan.streams] == [
        "in-a->parse:default shuffle",
        "parse->spread:default shuffle",
        "spread->meet:default fields",
        "in-b->few:default shuffle",
        "few->meet:default fields",
        "meet->out-1:stream-5 local-or-shuffle",
    ]
    windows = {c.name: c.window for c in plan.components if c.window is not None}
    assert windows == {"meet": Window(kind="count", length=7, slide=7)}
    assert topology.routings == {"meet": "parity"}
    assert asked(tmp_path).shares == {"in-a": 2, "in-b": 1}


def test_it_is_drawn_level_by_level(tmp_path: Path) -> None:
    """Each letter of the expected lines was compared with the file's six streams by hand."""
    path = tmp_path / "asked.yaml"
    path.write_text(ASKED + REST)
    said = CliRunner().invoke(main, ["check", str(path)])
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith(DRAWN)


def test_what_comes_out_is_children_of_one_input_and_kept_messages_of_the_other(tmp_path: Path) -> None:
    """A window of the parity join may go where nobody listens: nothing is sure to come out.

    Of a message by in-a at most its children do, 1 to 4; by in-b itself, where the filter keeps it.
    """
    expected, ids = expected_members(asked(tmp_path)), np.arange(3000)
    assert list(expected.sinks) == ["out-1"]
    found = expected.members(ids)
    assert (found.least == 0).all()
    most = np.bincount(found.most, minlength=5)
    assert most.size == 5  # up to four children
    # the 30 % that are kept of a third have one copy, and 70 % of it none
    assert most[0] / ids.size == pytest.approx(0.7 / 3, abs=4 * (0.7 / 3 * 0.77 / ids.size) ** 0.5)
    sure = expected_members(asked(tmp_path, SIMPLER)).members(ids)
    assert (sure.least == sure.most).all()
    assert (sure.most == found.most).all()


def test_it_is_played_and_its_books_balance_but_for_parity(tmp_path: Path) -> None:
    """Two of three messages come by in-a; with one stream, one-per-window sends all windows there."""
    with pytest.raises(UsageError, match="the simulator does not play routing: parity"):
        carry_out(asked(tmp_path), _run(tmp_path / "parity", asked(tmp_path)), lambda _: None)
    made = asked(tmp_path, SIMPLER)
    run = _run(tmp_path / "played", made)
    carry_out(made, run, lambda _: None)
    ledger = run.quality(0).ledger
    assert ledger is not None
    assert ledger.balanced, ledger.reason
    assert ledger.complete, ledger
    metrics = pq.read_table(run.step_path(0) / "metrics.parquet").to_pandas()
    emitted = metrics[(metrics["measurement"] == "emitted") & (metrics["peer"] != "__acker")]
    by = emitted.groupby("component", observed=True)["value"].sum()
    assert by["in-a"] / by["in-b"] == pytest.approx(2, rel=0.02)
    assert ledger.filtered / ledger.sent == pytest.approx(0.7 / 3, abs=0.06)
    rows = pq.read_table(run.step_path(0) / "latency.parquet").to_pandas()
    sizes = rows.groupby(["output_partition", "output_offset"]).size()
    assert set(sizes) == {7}


def _run(folder: Path, made: Experiment) -> Run:
    return Run.create(
        folder, "asked", {"experiment.yaml": dump(made)}, describe("simulator", {"storm": "2.8.3"})
    )
