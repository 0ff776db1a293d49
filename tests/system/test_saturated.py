"""A real topology that gets more than it can do: the step ends finished, says so, and leaves nothing behind.

Bolt A waits 100 ms for each message, so one executor does not reach 10 a second, however fast the machine is.
It gets 32, and then, without a restart, 4. How many it reaches is not asked, only that it was never idle.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pyarrow.parquet as pq
import pytest
from campaigns import carry_out

from harness.analysis.judge.checks import run_checks, unusable
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.inputs import read_raw
from harness.backends.local.cluster import LocalCluster
from harness.experiments.contracts import Progress
from harness.runs import Run

pytestmark = pytest.mark.system

DELAY_S = 0.1
EXPERIMENT = {
    "name": "overload",
    "topology": {
        "name": "fields-to-fields",
        "load_aware": False,
        "tasks": 2,
        "ackers": 1,
        "service": {"bolt-a": {"kind": "wait", "distribution": "constant", "mean_ms": 1e3 * DELAY_S}},
    },
    "workload": {"rate_tps": 32},
    "cluster": {"nodes": 2, "slots_per_node": 2},
    "measure": {
        "bucket_s": 1,
        "burn_in": {"least_s": 4, "most_s": 4, "drift_pct": 25},
        "interval": {"least_s": 6, "most_s": 6, "looks": 1, "precision_pct": 50},
    },
    "steps": {"plan": [{"executors": 1, "workers": 1}, {"executors": 1, "workers": 1, "rate_tps": 4}]},
}


@pytest.fixture(scope="module")
def run(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    watch: Callable[[Progress], None] = lambda _: None  # noqa: E731
    return carry_out(EXPERIMENT, cluster, tmp_path_factory.mktemp("overload"), watch)


def latency(run: Run, step: int) -> pd.DataFrame:
    """The step's messages, with when each was emitted by the spout, taken by bolt A and emitted by it."""
    rows = pq.read_table(run.step_path(step) / "latency.parquet").to_pandas()
    spout, bolt_a = ([h[i] for h in rows["hops"]] for i in (0, 1))
    return rows.assign(
        waiting_ns=[h["emitted_ns"] for h in spout],
        taken_ns=[h["received_ns"] for h in bolt_a],
        ready_ns=[h["emitted_ns"] for h in bolt_a],
    ).sort_values("taken_ns")


def test_the_overloaded_step_is_called_saturated_and_the_other_is_not(run: Run) -> None:
    assert run.quality(0).saturated
    assert not run.quality(1).saturated


@pytest.mark.parametrize(("step", "rate_tps"), [(0, 32), (1, 4)])
def test_throughput_is_what_came_out_in_the_interval_and_growth_is_the_rest(
    run: Run, step: int, rate_tps: float
) -> None:
    found, interval = run.quality(step).backlog, run.interval(step)
    assert found is not None
    seconds = (interval.end_ns - interval.start_ns) / 1e9
    came_out = latency(run, step)["left_ns"].between(interval.start_ns, interval.end_ns, inclusive="left")
    assert found.throughput_tps * seconds == pytest.approx(came_out.sum())
    # by the schedule; one message more or less may be due, by where the interval begins
    assert (found.throughput_tps + found.growth_tps) * seconds == pytest.approx(rate_tps * seconds, abs=1)


def test_the_overloaded_executor_takes_one_message_after_the_other_and_is_never_without(run: Run) -> None:
    """So the throughput is what one executor can do, whatever that is on this machine."""
    interval = run.interval(0)
    rows = latency(run, 0)
    rows = rows[rows["taken_ns"].between(interval.start_ns, interval.end_ns)]
    assert (rows["ready_ns"] - rows["taken_ns"] >= 1e9 * DELAY_S).all()
    ready, following = rows.iloc[:-1]["ready_ns"].to_numpy(), rows.iloc[1:]
    assert len(ready) > 0
    assert (following["taken_ns"].to_numpy() >= ready).all()
    assert (following["waiting_ns"].to_numpy() < ready).all()


def test_all_of_the_backlog_came_out_and_none_of_it_in_the_next_step(run: Run) -> None:
    for step in (0, 1):
        ledger = run.quality(step).ledger
        assert ledger.balanced, ledger.reason
        assert ledger.complete
    assert run.quality(1).ledger.earlier == 0
    before, after = (latency(run, step) for step in (0, 1))
    # 320 messages or more are due in 10 s, and one executor takes 100 ms or more for each: 32 s
    assert before["scheduled_ms"].max() > 20e3
    assert before["left_ns"].max() < after["scheduled_ns"].min()


def test_the_run_is_not_invalid_for_it(run: Run) -> None:
    (run.path / "predictions.parquet").unlink(missing_ok=True)
    record = read_raw(run.path)
    found = run_checks(record, {s.index: Samples(values=100) for s in record.steps})
    assert 0 not in unusable(found)
    said = {r.check: r for r in found if r.step == 0}
    assert said["steady"].status == "valid"
    assert said["steady"].detail.startswith("saturated: the backlog grew by")
