"""Steps with a placement, batches or relief of their own: how a campaign asks for each, and what it keeps."""

from __future__ import annotations

import pytest
from made_runs import placed
from recorded_world import EXPERIMENT, STEADY, World, carried_out, measuring, stops_in_the_third

from harness.errors import ClusterError, StepDeclined, StepInvalid
from harness.experiments import campaign
from harness.experiments.adapted_periods import NO_PLAN, AdaptedPeriod, AskedChange, PeriodDecision
from harness.experiments.config import Step
from harness.experiments.contracts import AskedStep, Progress, unplanned
from harness.experiments.loading import load
from harness.experiments.measuring import MeasuredInterval
from harness.plans import AskedPlacement, Backpressure, BatchSize, Relief, TopologyConfiguration
from harness.runs import Run


def turned(configuration: TopologyConfiguration) -> AskedPlacement:
    """Every executor a worker further than ``World`` deals it, all four workers in use."""
    plan = placed(EXPERIMENT.topology.query_plan(), configuration.executors["spout"], first=1)
    return AskedPlacement(by="turned", workers={e.label: e.worker.label for e in plan.executors})


def second_turned(step: Step) -> AskedStep:
    placement = turned(World().expected(step.configuration)) if step.index == 1 else None
    return AskedStep(step.configuration, placement)


def test_a_placement_is_asked_kept_and_left_again(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out(world, run, monkeypatch, planner=second_turned)
    assert measuring(world) == ["submit 1", "rebalance 4"]
    assert "place 2" in world.asked
    asked = turned(run.plan(1).asked)
    assert [run.plan(n).placement for n in range(3)] == [None, asked, None]
    assert asked.differences(run.plan(1).start) == ()
    assert asked.differences(placed(EXPERIMENT.topology.query_plan(), 2)) != ()  # else it would show nothing
    assert run.quality(1).plan_as_asked.ok


def test_a_plan_that_is_elsewhere_is_not_as_asked_whatever_its_numbers(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.obeys = False
    carried_out(world, run, monkeypatch, planner=second_turned)
    found = run.quality(1).plan_as_asked
    assert not found.ok
    assert "node-2:6800 asked, node-1:6700 applied" in found.detail
    assert run.plan(1).start.configuration() == run.plan(1).asked


def test_a_declined_step_is_kept_with_its_reason_and_the_others_go_on(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_for_the_second(step: Step) -> AskedStep:
        if step.index == 1:
            raise StepDeclined("scheduler even has no plan: no slot is free")
        return unplanned(step)

    shown: list[Progress] = []
    carried_out(world, run, monkeypatch, watch=shown.append, planner=none_for_the_second)
    assert measuring(world) == ["submit 1", "rebalance 4"]
    assert (run.finished_steps, run.ended_steps) == ((0, 2), (0, 1, 2))
    declined = run.declined_steps[1]
    assert (declined.reason, declined.configuration) == (
        "scheduler even has no plan: no slot is free",
        "spec-1/2x2@200",
    )
    assert [(p.step, p.detail) for p in shown if p.phase == "declined"] == [(1, declined.reason)]
    again = World()
    carried_out(again, run, monkeypatch, planner=none_for_the_second)
    assert again.asked == []  # nothing is left to do


def test_a_resumed_run_comes_from_the_placement_before(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match="kafka stopped"):
        carried_out(world, run, monkeypatch, stops_in_the_third, planner=second_turned)
    again = World()
    carried_out(again, run, monkeypatch, planner=second_turned)
    assert [a for a in again.asked if a.startswith(("submit", "rebalance", "place"))] == [
        "submit placed 2",
        "rebalance 4",
    ]


def test_a_placement_that_never_comes_says_what_it_waits_for(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "PLAN_TIMEOUT_S", 0.01)
    monkeypatch.setattr(world, "whole", lambda: world.placement is None)
    with pytest.raises(ClusterError, match="plan 1 waits: node-2 is gone"):
        carried_out(world, run, monkeypatch, planner=second_turned)


SCALES = "{executors: 2, adapt: {scheduler: even, nodes: [2, 3]}}"
SCALING = load("quick", [f"steps.plan=[{{executors: 1}}, {SCALES}, {{executors: 4}}]"])


def changes_asked(world: World) -> list[str]:
    return [a for a in world.asked if a.startswith(("submit", "rebalance", "restore", "plan"))]


@pytest.mark.parametrize(
    ("came", "next_step"), [(True, ["restore nodes", "submit 4"]), (False, ["rebalance 4"])]
)
def test_after_a_step_whose_nodes_came_and_went_the_next_is_a_submission_of_its_own(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch, came: bool, next_step: list[str]
) -> None:
    def measured(n: int) -> MeasuredInterval:
        world.other_nodes = came and n == 1
        return STEADY

    carried_out(world, run, monkeypatch, measured, experiment=SCALING)
    assert changes_asked(world) == ["submit 1", "rebalance 2", *next_step]
    assert run.quality(1).adaptation is not None
    assert run.interval(2).submission == ("fresh" if came else "rebalance")


def test_a_cluster_is_left_with_the_nodes_that_it_had(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(n: int) -> MeasuredInterval:
        world.other_nodes = n == 1
        return STEADY

    last_scales = load("quick", [f"steps.plan=[{{executors: 1}}, {SCALES}]"])
    carried_out(world, run, monkeypatch, measured, experiment=last_scales)
    assert changes_asked(world) == ["submit 1", "rebalance 2", "restore nodes"]


def test_nodes_are_the_first_ones_again_before_a_step_is_planned_however_the_last_one_ended(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node came in the second step, whose measurements cannot be used; the cluster stays up."""

    def planned(step: Step) -> AskedStep:
        world.asked.append(f"plan {step.index}")
        return unplanned(step)

    def unusable_in_the_second(n: int) -> MeasuredInterval:
        if n == 1:
            world.other_nodes = True
            raise StepInvalid("no latency")
        return STEADY

    with pytest.raises(StepInvalid, match="no latency"):
        carried_out(world, run, monkeypatch, unusable_in_the_second, experiment=SCALING, planner=planned)
    assert run.finished_steps == (0,)
    world.asked.clear()
    carried_out(world, run, monkeypatch, experiment=SCALING, planner=planned)
    assert changes_asked(world)[:3] == ["restore nodes", "plan 1", "submit 1"]
    assert run.finished_steps == (0, 1, 2)


BATCHED = {"spout": BatchSize(size=50)}


@pytest.mark.parametrize(
    ("change", "next_step"),
    [
        (AskedChange(NO_PLAN, batching=BATCHED), "submit 4"),
        (AskedChange(NO_PLAN, tables={"count": (1, 0)}), "submit 4"),
        (AskedChange(NO_PLAN), "rebalance 4"),
    ],
)
def test_after_a_step_that_changed_live_the_next_is_a_submission_of_its_own(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch, change: AskedChange, next_step: str
) -> None:
    """Its workers would begin with the batch sizes and routing tables that were asked for last."""
    decided = PeriodDecision("applied", "", change, {})
    periods = [AdaptedPeriod(0, 1, decided, asked_ns=1, in_force_ns=2)]
    plan = "[{executors: 1}, {executors: 2, adapt: {tuner: aeolus}}, {executors: 4}]"
    carried_out(world, run, monkeypatch, experiment=load("quick", [f"steps.plan={plan}"]), adapted=periods)
    assert measuring(world) == ["submit 1", "rebalance 2", next_step]


PAUSING = Relief(backpressure=Backpressure(kind="heron", high_pct=50, low_pct=10))


def second_and_third_pausing(step: Step) -> AskedStep:
    return AskedStep(step.configuration, relief=PAUSING if step.index else Relief())


def test_a_step_with_other_relief_is_a_submission_of_its_own_and_resumed_from_it(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match="kafka stopped"):
        carried_out(world, run, monkeypatch, stops_in_the_third, planner=second_and_third_pausing)
    assert measuring(world)[:2] == ["submit 1", "submit backpressure 2"]
    again = World()
    carried_out(again, run, monkeypatch, planner=second_and_third_pausing)
    assert measuring(again) == ["submit backpressure 2", "rebalance 4"]
    assert [run.plan(n).relief for n in range(3)] == [Relief(), PAUSING, PAUSING]


def second_and_third_batched(step: Step) -> AskedStep:
    return AskedStep(step.configuration, batching=BATCHED if step.index else {})


def test_a_step_with_other_batch_sizes_is_a_submission_of_its_own(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out(world, run, monkeypatch, planner=second_and_third_batched)
    assert measuring(world) == ["submit 1", "submit batched 2", "rebalance 4"]
    assert [run.interval(n).submission for n in range(3)] == ["first", "fresh", "rebalance"]
    assert [run.plan(n).batching for n in range(3)] == [{}, BATCHED, BATCHED]


def test_a_resumed_run_comes_from_the_batch_sizes_before(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match="kafka stopped"):
        carried_out(world, run, monkeypatch, stops_in_the_third, planner=second_and_third_batched)
    again = World()
    carried_out(again, run, monkeypatch, planner=second_and_third_batched)
    assert measuring(again) == ["submit batched 2", "rebalance 4"]


def test_a_resumed_step_with_other_batch_sizes_needs_no_submission_of_those_before(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def third_plain(step: Step) -> AskedStep:
        return AskedStep(step.configuration, batching=BATCHED if step.index == 1 else {})

    with pytest.raises(ClusterError, match="kafka stopped"):
        carried_out(world, run, monkeypatch, stops_in_the_third, planner=third_plain)
    again = World()
    carried_out(again, run, monkeypatch, planner=third_plain)
    assert measuring(again) == ["submit 4"]
    assert run.interval(2).submission == "fresh"
