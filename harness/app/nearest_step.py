"""Choice of the recorded step that a proposal is predicted from, where nobody names one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from harness.runs import Run
from harness.schedulers.plan_distance import PlanDistance, PlanWanted, nearest, plan_distance


@dataclass(frozen=True)
class ChosenStep:
    """A step, and its distance from what is wanted.

    Attributes
    ----------
    step : int
    distance : PlanDistance
    alike : int
        How many steps are as near, this one included.
    considered : int
        How many there were.
    """

    step: int
    distance: PlanDistance
    alike: int
    considered: int

    @property
    def text(self) -> str:
        """The choice in words.

        Examples
        --------
        >>> ChosenStep(2, PlanDistance(rate=0.5), 1, 4).text
        'step 2 is the nearest of 4 to what is proposed (distance 0.50: rate 0.50)'
        >>> ChosenStep(0, PlanDistance(), 4, 4).text
        'step 0: each of 4 is as near to what is proposed (distance 0)'
        """
        if self.alike == self.considered:
            which = f": each of {self.considered} is as near" if self.considered > 1 else " is the only one"
            near = " to what is proposed" if self.considered > 1 else ""
            return f"step {self.step}{which}{near} ({self.distance.text})"
        return (
            f"step {self.step} is the nearest of {self.considered} to what is proposed ({self.distance.text})"
        )

    def as_json(self) -> dict[str, object]:
        """Return it as answers have it."""
        return {"step": self.step, "distance": self.distance.total, **asdict(self.distance), "why": self.text}


def usable_steps(run: Run) -> list[int]:
    """Return the finished steps that can be predicted from; a saturated one only where all are."""
    finished = list(run.finished_steps)
    return [n for n in finished if not run.quality(n).saturated] or finished


def choose_step(run: Run, wanted: Mapping[int, PlanWanted]) -> ChosenStep:
    """Return the step that is nearest to what is wanted.

    Parameters
    ----------
    run : Run
    wanted : mapping
        By each step that may be taken, at least one; the first of several that are as near is taken.
    """
    steps = list(wanted)
    distances = [plan_distance(wanted[n], run.plan(n).start, run.interval(n).rate_tps) for n in steps]
    at = nearest(distances)
    alike = sum(one.total == distances[at].total for one in distances)
    return ChosenStep(steps[at], distances[at], alike, len(steps))
