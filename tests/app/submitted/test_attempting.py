"""How an attempt to apply a plan ends, whatever ends it: a cluster, a measured mean, a signal, an error."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from harness.app.submitted.attempting import NOT_ABOVE, PlanAttempt
from harness.errors import ClusterError

SLOW = "the measured mean, 9.00 ms, is above the predicted interval"
LATE = ClusterError("the plan was not in force after 240 s")
AWAY = ClusterError("nimbus is away")
STOP = KeyboardInterrupt("SIGTERM")


@dataclass
class Place:
    """Where plans come into force, unless something is raised; with all that was asked."""

    raised: dict[str, BaseException] = field(default_factory=dict)
    shortcoming: str = ""
    asked: list[str] = field(default_factory=list)

    def ask(self, name: str) -> None:
        self.asked.append(name)
        if name in self.raised:
            raise self.raised[name]

    def judge(self) -> str:
        self.ask("judge")
        return self.shortcoming

    def attempt(self) -> PlanAttempt:
        return PlanAttempt(lambda: self.ask("bring"), self.judge, lambda: self.ask("back"))


@pytest.mark.parametrize(
    ("place", "keep", "asked", "outcome", "reason"),
    [
        (Place(), False, "bring judge", "kept", NOT_ABOVE),
        (Place(shortcoming=SLOW), False, "bring judge back", "taken back", SLOW),
        (Place(shortcoming=SLOW), True, "bring judge", "kept", SLOW),
        (Place({"judge": AWAY}), False, "bring judge back", "taken back", str(AWAY)),
        (Place({"judge": AWAY}), True, "bring judge", "kept", str(AWAY)),
        (Place({"bring": LATE}), False, "bring back", "taken back", str(LATE)),
        (Place({"bring": LATE}), True, "bring", "failed", str(LATE)),
        (
            *(Place({"bring": LATE, "back": AWAY}), False, "bring back", "failed"),
            f"{LATE}; the plan before did not come back: {AWAY}",
        ),
    ],
)
def test_only_a_plan_that_is_in_force_is_kept(
    place: Place, keep: bool, asked: str, outcome: str, reason: str
) -> None:
    attempt = place.attempt()
    attempt.carry_out(keep=keep)
    assert (" ".join(place.asked), attempt.outcome, attempt.reason) == (asked, outcome, reason)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("raised", "first", "outcome", "reason"),
    [
        ({"bring": STOP}, STOP, "interrupted", "stopped by SIGTERM"),
        ({"judge": STOP}, STOP, "interrupted", "stopped by SIGTERM"),
        ({"judge": KeyboardInterrupt()}, None, "interrupted", "stopped"),
        (
            *({"judge": STOP, "back": AWAY}, STOP, "failed"),
            f"stopped by SIGTERM; the plan before did not come back: {AWAY}",
        ),
        (
            *({"judge": STOP, "back": KeyboardInterrupt("SIGINT")}, None, "interrupted"),
            "stopped by SIGTERM; the plan before was not waited for",
        ),
        (
            {"judge": ZeroDivisionError("a mean of nothing")},
            None,
            "failed",
            "ZeroDivisionError: a mean of nothing",
        ),
    ],
)
def test_who_ends_an_attempt_finds_the_plan_before_and_why(
    raised: dict[str, BaseException], first: BaseException | None, outcome: str, reason: str, keep: bool
) -> None:
    """What is raised is the wish to end, not what came of it: the second wish, where there are two."""
    place = Place(raised)
    attempt = place.attempt()
    with pytest.raises((KeyboardInterrupt, ZeroDivisionError)) as caught:
        attempt.carry_out(keep=keep)
    assert first is None or caught.value is first
    assert place.asked[-1] == "back"
    assert (attempt.outcome, attempt.reason) == (outcome, reason)


def test_a_wish_to_end_while_a_slow_plan_is_taken_back_is_an_interruption() -> None:
    place = Place({"back": STOP}, SLOW)
    attempt = place.attempt()
    with pytest.raises(KeyboardInterrupt):
        attempt.carry_out(keep=False)
    assert attempt.outcome == "interrupted"
    assert attempt.reason == f"{SLOW}; the plan before was not waited for"
