"""Steps edited one by one: the result is a plan by the rules of files, or one line says why it is none."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.experiments.step_settings import StepSpec
from harness.service import building, step_editing
from harness.service.jobs import shipped


@pytest.fixture
def tree() -> building.Tree:
    """The file of quick, which has two steps: one executor of each component, then two."""
    return building.read(building.opened(shipped()["quick"]))


def plan(tree: building.Tree) -> tuple[StepSpec, ...]:
    return building.checked(building.write(tree)).steps.plan


def test_steps_are_added_copied_and_removed(tree: building.Tree) -> None:
    first, second = plan(tree)
    step_editing.copy_step(tree, 0)
    assert plan(tree) == (first, first, second)
    building.set_key(tree, ["steps", "plan", "1", "executors"], "3")
    assert [step.executors for step in plan(tree)] == [1, 3, 2]  # a copy has its own
    step_editing.add_step(tree)
    assert [step.executors for step in plan(tree)] == [1, 3, 2, 1]
    step_editing.remove_step(tree, 1)
    step_editing.remove_step(tree, 2)
    assert plan(tree) == (first, second)


def test_a_step_goes_on_reading_the_one_that_it_reads(tree: building.Tree) -> None:
    step_editing.add_step(tree)
    step_editing.set_planner(tree, 2, "tuner ds2")
    assert plan(tree)[2].source == 1
    step_editing.copy_step(tree, 0)
    assert plan(tree)[3].source == 2
    step_editing.copy_step(tree, 3)
    assert [step.source for step in plan(tree)] == [None, None, None, 2, 2]
    step_editing.remove_step(tree, 0)
    assert [step.source for step in plan(tree)] == [None, None, 1, 1]
    step_editing.remove_step(tree, 1)
    with pytest.raises(UsageError, match="it reads a measured step: add from"):
        plan(tree)


def test_a_planner_has_the_keys_that_it_may_have(tree: building.Tree) -> None:
    building.set_key(tree, ["steps", "plan", "1", "workers"], "1")
    step_editing.set_planner(tree, 1, "scheduler even")
    placed = plan(tree)[1]
    assert (placed.placed_by, placed.source, placed.executors, placed.workers) == ("even", 0, 2, 1)
    step_editing.set_planner(tree, 1, "tuner ds2")
    tuned = plan(tree)[1]
    assert (tuned.tuned_by, tuned.placed_by, tuned.source) == ("ds2", "", 0)
    assert (tuned.executors, tuned.workers) == (None, None)
    step_editing.set_planner(tree, 1, "")
    assert plan(tree)[1] == StepSpec(executors=1)
    step_editing.set_planner(tree, 0, "scheduler even")  # there is nothing before it to be read
    assert plan(tree)[0] == StepSpec(executors=1, scheduler="even")


def test_executors_are_said_by_component_or_at_once(tree: building.Tree) -> None:
    step_editing.set_counts(tree, 1, "each")
    assert plan(tree)[1].executors == {"spout": 2, "bolt-a": 2, "bolt-b": 2, "sender": 2}
    building.set_key(tree, ["steps", "plan", "1", "executors", "bolt-a"], "4")
    step_editing.set_counts(tree, 1, "all")
    assert plan(tree)[1].executors == 4


def test_as_many_executors_as_tasks_become_numbers(tree: building.Tree) -> None:
    building.set_key(tree, ["topology", "components", "spout", "tasks"], "1")
    step_editing.set_counts(tree, 1, "tasks")
    assert plan(tree)[1].executors == "tasks"
    step_editing.set_counts(tree, 1, "each")
    assert plan(tree)[1].executors == {"spout": 1, "bolt-a": 16, "bolt-b": 16, "sender": 16}
    step_editing.set_counts(tree, 1, "tasks")
    step_editing.set_counts(tree, 1, "all")
    assert plan(tree)[1].executors == 1


def test_what_is_not_there_is_named(tree: building.Tree) -> None:
    before = building.write(tree)
    for change in (step_editing.copy_step, step_editing.remove_step):
        with pytest.raises(UsageError, match=r"steps\.plan\.2: there is no such step"):
            change(tree, 2)
    with pytest.raises(UsageError, match="neither a scheduler nor a tuner"):
        step_editing.set_planner(tree, 1, "os system")
    jar = building.read("topology: {jar: a.jar}\nsteps: {plan: [{executors: 1}]}")
    with pytest.raises(UsageError, match="the graph of a jar"):
        step_editing.set_counts(jar, 0, "each")
    assert building.write(tree) == before
