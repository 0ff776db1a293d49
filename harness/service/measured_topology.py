"""A topology of a run, answered for from a finished step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.app.forecasting import read_subjects, seasons_of
from harness.forecasts.histories import SubjectHistory
from harness.protocols import Observation
from harness.runs import Run
from harness.service.answers import ProposalAsked
from harness.service.proposals import predict_proposed
from harness.service.questions import address, computing, observation_of, step_of


class MeasuredTopology:
    """A run's topology (``harness.service.asked.AskedTopology``).

    Parameters
    ----------
    run : Run
    step : int, optional
        The last finished one by default; for a proposal, the nearest one.

    Raises
    ------
    UnknownName
        When that step is not finished.
    """

    def __init__(self, run: Run, step: int | None) -> None:
        self._run = run
        self._asked = step
        self._step = step_of(run, step)

    @property
    def named(self) -> Mapping[str, str | int]:
        """The run and the step."""
        return {"run": address(self._run), "step": self._step}

    def observe(self) -> Observation:
        """Return the step."""
        with computing:
            return observation_of(self._run.path, self._step)

    def measured_mean_ms(self, source: Observation) -> float | None:
        """Return the mean of the step's leading latency."""
        del source
        mean_ms = self._run.interval(self._step).mean_ms
        return mean_ms if np.isfinite(mean_ms) else None

    @property
    def season_s(self) -> Sequence[float]:
        """Those of the run's experiment."""
        return seasons_of(self._run.path)

    def histories(
        self, source_hours: float, bucket_s: float, season_s: Sequence[float]
    ) -> Sequence[SubjectHistory]:
        """Return the rates of the step, which is shorter than any asked history."""
        del source_hours, season_s
        return read_subjects(self._run.path, self._step, (), bucket_s)

    def predict(self, asked: ProposalAsked) -> dict[str, object]:
        """Predict another plan from the step, or from the nearest one where none was asked for."""
        return predict_proposed(self._run, self._asked, asked)
