"""The thesis's model with a fault in one stage each: what a regression has to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from harness.models.thesis import model as storm_tracer
from harness.protocols import Model, Observation, Prediction, Settings


def _with(stage: str, fault: Callable[[Any], Any]) -> Model:
    right = getattr(storm_tracer, stage)

    def model(source: Observation, proposed: Any, settings: Settings, rate_tps: float) -> Prediction:
        with patch.object(storm_tracer, stage, lambda *args: fault(right(*args))):
            return storm_tracer.storm_tracer(source, proposed, settings, rate_tps)

    return model


def _refuses(_: object) -> object:
    raise storm_tracer.ModelDeclined("no more")


right = _with("window_delay_ms", lambda ms: ms)
windows_too_long = _with("window_delay_ms", lambda ms: ms * 1.3)
service_doubled = _with("executor_service_ms", lambda ms: ms * 2)
queues_too_long = _with("mean_sojourn_ms", lambda ms: ms + 40)
no_answer = _with("window_delay_ms", _refuses)
