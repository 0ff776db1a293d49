"""Forecasters of a user's own: one that fails."""

from __future__ import annotations

from collections.abc import Sequence

from harness.protocols import RateForecast, RateHistory


def raising(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Fail."""
    raise ZeroDivisionError("no crystal")
