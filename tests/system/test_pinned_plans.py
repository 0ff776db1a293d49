"""Plans pinned on the cluster: expected is the plan's text; start lines of workers show restarts.

Each test takes the topology as the last one left it. At the end there is another one, placed by Storm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
from lost_servers import lost_node, restart_nimbus
from submitted import asked, rebalanced, submitted_topology
from waiting import until
from worker_starts import count_starts

from harness.backends.local.cluster import LocalCluster
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.storm.pinned_plans import placement, plan_status, plan_text, write_plan
from harness.storm.topology_state import Slot

pytestmark = pytest.mark.system

FIRST, SECOND, THIRD = "node-1:6700", "node-1:6701", "node-2:6801"


class OnCluster:
    """A topology that is up."""

    def __init__(self, cluster: LocalCluster, experiment: Experiment, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self._query_plan = experiment.topology.query_plan()

    def scheduling(self) -> str:
        return self.cluster.nimbus.topology(self.name).scheduling

    def placement(self) -> dict[str, str]:
        nodes = self.cluster.first_nodes  # executors of one that is lost are shown there
        plan = self.cluster.nimbus.physical_plan(self.name, self._query_plan, nodes)
        return placement(plan)

    def ask(self, generation: int, workers: Mapping[str, str]) -> None:
        write_plan(self.cluster.plans, self.name, plan_text(generation, workers))

    def in_force(self, generation: int, workers: Mapping[str, str]) -> bool:
        """Whether Nimbus says so and has it: its scheduler's word is out before the assignment is written."""
        status = plan_status(self.scheduling())
        return status is not None and status.whole(generation) and self.placement() == workers

    def starts(self) -> dict[str, int]:
        """Return how often the worker of each slot was started."""
        return count_starts(self.cluster)

    def uptimes_s(self) -> dict[Slot, int]:
        return self.cluster.nimbus.topology(self.name).uptimes_s()


def node_of(worker: str) -> str:
    return worker.partition(":")[0]


def later(now_s: Sequence[Mapping[Slot, int]], earlier_s: Sequence[Mapping[Slot, int]]) -> bool:
    """Whether the same workers have reported a longer uptime, those of each topology."""
    return all(
        now.keys() == earlier.keys() and all(now[slot] > earlier[slot] for slot in earlier)
        for now, earlier in zip(now_s, earlier_s, strict=True)
    )


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load("quick", ())


@pytest.fixture(scope="module")
def pinned(
    cluster: LocalCluster, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OnCluster]:
    """A topology that Storm has placed."""
    with submitted_topology(cluster, experiment, tmp_path_factory.mktemp("pinned")) as name:
        yield OnCluster(cluster, experiment, name)
        (cluster.plans / f"{name}.json").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def other(
    pinned: OnCluster, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OnCluster]:
    """Another one, in one worker, that Storm's own scheduler places."""
    folder = tmp_path_factory.mktemp("other")
    with submitted_topology(pinned.cluster, experiment, folder, workers=1) as name:
        yield OnCluster(pinned.cluster, experiment, name)


def test_executors_go_where_the_plan_says(pinned: OnCluster) -> None:
    assert pinned.scheduling() == ""  # without a plan the scheduler says nothing
    # three workers, where the topology asked for two
    labels = sorted(pinned.placement())
    plan = {label: (FIRST, SECOND, THIRD)[i % 3] for i, label in enumerate(labels)}
    pinned.ask(1, plan)
    until(lambda: pinned.in_force(1, plan), "plan 1 in force")
    assert pinned.scheduling() == f"plan 1: {len(plan)} of {len(plan)} executors placed"
    until(lambda: pinned.cluster.nimbus.topology(pinned.name).all_up, "all executors up")


def test_only_workers_whose_executors_change_are_restarted(pinned: OnCluster) -> None:
    plan = pinned.placement()
    moved = next(label for label, worker in plan.items() if worker == SECOND)
    before = pinned.starts()
    plan[moved] = THIRD
    pinned.ask(2, plan)
    until(lambda: pinned.in_force(2, plan), "plan 2 in force")
    after = {**before, SECOND: before[SECOND] + 1, THIRD: before[THIRD] + 1}
    until(lambda: pinned.starts() == after, f"starts {after}, not {pinned.starts()}")
    until(lambda: pinned.cluster.nimbus.topology(pinned.name).all_up, "all executors up")
    assert pinned.starts() == after  # still: the first worker was not touched


def test_a_plan_that_does_not_fit_changes_nothing(pinned: OnCluster) -> None:
    plan, before = pinned.placement(), pinned.starts()
    size = len(plan)
    pinned.ask(3, {**plan, next(iter(plan)): "node-9:6700"})
    held = f"; plan 2: {size} of {size} executors placed"
    until(lambda: pinned.scheduling() == f"plan 3 waits: there is no node node-9{held}", "plan 3 waits")
    write_plan(pinned.cluster.plans, pinned.name, '{"generation": 4, "exec')
    waits = f"plan file {pinned.name}.json waits: it is not JSON: it ends too soon{held}"
    until(lambda: pinned.scheduling() == waits, "the broken file waits")
    assert (pinned.placement(), pinned.starts()) == (plan, before)


def test_a_rebalance_with_its_plan_there_first_restarts_each_worker_once(
    pinned: OnCluster, experiment: Experiment
) -> None:
    """Counts change from 1 to 2 executors a component: 16 tasks are 8 and 8."""
    plan: dict[str, str] = {}
    for label in pinned.placement():
        component, tasks = label[:-1].split("[")
        first, last = map(int, tasks.split("-"))
        if component.startswith("__"):
            plan[label] = FIRST
        else:
            plan[f"{component}[{first}-{first + 7}]"] = FIRST
            plan[f"{component}[{first + 8}-{last}]"] = THIRD
    before = pinned.starts()
    pinned.ask(5, plan)
    until(lambda: "plan 5 waits: the topology has no executor" in pinned.scheduling(), "plan 5 waits")
    rebalanced(pinned.cluster.nimbus, pinned.name, asked(2, 2, experiment))
    assert pinned.in_force(5, plan)
    assert pinned.starts() == {**before, FIRST: before[FIRST] + 1, THIRD: before[THIRD] + 1}


def test_a_plan_that_is_taken_away_leaves_executors_where_they_are(pinned: OnCluster) -> None:
    plan, before = pinned.placement(), pinned.starts()
    (pinned.cluster.plans / f"{pinned.name}.json").unlink()
    until(lambda: pinned.scheduling() == "no plan: placed by Storm's own scheduler", "no plan")
    assert (pinned.placement(), pinned.starts()) == (plan, before)


def test_a_node_that_dies_under_a_plan_is_waited_for_while_nothing_else_moves(
    pinned: OnCluster, other: OnCluster
) -> None:
    """Its workers are killed with it; those of the other node, of both topologies, go on."""
    plan, others = pinned.placement(), other.placement()
    size = len(plan)
    pinned.ask(6, plan)
    until(lambda: pinned.in_force(6, plan), "plan 6 in force")
    (beside,) = {node_of(worker) for worker in others.values()}
    (gone,) = {worker for worker in plan.values() if node_of(worker) != beside}
    lost, missing = node_of(gone), list(plan.values()).count(gone)
    before = pinned.starts()
    with lost_node(pinned.cluster, lost):
        waits = f"plan 6: {size - missing} of {size} executors placed; {gone} waits: there is no node {lost}"
        until(lambda: pinned.scheduling() == waits, waits)
        # Nimbus shows the dead executors where they were for as long as a report of theirs may be late
        held = pinned.placement().items()
        assert {(label, worker) for label, worker in plan.items() if worker != gone} <= held <= plan.items()
        assert (other.placement(), other.scheduling()) == (others, "")
        assert pinned.starts() == {slot: n for slot, n in before.items() if node_of(slot) != lost}
    after = {**before, gone: before[gone] + 1}
    until(lambda: pinned.starts() == after, f"starts {after}, not {pinned.starts()}")
    until(lambda: pinned.in_force(6, plan), "plan 6 in force again")
    until(lambda: pinned.cluster.nimbus.topology(pinned.name).all_up, "all executors up")
    assert (other.placement(), pinned.starts()) == (others, after)


def test_a_nimbus_that_is_started_again_keeps_the_plan_and_every_worker(
    pinned: OnCluster, other: OnCluster
) -> None:
    plan, others, before = pinned.placement(), other.placement(), pinned.starts()
    pinned.ask(7, plan)
    until(lambda: pinned.in_force(7, plan), "plan 7 in force")
    earlier_s = pinned.uptimes_s(), other.uptimes_s()
    restart_nimbus(pinned.cluster)
    until(lambda: pinned.in_force(7, plan), "plan 7 in force, by the new Nimbus")
    until(lambda: later((pinned.uptimes_s(), other.uptimes_s()), earlier_s), "each worker has reported since")
    assert (other.placement(), other.scheduling()) == (others, "")
    assert pinned.starts() == before
