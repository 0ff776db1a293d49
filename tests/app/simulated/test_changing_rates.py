"""A step whose rate changes, on the simulator cluster: sent as scheduled, accounted for, and no source."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from harness.analysis.judge.checks import run_checks, unusable
from harness.analysis.judge.raw_steps import read_step, samples
from harness.analysis.spark.inputs import read_raw
from harness.app.simulated.campaign import carry_out
from harness.experiments.loading import files, load
from harness.experiments.records import CHANGES
from harness.machine.environment import describe
from harness.runs import Run

FILE = """\
name: changing
topology: {name: fields-to-fields, load_aware: false, tasks: 4, ackers: 2}
workload: {rate_tps: 100, changes: [{at_s: 6, rate_tps: 300}]}
cluster: {kind: simulator, nodes: 2, slots_per_node: 2}
measure:
  burn_in: {least_s: 2, most_s: 4, drift_pct: 90}
  interval: {least_s: 10, most_s: 12, looks: 1, precision_pct: 50}
steps:
  plan:
    - {executors: 2, workers: 4}
    - {executors: 2, workers: 4, changes: []}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("changing")
    (folder / "changing.yaml").write_text(FILE)
    experiment = load(folder / "changing.yaml")
    kept = Run.create(
        folder / "runs", "changing", files(experiment), describe("simulator", {"storm": "2.8.3"})
    )
    carry_out(experiment, kept, lambda _: None)
    return kept


def test_messages_are_due_as_the_schedule_has_them(run: Run) -> None:
    """6 s of 100/s and 6 s of 300/s: 600 + 1800, in the mean 200/s; the burn-in lasts its 4 s."""
    at = run.interval(0)
    rows = pq.read_table(
        run.step_path(0) / "latency.parquet", columns=["in_interval", "scheduled_ns"]
    ).to_pandas()
    inside_s = (rows["scheduled_ns"][rows["in_interval"]] - at.start_ns) / 1e9
    assert ((inside_s < 6).sum(), inside_s.size) == (600, 2400)
    assert (at.rate_tps, at.burn_in.seconds, at.end_ns - at.start_ns) == (200, 4, 12 * 10**9)
    assert run.interval(1).rate_tps == 100
    ledger = run.quality(0).ledger
    assert ledger is not None
    assert ledger.balanced


def test_checks_of_one_rate_do_not_apply_and_it_is_no_source(run: Run) -> None:
    record = read_raw(run.path)
    results = run_checks(record, {step.index: samples(read_step(step)) for step in record.steps})
    mine = {r.check: r for r in results if r.step == 0}
    for name in CHANGES:
        assert mine[name].detail == "does not apply: the step's rate changes while it is measured"
    assert [r for r in mine.values() if r.status != "valid"] == []
    assert unusable(results) == {0: ("invalid", "step 0: changes: 100 messages/s, 300 from 6 s: no source")}
    assert [step.changes for step in record.steps] == [True, False]
    assert run.interval(0).configuration == "spec-0/2x4@100>300"
