"""Steps whose executors a scheduler and a placement by hand place, carried out on the cluster.

Expected plans are the scheduler's own answer and the file's text; start lines of workers show restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from campaigns import carry_out
from short_experiments import short_experiment, short_measure
from worker_starts import count_starts

from harness.app.planning import check_placements, own_executors
from harness.backends.local.cluster import LocalCluster
from harness.experiments.config import Experiment
from harness.experiments.contracts import Progress
from harness.experiments.placement_file import placement_text
from harness.runs import Run
from harness.schedulers import make_scheduler
from harness.storm.pinned_plans import placement

pytestmark = pytest.mark.system

SETTINGS = short_experiment(
    "placed-steps", {"attempts": 1, **short_measure(1, 5)}, tasks=4, ackers=2, slots_per_node=2
)
SPREAD = {"executors": 2, "workers": 4}


class Placed:
    """A run whose steps are placed by a scheduler, by hand, and by Storm's own scheduler."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        first = {**SPREAD, "scheduler": "aniello-offline"}
        experiment = Experiment.model_validate({**SETTINGS, "steps": {"plan": [first]}})
        self.asked = own_executors(experiment, experiment.configuration(experiment.steps.plan[0]))
        query_plan = experiment.topology.query_plan()
        proposal = make_scheduler("aniello-offline").propose(query_plan, self.asked, cluster.nodes)
        self.proposed = placement(proposal.plan)
        # the last two workers exchange an executor each; the first two keep theirs
        *self.kept, third, fourth = (w.label for w in proposal.plan.workers)
        self.by_hand = dict(self.proposed)
        for one, other in ((third, fourth), (fourth, third)):
            self.by_hand[next(e for e, w in self.proposed.items() if w == one)] = other
        file = folder / "by-hand.yaml"
        file.write_text(placement_text(self.by_hand))
        plan = [first, {"placement": str(file)}, {"executors": 1, "workers": 2}]
        settings = {**SETTINGS, "steps": {"plan": plan}}
        check_placements(Experiment.model_validate(settings))
        self.starts: list[dict[str, int]] = []  # of each step: when its plan was in force, and at its end
        self.plan_files: list[bool] = []
        self._last = ""
        self.run: Run = carry_out(settings, cluster, folder, self._watch)

    def _watch(self, now: Progress) -> None:
        if now.phase in ("burn-in", "done") and now.phase != self._last:
            self.starts.append(count_starts(self.cluster))
        self._last = now.phase
        if now.phase == "done":
            self.plan_files.append(any(self.cluster.plans.glob("placed-steps*.json")))


@pytest.fixture(scope="module")
def placed(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    return Placed(cluster, tmp_path_factory.mktemp("placed"))


def test_each_plan_in_force_is_the_asked_one_executor_by_executor(placed: Placed) -> None:
    run = placed.run
    assert run.finished_steps == (0, 1, 2)
    assert placement(run.plan(0).start) == placed.proposed
    assert placement(run.plan(1).start) == placed.by_hand != placed.proposed
    for step, by in ((0, "aniello-offline"), (1, "placement")):
        asked = run.plan(step).placement
        assert asked is not None
        assert (asked.by, dict(asked.workers)) == (by, placement(run.plan(step).start))
        assert run.quality(step).plan_as_asked.ok
        assert run.quality(step).plan_unchanged.ok, run.quality(step).plan_unchanged.detail


def test_another_placement_restarts_only_workers_whose_executors_change(
    placed: Placed, figure: Callable[[str], None]
) -> None:
    _, before, in_force, at_the_end = placed.starts[:4]
    changed = {label for label in before if in_force[label] != before[label]}
    assert changed == set(placed.by_hand.values()) - set(placed.kept)
    assert all(in_force[label] == before[label] + 1 for label in changed)
    assert at_the_end == in_force  # no later start of a worker
    figure(f"{len(changed)} of {len(before)} workers started anew, none later")


def test_storms_own_scheduler_gets_the_topology_back(placed: Placed) -> None:
    assert placed.plan_files == [True, True, False]
    plan = placed.run.plan(2)
    assert plan.placement is None
    assert plan.start.configuration() == plan.asked
    assert placed.run.quality(2).plan_as_asked.ok
