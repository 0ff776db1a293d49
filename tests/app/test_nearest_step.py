"""The recorded step that a proposal is predicted from, chosen in archived runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.app.nearest_step import choose_step, usable_steps
from harness.runs import Run
from harness.schedulers.plan_distance import PlanWanted

RUNS = Path(__file__).resolve().parents[2] / "reports" / "runs"
RAMP = Run(RUNS / "loaded-ramp" / "20261122T004256Z")
WORKERS = Run(RUNS / "loaded-workers" / "20261123T170830Z")


def test_a_saturated_step_is_no_source() -> None:
    """Step 4 of the ramp was measured as saturated, at the same rate as step 5."""
    assert RAMP.quality(4).saturated
    assert usable_steps(RAMP) == [0, 1, 2, 3, 5, 6]
    rate_tps = RAMP.interval(4).rate_tps
    chosen = choose_step(RAMP, dict.fromkeys(usable_steps(RAMP), PlanWanted(rate_tps=rate_tps)))
    assert chosen.step == 5
    assert chosen.text == "step 5 is the nearest of 6 to what is proposed (distance 0)"


@pytest.mark.parametrize("step", WORKERS.finished_steps)
def test_a_measured_plan_at_its_rate_is_nearest_to_itself(step: int) -> None:
    wanted = PlanWanted(placed=WORKERS.plan(step).start, rate_tps=WORKERS.interval(step).rate_tps)
    chosen = choose_step(WORKERS, dict.fromkeys(WORKERS.finished_steps, wanted))
    assert (chosen.step, chosen.distance.total) == (step, 0)
    assert chosen.as_json()["why"] == chosen.text


def test_where_nothing_is_proposed_the_first_is_taken_and_it_is_said() -> None:
    steps = usable_steps(WORKERS)
    chosen = choose_step(WORKERS, dict.fromkeys(reversed(steps), PlanWanted()))
    assert chosen.step == steps[-1]
    assert (
        chosen.text == f"step {steps[-1]}: each of {len(steps)} is as near to what is proposed (distance 0)"
    )
