"""A real topology that gets more than it can do: the step ends finished, says so, and leaves nothing behind.

Bolt A waits 50 ms for each message, so one executor does not reach 20 a second, however fast the machine is.
It gets 32, and then, without a restart, 8.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.parquet as pq
import pytest
from campaigns import carry_out

from harness.analysis.checks import Samples, run_checks, unusable
from harness.analysis.inputs import read_raw
from harness.backends.local import LocalCluster
from harness.experiments.contracts import Progress
from harness.runs import Run

pytestmark = pytest.mark.system

EXPERIMENT = {
    "name": "overload",
    "topology": {
        "name": "fields-to-fields",
        "load_aware": False,
        "tasks": 2,
        "ackers": 1,
        "service": {"bolt-a": {"kind": "wait", "distribution": "constant", "mean_ms": 50}},
    },
    "workload": {"rate_tps": 32},
    "cluster": {"nodes": 2, "slots_per_node": 2},
    "measure": {
        "burn_in": {"least_s": 12, "most_s": 14, "drift_pct": 25},
        "interval": {"least_s": 14, "most_s": 14, "looks": 1, "precision_pct": 50},
    },
    "steps": {"plan": [{"executors": 1, "workers": 1}, {"executors": 1, "workers": 1, "rate_tps": 8}]},
}


@pytest.fixture(scope="module")
def run(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    watch: Callable[[Progress], None] = lambda _: None  # noqa: E731
    return carry_out(EXPERIMENT, cluster, tmp_path_factory.mktemp("overload"), watch)


def test_the_overloaded_step_is_called_saturated_and_its_throughput_is_what_one_executor_can_do(
    run: Run,
) -> None:
    full, free = (run.quality(step) for step in (0, 1))
    assert full.saturated
    assert full.backlog is not None
    assert 0.7 * 20 < full.backlog.throughput_tps < 20
    assert full.backlog.growth_tps == pytest.approx(32 - full.backlog.throughput_tps, abs=0.1)
    assert not free.saturated
    assert free.backlog is not None
    assert free.backlog.throughput_tps == pytest.approx(8, abs=1)


def test_all_of_the_backlog_came_out_and_none_of_it_in_the_next_step(run: Run) -> None:
    for step in (0, 1):
        ledger = run.quality(step).ledger
        assert ledger["balanced"], ledger["reason"]
        assert ledger["complete"]
    assert run.quality(1).ledger["earlier"] == 0
    latency = pq.read_table(run.step_path(1) / "latency.parquet")["ground_truth_ms"].to_numpy()
    backlog_s = pq.read_table(run.step_path(0) / "latency.parquet")["ground_truth_ms"].to_numpy().max() / 1e3
    assert backlog_s > 5  # at 12 of 32 messages a second for 26 s
    assert latency.min() < 1000


def test_the_run_is_not_invalid_for_it(run: Run) -> None:
    (run.path / "predictions.parquet").unlink(missing_ok=True)
    record = read_raw(run.path)
    found = run_checks(record, {s.index: Samples(values=100) for s in record.steps})
    assert 0 not in unusable(found)
    said = {r.check: r for r in found if r.step == 0}
    assert said["steady"].status == "valid"
    assert said["steady"].detail.startswith("saturated: the backlog grew by")
