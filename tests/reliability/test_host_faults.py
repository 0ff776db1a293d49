"""Faults in the steps of an experiment on provisioned hosts: what each does, and that nothing of it stays.

Messages come every 25 ms; how long each fault lasted is what interval.json says. The hosts are namespaces of
this machine and cannot be made inside a sandbox: ``make reliability`` runs this file outside of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise

import psutil
import pytest
from hosts import Provisioned, cluster_file, harness, obstacle
from movable_clocks import clocks_obstacle
from short_experiments import RATE_TPS, short_experiment, short_measure

from harness.analysis.judge.checks import run_checks
from harness.analysis.judge.raw_steps import untiled
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.inputs import read_raw
from harness.runs import FaultMade, Run, read_table

pytestmark = pytest.mark.system

NAME = "faulty-hosts"
DELAY_MS = 50.0
LINK, FILLED, SKEWED, KILLED = range(4)
SLOW, STILL_SUPERVISOR, STILL_WORKER = range(3)
no_clocks = clocks_obstacle()
FAULTS: list[list[dict[str, object]]] = [
    [
        {"at_s": 1, "slow-link": "node-1~node-2", "delay_ms": DELAY_MS, "for_s": 3},
        {"at_s": 1.5, "stop": "supervisor", "node": "node-1", "for_s": 5},
        {"at_s": 5, "stop": "worker", "node": "node-2", "for_s": 3},
    ],
    [{"at_s": 1, "fill-disk": "node-2", "for_s": 4}],
    [] if no_clocks else [{"at_s": 1, "skew-clock": "node-2", "by_s": 6, "for_s": 5}],
    [{"at_s": 3, "kill": "worker", "node": "node-1"}],
]
"""By step."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provisioned]:
    if reason := obstacle():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        file = cluster_file(tmp_path_factory.mktemp("file"), NAME, "10.96.8.0/24")
        file.write_text(file.read_text().replace("influxdb, neo4j, ", ""))
        cluster = Provisioned(file)
        try:  # also one that takes too long leaves nothing
            made = cluster.provision()
            assert made.status == 0, made.err
            yield cluster
        finally:
            harness("deprovision", NAME, "--yes")


@pytest.fixture(scope="module")
def run(hosts: Provisioned, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("faulty")
    plan = [{"executors": 1, "workers": 2, "faults": faults} for faults in FAULTS]
    small = short_experiment(NAME, short_measure(12, 10), tasks=2, ackers=1, slots_per_node=2)
    file = folder / "experiment.yaml"
    file.write_text(json.dumps({**small, "cluster": str(hosts.file), "steps": {"plan": plan}}))
    done = harness("run", str(file), "--runs", str(folder / "runs"))
    assert done.status in (0, 3, 4), done.err
    (found,) = (folder / "runs" / NAME).iterdir()
    return Run(found)


def made_in(run: Run, step: int) -> tuple[FaultMade, ...]:
    return run.interval(step).faults


def lasted_ms(made: FaultMade) -> float:
    assert made.problem == ""
    assert made.at_ns is not None
    assert made.until_ns is not None
    return (made.until_ns - made.at_ns) / 1e6


def test_each_step_is_measured_once_with_its_faults_and_is_no_evidence(
    run: Run, figure: Callable[[str], None]
) -> None:
    assert run.finished_steps == tuple(range(len(FAULTS)))
    record = read_raw(run.path)
    found = run_checks(record, {s.index: Samples(values=100) for s in record.steps})
    for step, told in enumerate(r for r in found if r.check == "faults"):
        interval = run.interval(step)
        assert interval.attempt == 1
        assert told.status == "valid", told.detail
        assert interval.evidence == (not FAULTS[step])
        assert told.detail.endswith("; no evidence for models") != interval.evidence
        for asked, made in zip(FAULTS[step], interval.faults, strict=True):
            assert made.problem == ""
            assert made.at_ns is not None
            assert float(str(asked["at_s"])) <= (made.at_ns - interval.start_ns) / 1e9
            assert made.at_ns < interval.end_ns
            assert made.done in told.detail
    figure(f"{sum(map(len, FAULTS))} faults in {len(FAULTS)} steps")


def crossings(run: Run, step: int) -> list[tuple[int, int]]:
    """When tuples that went between the nodes left and arrived, monotonic ns."""
    nodes = {task: e.worker.node for task, e in run.plan(step).start.by_task.items()}
    rows = read_table(run.step_path(step) / "latency.parquet")
    return [
        (left["emitted_ns"], arrived["received_ns"])
        for hops in rows["hops"].to_pylist()
        for left, arrived in pairwise(hops)
        if nodes[left["task"]] != nodes[arrived["task"]]
    ]


def test_tuples_took_the_slow_link_while_it_was_slow(run: Run, figure: Callable[[str], None]) -> None:
    made = made_in(run, LINK)[SLOW]
    lasted_ms(made)
    assert made.at_ns is not None
    slow_until_ns = made.at_ns + 3e9 - DELAY_MS * 1e6
    found = crossings(run, LINK)
    slow = [(there - left) / 1e6 for left, there in found if made.at_ns <= left < slow_until_ns]
    before = [(there - left) / 1e6 for left, there in found if left < made.at_ns - 1e9]
    assert len(slow) > RATE_TPS
    assert min(slow) >= DELAY_MS
    assert sorted(before)[len(before) // 2] < DELAY_MS / 2
    figure(f"{len(slow)} tuples, each at least {min(slow):.1f} ms; before {min(before):.1f} ms")


def test_what_stood_still_shows_and_nothing_is_lost(run: Run, figure: Callable[[str], None]) -> None:
    stood = lasted_ms(made_in(run, LINK)[STILL_WORKER])
    rows = read_table(run.step_path(LINK) / "latency.parquet")
    latest = max(rows.filter(rows["in_interval"])["scheduled_ms"].to_pylist())
    assert latest >= stood - 1000 / RATE_TPS
    assert lasted_ms(made_in(run, LINK)[STILL_SUPERVISOR]) >= 5000
    quality = run.quality(LINK)
    assert quality.plan_unchanged.ok, quality.plan_unchanged.detail
    assert quality.ledger.balanced, quality.ledger
    assert quality.ledger.lost == 0, quality.ledger
    figure(f"{stood:.0f} ms: longest {latest:.0f} ms")


def test_a_hosts_disk_was_full(run: Run, figure: Callable[[str], None]) -> None:
    (made,) = made_in(run, FILLED)
    assert lasted_ms(made) >= 4000
    quality = run.quality(FILLED)
    node = next(n for n in run.plan(FILLED).start.nodes if n.name == "node-2")
    assert f"{node.address}:" in quality.plan_unchanged.detail
    figure(f"{made.done}; {quality.plan_unchanged.detail}")
    assert quality.ledger.balanced, quality.ledger


@pytest.mark.skipif(bool(no_clocks), reason=no_clocks)
def test_a_worker_whose_time_of_day_was_moved_is_named(run: Run, figure: Callable[[str], None]) -> None:
    (made,) = made_in(run, SKEWED)
    assert lasted_ms(made) >= 5000
    record = read_raw(run.path).steps[SKEWED]
    node = {task: e.worker.node for task, e in record.plan.start.by_task.items()}
    found = untiled(record)
    on_node = {task for task in record.reporting_tasks if node[task] == "node-2"}
    assert {int(line.split(":")[1]) for line in found} == on_node
    assert record.quality.plan_unchanged.ok, record.quality.plan_unchanged.detail
    assert record.quality.ledger.lost == 0, record.quality.ledger
    figure(f"node-2 by +6 s: {len(found)} tasks, such as {found[0]}")


def test_a_worker_that_was_killed_is_named(run: Run, figure: Callable[[str], None]) -> None:
    found = run.quality(KILLED).plan_unchanged
    assert not found.ok
    figure(found.detail)
    node = next(n for n in run.plan(KILLED).start.nodes if n.name == "node-1")
    assert f"{node.address}:" in found.detail


def test_nothing_of_the_faults_stays_on_the_hosts(
    hosts: Provisioned, run: Run, figure: Callable[[str], None]
) -> None:
    assert run.finished_steps == tuple(range(len(FAULTS)))
    free_mb = {}
    for name in ("node-1", "node-2"):
        links = hosts.in_sandbox("ip", "-netns", name, "-brief", "link")
        assert {line.split()[0].partition("@")[0] for line in links.splitlines()} == {"lo", "eth0"}
        stopped = [
            pid
            for pid in hosts.network.processes(name)
            if psutil.Process(pid).status() == psutil.STATUS_STOPPED
        ]
        assert stopped == []
        free_mb[name] = int(hosts.on(name, "df --output=avail -B1M / | tail -1").stdout)
        assert free_mb[name] > 500
    figure("; ".join(f"{name}: no process stopped, {mb} MB free" for name, mb in free_mb.items()))
