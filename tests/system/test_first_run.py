"""One ``harness run`` on the real cluster, from the command to the report, with a delay of known length.

Bolt A waits 20 ms for each message, bolt B does not; otherwise they do the same work. Two steps, the
second by rebalance. What is asserted are identities and the delay, not how fast the machine is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.analysis.judge.predicting import predict
from harness.experiments.progress import ProgressReader
from harness.machine import sandbox
from harness.runs import Run

pytestmark = pytest.mark.system

DELAY_MS = 20.0
GIVEN = {"step", "rate_tps", "attempt", "precision_pct_asked", "start_epoch_ms", "end_epoch_ms"}
"""Keys of ``interval.json`` that were asked for, or say which metric buckets are the interval's."""
EXPERIMENT = {
    "name": "delay",
    "models": ["composite", "no-change"],
    "topology": {
        "name": "fields-to-fields",
        "load_aware": False,
        "tasks": 4,
        "ackers": 2,
        "service": {"bolt-a": {"kind": "wait", "distribution": "constant", "mean_ms": DELAY_MS}},
    },
    "workload": {"rate_tps": 40},
    "cluster": {"nodes": 2, "slots_per_node": 2},
    "measure": {
        "attempts": 1,
        "burn_in": {"least_s": 14, "most_s": 14, "drift_pct": 50},
        "interval": {"least_s": 10, "most_s": 10, "looks": 1, "precision_pct": 50},
    },
    "steps": {"plan": [{"executors": 2, "workers": 4}, {"executors": 4, "workers": 2}]},
}


LOAD_RELATED = {"steady", "burn-in", "precision", "generator", "metrics", "stolen"}
"""Checks that a machine which does other work at the same time may spoil."""


@dataclass(frozen=True)
class Ended:
    """How the command ended."""

    status: int
    said: str
    answer: dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("first-run")


@pytest.fixture(scope="module")
def ended(folder: Path) -> Ended:
    (folder / "delay.yaml").write_text(json.dumps(EXPERIMENT))  # JSON is YAML
    # Where the tests live in a sandbox the command, as its user's would, makes one of its own.
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK}
    command = [sys.executable, "-m", "harness", "run", str(folder / "delay.yaml")]
    done = subprocess.run(
        [*command, "--runs", str(folder), "--json"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=800,
        check=False,
    )
    assert done.returncode in (0, 3, 4), done.stderr[-3000:]
    return Ended(done.returncode, done.stderr, json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def run(ended: Ended) -> Run:
    return Run(Path(ended.answer["run"]))


def test_the_command_says_each_phase_and_its_status_is_the_verdict(ended: Ended, run: Run) -> None:
    for phase in ("submit", "rebalance", "burn-in", "measure", "drain", "done"):
        assert phase in ended.said
    assert "Traceback" not in ended.said
    verdict = json.loads((run.path / "verdict.json").read_text())
    assert ended.answer["verdict"] == verdict["verdict"]
    assert ended.status == {"valid": 0, "invalid": 3, "unknown": 4}[verdict["verdict"]]
    spoilt = {c["check"]: c["detail"] for c in verdict["checks"] if c["status"] != "valid"}
    assert spoilt.keys() <= LOAD_RELATED, spoilt


def test_every_event_is_in_the_progress_file(run: Run) -> None:
    """Both plans, both steps' phases in order, messages counted, every second; the settled ledgers."""
    events = ProgressReader(run.path).read()
    assert (events[0].event, events[-1].event, events[-1].detail) == ("begin", "end", "finished")
    for step, how in enumerate(("submit", "rebalance")):
        mine = [e for e in events if e.step == step]
        phases = [e.phase for e in mine if e.event == "phase"]
        assert phases == [how, "burn-in", "measure", "drain", "done"]
        assert [e.plan for e in mine if e.plan] == [run.plan(step).start]
        assert mine[-1].ledger == run.quality(step).ledger_counts
        for phase in ("burn-in", "measure"):  # at most one a second, and at least one every 2 s
            times = [e.time for e in mine if e.phase == phase]
            apart_s = [(b - a).total_seconds() for a, b in pairwise(times)]
            assert len(apart_s) >= 5
            assert min(apart_s) >= 0.99
            assert max(apart_s) <= 2.0
        watched = [e for e in mine if e.phase == "measure"]
        sent = [e.ledger["sent"] for e in watched]
        assert sent == sorted(sent)
        assert sent[-1] > sent[0] > 0
        last = watched[-1]
        assert last.latency_ms is not None
        assert last.latency_ms > DELAY_MS


def test_the_report_has_every_output_and_asks_nobody(run: Run) -> None:
    for name in ("report.html", "predictions.parquet", "errors.parquet", "summary.json"):
        assert (run.path / name).stat().st_size > 0
    page = (run.path / "report.html").read_text()
    assert "<svg" in page
    assert not re.search(r"""(?:src|href)=["']https?:""", page)


def test_models_answer_for_every_pair_of_steps(run: Run) -> None:
    rows = pq.read_table(run.path / "predictions.parquet").to_pandas()
    answered = rows[(rows["measure"] == "ground_truth_latency_ms") & rows["value"].notna()]
    for model in ("composite", "no-change"):
        pairs = answered.loc[answered["model"] == model, ["source_step", "proposed_step"]].drop_duplicates()
        assert len(pairs) == 4


def hops(run: Run, step: int) -> pd.DataFrame:
    """One row a message: task, and received and emitted times of its four components."""
    rows = pq.read_table(run.step_path(step) / "latency.parquet").to_pandas()
    parts = {
        (component, what): [h[i][field] for h in rows["hops"]]
        for i, component in enumerate(("spout", "bolt-a", "bolt-b", "sender"))
        for what, field in (("task", "task"), ("received", "received_ns"), ("emitted", "emitted_ns"))
    }
    return pd.DataFrame({**parts, ("row", "ground_truth_ms"): rows["ground_truth_ms"]})


def test_both_plans_are_the_asked_ones_and_did_not_change(run: Run) -> None:
    for step, (executors, workers) in enumerate([(2, 4), (4, 2)]):
        plan = run.plan(step)
        assert plan.start.executors == plan.end.executors
        counts = plan.start.configuration()
        assert counts == plan.asked
        assert {n: c for n, c in counts.executors.items() if not n.startswith("__")} == dict.fromkeys(
            ("spout", "bolt-a", "bolt-b", "sender"), executors
        )
        assert counts.workers == workers
        assert run.quality(step).plan_as_asked.ok
        assert run.quality(step).plan_unchanged.ok


def test_the_ledger_balances_and_nothing_is_lost(run: Run) -> None:
    for step in (0, 1):
        ledger = run.quality(step).ledger
        assert ledger.balanced, ledger.reason
        assert ledger.complete
        # 10 s at 40 messages a second, by the schedule; a boundary may fall on either side
        assert abs(ledger.sent - 400) <= 1


def test_the_hop_records_parts_add_up_to_the_ground_truth(run: Run) -> None:
    for step in (0, 1):
        h = hops(run, step)
        components = ("spout", "bolt-a", "bolt-b", "sender")
        service = sum(h[c, "emitted"] - h[c, "received"] for c in components)
        between = sum(h[b, "received"] - h[a, "emitted"] for a, b in pairwise(components))
        assert ((service + between) == (h["sender", "emitted"] - h["spout", "emitted"])).all()
        assert np.allclose((service + between) / 1e6, h["row", "ground_truth_ms"], rtol=0, atol=1e-9)
        assert (between > 0).all()


def test_a_delay_of_20_ms_is_measured_back_within_a_fifth_of_a_millisecond(run: Run) -> None:
    for step in (0, 1):
        h = hops(run, step)
        delayed, plain = ((h[c, "emitted"] - h[c, "received"]) / 1e6 for c in ("bolt-a", "bolt-b"))
        assert (delayed >= DELAY_MS).all()
        # of the quickest hundredth: the very quickest is one tuple's luck, and what the machine's other
        # work adds to a message is not the delay
        assert delayed.quantile(0.01) - plain.quantile(0.01) == pytest.approx(DELAY_MS, abs=0.2)


def test_a_delay_of_20_ms_is_measured_back_of_the_median_message(run: Run) -> None:
    """Of the median message no more is added than bolt B's own work varies by, and one more waking up.

    Both are measured beside the delay: a machine that is slow, or busy with other work, widens them as it
    does the delayed bolt's times. From one bolt's emit to the next one's receipt a thread wakes up at least
    once, as it does after the delay.
    """
    for step in (0, 1):
        h = hops(run, step)
        delayed, plain = ((h[c, "emitted"] - h[c, "received"]) / 1e6 for c in ("bolt-a", "bolt-b"))
        varies = plain.quantile(0.95) - plain.min()
        woken = (h["bolt-b", "received"] - h["bolt-a", "emitted"]).median() / 1e6
        added = delayed.median() - plain.median()
        print(f"\nstep {step}: {added:.3f} ms; varies by {varies:.3f} ms, woken in {woken:.3f} ms")
        assert DELAY_MS - varies <= added <= DELAY_MS + varies + woken


def test_the_wrappers_agree_with_the_hop_records(run: Run) -> None:
    """Of every task: by the end of its last bucket, each message taken by then is counted, and its time.

    A bucket ends between two messages, so counts and hop records can be compared exactly but for what the
    harness's two clocks, read one after the other, may differ by. Wall time is the hop's and what is around.
    """
    apart_ns = 5 * 10**8
    for step in (0, 1):
        metrics = pq.read_table(run.step_path(step) / "metrics.parquet").to_pandas()
        assert metrics["worker"].astype(str).str.match(r"node-\d:\d+").all()
        interval, h = run.interval(step), hops(run, step)
        of = metrics[
            (metrics["component"] == "bolt-a") & metrics["measurement"].isin(["received", "service"])
        ]
        assert set(of["task"]) == set(h["bolt-a", "task"])
        for task, reported in of.groupby("task"):
            after_ms = int(reported["bucket_end_ms"].max()) - interval.start_epoch_ms
            end_ns = interval.start_ns + after_ms * 10**6
            mine = h[h["bolt-a", "task"] == task]
            surely, perhaps = (mine[mine["bolt-a", "emitted"] < end_ns + d] for d in (-apart_ns, apart_ns))
            assert len(surely) > 0
            total = reported.groupby(["measurement", "field"], observed=True)["value"].sum()
            assert len(surely) <= total["received", "count"] <= len(perhaps)
            assert len(surely) <= total["service", "count"] <= len(perhaps)
            hop_ns = (surely["bolt-a", "emitted"] - surely["bolt-a", "received"]).sum()
            assert total["service", "wall_sum_ns"] >= hop_ns


def test_storms_complete_latency_covers_the_delay(run: Run) -> None:
    for step in (0, 1):
        found = run.interval(step).complete_latency_ms
        assert len(found) == (2, 4)[step]
        for spout in found.values():
            assert spout.acked > 0
            assert spout.mean_ms is not None
            assert spout.mean_ms >= DELAY_MS


def other(number: float) -> float:
    """Return another number for each that is not negative, near enough for models to go on with."""
    return number + number // 8 + 1


def others(said: Any) -> Any:
    """Return ``interval.json`` with other numbers for all that was measured; what was asked for stays."""
    if isinstance(said, dict):
        return {key: value if key in GIVEN else others(value) for key, value in said.items()}
    return other(said) if isinstance(said, int | float) and not isinstance(said, bool) else said


def overwrite(step: Path) -> None:
    """Put other values into all that was measured in a step; rows, and which are in the interval, stay."""
    latency = pq.read_table(step / "latency.parquet")
    columns = {name: latency[name].to_pylist() for name in latency.column_names}
    for name in columns.keys() - {"in_interval", "path", "sink", "hops"}:
        columns[name] = [None if value is None else other(value) for value in columns[name]]
    columns["path"].reverse()
    columns["hops"] = [
        [{**hop, **{k: other(hop[k]) for k in ("received_ns", "emitted_ns")}} for hop in hops]
        for hops in columns["hops"]
    ]
    overwritten = pa.table(columns, schema=latency.schema)
    same = {n for n in latency.column_names if overwritten[n].to_pylist() == latency[n].to_pylist()}
    assert same <= {"in_interval", "sink"}  # a topology with one sink task has one sink in every row
    pq.write_table(overwritten, step / "latency.parquet")
    metrics = pq.read_table(step / "metrics.parquet")
    at = metrics.schema.get_field_index("value")
    values = other(metrics["value"].to_numpy())
    pq.write_table(metrics.set_column(at, "value", [values]), step / "metrics.parquet")
    interval = json.loads((step / "interval.json").read_text())
    assert interval["complete_latency_ms"]
    (step / "interval.json").write_text(json.dumps(others(interval)))


def test_a_prediction_does_not_see_the_other_steps(run: Run, tmp_path: Path) -> None:
    """All that was measured in the other step is overwritten, and no bit of the prediction changes."""
    before = prediction_rows(run, tmp_path / "before", ())
    for source, rest in ((0, 1), (1, 0)):
        after = prediction_rows(run, tmp_path / f"from-{source}", (rest,))
        pd.testing.assert_frame_equal(before[source], after[source], check_exact=True)
        numbers = before[source]["value"].notna()
        assert {0, 1} == set(before[source].loc[numbers, "proposed_step"])
        assert not before[rest].equals(after[rest])  # what is overwritten is what predictions are made of


def prediction_rows(run: Run, copy: Path, overwritten: Sequence[int]) -> dict[int, pd.DataFrame]:
    """Return the predictions from each step of a copy, some of whose steps are overwritten."""
    shutil.copytree(run.path, copy)
    for step in overwritten:
        overwrite(Run(copy).step_path(step))
    table = predict(Run(copy)).to_pandas()
    return {step: rows.reset_index(drop=True) for step, rows in table.groupby("source_step")}
