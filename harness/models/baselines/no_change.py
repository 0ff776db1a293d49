"""The baseline that a model has to beat: everything stays as it was measured in the source step."""

from __future__ import annotations

from harness.models.contract.measured_answers import measured_answers
from harness.plans import PhysicalPlan
from harness.protocols import Observation, Prediction, Settings

NOTES = """\
The source step's measured value, whatever the proposed plan, settings and input rate. Components and the
whole topology keep theirs. A proposed executor gets the sum (rates) or the mean weighted by tuples (service
times, I/O ratios, routing, ack and complete latency) of what the tasks that it holds measured."""


def no_change(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
    """Answer with the source step's measured values.

    Parameters
    ----------
    source : Observation
        The source step's measurements.
    proposed : PhysicalPlan
        Of the same query plan; its executors are the subjects.
    settings, rate_tps
        Not used.
    """
    del settings, rate_tps
    return measured_answers(source, proposed)
