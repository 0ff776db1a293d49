"""A tuner as a user would write one, in several moods."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import ModelDeclined
from harness.plans import BatchSize
from harness.protocols import Observation, TuningProposal

COMPONENTS = ("spout", "bolt-a", "bolt-b", "sender")


@dataclass
class OwnTuner:
    """A user's tuner."""

    mood: str = "good"

    def propose(self, source: Observation, rate_tps: float) -> TuningProposal:
        if self.mood == "bad":
            raise ZeroDivisionError("no luck")
        if self.mood == "declining":
            raise ModelDeclined("not today")
        if self.mood == "wordless":
            return "more executors"  # type: ignore[return-value]
        executors = dict.fromkeys(COMPONENTS, 1)
        if self.mood == "greedy":
            executors["bolt-a"] = 5
        batching = {"sauce": BatchSize(size=9)} if self.mood == "batching" else {}
        return TuningProposal(tuner="mine", executors=executors, workers=1, batching=batching)
