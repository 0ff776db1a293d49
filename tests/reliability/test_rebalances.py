"""Rebalances that Nimbus takes and that do not come into force, on the real cluster: none is taken for done.

One run meets both in its second step, each after it was taken up again, and is then measured to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from campaigns import begun, go_on
from short_experiments import short_experiment, short_measure
from worker_starts import count_starts

from harness.app.campaigning import NamedSubmission, first_free_id
from harness.backends.local.cluster import LocalCluster
from harness.errors import ClusterError
from harness.experiments import campaign
from harness.experiments.config import Experiment
from harness.experiments.contracts import Progress, Watcher
from harness.experiments.step_faults import Fault
from harness.plans import PhysicalPlan
from harness.runs import Run
from harness.storm.pinned_plans import placement, plan_text

pytestmark = pytest.mark.system

NAME = "rebalanced"
WITHIN_S = 20.0
"""How long a plan is waited for in these steps; else it is ``PLAN_TIMEOUT_S``."""
MEASURE = {**short_measure(1, 5), "attempts": 1}


class Troubled:
    """A run of one step on one worker and one on two, of which only the first is measured at first."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self._attempts = count()
        small = short_experiment(NAME, MEASURE, tasks=2, ackers=1, slots_per_node=2)
        plan = [{"executors": 1, "workers": 1}, {"executors": 1, "workers": 2}]
        self.experiment: Experiment
        self.run: Run
        self.experiment, self.run = begun({**small, "steps": {"plan": plan}}, cluster, folder)
        self.name = ""

    def go_on(self, watch: Watcher) -> None:
        """Measure on, with a topology of a name that the cluster has not seen."""
        self.name = f"{NAME}-{next(self._attempts)}"
        submission = NamedSubmission(self.name, self._folder / self.name, first_free_id(self.run))
        go_on(self.experiment, self.run, self.cluster, submission, watch)

    def plan(self) -> PhysicalPlan:
        """The plan that Nimbus says is in force."""
        query_plan = self.experiment.topology.query_plan()
        return self.cluster.nimbus.physical_plan(self.name, query_plan, self.cluster.nodes)

    def meets(self, trouble: Callable[[], object]) -> ClusterError:
        """Go on, make trouble just before the second step's rebalance is asked for, and say how it ended."""
        with pytest.MonkeyPatch.context() as patch:

            def watch(now: Progress) -> None:
                if (now.step, now.phase) == (1, "rebalance"):
                    patch.setattr(campaign, "PLAN_TIMEOUT_S", WITHIN_S)
                    trouble()

            with pytest.raises(ClusterError) as ended:
                self.go_on(watch)
        return ended.value


@pytest.fixture(scope="module")
def troubled(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Troubled:
    return Troubled(cluster, tmp_path_factory.mktemp(NAME))


def test_a_rebalance_that_is_half_applied_names_the_worker_that_never_came(
    troubled: Troubled, figure: Callable[[str], None]
) -> None:
    """Nimbus has the plan, and one of its nodes starts nothing: its supervisor stands still."""
    cluster, before = troubled.cluster, dict[str, int]()
    with ExitStack() as still:

        def stop_the_other_supervisor() -> None:
            (used,) = troubled.plan().workers
            (other,) = (node.name for node in cluster.nodes if node.name != used.node)
            fault = Fault(at_s=0, stop="supervisor", node=other, for_s=1)
            still.enter_context(cluster.faults({}).made(fault))  # until the block ends
            before.update(count_starts(cluster))

        ended = troubled.meets(stop_the_other_supervisor)
        plan, after = troubled.plan(), count_starts(cluster)
        (came,) = (label for label, starts in after.items() if starts > before[label])
        (never,) = {worker.label for worker in plan.workers} - {came}
        assert (after[came], after[never]) == (before[came] + 1, before[never])
    cluster.nimbus.kill(troubled.name)
    node, port = never.split(":")
    address = next(n.address for n in cluster.nodes if n.name == node)
    asked, _, found = ended.message.partition(": asked ")[2].partition(", found ")
    assert asked == found  # what Nimbus says is not enough
    assert ended.hint == f"no report of a new worker at {address}:{port}"
    assert troubled.run.finished_steps == (0,)
    figure(f"{came} restarted, {never} never came: {ended.hint}")


def test_a_rebalance_that_is_ignored_is_named_with_the_plan_that_stayed(
    troubled: Troubled, figure: Callable[[str], None]
) -> None:
    """Nimbus takes the request, and its scheduler keeps the plan that somebody pinned meanwhile."""
    cluster, before = troubled.cluster, dict[str, int]()

    def pin() -> None:
        cluster.pin(troubled.name, plan_text(1, placement(troubled.plan())))
        before.update(count_starts(cluster))

    try:
        ended = troubled.meets(pin)
        assert count_starts(cluster) == before
    finally:
        cluster.unpin(troubled.name)
        cluster.nimbus.kill(troubled.name)
    asked, _, found = ended.message.partition(": asked ")[2].partition(", found ")
    assert asked == found.replace(" on 1 workers", " on 2 workers") != found
    assert troubled.run.finished_steps == (0,)
    stayed = found.rpartition(" on ")[2].removesuffix("s")
    figure(f"asked for 2 workers, found {stayed}: no worker was restarted")


def test_the_same_rebalance_comes_into_force_when_nothing_is_in_its_way(troubled: Troubled) -> None:
    troubled.go_on(lambda _: None)
    assert troubled.run.finished_steps == (0, 1)
    for step, workers in ((0, 1), (1, 2)):
        assert troubled.run.plan(step).start.configuration().workers == workers
        assert troubled.run.quality(step).plan_as_asked.ok
        ledger = troubled.run.quality(step).ledger
        assert ledger is not None
        assert ledger.lost == 0, ledger
