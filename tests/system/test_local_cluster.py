"""The local cluster and Nimbus, with real servers.

What a plan should be is what was asked of Nimbus; nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import psutil
import pytest
from submitted import asked, rebalanced, submitted_topology, workers_of
from waiting import until

from harness.app.planning import own_executors
from harness.backends.local.cluster import LocalCluster
from harness.errors import ClusterError
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.machine import servers
from harness.machine.class_archive import class_archive
from harness.plans import ACKER, PhysicalPlan, TopologyConfiguration
from harness.schedulers.even import EvenScheduler
from harness.schedulers.plan_costs import plan_shape
from harness.storm.topology_state import WorkerStarts

pytestmark = pytest.mark.system

CONFIGURATIONS = (
    ((1, 1, 1, 1), 4),
    ((1, 4, 2, 1), 3),
    ((2, 3, 5, 2), 4),
    ((4, 1, 7, 3), 1),
    ((3, 16, 1, 5), 2),
)
"""Executors of the components in the order of the query plan, and workers."""


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load("quick", ())


@pytest.fixture(scope="module")
def topology(
    cluster: LocalCluster, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A submitted fields-to-fields topology that is up, on two workers with one executor a component.

    One for all tests here; each takes it as the last one left it.
    """
    with submitted_topology(cluster, experiment, tmp_path_factory.mktemp("topology")) as name:
        yield name


def test_the_summary_names_version_and_every_node(cluster: LocalCluster) -> None:
    summary = cluster.nimbus.cluster_summary()
    assert summary.version == servers.STORM_VERSION
    assert {s.address: s.slots for s in summary.supervisors} == {
        n.address: len(n.slots) for n in cluster.nodes
    }
    assert cluster.watch() is None
    cluster.check()


def test_every_server_maps_its_classes_into_memory(cluster: LocalCluster) -> None:
    """A JVM whose class path does not begin with that of its archive ignores it and says nothing."""
    for server in cluster._servers:
        archive = class_archive(cluster.homes, "kafka" if server.name == "kafka" else "daemons")
        mapped = {m.path for m in psutil.Process(server.pid).memory_maps()}
        assert str(archive) in mapped, server.name


def test_the_plan_is_the_configuration_that_was_asked_for(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    nimbus, query_plan = cluster.nimbus, experiment.topology.query_plan()
    plan = nimbus.physical_plan(topology, query_plan, cluster.nodes)
    first = asked(1, 2, experiment)
    assert plan.configuration().workers == 2
    assert first.executors.items() <= plan.configuration().executors.items()
    # every task is in exactly one executor: ackers, one metrics consumer, then 16 tasks a component
    tasks = sorted(t for e in plan.executors for t in e.tasks)
    assert tasks == list(range(1, 1 + experiment.ackers + 1 + 16 * len(query_plan.components)))

    starts = WorkerStarts()
    before = starts.update(nimbus.topology(topology).uptimes_s(), time.monotonic())
    pids = {p.pid for p in workers_of(topology)}
    assert len(pids) == 2

    second = asked(4, 2, experiment)
    state = rebalanced(nimbus, topology, second)
    assert state.status == "ACTIVE"
    assert state.all_up
    plan = nimbus.physical_plan(topology, query_plan, cluster.nodes)
    assert plan.configuration().workers == 2
    assert second.executors.items() <= plan.configuration().executors.items()
    assert {len(e.tasks) for c in query_plan.components for e in plan.of(c.name)} == {4}
    # what was reported is of the new workers, not of the old ones on the same slots
    assert pids.isdisjoint(p.pid for p in workers_of(topology))
    after = starts.update(state.uptimes_s(), time.monotonic())
    assert all(after[slot] != start for slot, start in before.items() if slot in after)
    assert state.errors == ()


def test_old_reports_are_not_taken_for_new_workers(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    """From one worker to two: the last report of the one holds every executor of its successor."""
    before = {p.pid for p in workers_of(topology)}
    state = rebalanced(cluster.nimbus, topology, asked(1, 1, experiment))
    assert len(state.slots()) == 1
    until(lambda: before.isdisjoint(p.pid for p in workers_of(topology)), "the old workers ended")

    before = {p.pid for p in workers_of(topology)}
    state = rebalanced(cluster.nimbus, topology, asked(1, 2, experiment))
    assert len(state.slots()) == 2
    after = {p.pid for p in workers_of(topology)}
    assert before.isdisjoint(after)
    assert len(after) == 2


def test_settings_are_read_back_as_submitted(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    settings = cluster.nimbus.topology_settings(topology)
    for key, value in experiment.storm_settings().items():
        assert settings[key] == value, key


def test_a_worker_that_is_killed_is_seen_as_restarted(cluster: LocalCluster, topology: str) -> None:
    starts = WorkerStarts()

    def old_enough() -> bool:
        """Reports are late: a worker that has just begun cannot be told from its successor."""
        uptimes_s = cluster.nimbus.topology(topology).uptimes_s()
        starts.update(uptimes_s, time.monotonic())
        return bool(uptimes_s) and min(uptimes_s.values()) > 2 * WorkerStarts.TOLERANCE_S

    until(old_enough, "workers older than reports are late")
    before = starts.update(cluster.nimbus.topology(topology).uptimes_s(), time.monotonic())
    workers_of(topology)[0].kill()

    def restarted() -> bool:
        now = starts.update(cluster.nimbus.topology(topology).uptimes_s(), time.monotonic())
        return any(now.get(slot, start) != start for slot, start in before.items())

    until(restarted, "a worker with a later start")
    until(lambda: cluster.nimbus.topology(topology).all_up, "all executors up again")
    assert cluster.watch() is None  # servers are well: only a worker died


def test_a_topology_that_is_not_there_is_one_line(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="there is no topology nowhere"):
        cluster.nimbus.topology("nowhere")
    cluster.nimbus.kill("nowhere")  # killing what is not there is no mistake


def test_more_executors_than_tasks_are_capped_by_storm_and_seen(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    """Storm gives 16 executors where 17 were asked for: such a plan is never taken for the asked one."""
    rebalance = cluster.nimbus.rebalance(topology, asked(17, 2, experiment))
    until(
        lambda: (s := cluster.nimbus.topology(topology)).status == "ACTIVE" and len(s.executors) > 60,
        "64 executors and the system's own",
    )
    until(lambda: cluster.nimbus.topology(topology).all_up, "all executors up")
    assert not rebalance.whole(cluster.nimbus.topology(topology))


def test_even_is_where_nimbus_puts_a_running_topology_in_five_configurations(
    cluster: LocalCluster, experiment: Experiment, topology: str
) -> None:
    """Captured after rebalances that Storm's own scheduler carried out; slots and both nodes are alike."""
    nimbus, query_plan = cluster.nimbus, experiment.topology.query_plan()
    names = [component.name for component in query_plan.components]

    def captured(expected: TopologyConfiguration) -> PhysicalPlan | None:
        plan = nimbus.physical_plan(topology, query_plan, cluster.nodes)
        return plan if plan.configuration() == expected else None

    for counts, workers in CONFIGURATIONS:
        executors = {**dict(zip(names, counts, strict=True)), ACKER: experiment.ackers}
        configuration = TopologyConfiguration(executors=executors, workers=workers)
        expected = own_executors(experiment, configuration)
        nimbus.rebalance(topology, configuration)
        plan = until(partial(captured, expected), f"{expected} in force")
        proposed = EvenScheduler().propose(query_plan, expected, cluster.nodes)
        assert plan_shape(plan) == plan_shape(proposed.plan), expected
