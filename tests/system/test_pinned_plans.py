"""Plans pinned on the cluster: expected is the plan's text; start lines of workers show restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from submitted import asked, rebalanced, submitted_topology
from waiting import until
from worker_starts import count_starts

from harness.backends.local.cluster import LocalCluster
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.storm.pinned_plans import placement, plan_status, plan_text, write_plan

pytestmark = pytest.mark.system

FIRST, SECOND, THIRD = "node-1:6700", "node-1:6701", "node-2:6801"


class Pinned:
    """The topology whose plans are pinned."""

    def __init__(self, cluster: LocalCluster, experiment: Experiment, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self._query_plan = experiment.topology.query_plan()

    def scheduling(self) -> str:
        return self.cluster.nimbus.topology(self.name).scheduling

    def placement(self) -> dict[str, str]:
        plan = self.cluster.nimbus.physical_plan(self.name, self._query_plan, self.cluster.nodes)
        return placement(plan)

    def ask(self, generation: int, workers: Mapping[str, str]) -> None:
        write_plan(self.cluster.plans, self.name, plan_text(generation, workers))

    def in_force(self, generation: int, workers: Mapping[str, str]) -> bool:
        """Whether Nimbus says so and has it: its scheduler's word is out before the assignment is written."""
        status = plan_status(self.scheduling())
        return status is not None and status.whole(generation) and self.placement() == workers

    def starts(self) -> dict[str, int]:
        """Return how often the worker of each slot in use was started."""
        return count_starts(self.cluster)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load("quick", ())


@pytest.fixture(scope="module")
def pinned(
    cluster: LocalCluster, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pinned]:
    """A topology that Storm has placed; each test takes it as the last one left it."""
    with submitted_topology(cluster, experiment, tmp_path_factory.mktemp("pinned")) as name:
        yield Pinned(cluster, experiment, name)
        (cluster.plans / f"{name}.json").unlink(missing_ok=True)


def test_executors_go_where_the_plan_says(pinned: Pinned) -> None:
    assert pinned.scheduling() == ""  # without a plan the scheduler says nothing
    # three workers, where the topology asked for two
    labels = sorted(pinned.placement())
    plan = {label: (FIRST, SECOND, THIRD)[i % 3] for i, label in enumerate(labels)}
    pinned.ask(1, plan)
    until(lambda: pinned.in_force(1, plan), "plan 1 in force")
    assert pinned.scheduling() == f"plan 1: {len(plan)} of {len(plan)} executors placed"
    until(lambda: pinned.cluster.nimbus.topology(pinned.name).all_up, "all executors up")


def test_only_workers_whose_executors_change_are_restarted(pinned: Pinned) -> None:
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


def test_a_plan_that_does_not_fit_changes_nothing(pinned: Pinned) -> None:
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
    pinned: Pinned, experiment: Experiment
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


def test_a_plan_that_is_taken_away_leaves_executors_where_they_are(pinned: Pinned) -> None:
    plan, before = pinned.placement(), pinned.starts()
    (pinned.cluster.plans / f"{pinned.name}.json").unlink()
    until(lambda: pinned.scheduling() == "no plan: placed by Storm's own scheduler", "no plan")
    assert (pinned.placement(), pinned.starts()) == (plan, before)
