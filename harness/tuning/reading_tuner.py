"""Base of tuners whose proposal follows from one reading of the measured step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from harness.errors import ModelDeclined
from harness.plans import Batching, Frozen, NotNegative
from harness.protocols import Observation, TuningDecision, TuningProposal
from harness.schemas import Clock
from harness.tuning.dataflow import DataflowNode
from harness.tuning.measured import StepReading


class TunedDataflow(NamedTuple):
    """Executors by component, the records of their decisions, and the reason in words.

    Without ``batching`` the step's own batches stay.
    """

    executors: Mapping[str, int]
    decisions: tuple[TuningDecision, ...]
    reason: str
    batching: Batching | None = None


class ReadingTuner(Frozen):
    """A tuner that reads a step once, and asks its rule; it declines where the step cannot be read.

    Attributes
    ----------
    clock : {"wall", "cpu"}
        Clock by which processing takes its time.
    ppt_ms : mapping of str to float
        Processing time by component, instead of what was measured.
    """

    name: ClassVar[str]

    clock: Clock = Clock.WALL
    ppt_ms: Mapping[str, NotNegative] = {}

    @property
    def reading(self) -> StepReading:
        """The way in which it reads a step."""
        return StepReading(self.clock, self.ppt_ms)

    @abstractmethod
    def tune(self, nodes: tuple[DataflowNode, ...]) -> TunedDataflow:
        """Apply the rule to the step's components, which come producers first."""

    def propose(self, source: Observation, rate_tps: float) -> TuningProposal:
        """Apply the rule to the measured step at an input rate."""
        try:
            nodes = self.reading.nodes(source, rate_tps)
        except ModelDeclined as why:
            return TuningProposal(tuner=self.name, status="declined", reason=str(why))
        tuned = self.tune(nodes)
        return TuningProposal(
            tuner=self.name,
            reason=tuned.reason,
            executors=tuned.executors,
            workers=len(source.plan.workers),
            batching=source.settings.batching if tuned.batching is None else tuned.batching,
            decisions=tuned.decisions,
        )
