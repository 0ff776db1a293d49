"""Workers and topologies that die.

A worker is killed while a step is measured: the step is measured once more, on a whole plan. One that cannot
even start stops the campaign with the cause, as does a topology that somebody kills between two steps.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from campaigns import carry_out
from short_experiments import SMALL_ALL_IN_ONE

from harness.backends.local.cluster import LocalCluster
from harness.errors import ClusterError
from harness.experiments.contracts import Progress
from harness.runs import Run

pytestmark = pytest.mark.system

EXPERIMENT = {
    "name": "killed",
    **SMALL_ALL_IN_ONE,
    "measure": {
        # as old as a worker must be so that its successor is told from it
        "burn_in": {"least_s": 5, "most_s": 5, "drift_pct": 90},
        "interval": {"least_s": 14, "most_s": 14, "looks": 1, "precision_pct": 50},
    },
    "steps": {"plan": [{"executors": 2, "workers": 4}]},
}


def a_worker() -> psutil.Process:
    """The process of one worker of the topology."""
    return next(
        p
        for p in psutil.process_iter(["cmdline"])
        if "org.apache.storm.daemon.worker.Worker" in (p.info["cmdline"] or [])
        and any("killed-" in part for part in p.info["cmdline"])
        and "-Dlogfile.name=worker.log" in p.info["cmdline"]
    )


def test_a_killed_worker(cluster: LocalCluster, tmp_path: Path, figure: Callable[[str], None]) -> None:
    seen: list[Progress] = []

    def watch(now: Progress) -> None:
        if now.phase == "measure" and not any(p.phase == "measure" for p in seen):
            os.kill(a_worker().pid, signal.SIGKILL)
        seen.append(now)

    run = carry_out(EXPERIMENT, cluster, tmp_path, watch)
    assert run.finished_steps == (0,)
    assert run.interval(0).attempt == 2
    quality = run.quality(0)
    assert quality.plan_as_asked.ok
    assert quality.plan_unchanged.ok, quality.plan_unchanged.detail
    assert quality.ledger.balanced, quality.ledger.reason
    assert any("workers restarted" in p.detail for p in seen)
    # Windows and children: every message's members are accounted for, in windows or at the sink.
    assert quality.ledger.lost == 0
    assert quality.ledger.absorbed + quality.ledger.received == quality.ledger.sent
    figure(f"attempt {run.interval(0).attempt}: lost {quality.ledger.lost} of {quality.ledger.sent}")


QUICKLY = {
    "topology": {"name": "fields-to-fields", "load_aware": False, "tasks": 2, "ackers": 1},
    "measure": {
        "bucket_s": 1,
        "attempts": 1,
        "burn_in": {"least_s": 1, "most_s": 2, "drift_pct": 90},
        "interval": {"least_s": 5, "most_s": 5, "looks": 1, "precision_pct": 50},
    },
    "steps": {"plan": [{"executors": 1, "workers": 1}, {"executors": 2, "workers": 2}]},
}


def test_a_plan_for_a_topology_that_is_gone_is_one_line_and_what_was_measured_stays(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Somebody kills it as the second step is asked for."""
    name = "gone"

    def watch(now: Progress) -> None:
        if now.phase == "rebalance":
            cluster.nimbus.kill(name)

    with pytest.raises(ClusterError, match=f"there is no topology {name} .it was killed") as gone:
        carry_out({**EXPERIMENT, **QUICKLY, "name": name}, cluster, tmp_path, watch)
    assert "\n" not in str(gone.value)
    assert gone.value.exit_status == 1
    (path,) = (tmp_path / name).iterdir()
    assert Run(path).finished_steps == (0,)
    cluster.check()  # the servers are well


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        # the cluster's own -Xms is 256 MB
        ("-Xmx64m", "Initial heap size set to a larger value than the maximum heap size"),
        ("-Xms4t -Xmx4t", "There is insufficient memory for the Java Runtime Environment to continue."),
    ],
)
def test_a_worker_that_cannot_start(cluster: LocalCluster, tmp_path: Path, options: str, cause: str) -> None:
    """By a setting of the experiment; OpenJDK's own words are the cause that is shown."""
    if "4t" in options and Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "1":
        pytest.skip("this kernel grants any amount of memory")
    topology = {
        "name": "fields-to-fields",
        "load_aware": False,
        "tasks": 1,
        "ackers": 1,
        "storm": {"topology.worker.childopts": options},
    }
    name = f"unstartable-{len(options)}"
    settings = {
        **EXPERIMENT,
        "name": name,
        "topology": topology,
        "steps": {"plan": [{"executors": 1, "workers": 1}]},
    }
    try:
        with pytest.raises(ClusterError) as e:
            carry_out(settings, cluster, tmp_path, lambda _: None)
    finally:
        cluster.nimbus.kill(name)
    assert re.fullmatch(rf"the worker on node-\d:\d+ died at its start: {re.escape(cause)}", e.value.message)
    assert cause in e.value.excerpt
    assert Path(e.value.log).is_file()
    cluster.check()  # the servers are well
