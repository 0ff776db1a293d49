"""Edited run directories: what was changed in a copy of an archived run is named, and no unaltered one is.

The edits are those of a review that got ``valid`` for each of them (``rel.py`` of its reproductions).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from altered_runs import REPORTS, copy

from harness.analysis.judge import raw_steps
from harness.analysis.judge.checks import run_checks, verdict
from harness.analysis.judge.resampling import resample
from harness.analysis.spark.inputs import read_raw
from harness.machine import seals
from harness.protocols import CheckResult
from harness.schemas import Metric, MetricField

RUN = REPORTS / "runs" / "loaded-window-10" / "20261123T172816Z"
INVALID = REPORTS / "runs" / "loaded-load-aware" / "20261123T175010Z"
Edit = Callable[[Path], object]


def judge(run: Path, only: Sequence[int] = ()) -> list[CheckResult]:
    record = read_raw(run)
    if only:
        record = replace(record, steps=tuple(s for s in record.steps if s.index in only))
    samples = {s.index: raw_steps.samples(raw_steps.read_step(s)) for s in record.steps}
    return list(run_checks(record, samples))


def failed(run: Path) -> dict[tuple[str, int | None], str]:
    return {(c.check, c.step): c.detail for c in judge(run) if c.status != "valid"}


def change_json(name: str, **values: Any) -> Edit:
    def edit(step: Path) -> None:
        path = step / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return edit


def change_ledger(**values: int) -> Edit:
    def edit(step: Path) -> None:
        path = step / "quality.json"
        said = json.loads(path.read_text())
        path.write_text(json.dumps(said | {"ledger": said["ledger"] | values}))

    return edit


def halve_latencies(step: Path) -> None:
    path = step / "latency.parquet"
    table = pq.read_table(path)
    at = table.schema.get_field_index("ground_truth_ms")
    halved = pc.multiply(table["ground_truth_ms"], 0.5)
    pq.write_table(table.set_column(at, table.schema.field(at), halved), path)


def drop_slower_half(step: Path) -> None:
    path = step / "latency.parquet"
    table = pq.read_table(path)
    slow = float(np.median(table["ground_truth_ms"].to_numpy()))
    pq.write_table(table.filter(pc.less(table["ground_truth_ms"], slow)), path)


def take_tasks_of_another_run(step: Path) -> None:
    path = step / "metrics.parquet"
    table = pq.read_table(path)
    at = table.schema.get_field_index("task")
    pq.write_table(
        table.set_column(at, table.schema.field(at), pc.add(table["task"], 1000).cast("int32")), path
    )


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (halve_latencies, "ground truths that are not from entered_ns to left_ns"),
        (drop_slower_half, "and the ledger 4800 received"),
        (change_json("interval.json", mean_ms=1.0), "the mean is 1 ms in interval.json and 234.757"),
        (change_json("interval.json", precision_pct_reached=0.1), "interval.json has ±0.1 % reached"),
        (change_json("interval.json", half_width_ms=0.1), "the half-width of the mean is 0.1 ms"),
        (change_json("interval.json", rate_tps=80.0), "interval.json has 80 messages/s, experiment.yaml 160"),
        (change_json("interval.json", configuration="spec-0/9x2@160"), "interval.json is of spec-0/9x2@160"),
        (change_json("interval.json", step=0), "interval.json is of step 0"),
        (change_json("interval.json", precision_pct_asked=50.0), "was asked for ±50 %"),
        (change_json("quality.json", absent={"steady": "x"}), "do not apply, and they do: steady"),
        (change_ledger(received=4799, lost=1), "4800 messages, and the ledger 4799 received"),
        (take_tasks_of_another_run, "metrics.parquet has tasks that plan.json has not"),
    ],
)
def test_what_was_changed_is_named(edit: Edit, says: str, tmp_path: Path) -> None:
    run = copy(RUN, tmp_path)
    edit(run / "steps" / "01")
    found = judge(run, only=(0, 1))
    details = {(c.check, c.step): c for c in found}
    assert details["agreement", 1].status == "invalid"
    assert says in details["agreement", 1].detail
    assert verdict(found) == "invalid"
    assert details["agreement", 0].status == "valid"


def test_round_trips_between_nodes_are_of_no_task(tmp_path: Path) -> None:
    """Provisioned hosts are probed (`round_trip`, task -1); runs on them were invalid by it once."""
    run = copy(RUN, tmp_path)
    path = run / "steps" / "01" / "metrics.parquet"
    table = pq.read_table(path)
    row = table.slice(0, 1).to_pylist()[0] | {
        **dict.fromkeys(("component", "worker"), ""),
        **{"measurement": Metric.ROUND_TRIP, "field": MetricField.RTT_MS, "task": -1, "value": 6.3},
        **{"stream": "node-1", "peer": "node-2"},
    }
    pq.write_table(pa.concat_tables([table, pa.Table.from_pylist([row], table.schema)]), path)
    details = {(c.check, c.step): c for c in judge(run, only=(0, 1))}
    assert details["agreement", 1].status == "valid"


def test_steps_that_changed_places_are_named(tmp_path: Path) -> None:
    run = copy(RUN, tmp_path)
    steps = run / "steps"
    for name, other in (("00", "aside"), ("01", "00"), ("aside", "01")):
        (steps / name).rename(steps / other)
    assert {check for check, _ in failed(run)} >= {"agreement"}


def test_checks_said_to_be_absent_do_not_make_an_invalid_run_valid(tmp_path: Path) -> None:
    names = ("steady", "burn-in", "precision", "generator", "ledger", "backlog", "metrics", "agreement")
    run = copy(INVALID, tmp_path)
    for step in run.glob("steps/*"):
        change_json("quality.json", absent=dict.fromkeys(names, "x"))(step)
    found = failed(run)
    assert {check for check, _ in failed(INVALID)} <= {check for check, _ in found}
    assert sum(check == "agreement" for check, _ in found) == len(list(run.glob("steps/*")))


def test_a_simulated_run_that_is_called_measured_is_invalid(tmp_path: Path) -> None:
    run = copy(RUN, tmp_path)
    yaml = run / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("kind: local", "kind: simulator", 1))
    said = "cluster: local in environment.json, and simulator in experiment.yaml"
    assert failed(run)["real-cluster", None] == said


def test_a_seal_names_the_file_that_was_changed_after_it(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    run = copy(RUN, tmp_path)
    for step in run.glob("steps/*"):
        seals.seal(step)
    assert failed(run) == {}
    plan = run / "steps" / "02" / "plan.json"
    plan.write_text(plan.read_text() + "\n")  # what no comparison of the files can find
    found = failed(run)
    assert found == {("seal", 2): "plan.json was changed"}
    figure(f"seal: {found['seal', 2]}")
    (run / "steps" / "00" / "notes.txt").write_text("added")
    assert failed(run)["seal", 0] == "notes.txt was added"


def test_a_run_that_seals_its_steps_has_every_seal_and_all_evidence(tmp_path: Path) -> None:
    run = copy(RUN, tmp_path)
    environment = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps(environment | {"sealed": True}))
    for step in list(run.glob("steps/*"))[1:]:
        seals.seal(step)
    found: Mapping[tuple[str, int | None], str] = failed(run)
    assert [detail for (check, _), detail in found.items() if check == "seal"] == ["seal.json is missing"]
    assert ("clocks", 1) in found  # the run was measured before clocks were compared


def test_a_run_from_before_says_that_it_is_not_sealed() -> None:
    assert {c.detail for c in judge(RUN) if c.check == "seal"} == {"not sealed"}
    assert failed(RUN) == {}


def test_a_night_that_was_drawn_anew_says_so(tmp_path: Path) -> None:
    night = resample(RUN, tmp_path / "night", seed=1)
    found = {c.check: c for c in judge(night) if c.step == 0}
    for check in ("agreement", "seal"):
        assert found[check].status == "valid"
        assert found[check].detail == "does not apply: drawn anew from another night"


@pytest.mark.deep
@pytest.mark.parametrize("run", sorted(REPORTS.glob("runs/*/*")), ids=lambda p: f"{p.parent.name}-{p.name}")
def test_every_archived_run_keeps_its_verdict(run: Path) -> None:
    kept = json.loads((run / "verdict.json").read_text())
    found = judge(run)
    assert verdict(found) == kept["verdict"]
    before = {(c["check"], c["step"]) for c in kept["checks"] if c["status"] != "valid"}
    assert {(c.check, c.step) for c in found if c.status != "valid"} == before
